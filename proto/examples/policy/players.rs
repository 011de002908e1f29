//! The tables of players: messages over paths that lose, reorder, or are far away.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::end::MESSAGES;
use crate::paths::{LOSSES, input60, narrow, path};
use crate::run::{App, Flow, Outcome, Setup, quantile, run};
use crate::table::table;
use crate::{Options, Policy, policies};

/// What a player of an echoing game feels: frames of 64 bytes, 60 a second, there and back.
pub(crate) fn echo(options: &Options) {
    if options.wants("echo") {
        let columns = LOSSES.map(|(label, (loss, burst))| (label, path(50, loss, burst)));
        echo_table("", &columns, options);
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
    let columns = columns.map(|(label, share, late, loss)| {
        let path = Conditions {
            reorder: (share, Duration::from_millis(late)),
            ..path(50, loss, false)
        };
        (label, path)
    });
    echo_table(" over a path that reorders,", &columns, options);
}

/// An echoing game where every second packet is lost, or every third.
pub(crate) fn turns(options: &Options) {
    if !options.wants("turns") {
        return;
    }
    let columns = [
        ("every second", 2),
        ("third", 3),
        ("fourth", 4),
        ("fifth", 5),
        ("eighth", 8),
    ];
    let columns = columns.map(|(label, of)| {
        let path = Conditions {
            nth: (of, 1),
            ..path(50, 0.0, false)
        };
        (label, path)
    });
    echo_table(" over a path that loses in turn,", &columns, options);
}

fn echo_table(over: &str, columns: &[(&str, Conditions)], options: &Options) {
    let title = format!("echo of 64 bytes, 60 a second,{over} RTT 50 ms, jitter 5 ms");
    let note = "round trip p50 / p99 / p99.9 in ms; wire bytes per useful byte, both ways";
    let rows = options.shown(policies());
    table(
        (&title, note),
        ("policy", &rows),
        columns,
        |policy, path| {
            let (trips, ratio) = round_trips(policy, *path, options.quick);
            if trips.is_empty() {
                return "none came back".to_owned();
            }
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| quantile(&trips, share));
            format!("{p50:.0} / {p99:.0} / {p999:.0}; x{ratio:.2}")
        },
    );
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
            longer_by: Duration::ZERO,
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
    (trips, all.expansion())
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
            let messages = if options.quick { 6_000.0 } else { 60_000.0 };
            let note = "extra in-order latency p99 / p99.9 in ms; wire bytes per useful byte";
            table(
                (&format!("{name}, RTT {rtt} ms, jitter 5 ms"), note),
                ("policy", &options.shown(policies())),
                &LOSSES,
                |policy, &(loss, burst)| {
                    let outcome = one(policy, path(rtt, loss, burst), app, messages / per_second);
                    let [p99, p999] = outcome.extra([0.99, 0.999]);
                    format!("{p99:.0} / {p999:.0}; x{:.1}", outcome.expansion())
                },
            );
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
            longer_by: Duration::ZERO,
            warm_up: Duration::from_secs(5),
            measured: Duration::from_secs_f64(seconds / f64::from(seeds)),
            seed: u64::from(seed) + 1,
        };
        let apps = vec![(0, MESSAGES, app), (1, MESSAGES, app)];
        let flow = Flow {
            ends: policy.ends(seed as usize),
            apps,
        };
        all.add(run(&setup, vec![flow]));
    }
    all
}

/// Players far away: no congestion, only distance.
pub(crate) fn far(options: &Options) {
    if !options.wants("far") {
        return;
    }
    let rows = options.shown(vec![
        ("article", Params::article()),
        ("tidegate", Params::default()),
    ]);
    let columns = [100, 200, 240, 260, 300, 400].map(|rtt| (format!("{rtt} ms"), rtt));
    let title = "far players: 60 messages a second, jitter 20 ms, 1 % loss, no bottleneck";
    let note = "by RTT: extra p50 / p99 in ms; switches to bad mode; *bad* at the end";
    table(
        (title, note),
        ("policy", &rows),
        &columns,
        |params, &rtt| {
            let conditions = Conditions {
                jitter: Duration::from_millis(20),
                ..path(rtt, 0.01, false)
            };
            let setup = Setup {
                forward: conditions,
                back: conditions,
                longer_by: Duration::ZERO,
                warm_up: Duration::from_secs(10),
                measured: Duration::from_secs(if options.quick { 60 } else { 300 }),
                seed: 5,
            };
            let outcome = game(&setup, &Policy::Tide(Arc::new(params.clone())));
            let [p50, p99] = outcome.extra([0.5, 0.99]);
            let stats = outcome.stats[0];
            let end = if stats.in_bad_mode { "; *bad*" } else { "" };
            format!("{p50:.0} / {p99:.0}; {}{end}", stats.mode_to_bad)
        },
    );
}

/// A link just wide enough without copies: they must be withdrawn.
pub(crate) fn thin(options: &Options) {
    if !options.wants("thin") {
        return;
    }
    let mut rows = options.shown(policies());
    rows.retain(|(label, _)| label.starts_with("tidegate"));
    let columns = [60.0, 80.0, 100.0, 150.0].map(|kbit| (format!("{kbit:.0} kbit/s"), kbit));
    let title = "60 messages a second through a thin link with a queue of two packets (2400 bytes), 3 % loss, RTT 50 ms";
    let note = "lost in all; extra p50 / p99 in ms; wire bytes per useful byte";
    table(
        (title, note),
        ("policy", &rows),
        &columns,
        |policy, &kbit| {
            let setup = Setup {
                forward: Conditions {
                    queue: 2_400,
                    ..narrow(50, kbit / 1e3, 0.0, 0.03)
                },
                back: path(50, 0.03, false),
                longer_by: Duration::ZERO,
                warm_up: Duration::from_secs(20),
                measured: Duration::from_secs(if options.quick { 60 } else { 300 }),
                seed: 3,
            };
            let outcome = game(&setup, policy);
            let lost = 3.0 + 97.0 * outcome.drops as f64 / outcome.offered.max(1) as f64;
            let [p50, p99] = outcome.extra([0.5, 0.99]);
            format!(
                "{lost:.1} %; {p50:.0} / {p99:.0}; x{:.1}",
                outcome.expansion()
            )
        },
    );
}

/// A game of 60 messages a second, both ways.
fn game(setup: &Setup, policy: &Policy) -> Outcome {
    let apps = vec![(0, MESSAGES, input60()), (1, MESSAGES, input60())];
    let ends = policy.ends(0);
    run(setup, vec![Flow { ends, apps }])
}
