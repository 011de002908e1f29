use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::{CloseReason, Now, Reject, Stats, Timestamp};

use super::*;
use crate::backend::Pool;
use crate::board::{Board, ListenerInfo, PeerRow, Reporter, WorkerSocket, WorstPeers};
use crate::capacity::Capacity;

fn board(listeners: usize) -> (Board, Vec<Reporter>) {
    let board = Board::new(Now::default(), Capacity::new(64, 256 << 20).into());
    board.add_backend("game", Pool::with_two_targets().into());
    let reporters = (0..listeners)
        .flat_map(|index| {
            board.add_listener(
                ListenerInfo {
                    name: format!("listener{index}"),
                    protocol: "gaffer",
                    bind: vec!["127.0.0.1:40000".parse().unwrap()],
                    backend: "game".into(),
                    peers_max: 64,
                },
                &WorkerSocket::one_each(2),
            )
        })
        .collect();
    (board, reporters)
}

fn text_of(board: &Board) -> String {
    render(&board.snapshot(Now::default()), &UNUSED)
}

const UNUSED: Usage = Usage {
    cpu_seconds: 0.0,
    resident_bytes: Some(0),
    memory_limit_bytes: Some(0),
    open_fds: Some(0),
    max_fds: Some(0),
    threads: Some(0),
};

/// A dashboard that shows no memory in use is believed.
#[test]
fn what_the_system_does_not_say_is_absent() {
    let (board, _) = board(1);
    let text = render(&board.snapshot(Now::default()), &Usage::default());
    let samples = samples(&text);
    let process = samples.keys().filter(|name| name.starts_with("process_"));
    let always = ["process_cpu_seconds_total", "process_start_time_seconds"];
    assert_eq!(Vec::from_iter(process.copied()), always);
}

/// Sample lines: name with labels, and value.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series, value.parse().unwrap())
        })
        .collect()
}

#[test]
fn every_family_is_there_from_the_start_at_zero() {
    let (board, _) = board(1);
    let text = text_of(&board);
    for family in families() {
        let header = format!(
            "# HELP {name} {help}\n# TYPE {name} {kind}\n",
            name = family.name,
            help = family.help,
            kind = family.kind.label()
        );
        let after = text
            .split_once(&header)
            .unwrap_or_else(|| panic!("{} has no header", family.name))
            .1;
        assert!(
            after.starts_with(family.name),
            "{} has no series before anything happened",
            family.name
        );
        let counts = family.kind != Kind::Gauge;
        let own = |series: &str| {
            series.starts_with(&format!("{}{{", family.name)) || series == family.name
        };
        for (series, value) in samples(&text) {
            assert!(!(counts && own(series)) || value == 0.0, "{series} {value}");
        }
    }
}

/// An alert compares it with what the calendar says here.
#[test]
fn the_deadline_of_a_drain_follows_a_calendar_that_is_set() {
    let (board, _) = board(1);
    board.update_process(|process| process.drain_deadline = Some(Timestamp::from_millis(90_000)));
    let deadline = |mono_secs: u64, unix_secs| {
        let mono = Timestamp::from_millis(mono_secs * 1000);
        let text = render(&board.snapshot(Now { mono, unix_secs }), &UNUSED);
        let samples = samples(&text);
        assert_eq!(
            samples["tidegate_clock_timestamp_seconds"],
            unix_secs as f64
        );
        samples["tidegate_drain_deadline_timestamp_seconds"]
    };
    assert_eq!(deadline(30, 1_000_000), 1_000_060.0);
    assert_eq!(deadline(31, 2_000_000), 2_000_059.0, "set ahead");
    assert_eq!(deadline(100, 1_000_000), 999_990.0, "set back, and overdue");
}

#[test]
fn names_follow_the_conventions() {
    let names: BTreeSet<_> = families().map(|family| family.name).collect();
    assert_eq!(names.len(), families().count(), "no name twice");
    for family in families() {
        assert!(
            family.name.starts_with("tidegate_") || family.name.starts_with("process_"),
            "{}",
            family.name
        );
        let total = family.name.ends_with("_total");
        assert_eq!(total, family.kind == Kind::Counter, "{}", family.name);
        assert!(family.help.ends_with('.'), "{}", family.name);
    }
}

/// The number of series depends on the configuration alone.
#[test]
fn ten_thousand_peers_add_no_series() {
    let (board, reporters) = board(2);
    let before = samples(&text_of(&board)).len();
    let mut counters = reporters[0].counters();
    let mut worst = WorstPeers::default();
    for index in 0..10_000_u32 {
        let stats = Stats {
            rtt: Duration::from_micros(u64::from(index) * 100 + 1),
            loss: index as f32 / 10_000.0,
            packets_acked: 1,
            in_bad_mode: index % 3 == 0,
            ..Stats::default()
        };
        counters.peers += 1;
        counters.sample_peer(&stats);
        counters.on_reject(Reject::ALL[index as usize % Reject::ALL.len()]);
        counters.on_close(
            CloseReason::ALL[index as usize % CloseReason::ALL.len()],
            Duration::from_secs(u64::from(index)),
        );
        worst.offer(PeerRow {
            session: 1,
            address: SocketAddr::from((index.to_be_bytes(), 1 + index as u16)),
            client_id: Some(u64::from(index)),
            age: Duration::ZERO,
            target: None,
            inbox_bytes: 0,
            stats,
        });
    }
    reporters[0].publish(Now::default().mono, &counters);
    reporters[0].publish_peers(worst);
    let text = text_of(&board);
    let after = samples(&text).len();
    assert_eq!(before, after);
    assert!(after < 550, "{after} series with two listeners");
    assert!(text.len() < 100 * 1024, "{} bytes", text.len());
    let rtts = samples(&text)["tidegate_peer_rtt_seconds_count{listener=\"listener0\"}"];
    assert_eq!(rtts, 10_000.0, "the peers did leave a trace");
}

