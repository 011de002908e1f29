//! From the table of panels to Grafana's JSON (the classic model, which every version since 9 reads).

use serde_json::{Value, json};

use crate::panels::Look::{Alerts, Figure, Heat, Lines, Marked, Reserve, Stacked, State, Table};
use crate::panels::{Look, Panel, ROWS};
use crate::runbook::Section;

const SOURCE: &str = "${datasource}";

/// The query as Grafana gets it: selectors are written once, here, with Grafana's variables; and what
/// is shown only if it happened is shown for as long as it happened within the time on the screen, so
/// that a curve comes back to zero instead of ending in the air.
pub(crate) fn query(template: &str) -> String {
    const INSTANCE: &str = "job=~\"$job\",instance=~\"$instance\"";
    let listener = format!("{INSTANCE},listener=~\"$listener\"");
    let backend = format!("{INSTANCE},backend=~\"$backend\"");
    let query = template
        .replace("$i}", &format!("{INSTANCE}}}"))
        .replace("$l}", &format!("{listener}}}"))
        .replace("$b}", &format!("{backend}}}"));
    let Some(rate) = query.strip_suffix(" > 0") else {
        return query;
    };
    let happened = rate
        .replace("rate(", "increase(")
        .replace("$__rate_interval", "$__range");
    format!("{rate} and {happened} > 0")
}

pub(crate) fn dashboard() -> Value {
    let mut panels = Vec::new();
    let (mut id, mut y) = (1, 0);
    for (title, row) in ROWS {
        panels.push(json!({
            "id": id, "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        }));
        id += 1;
        y += 1;
        let (mut x, mut tallest) = (0, 0);
        for panel in *row {
            let (width, height) = size(panel.look);
            if x + width > 24 {
                (x, y) = (0, y + tallest);
            }
            tallest = height;
            let place = json!({"x": x, "y": y, "w": width, "h": height});
            panels.push(render(panel, id, place));
            id += 1;
            x += width;
        }
        y += tallest;
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
        "annotations": {"list": [
            annotation("Starts", "process_start_time_seconds{job=~\"$job\",instance=~\"$instance\"} * 1000", "orange"),
            annotation("Configurations loaded", "tidegate_config_last_reload_timestamp_seconds{job=~\"$job\",instance=~\"$instance\"} * 1000", "blue"),
        ]},
        "links": [{"type": "link", "title": "Runbook", "icon": "doc", "url": "/d/tidegate-runbook/tidegate-runbook", "targetBlank": true}],
        "panels": panels,
    })
}

const fn size(look: Look) -> (usize, usize) {
    match look {
        State | Figure(_) | Reserve(..) => (3, 4),
        Alerts => (24, 5),
        Lines | Stacked | Marked(_) | Heat | Table => (8, 8),
    }
}

/// A line across all panels at the time that the query's value names.
fn annotation(name: &str, query: &str, color: &str) -> Value {
    json!({
        "name": name, "datasource": {"type": "prometheus", "uid": SOURCE}, "enable": true,
        "hide": false, "iconColor": color, "expr": query, "useValueForTime": "on",
        "titleFormat": name, "textFormat": "{{instance}}",
    })
}

fn variables() -> Value {
    let from_label = |name: &str, query: &str| {
        json!({
            "name": name, "label": name, "type": "query", "datasource": {"type": "prometheus", "uid": SOURCE},
            "query": {"query": query, "refId": name}, "definition": query,
            "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".+",
            "current": {"text": "All", "value": "$__all"},
        })
    };
    // `up` and `process_*` are everybody's: of all jobs, only those are meant that there are of ours.
    let mut job = from_label("job", "label_values(tidegate_build_info, job)");
    job["allValue"].take();
    json!([
        {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus",
         "current": {}, "refresh": 1},
        job,
        from_label("instance", "label_values(tidegate_build_info{job=~\"$job\"}, instance)"),
        from_label("listener", "label_values(tidegate_peers{job=~\"$job\",instance=~\"$instance\"}, listener)"),
        from_label("backend", "label_values(tidegate_backend_up{job=~\"$job\",instance=~\"$instance\"}, backend)"),
    ])
}

fn render(panel: &Panel, id: usize, place: Value) -> Value {
    let source = json!({"type": "prometheus", "uid": SOURCE});
    let is_table = matches!(panel.look, Table | Alerts);
    // Of a time that is over, the last that was known is shown: a process that died would go on serving.
    let is_instant = is_table || panel.look == State;
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|((template, legend), letter)| {
            json!({
                "refId": letter, "datasource": source, "expr": query(template),
                "legendFormat": legend,
                "format": match panel.look { Heat => "heatmap", _ if is_table => "table", _ => "time_series" },
                "instant": is_instant, "range": !is_instant,
            })
        })
        .collect();
    let (kind, options) = kind(panel);
    let mut defaults = json!({
        "unit": panel.unit, "min": 0, "thresholds": thresholds(panel.look),
    });
    if let Some(text) = when_empty(panel) {
        defaults["noValue"] = json!(text);
    }
    if kind == "timeseries" {
        defaults["color"] = json!({"mode": "palette-classic"});
        defaults["custom"] = lines(panel.look);
    }
    let words = words(panel.look);
    if !words.is_empty() {
        let mapping = |(value, text, color): &(&str, &str, &str)| json!({"type": "value", "options": {*value: {"text": text, "color": color}}});
        defaults["mappings"] = words.iter().map(mapping).collect();
    }
    let mut rendered = json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.about,
        "datasource": source, "gridPos": place, "targets": targets, "options": options,
        "links": explained_in(panel).map(Section::link).as_slice(),
        "fieldConfig": {"defaults": defaults, "overrides": overrides(panel)},
    });
    if is_table {
        rendered["transformations"] = columns(panel);
    }
    rendered
}

