//! The dashboard and the alerts ask for metrics that exist, by labels they have.
//!
//! `grafana/dashboard.json` is generated from the table below: `TIDEGATE_BLESS=1 cargo test --test
//! grafana` writes it.

mod panels;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use tidegate::metrics::{FAMILIES, Kind};

use panels::Look::{Figure, Heat, Lines, Reserve, Stacked, Table};
use panels::{Look, Panel, ROWS};

/// Selectors, written once. Grafana fills in the variables.
fn query(template: &str) -> String {
    const INSTANCE: &str = "job=~\"$job\",instance=~\"$instance\"";
    let listener = format!("{INSTANCE},listener=~\"$listener\"");
    let backend = format!("{INSTANCE},backend=~\"$backend\"");
    template
        .replace("$i}", &format!("{INSTANCE}}}"))
        .replace("$l}", &format!("{listener}}}"))
        .replace("$b}", &format!("{backend}}}"))
}

fn dashboard() -> Value {
    let mut panels = Vec::new();
    let (mut id, mut y) = (1, 0);
    for (title, row) in ROWS {
        panels.push(json!({
            "id": id, "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        }));
        id += 1;
        y += 1;
        let figures = matches!(row[0].look, Figure(_) | Reserve(..));
        let (width, height) = if figures { (3, 4) } else { (8, 8) };
        let per_line = 24 / width;
        for (index, panel) in row.iter().enumerate() {
            let (line, column) = (index / per_line, index % per_line);
            let place =
                json!({"x": column * width, "y": y + line * height, "w": width, "h": height});
            panels.push(render(panel, id, place));
            id += 1;
        }
        y += row.len().div_ceil(per_line) * height;
    }
    json!({
        "uid": "tidegate-overview",
        "title": "tidegate",
        "description": "Reliable UDP in front of TCP backends: peers, network quality, traffic, backends, saturation, abuse. Single peers are on tidegate's own page.",
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    })
}

fn variables() -> Value {
    let from_label = |name: &str, query: &str| {
        json!({
            "name": name, "label": name, "type": "query", "datasource": SOURCE,
            "query": {"query": query, "refId": name}, "definition": query,
            "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".+",
            "current": {"text": "All", "value": "$__all"},
        })
    };
    json!([
        {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus",
         "current": {}, "refresh": 1},
        from_label("job", "label_values(tidegate_build_info, job)"),
        from_label("instance", "label_values(tidegate_build_info{job=~\"$job\"}, instance)"),
        from_label("listener", "label_values(tidegate_peers{job=~\"$job\",instance=~\"$instance\"}, listener)"),
        from_label("backend", "label_values(tidegate_backend_up{job=~\"$job\",instance=~\"$instance\"}, backend)"),
    ])
}

const SOURCE: &str = "${datasource}";

fn render(panel: &Panel, id: usize, place: Value) -> Value {
    let source = json!({"type": "prometheus", "uid": SOURCE});
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|((template, legend), letter)| {
            json!({
                "refId": letter, "datasource": source, "expr": query(template),
                "legendFormat": legend,
                "format": match panel.look { Heat => "heatmap", Table => "table", _ => "time_series" },
                "instant": panel.look == Table,
            })
        })
        .collect();
    let (kind, options) = match panel.look {
        Lines | Stacked => (
            "timeseries",
            json!({"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}),
        ),
        Heat => (
            "heatmap",
            json!({"calculate": false, "yAxis": {"unit": panel.unit}, "color": {"mode": "scheme", "scheme": "Turbo"}, "legend": {"show": true}, "tooltip": {"mode": "single", "show": true}}),
        ),
        Table => ("table", json!({"showHeader": true})),
        Figure(_) | Reserve(..) => (
            "stat",
            json!({"colorMode": "value", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"], "values": false}}),
        ),
    };
    let stacking = if panel.look == Stacked {
        "normal"
    } else {
        "none"
    };
    let fill = if panel.look == Stacked { 40 } else { 5 };
    let mut defaults = json!({
        "unit": panel.unit, "min": 0, "thresholds": thresholds(panel.look),
    });
    if kind == "timeseries" {
        defaults["custom"] = json!({"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "never", "stacking": {"mode": stacking, "group": "A"}});
    }
    if panel.title == "State" {
        let text =
            |value: &str, text: &str, color: &str| json!({value: {"text": text, "color": color}});
        defaults["mappings"] = json!([
            {"type": "value", "options": text("0", "starting", "yellow")},
            {"type": "value", "options": text("1", "serving", "green")},
            {"type": "value", "options": text("2", "draining", "blue")},
        ]);
    }
    json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.about,
        "datasource": source, "gridPos": place, "targets": targets, "options": options,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    })
}

fn thresholds(look: Look) -> Value {
    let step = |color: &str, value: Option<f64>| json!({"color": color, "value": value});
    let steps = match look {
        Figure(Some((yellow, red))) => vec![
            step("green", None),
            step("yellow", Some(yellow)),
            step("red", Some(red)),
        ],
        Reserve(yellow, green) => vec![
            step("red", None),
            step("yellow", Some(yellow)),
            step("green", Some(green)),
        ],
        Figure(None) | Lines | Stacked | Heat | Table => vec![step("green", None)],
    };
    json!({"mode": "absolute", "steps": steps})
}

#[test]
fn the_dashboard_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana/dashboard.json");
    let generated = serde_json::to_string_pretty(&dashboard()).unwrap() + "\n";
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "grafana/dashboard.json is out of date: TIDEGATE_BLESS=1 cargo test --test grafana"
    );
}

#[test]
fn every_panel_is_complete() {
    let mut titles = BTreeSet::new();
    for (row, panels) in ROWS {
        for panel in *panels {
            assert!(
                titles.insert((row, panel.title)),
                "{row}: {} twice",
                panel.title
            );
            assert!(panel.about.ends_with('.') && !panel.unit.is_empty());
            for (template, legend) in panel.queries {
                assert!(!legend.is_empty(), "{}", panel.title);
                assert!(
                    ["$i}", "$l}", "$b}"].iter().any(|s| template.contains(s)),
                    "{}: {template} ignores the variables",
                    panel.title
                );
            }
        }
    }
}

/// The metric names and their label matchers in a query.
fn metrics_in(query: &str) -> Vec<(String, Vec<String>)> {
    let bytes = query.as_bytes();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let mut found = Vec::new();
    let mut index = 0;
    while index < bytes.len() {
        let start = index;
        while index < bytes.len() && is_name(bytes[index]) {
            index += 1;
        }
        let word = &query[start..index];
        if word.starts_with("tidegate_") || word.starts_with("process_") {
            let mut labels = Vec::new();
            if let Some(rest) = query[index..].strip_prefix('{') {
                let inside = rest.split('}').next().unwrap_or(rest);
                let matchers = inside.split(',').filter_map(|m| m.split(['=', '!']).next());
                labels.extend(matchers.map(str::to_owned));
            }
            found.push((word.to_owned(), labels));
        }
        index = index.max(start + 1);
    }
    found
}

fn check(query: &str, place: &str) -> usize {
    let found = metrics_in(query);
    for (name, labels) in &found {
        let family = FAMILIES
            .iter()
            .find(|family| match family.kind {
                Kind::Histogram => ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|suffix| name.strip_suffix(suffix) == Some(family.name)),
                Kind::Counter | Kind::Gauge => name == family.name,
            })
            .unwrap_or_else(|| panic!("{place}: there is no metric {name}"));
        for label in labels {
            let ours = family.labels.contains(&label.as_str());
            let scraped = ["job", "instance", "le"].contains(&label.as_str());
            assert!(ours || scraped, "{place}: {name} has no label {label}");
        }
        let counted = family.kind != Kind::Gauge;
        let rated = query.contains("rate(") || query.contains("increase(");
        assert!(!counted || rated, "{place}: {name} is a counter, {query}");
    }
    found.len()
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let mut asked = String::new();
    for (row, panels) in ROWS {
        for panel in *panels {
            for (template, _) in panel.queries {
                let query = query(template);
                assert!(
                    check(&query, &format!("{row}, {}", panel.title)) > 0,
                    "{query}"
                );
                asked.push_str(&query);
            }
        }
    }
    // And nobody measures what nobody looks at.
    let unseen: Vec<_> = FAMILIES
        .iter()
        .map(|family| family.name)
        .filter(|name| !asked.contains(name) && !ALERTS.contains(name) && !ASIDE.contains(name))
        .collect();
    assert!(unseen.is_empty(), "on no panel and in no alert: {unseen:?}");
}

/// Useful, but not on a picture.
const ASIDE: &[&str] = &[
    "tidegate_messages_skipped_total",
    "tidegate_build_info",
    "tidegate_config_last_reload_timestamp_seconds",
    "tidegate_handshakes_pending",
    "process_threads",
];

const ALERTS: &str = include_str!("../../grafana/alerts.yaml");

#[test]
fn the_alerts_ask_for_metrics_that_exist() {
    let names: Vec<_> = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    let queries: Vec<_> = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert_eq!(names.len(), queries.len(), "one line per expression");
    assert!(names.len() >= 16);
    for (name, query) in names.iter().zip(queries) {
        assert!(name.starts_with("Tidegate"), "{name}");
        let found = check(query, name);
        assert!(
            found > 0 || query.contains("up{job=\"tidegate\"}"),
            "{name}"
        );
    }
    let runbook = include_str!("../../docs/OPERATIONS.md");
    for name in names {
        assert!(
            runbook.contains(&format!("### {name}\n")),
            "docs/OPERATIONS.md says nothing about {name}"
        );
    }
}
