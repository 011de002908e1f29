//! The dashboard and the alerts ask for metrics that exist, by labels they have.
//!
//! `grafana/dashboard.json` is generated from the table in `panels.rs`, and `grafana/runbook.json` from
//! `docs/RUNBOOK.md`: `TIDEGATE_BLESS=1 cargo test --test grafana` writes both.

mod panels;
mod render;
mod runbook;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tidegate::metrics::{Kind, families};

use panels::{Look, ROWS};
use render::{dashboard, query};

fn is_as_generated(name: &str, generated: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("grafana")
        .join(name);
    let generated = serde_json::to_string_pretty(generated).expect("JSON") + "\n";
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("grafana/ can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "grafana/{name} is out of date: TIDEGATE_BLESS=1 cargo test --test grafana"
    );
}

#[test]
fn the_dashboard_is_the_table() {
    is_as_generated("dashboard.json", &dashboard());
}

#[test]
fn the_runbook_is_the_page() {
    is_as_generated("runbook.json", &runbook::dashboard());
}

/// Of two steps at one value the first is never seen.
#[test]
fn every_colour_of_a_panel_can_be_seen() {
    for panel in ROWS.iter().flat_map(|(_, panels)| *panels) {
        if let Look::Figure(Some((first, second))) | Look::Reserve(first, second) = panel.look {
            assert!(first < second, "{}", panel.title);
        }
    }
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
                    panel.look == Look::Alerts
                        || ["$i}", "$l}", "$b}"].iter().any(|s| template.contains(s)),
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
        let family = families()
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
                let found = check(&query, &format!("{row}, {}", panel.title));
                assert!(found > 0 || panel.look == Look::Alerts, "{query}");
                asked.push_str(&query);
            }
        }
    }
    // And nobody measures what nobody looks at.
    let unseen: Vec<_> = families()
        .map(|family| family.name)
        .filter(|name| !asked.contains(name) && !ASIDE.contains(name) && !TOLD.contains(name))
        .collect();
    assert!(unseen.is_empty(), "on no panel: {unseen:?}");
    for name in TOLD {
        assert!(ALERTS.contains(name), "on no panel and in no alert: {name}");
    }
}

/// Useful, but not on a picture.
const ASIDE: &[&str] = &[
    "tidegate_build_info",
    "tidegate_clock_timestamp_seconds",
    "tidegate_config_last_reload_timestamp_seconds",
    "tidegate_handshakes_pending",
    "tidegate_token_history_failures_total",
    "process_threads",
];

/// What an alert says all of: that it happened. Where an alert has a threshold, whoever gets it wants to see the curve.
const TOLD: &[&str] = &[
    "tidegate_config_last_reload_successful",
    "tidegate_drain_deadline_timestamp_seconds",
    "tidegate_invariant_violations_total",
    "tidegate_log_lines_dropped_total",
    "tidegate_token_histories_given_up",
];

const ALERTS: &str = include_str!("../../grafana/alerts.yaml");

/// Where the rules are not loaded no alert fires, and the panel of alerts would look as it does when all is well.
#[test]
fn the_alerts_say_whether_there_are_any() {
    let records: Vec<_> = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .collect();
    let [record] = records[..] else {
        panic!("{records:?}");
    };
    let mut panels = ROWS.iter().flat_map(|(_, panels)| *panels);
    let alerts = panels.find(|panel| panel.look == Look::Alerts);
    let (query, _) = alerts.expect("a panel of alerts").queries[0];
    assert!(query.contains(&format!("absent({record})")), "{query}");
}

#[test]
fn the_alerts_ask_for_metrics_that_exist() {
    let names: Vec<_> = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    let mut queries: Vec<_> = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert_eq!(queries.remove(0), "vector(1)", "that the rules are loaded");
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
    let runbook = include_str!("../../docs/RUNBOOK.md");
    for name in names {
        assert!(
            runbook.contains(&format!("### {name}\n")),
            "docs/RUNBOOK.md says nothing about {name}"
        );
        let link = format!("runbook: \"docs/RUNBOOK.md#{}\"", name.to_lowercase());
        assert!(
            ALERTS.contains(&link),
            "{name} does not name its entry in the runbook"
        );
    }
}
