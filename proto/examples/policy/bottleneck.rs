//! The tables of bulk: one sender, many, and beside a stranger, at a bottleneck with a queue or a policer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::end::{BULK, MESSAGES};
use crate::paths::{input60, narrow};
use crate::run::{App, Flow, Outcome, Setup, quantile, run};
use crate::table::table;
use crate::{Options, Policy};

/// Messages and bulk from one sender through a bottleneck.
pub(crate) fn one_sender(options: &Options) {
    if !options.wants("bottleneck") {
        return;
    }
    let rows = [
        (0.2, 1000.0),
        (1.0, 200.0),
        (1.0, 1000.0),
        (5.0, 100.0),
        (20.0, 100.0),
        (20.0, 5.0),
        (100.0, 50.0),
        (100.0, 5.0),
    ];
    let rows = rows.map(|(mbit, queue_ms)| {
        let label = format!("{mbit} Mbit/s, {queue_ms:.0} ms");
        (label, (mbit, queue_ms))
    });
    let title =
        "bulk and 60 messages a second from one sender, RTT 60 ms, 1 % loss, drop-tail queue";
    let note = "queue mean / p95 in ms; message extra p50 / p99 in ms; use of the link";
    table(
        (title, note),
        ("link, queue", &rows),
        &options.shown(contenders()),
        |&(mbit, queue_ms), (policy, size)| {
            let forward = narrow(60, mbit, queue_ms, 0.01);
            let setup = Setup {
                forward,
                back: Conditions { rate: 0, ..forward },
                longer_by: Duration::ZERO,
                warm_up: Duration::from_secs(20),
                measured: Duration::from_secs(if options.quick { 40 } else { 100 }),
                seed: 7,
            };
            let messages = vec![(0, MESSAGES, input60()), (1, MESSAGES, input60())];
            let bulk = vec![(0, BULK, App::Saturate { size: *size })];
            // Of the others, each is one ordered stream: bulk gets a connection of its own.
            let apps = match policy {
                Policy::Tide(_) => vec![[messages, bulk].concat()],
                _ => vec![messages, bulk],
            };
            let flow = |(n, apps)| Flow {
                ends: policy.ends(n),
                apps,
            };
            let outcome = run(&setup, apps.into_iter().enumerate().map(flow).collect());
            let queue = outcome.queue_ms();
            let [p50, p99] = outcome.extra([0.5, 0.99]);
            format!(
                "{:.1} / {:.1}; {p50:.1} / {p99:.1}; {:.1} %",
                mean(&queue),
                quantile(&queue, 0.95),
                100.0 * shares(&setup, &outcome).iter().sum::<f64>()
            )
        },
    );
}

/// Who meets at a bottleneck, and the size of their bulk messages.
fn contenders() -> Vec<(&'static str, (Policy, usize))> {
    let tide = Arc::new(Params::default());
    vec![
        ("tidegate", (Policy::Tide(tide.clone()), 1000)),
        ("tidegate, blocks", (Policy::Tide(tide), 262_144)),
        ("quic-9002", (Policy::Quic, 1000)),
        ("kcp-fast3", (Policy::Kcp, 1000)),
    ]
}

/// Equal bulk flows on one bottleneck.
pub(crate) fn fairness(options: &Options) {
    if !options.wants("fairness") {
        return;
    }
    for queue_ms in [100.0, 30.0, 10.0] {
        let title = format!("N equal bulk flows on 10 Mbit/s, queue {queue_ms:.0} ms, RTT 50 ms");
        let note = "by N: use; fairness (Jain); queue mean / p95 in ms; drops";
        let path = narrow(50, 10.0, queue_ms, 0.0);
        equal_flows(
            options,
            (&title, note),
            path,
            &[1, 2, 4, 8, 16],
            |outcome, _| {
                let queue = outcome.queue_ms();
                format!("; {:.1} / {:.1}", mean(&queue), quantile(&queue, 0.95))
            },
        );
    }
}

/// Equal bulk flows through a policer, which drops and never delays.
pub(crate) fn policers(options: &Options) {
    if !options.wants("policers") {
        return;
    }
    for mbit in POLICED_MBIT {
        let title = format!(
            "N equal bulk flows through a policer of {mbit} Mbit/s with a burst of 10 ms, RTT 50 ms"
        );
        let note = "by N: use; fairness (Jain); drops";
        let counts = [1, 2, 4, 8, 16];
        equal_flows(options, (&title, note), policed(mbit), &counts, |_, _| {
            String::new()
        });
    }
}

/// Equal bulk flows where much is lost whatever is sent.
pub(crate) fn heavy_loss(options: &Options) {
    if !options.wants("heavy") {
        return;
    }
    for loss in [0.16, 0.2, 0.25] {
        let title = format!(
            "N equal bulk flows on 50 Mbit/s with {:.0} % loss, queue 50 ms, RTT 50 ms",
            100.0 * loss
        );
        let note = "by N: use; fairness (Jain); least flow; drops";
        let path = narrow(50, 50.0, 50.0, loss);
        equal_flows(options, (&title, note), path, &[1, 2, 4], |_, shares| {
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            format!("; {:.2} %", 100.0 * least)
        });
    }
}

