//! The tables of players: messages over paths that lose, reorder, or are far away.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::end::MESSAGES;
use crate::paths::{LOSS_LABELS, LOSSES, input60, narrow, path};
use crate::run::{App, Flow, Outcome, Setup, quantile, run};
use crate::{Options, Policy, policies};

/// What a player of an echoing game feels: frames of 64 bytes, 60 a second, there and back.
pub(crate) fn echo(options: &Options) {
    if options.wants("echo") {
        let columns = LOSSES.map(|(loss, burst)| path(50, loss, burst));
        echo_table("", &LOSS_LABELS, &columns, options);
    }
}

/// An echoing game where some packets come so much later that others pass them.
pub(crate) fn reordering(options: &Options) {
    if !options.wants("reordering") {
        return;
    }
    let columns = [
        ("2 % 20 ms late, 5 % lost", 0.02, 20, 0.05),
        ("10 % 20 ms late, 0 % lost", 0.1, 20, 0.0),
        ("10 % 20 ms late, 5 % lost", 0.1, 20, 0.05),
        ("10 % 20 ms late, 20 % lost", 0.1, 20, 0.2),
        ("30 % 30 ms late, 5 % lost", 0.3, 30, 0.05),
    ];
    let path = |(_, share, late, loss)| Conditions {
        reorder: (share, Duration::from_millis(late)),
        ..path(50, loss, false)
    };
    let labels = columns.map(|(label, ..)| label);
    let title = " over a path that reorders,";
    echo_table(title, &labels, &columns.map(path), options);
}

/// An echoing game where every second packet is lost, or every third.
pub(crate) fn turns(options: &Options) {
    if !options.wants("turns") {
        return;
    }
    let columns = [2, 3, 4, 5, 8].map(|of| Conditions {
        nth: (of, 1),
        ..path(50, 0.0, false)
    });
    let labels = ["every second", "third", "fourth", "fifth", "eighth"];
    let title = " over a path that loses in turn,";
    echo_table(title, &labels, &columns, options);
}

fn echo_table(title: &str, labels: &[&str], columns: &[Conditions], options: &Options) {
    println!(
        "\n**echo of 64 bytes, 60 a second,{title} RTT 50 ms, jitter 5 ms** (round trip p50 / p99 / p99.9 in ms; wire bytes per useful byte, both ways)\n"
    );
    header(labels);
    for (label, policy) in policies() {
        if !options.shows(label) {
            continue;
        }
        print!("| {label} |");
        for path in columns {
            let (trips, ratio) = round_trips(&policy, *path, options.quick);
            if trips.is_empty() {
                print!(" none came back |");
                continue;
            }
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

fn header(labels: &[&str]) {
    println!("| policy | {} |", labels.join(" | "));
    println!("|---{}|", "|---".repeat(labels.len()));
}

/// Round trips in ms, sorted, and wire bytes per useful byte; `path` is either way.
pub(crate) fn round_trips(policy: &Policy, path: Conditions, quick: bool) -> (Vec<f64>, f64) {
    let every = Duration::from_nanos(16_666_667);
    let app = App::Periodic {
        every,
        wobble: Duration::from_millis(1),
        count: 1,
        size: (64, 64),
    };
    let mut all = Outcome::default();
    // Outages are few, and it is they that make the slowest hundredth: with 50 seeds chance moves that by
    // 10 ms.
    let seeds = match (quick, path.bursts.is_some()) {
        (true, _) => 10,
        (false, false) => 50,
        (false, true) => 200,
    };
    for seed in 0..seeds {
        let setup = Setup {
            forward: path,
            back: path,
            warm_up: Duration::from_secs(3),
            measured: Duration::from_secs(15),
            seed: seed + 1,
        };
        let apps = vec![(0, MESSAGES, app), (1, MESSAGES, App::Echo)];
        let ends = policy.ends(seed as usize);
        all.add(run(&setup, vec![Flow { ends, apps }]));
    }
    let there_ms = path.delay.as_secs_f64() * 1e3;
    let mut trips: Vec<f64> = all.back_ms.iter().map(|ms| ms + there_ms).collect();
    trips.sort_by(f64::total_cmp);
    let ratio = all.wire_bytes as f64 / all.useful_bytes.max(1) as f64;
    (trips, ratio)
}

/// One way, by workload and distance.
pub(crate) fn latency(options: &Options) {
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
        for rtt in [20, 50, 150, 300] {
            let title = format!("{name}-{rtt}");
            if !options.wants(&title) || (rtt != 50 && name != "input60") {
                continue;
            }
            println!(
                "\n**{name}, RTT {rtt} ms, jitter 5 ms** (extra in-order latency p99 / p99.9 in ms; wire bytes per useful byte)\n"
            );
            header(&LOSS_LABELS);
            for (label, policy) in policies() {
                if !options.shows(label) {
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

/// One workload both ways over several seeds, together.
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

/// Players far away: no congestion, only distance.
pub(crate) fn far(options: &Options) {
    if !options.wants("far") {
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
pub(crate) fn thin(options: &Options) {
    if !options.wants("thin") {
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