#[test]
fn buckets_are_cumulative_and_end_with_everything() {
    let (board, reporters) = board(1);
    let mut counters = reporters[0].counters();
    for value in [0.015, 0.015, 0.3, 9.0] {
        counters.rtt.record(value);
    }
    reporters[0].publish(Now::default().mono, &counters);
    let text = text_of(&board);
    let samples = samples(&text);
    let at = |suffix: &str| samples[format!("tidegate_peer_rtt_seconds_{suffix}").as_str()];
    assert_eq!(at("bucket{listener=\"listener0\",le=\"0.01\"}"), 0.0);
    assert_eq!(at("bucket{listener=\"listener0\",le=\"0.02\"}"), 2.0);
    assert_eq!(at("bucket{listener=\"listener0\",le=\"2\"}"), 3.0);
    assert_eq!(at("bucket{listener=\"listener0\",le=\"+Inf\"}"), 4.0);
    assert_eq!(at("count{listener=\"listener0\"}"), 4.0);
    assert!((at("sum{listener=\"listener0\"}") - 9.33).abs() < 1e-9);
}

/// Rejected datagrams can be added up: no reason is missing, and none counts twice.
#[test]
fn every_reject_is_in_one_family() {
    let (board, reporters) = board(1);
    let mut counters = reporters[0].counters();
    for reject in Reject::ALL {
        counters.on_reject(reject);
    }
    reporters[0].publish(Now::default().mono, &counters);
    let text = text_of(&board);
    for reject in Reject::ALL {
        let found = samples(&text)
            .into_iter()
            .filter(|(series, value)| {
                *value == 1.0
                    && (series.starts_with("tidegate_udp_rejected_packets_total{")
                        || series.starts_with("tidegate_handshakes_total{"))
                    && series.contains(&format!("\"{}\"", reject.label()))
            })
            .count();
        assert_eq!(found, 1, "{}", reject.label());
    }
}

#[test]
fn a_name_from_the_configuration_cannot_break_the_text() {
    let board = Board::new(Now::default(), Capacity::new(64, 0).into());
    board.add_listener(
        ListenerInfo {
            name: "a\"b\\c\nd".into(),
            protocol: "gaffer",
            bind: Vec::new(),
            backend: "none".into(),
            peers_max: 1,
        },
        &WorkerSocket::one_each(1),
    );
    let text = text_of(&board);
    assert!(
        text.contains(r#"tidegate_peers{listener="a\"b\\c\nd"} 0"#),
        "{text}"
    );
}

/// `docs/METRICS.md` says what the code does. `TIDEGATE_BLESS=1` writes it.
#[test]
fn the_documentation_is_the_catalogue() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/METRICS.md");
    let generated = documentation();
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == generated,
        "docs/METRICS.md is out of date: TIDEGATE_BLESS=1 cargo test -p tidegate documentation"
    );
}

fn documentation() -> String {
    let (board, _) = board(1);
    let text = text_of(&board);
    let series = samples(&text).len();
    let mut page = String::from(INTRODUCTION);
    writeln!(
        page,
        "\nOne listener with two workers and a backend with two targets makes {series} series, \
         however many peers there are.\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|"
    )
    .unwrap();
    for family in families() {
        let Family {
            name, labels, help, ..
        } = family;
        let kind = family.kind.label();
        let labels = labels.join(", ");
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
    }
    page.push_str("\n## Label values\n\nAll of them are there from the start, at zero.\n\n");
    page.push_str("| Metric | Label | Values |\n|---|---|---|\n");
    for family in families() {
        for label in family.labels.iter().filter(|label| !FREE.contains(label)) {
            let values = values_of(&text, family, label).join(", ");
            writeln!(page, "| `{}` | {label} | {values} |", family.name).unwrap();
        }
    }
    page.push_str("\n## Buckets\n\n| Metric | Upper bounds |\n|---|---|\n");
    for family in families().filter(|f| f.kind == Kind::Histogram) {
        let bounds = values_of(&text, family, "le").join(" ");
        writeln!(page, "| `{}` | {bounds} |", family.name).unwrap();
    }
    page
}

/// Labels whose values are names from the configuration, numbers or versions.
const FREE: &[&str] = &[
    "listener", "backend", "target", "worker", "version", "revision",
];

fn values_of<'a>(text: &'a str, family: &Family, label: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for line in text.lines().filter(|line| line.starts_with(family.name)) {
        let Some((_, after)) = line.split_once(&format!("{label}=\"")) else {
            continue;
        };
        let value = after.split('"').next().unwrap();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

const INTRODUCTION: &str = "\
# Metrics

`GET /metrics` on the admin address, in Prometheus' text format. This page is generated from
`src/metrics/catalogue/` and compared with it by a test.

Nothing is per peer, per address or per client id: such figures are on the page at `/` and in
`/status`. A datagram that changed nothing is counted once: by `tidegate_handshakes_total` when it
was a handshake, by `tidegate_udp_rejected_packets_total` when it was anything else. What each reason
means, and what to do about it, is in [RUNBOOK.md](RUNBOOK.md).

Memory, open files and threads of `process_*` come from `/proc`. Where that cannot be read, they have no sample.
";
