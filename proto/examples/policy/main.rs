//! What the send policy is worth: `cargo run --release --features sim --example policy`.
//!
//! Runs the real sender beside reference senders over the same simulated paths and prints the
//! tables of docs/POLICY.md. Deterministic; `--quick` for a shorter look, `--only NAME` for one table.
#![expect(
    clippy::print_stdout,
    reason = "tables on standard output are what it is for"
)]
#![allow(missing_docs, reason = "a program, not an interface")]

mod end;
mod kcp;
mod quic;
mod run;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::Timestamp;
use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use end::{BULK, End, MESSAGES, Tide};
use run::{App, Flow, Outcome, Setup, quantile, run};

#[derive(Clone)]
enum Policy {
    Bound,
    Tide(Arc<Params>),
    Stock(f64),
    Quic,
    Kcp,
}

impl Policy {
    fn end(&self, phase: f64) -> Box<dyn End> {
        let now = Timestamp::from_millis(1_000);
        let again = Duration::from_millis(100);
        match self {
            Self::Bound => Box::new(tick::Tick::new(now, 60.0, Duration::ZERO, phase)),
            Self::Stock(hz) => Box::new(tick::Tick::new(now, *hz, again, phase)),
            Self::Tide(params) => Box::new(Tide::new(now, params)),
            Self::Quic => Box::new(quic::Quic::new(now)),
            Self::Kcp => Box::new(kcp::Kcp::new(now, phase)),
        }
    }

    fn ends(&self, n: usize) -> [Box<dyn End>; 2] {
        [
            self.end((n as f64 * 0.37 + 0.11) % 1.0),
            self.end((n as f64 * 0.53 + 0.67) % 1.0),
        ]
    }
}

fn policies() -> Vec<(&'static str, Policy)> {
    let tide = Params::default();
    let plain = Params {
        redundancy: 0.0,
        ..tide.clone()
    };
    vec![
        ("bound60", Policy::Bound),
        ("tidegate", Policy::Tide(Arc::new(tide))),
        ("tidegate, no copies", Policy::Tide(Arc::new(plain))),
        ("quic-9002", Policy::Quic),
        ("kcp-fast3", Policy::Kcp),
        ("stock60", Policy::Stock(60.0)),
        ("stock30", Policy::Stock(30.0)),
    ]
}

struct Options {
    quick: bool,
    only: Option<String>,
    policy: Option<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let options = Options {
        quick: arguments.iter().any(|argument| argument == "--quick"),
        only: value("--only"),
        policy: value("--policy"),
    };
    echo(&options);
    latency(&options);
    bottleneck(&options);
    fairness(&options);
    far(&options);
    thin(&options);
}

fn path(rtt_ms: u64, loss: f64, burst: bool) -> Conditions {
    Conditions {
        delay: Duration::from_micros(rtt_ms * 500),
        jitter: Duration::from_millis(5),
        loss,
        bursts: burst.then_some((Duration::from_millis(60), Duration::from_millis(1140))),
        ..Conditions::default()
    }
}

const LOSSES: [(f64, bool); 7] = [
    (0.0, false),
    (0.01, false),
    (0.02, false),
    (0.05, false),
    (0.1, false),
    (0.2, false),
    (0.0, true),
];

/// What a player of an echoing game feels: frames of 64 bytes, 60 a second, there and back.
fn echo(options: &Options) {
    if options
        .only
        .as_ref()
        .is_some_and(|only| !"echo".starts_with(only.as_str()))
    {
        return;
    }
    println!(
        "\n**echo of 64 bytes, 60 a second, RTT 50 ms, jitter 5 ms** (round trip p50 / p99 / p99.9 in ms; wire bytes per useful byte, both ways)\n"
    );
    println!(
        "| policy | 0% | 1% | 2% | 5% | 10% | 20% | bursts 5% |\n|---|---|---|---|---|---|---|---|"
    );
    for (label, policy) in policies() {
        if options.policy.as_ref().is_some_and(|only| only != label) {
            continue;
        }
        print!("| {label} |");
        for (loss, burst) in LOSSES {
            let every = Duration::from_nanos(16_666_667);
            let app = App::Periodic {
                every,
                wobble: Duration::from_millis(1),
                count: 1,
                size: (64, 64),
            };
            let mut all = Outcome::default();
            for seed in 0..if options.quick { 10 } else { 50 } {
                let setup = Setup {
                    forward: path(50, loss, burst),
                    back: path(50, loss, burst),
                    warm_up: Duration::from_secs(3),
                    measured: Duration::from_secs(15),
                    seed: seed + 1,
                };
                let apps = vec![(0, MESSAGES, app), (1, MESSAGES, App::Echo)];
                let ends = policy.ends(seed as usize);
                all.add(run(&setup, vec![Flow { ends, apps }]));
            }
            let mut trips: Vec<f64> = all.back_ms.iter().map(|ms| ms + 25.0).collect();
            trips.sort_by(f64::total_cmp);
            let ratio = all.wire_bytes as f64 / all.useful_bytes.max(1) as f64;
            let at = |share| quantile(&trips, share);
            print!(
                " {:.0} / {:.0} / {:.0}; x{ratio:.2} |",
                at(0.5),
                at(0.99),
                at(0.999)
            );
        }
        println!();
    }
}