/// A table of what so many equal bulk flows make of a path. `more` is said of a run and the shares of its flows, between
/// the fairness and the drops.
fn equal_flows(
    options: &Options,
    title: (&str, &str),
    path: Conditions,
    counts: &[usize],
    more: impl Fn(&Outcome, &[f64]) -> String,
) {
    let setup = setup(options, path, 13);
    let columns: Vec<_> = counts.iter().map(|count| (count, *count)).collect();
    let rows = options.shown(contenders());
    table(
        title,
        ("policy", &rows),
        &columns,
        |(policy, size), &count| {
            let outcome = run(&setup, equal(policy, *size, count));
            let shares = shares(&setup, &outcome);
            format!(
                "{:.1} %; {:.3}{}; {:.2} %",
                100.0 * shares.iter().sum::<f64>(),
                jain(&shares),
                more(&outcome, &shares),
                dropped(&outcome)
            )
        },
    );
}

/// Bulk and messages of ours beside somebody else's bulk, which fills the queue and goes by loss
/// alone, as a TCP does.
pub(crate) fn beside(options: &Options) {
    if options.wants("beside") {
        let queues = [30.0, 100.0, 300.0];
        let paths = queues.map(|ms| (format!("queue {ms:.0} ms"), narrow(50, 10.0, ms, 0.0)));
        beside_newreno(options, "on 10 Mbit/s", &paths);
    }
}

/// Our bulk and messages beside a NewReno flow, behind a policer.
pub(crate) fn beside_policed(options: &Options) {
    if options.wants("policers") {
        let paths = POLICED_MBIT.map(|mbit| (format!("{mbit} Mbit/s"), policed(mbit)));
        beside_newreno(options, "through a policer with a burst of 10 ms", &paths);
    }
}

/// Bulk whose path becomes longer from one moment to the next.
pub(crate) fn routes(options: &Options) {
    if !options.wants("routes") {
        return;
    }
    let rows = [(10.0, 20), (10.0, 60), (50.0, 40), (2.0, 20)];
    let rows = rows.map(|(mbit, rtt_ms)| {
        let label = format!("{mbit} Mbit/s, RTT {rtt_ms} ms");
        (label, narrow(rtt_ms, mbit, 100.0, 0.0))
    });
    for longer_ms in [15, 50, 200] {
        let title = format!("bulk whose RTT becomes {longer_ms} ms longer at once, queue 100 ms");
        let note = "use of the link: in the first two seconds after that; in the first ten";
        table(
            (&title, note),
            ("link", &rows),
            &options.shown(contenders()),
            |&forward, (policy, size)| {
                let [first, all] = [2, 10].map(|secs| {
                    let setup = Setup {
                        longer_by: Duration::from_micros(longer_ms * 500),
                        measured: Duration::from_secs(secs),
                        ..setup(options, forward, 19)
                    };
                    let outcome = run(&setup, equal(policy, *size, 1));
                    100.0 * shares(&setup, &outcome)[0]
                });
                format!("{first:.0} %; {all:.0} %")
            },
        );
    }
}

/// A table of bulk and messages of ours and a NewReno flow, `beside` each other on these paths.
fn beside_newreno(options: &Options, beside: &str, paths: &[(String, Conditions)]) {
    let title =
        format!("beside one NewReno flow {beside}, RTT 50 ms: our bulk and 60 messages a second");
    let note = "use of ours; of NewReno; message extra p50 / p99 in ms";
    let rows = options.shown(contenders());
    table(
        (&title, note),
        ("policy", &rows),
        paths,
        |(policy, size), forward| {
            let setup = setup(options, *forward, 17);
            let bulk = |size| (0, BULK, App::Saturate { size });
            let ours = Flow {
                ends: policy.ends(0),
                apps: vec![(0, MESSAGES, input60()), bulk(*size)],
            };
            let theirs = Flow {
                ends: Policy::Quic.ends(1),
                apps: vec![bulk(1000)],
            };
            let outcome = run(&setup, vec![ours, theirs]);
            let [ours, theirs] = [0, 1].map(|flow: usize| 100.0 * shares(&setup, &outcome)[flow]);
            let [p50, p99] = outcome.extra([0.5, 0.99]);
            format!("{ours:.1} %; {theirs:.1} %; {p50:.0} / {p99:.0}")
        },
    );
}

/// What policers let through, in Mbit/s.
const POLICED_MBIT: [f64; 2] = [10.0, 50.0];

/// A policer of so many Mbit/s.
fn policed(mbit: f64) -> Conditions {
    Conditions {
        polices: true,
        ..narrow(50, mbit, 10.0, 0.0)
    }
}

/// A bottleneck forward, and the same path back without one.
fn setup(options: &Options, forward: Conditions, seed: u64) -> Setup {
    Setup {
        forward,
        back: Conditions { rate: 0, ..forward },
        longer_by: Duration::ZERO,
        warm_up: Duration::from_secs(if options.quick { 20 } else { 60 }),
        measured: Duration::from_secs(if options.quick { 20 } else { 120 }),
        seed,
    }
}

/// So many flows of bulk.
pub(crate) fn equal(policy: &Policy, size: usize, count: usize) -> Vec<Flow> {
    let flow = |n| Flow {
        ends: policy.ends(n),
        apps: vec![(0, BULK, App::Saturate { size })],
    };
    (0..count).map(flow).collect()
}

/// Of the bottleneck, what each flow's bulk took, 0 to 1.
pub(crate) fn shares(setup: &Setup, outcome: &Outcome) -> Vec<f64> {
    let bytes_max = setup.measured.as_secs_f64() * setup.forward.rate as f64 / 8.0;
    let share = |bytes: &u64| *bytes as f64 / bytes_max;
    outcome.bulk_bytes.iter().map(share).collect()
}

/// 1 where all are equal, and `1 / n` where one has everything.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Percent of what the bottleneck was offered.
pub(crate) fn dropped(outcome: &Outcome) -> f64 {
    100.0 * outcome.drops as f64 / outcome.offered.max(1) as f64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