fn kind(panel: &Panel) -> (&'static str, Value) {
    match panel.look {
        Lines | Stacked | Marked(_) => (
            "timeseries",
            json!({"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": {"mode": "multi", "sort": "desc"}}),
        ),
        Heat => (
            "heatmap",
            json!({"calculate": false, "yAxis": {"unit": panel.unit}, "color": {"mode": "scheme", "scheme": "Blues", "steps": 64}, "cellGap": 1, "legend": {"show": true}, "tooltip": {"mode": "single", "show": true}}),
        ),
        Table | Alerts => ("table", json!({"showHeader": true, "cellHeight": "sm"})),
        // A curve of states says nothing; one of anything else says where it comes from.
        State => ("stat", figure("none")),
        Figure(_) | Reserve(..) => ("stat", figure("area")),
    }
}

fn figure(graph: &str) -> Value {
    json!({"colorMode": "value", "graphMode": graph, "reduceOptions": {"calcs": ["lastNotNull"], "values": false}})
}

fn lines(look: Look) -> Value {
    let (stacking, fill) = if look == Stacked {
        ("normal", 40)
    } else {
        ("none", 5)
    };
    let mark = if matches!(look, Marked(_)) {
        "dashed"
    } else {
        "off"
    };
    json!({
        "drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "auto",
        "spanNulls": false, "stacking": {"mode": stacking, "group": "A"},
        "thresholdsStyle": {"mode": mark},
    })
}

/// Values that stand for a word, and its colour.
const fn words(look: Look) -> &'static [(&'static str, &'static str, &'static str)] {
    match look {
        State => &[
            ("0", "serving", "green"),
            ("1", "draining", "blue"),
            ("2", "starting", "yellow"),
            ("3", "not scraped", "red"),
        ],
        Reserve(..) => &[("-1", "all drained", "blue")],
        Figure(_) | Lines | Stacked | Marked(_) | Heat | Table | Alerts => &[],
    }
}

/// "No data" looks like a broken dashboard; where nothing having happened is good news, it says so.
fn when_empty(panel: &Panel) -> Option<&'static str> {
    match panel.look {
        Alerts => return Some("no alert fires"),
        State => return Some("not scraped"),
        _ => {}
    }
    let conditional = panel.queries.iter().all(|(q, _)| q.ends_with(" > 0"));
    let ended = panel.title == "Session length, median";
    (conditional || ended).then_some("none in this time")
}

/// The part of the runbook that explains what a panel shows.
fn explained_in(panel: &Panel) -> Option<Section> {
    let asks_for = |metric: &str| panel.queries.iter().any(|(q, _)| q.contains(metric));
    if panel.look == Alerts {
        Some(Section::Alerts)
    } else if asks_for("tidegate_udp_rejected_packets_total")
        || asks_for("tidegate_handshakes_total")
    {
        Some(Section::Rejects)
    } else if asks_for("tidegate_peer_disconnects_total") {
        Some(Section::Closes)
    } else if asks_for("tidegate_udp_send_errors_total") {
        Some(Section::SendErrors)
    } else {
        None
    }
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
        Marked(red) => vec![step("transparent", None), step("red", Some(red))],
        Figure(None) => vec![step("blue", None)],
        // In case nobody says anything; each state has a colour of its own.
        State => vec![step("red", None)],
        Lines | Stacked | Heat | Table | Alerts => vec![step("green", None)],
    };
    json!({"mode": "absolute", "steps": steps})
}