fn latency(options: &Options) {
    let workloads = [
        (
            "input60",
            App::Periodic {
                every: Duration::from_nanos(16_666_667),
                wobble: Duration::from_millis(1),
                count: 1,
                size: (32, 64),
            },
            60.0,
        ),
        (
            "input30",
            App::Periodic {
                every: Duration::from_nanos(33_333_333),
                wobble: Duration::from_millis(1),
                count: 1,
                size: (32, 64),
            },
            30.0,
        ),
        (
            "rpc2",
            App::Poisson {
                mean: Duration::from_millis(500),
            },
            2.0,
        ),
        (
            "burst20",
            App::Periodic {
                every: Duration::from_secs(1),
                wobble: Duration::from_millis(20),
                count: 20,
                size: (32, 64),
            },
            20.0,
        ),
    ];
    for (name, app, per_second) in workloads {
        for rtt in [50, 150, 300] {
            let title = format!("{name}-{rtt}");
            if options
                .only
                .as_ref()
                .is_some_and(|only| !title.starts_with(only.as_str()))
                || (rtt > 50 && name != "input60")
            {
                continue;
            }
            println!(
                "\n**{name}, RTT {rtt} ms, jitter 5 ms** (extra in-order latency p99 / p99.9 in ms; wire bytes per useful byte)\n"
            );
            println!(
                "| policy | 0% | 1% | 2% | 5% | 10% | 20% | bursts 5% |\n|---|---|---|---|---|---|---|---|"
            );
            for (label, policy) in policies() {
                if options.policy.as_ref().is_some_and(|only| only != label) {
                    continue;
                }
                print!("| {label} |");
                for (loss, burst) in LOSSES {
                    let messages = if options.quick { 6_000.0 } else { 60_000.0 };
                    let outcome = one(&policy, path(rtt, loss, burst), app, messages / per_second);
                    let mut extra = outcome.extra_ms;
                    extra.sort_by(f64::total_cmp);
                    let ratio = outcome.wire_bytes as f64 / outcome.useful_bytes.max(1) as f64;
                    print!(
                        " {:.0} / {:.0}; x{ratio:.1} |",
                        quantile(&extra, 0.99),
                        quantile(&extra, 0.999)
                    );
                }
                println!();
            }
        }
    }
}

/// The same workload both ways over several seeds, together.
fn one(policy: &Policy, path: Conditions, app: App, seconds: f64) -> Outcome {
    let mut all = Outcome::default();
    let seeds = 4u32;
    for seed in 0..seeds {
        let setup = Setup {
            forward: path,
            back: path,
            warm_up: Duration::from_secs(5),
            measured: Duration::from_secs_f64(seconds / f64::from(seeds)),
            seed: u64::from(seed) + 1,
        };
        let apps = vec![(0, MESSAGES, app), (1, MESSAGES, app)];
        let flow = Flow {
            ends: policy.ends(seed as usize),
            apps,
        };
        let outcome = run(&setup, vec![flow]);
        all.add(outcome);
    }
    all
}

fn input60() -> App {
    App::Periodic {
        every: Duration::from_nanos(16_666_667),
        wobble: Duration::from_millis(1),
        count: 1,
        size: (32, 64),
    }
}

fn wants(options: &Options, table: &str) -> bool {
    options
        .only
        .as_ref()
        .is_none_or(|only| table.starts_with(only.as_str()))
}

/// A link of so many Mbit/s in front of a drop-tail queue of so many ms.
fn narrow(rtt_ms: u64, mbit: f64, queue_ms: f64, loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_micros(rtt_ms * 500),
        jitter: Duration::from_millis(1),
        loss,
        rate: (mbit * 1e6) as u64,
        queue: (mbit * 1e6 / 8.0 * queue_ms / 1e3) as usize,
        ..Conditions::default()
    }
}

/// Messages and bulk from one sender through a bottleneck.
fn bottleneck(options: &Options) {
    if !wants(options, "bottleneck") {
        return;
    }
    println!(
        "\n**bulk and 60 messages a second from one sender, RTT 60 ms, 1 % loss, drop-tail queue**\n"
    );
    println!(
        "| policy | link | queue | queue mean / p95 ms | message extra p50 / p99 ms | use |\n|---|---|---|---|---|---|"
    );
    for (mbit, queue_ms) in [
        (0.2, 1000.0),
        (1.0, 200.0),
        (1.0, 1000.0),
        (5.0, 100.0),
        (20.0, 100.0),
    ] {
        for (label, policy, bulk) in contenders() {
            if options.policy.as_ref().is_some_and(|only| only != label) {
                continue;
            }
            let setup = Setup {
                forward: narrow(60, mbit, queue_ms, 0.01),
                back: Conditions {
                    rate: 0,
                    ..narrow(60, mbit, queue_ms, 0.01)
                },
                warm_up: Duration::from_secs(20),
                measured: Duration::from_secs(if options.quick { 40 } else { 100 }),
                seed: 7,
            };
            let messages = vec![(0, MESSAGES, input60()), (1, MESSAGES, input60())];
            let bulk = (0, BULK, App::Saturate { size: bulk });
            let flows = if matches!(policy, Policy::Tide(_)) {
                let apps = [messages, vec![bulk]].concat();
                vec![Flow {
                    ends: policy.ends(0),
                    apps,
                }]
            } else {
                // One ordered stream each: bulk gets a connection of its own.
                vec![
                    Flow {
                        ends: policy.ends(0),
                        apps: messages,
                    },
                    Flow {
                        ends: policy.ends(1),
                        apps: vec![bulk],
                    },
                ]
            };
            let mut outcome = run(&setup, flows);
            outcome.queue_ms.sort_by(f64::total_cmp);
            outcome.extra_ms.sort_by(f64::total_cmp);
            let mean = outcome.queue_ms.iter().sum::<f64>() / outcome.queue_ms.len().max(1) as f64;
            let bytes: u64 = outcome.bulk_bytes.iter().sum();
            let used = bytes as f64 * 8.0 / setup.measured.as_secs_f64() / (mbit * 1e6);
            println!(
                "| {label} | {mbit} Mbit/s | {queue_ms:.0} ms | {mean:.1} / {:.1} | {:.1} / {:.1} | {:.1} % |",
                quantile(&outcome.queue_ms, 0.95),
                quantile(&outcome.extra_ms, 0.5),
                quantile(&outcome.extra_ms, 0.99),
                used * 100.0
            );
        }
    }
}

/// Who meets at a bottleneck, and the size of their bulk messages.
fn contenders() -> Vec<(&'static str, Policy, usize)> {
    let tide = Arc::new(Params::default());
    vec![
        ("tidegate", Policy::Tide(tide.clone()), 1000),
        ("tidegate, blocks", Policy::Tide(tide), 262_144),
        ("quic-9002", Policy::Quic, 1000),
        ("kcp-fast3", Policy::Kcp, 1000),
    ]
}