/// A thing has the same name and colour on every panel that has it.
fn overrides(panel: &Panel) -> Value {
    let color =
        |color: &str| json!({"id": "color", "value": {"mode": "fixed", "fixedColor": color}});
    let named = |name: &str, properties: Value| json!({"matcher": {"id": "byName", "options": name}, "properties": properties});
    match panel.look {
        Lines | Stacked | Marked(_) => {
            let known = [
                ("good", json!([color("green")])),
                ("bad", json!([color("orange")])),
                ("to good", json!([color("green")])),
                ("to bad", json!([color("orange")])),
                ("acknowledged", json!([color("green")])),
                ("lost", json!([color("red")])),
                ("in", json!([color("blue")])),
                ("out", json!([color("orange")])),
                (
                    "to_backend",
                    json!([color("blue"), {"id": "displayName", "value": "to backends"}]),
                ),
                (
                    "to_peer",
                    json!([color("orange"), {"id": "displayName", "value": "to peers"}]),
                ),
                ("50 %", json!([color("semi-dark-green")])),
                ("95 %", json!([color("blue")])),
                ("99 %", json!([color("purple")])),
            ];
            let names = names(panel);
            let mut overrides: Vec<_> = known
                .into_iter()
                .filter(|(name, _)| names.iter().any(|shown| shown == name))
                .map(|(name, properties)| named(name, properties))
                .collect();
            if names.iter().any(|name| name.ends_with("limit")) {
                overrides.push(
                    json!({"matcher": {"id": "byRegexp", "options": "/limit$/"}, "properties": [
                        color("gray"),
                        {"id": "custom.fillOpacity", "value": 0},
                        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
                    ]}),
                );
            }
            json!(overrides)
        }
        Table => {
            let choice = |no: (&str, &str), yes: (&str, &str)| {
                json!([
                    {"id": "custom.cellOptions", "value": {"type": "color-text"}},
                    {"id": "mappings", "value": [{"type": "value", "options": {
                        "0": {"text": no.0, "color": no.1}, "1": {"text": yes.0, "color": yes.1},
                    }}]},
                ])
            };
            json!([
                named("state", choice(("down", "red"), ("up", "green"))),
                named("rotation", choice(("in", "text"), ("drained", "blue"))),
            ])
        }
        Alerts => json!([named(
            "severity",
            json!([
                {"id": "custom.cellOptions", "value": {"type": "color-text"}},
                {"id": "mappings", "value": [{"type": "value", "options": {
                    "critical": {"color": "red"}, "warning": {"color": "orange"}, "info": {"color": "blue"},
                }}]},
            ])
        )]),
        State | Figure(_) | Reserve(..) | Heat => json!([]),
    }
}

/// What the series of a panel are called, as far as that is known: what a listener is called is not.
fn names(panel: &Panel) -> Vec<String> {
    let modes = ["good", "bad"];
    let labels = [
        ("{{mode}}", modes),
        ("{{to}}", modes),
        ("{{direction}}", ["to_backend", "to_peer"]),
    ];
    let of_labels = |legend: &'static str| {
        let of_label = move |(label, values): (&'static str, [&'static str; 2])| {
            values.map(|value| legend.replace(label, value))
        };
        labels.into_iter().flat_map(of_label)
    };
    panel
        .queries
        .iter()
        .flat_map(|(_, legend)| of_labels(legend))
        .collect()
}

/// What a table's columns are called, and which are left out.
fn columns(panel: &Panel) -> Value {
    let mut names = serde_json::Map::new();
    let mut hidden = serde_json::Map::new();
    for name in ["Time", "__name__", "alertstate", "job"] {
        hidden.insert(name.into(), true.into());
    }
    if panel.look == Alerts {
        hidden.insert("Value".into(), true.into());
    } else {
        for ((_, legend), letter) in panel.queries.iter().zip('A'..) {
            names.insert(format!("Value #{letter}"), (*legend).into());
        }
    }
    let order = json!({
        "alertname": 0, "severity": 1, "backend": 2, "target": 3, "listener": 4, "instance": 9,
    });
    json!([
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": hidden, "renameByName": names, "indexByName": order}},
    ])
}