/// Equal bulk flows on one bottleneck.
fn fairness(options: &Options) {
    if !wants(options, "fairness") {
        return;
    }
    println!("\n**N equal bulk flows on 10 Mbit/s, queue 100 ms, RTT 50 ms**\n");
    println!(
        "| policy | N | use | fairness (Jain) | queue mean / p95 ms | drops |\n|---|---|---|---|---|---|"
    );
    for (label, policy, size) in contenders() {
        if options.policy.as_ref().is_some_and(|only| only != label) {
            continue;
        }
        for count in [1, 2, 4, 8, 16] {
            let setup = Setup {
                forward: narrow(50, 10.0, 100.0, 0.0),
                back: Conditions {
                    rate: 0,
                    ..narrow(50, 10.0, 100.0, 0.0)
                },
                warm_up: Duration::from_secs(if options.quick { 20 } else { 60 }),
                measured: Duration::from_secs(if options.quick { 20 } else { 120 }),
                seed: 13,
            };
            let flow = |n| Flow {
                ends: policy.ends(n),
                apps: vec![(0, BULK, App::Saturate { size })],
            };
            let mut outcome = run(&setup, (0..count).map(flow).collect());
            outcome.queue_ms.sort_by(f64::total_cmp);
            let mean = outcome.queue_ms.iter().sum::<f64>() / outcome.queue_ms.len().max(1) as f64;
            let shares: Vec<f64> = outcome
                .bulk_bytes
                .iter()
                .map(|bytes| *bytes as f64)
                .collect();
            let sum: f64 = shares.iter().sum();
            let squares: f64 = shares.iter().map(|share| share * share).sum();
            println!(
                "| {label} | {count} | {:.1} % | {:.3} | {mean:.1} / {:.1} | {:.2} % |",
                sum * 8.0 / setup.measured.as_secs_f64() / 1e7 * 100.0,
                sum * sum / (count as f64 * squares),
                quantile(&outcome.queue_ms, 0.95),
                100.0 * outcome.drops as f64 / outcome.offered.max(1) as f64
            );
        }
    }
}

/// Players far away: no congestion, only distance.
fn far(options: &Options) {
    if !wants(options, "far") {
        return;
    }
    println!("\n**far players: 60 messages a second, jitter 20 ms, 1 % loss, no bottleneck**\n");
    println!(
        "| policy | RTT | extra p50 / p99 ms | switches to bad | bad at the end |\n|---|---|---|---|---|"
    );
    for (label, params) in [
        ("article", Params::article()),
        ("tidegate", Params::default()),
    ] {
        let policy = Policy::Tide(Arc::new(params));
        for rtt in [100, 200, 240, 260, 300, 400] {
            let conditions = Conditions {
                jitter: Duration::from_millis(20),
                ..path(rtt, 0.01, false)
            };
            let setup = Setup {
                forward: conditions,
                back: conditions,
                warm_up: Duration::from_secs(10),
                measured: Duration::from_secs(if options.quick { 60 } else { 300 }),
                seed: 5,
            };
            let apps = vec![(0, MESSAGES, input60()), (1, MESSAGES, input60())];
            let mut outcome = run(
                &setup,
                vec![Flow {
                    ends: policy.ends(0),
                    apps,
                }],
            );
            outcome.extra_ms.sort_by(f64::total_cmp);
            let stats = outcome.stats[0];
            println!(
                "| {label} | {rtt} ms | {:.0} / {:.0} | {} | {} |",
                quantile(&outcome.extra_ms, 0.5),
                quantile(&outcome.extra_ms, 0.99),
                stats.mode_to_bad,
                if stats.in_bad_mode { "yes" } else { "no" }
            );
        }
    }
}

/// A link just wide enough without copies: they must be withdrawn.
fn thin(options: &Options) {
    if !wants(options, "thin") {
        return;
    }
    println!(
        "\n**60 messages a second through a thin link with a queue of two packets (2400 bytes), 3 % loss, RTT 50 ms**\n"
    );
    println!(
        "| policy | link | lost in all | extra p50 / p99 ms | wire bytes per useful byte |\n|---|---|---|---|---|"
    );
    let ours = policies()
        .into_iter()
        .filter(|(label, _)| label.starts_with("tidegate"));
    for (label, policy) in ours {
        for kbit in [60.0, 80.0, 100.0, 150.0] {
            let setup = Setup {
                forward: Conditions {
                    queue: 2_400,
                    ..narrow(50, kbit / 1e3, 0.0, 0.03)
                },
                back: path(50, 0.03, false),
                warm_up: Duration::from_secs(20),
                measured: Duration::from_secs(if options.quick { 60 } else { 300 }),
                seed: 3,
            };
            let apps = vec![(0, MESSAGES, input60()), (1, MESSAGES, input60())];
            let mut outcome = run(
                &setup,
                vec![Flow {
                    ends: policy.ends(0),
                    apps,
                }],
            );
            outcome.extra_ms.sort_by(f64::total_cmp);
            println!(
                "| {label} | {kbit:.0} kbit/s | {:.1} % | {:.0} / {:.0} | x{:.1} |",
                3.0 + 97.0 * outcome.drops as f64 / outcome.offered.max(1) as f64,
                quantile(&outcome.extra_ms, 0.5),
                quantile(&outcome.extra_ms, 0.99),
                outcome.wire_bytes as f64 / outcome.useful_bytes.max(1) as f64
            );
        }
    }
}
