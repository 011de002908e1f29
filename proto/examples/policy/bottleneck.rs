//! The tables of bulk: one sender, many, and beside a stranger, at a bottleneck with a queue or a policer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::end::{BULK, MESSAGES};
use crate::paths::{input60, narrow};
use crate::run::{App, Flow, Outcome, Setup, quantile, run};
use crate::{Options, Policy};

/// Messages and bulk from one sender through a bottleneck.
pub(crate) fn one_sender(options: &Options) {
    if !options.wants("bottleneck") {
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
        (20.0, 5.0),
        (100.0, 50.0),
        (100.0, 5.0),
    ] {
        for (label, policy, bulk) in contenders() {
            if !options.shows(label) {
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
            outcome.extra_ms.sort_by(f64::total_cmp);
            let queue = outcome.queue_ms();
            let mean = mean(&queue);
            let bytes: u64 = outcome.bulk_bytes.iter().sum();
            let used = bytes as f64 * 8.0 / setup.measured.as_secs_f64() / (mbit * 1e6);
            println!(
                "| {label} | {mbit} Mbit/s | {queue_ms:.0} ms | {mean:.1} / {:.1} | {:.1} / {:.1} | {:.1} % |",
                quantile(&queue, 0.95),
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
pub(crate) fn fairness(options: &Options) {
    if !options.wants("fairness") {
        return;
    }
    for queue_ms in [100.0, 30.0, 10.0] {
        println!("\n**N equal bulk flows on 10 Mbit/s, queue {queue_ms:.0} ms, RTT 50 ms**\n");
        println!(
            "| policy | N | use | fairness (Jain) | queue mean / p95 ms | drops |\n|---|---|---|---|---|---|"
        );
        let setup = setup(options, narrow(50, 10.0, queue_ms, 0.0), 13);
        for (label, policy, size) in contenders() {
            if options.shows(label) {
                for count in [1, 2, 4, 8, 16] {
                    let outcome = run(&setup, equal(&policy, size, count));
                    let queue = outcome.queue_ms();
                    println!(
                        "| {label} | {count} | {:.1} % | {:.3} | {:.1} / {:.1} | {:.2} % |",
                        100.0 * shares(&setup, &outcome).iter().sum::<f64>(),
                        jain(&shares(&setup, &outcome)),
                        mean(&queue),
                        quantile(&queue, 0.95),
                        dropped(&outcome)
                    );
                }
            }
        }
    }
}

/// Equal bulk flows through a policer, which drops and never delays.
pub(crate) fn policers(options: &Options) {
    if !options.wants("policers") {
        return;
    }
    println!("\n**N equal bulk flows through a policer with a burst of 10 ms, RTT 50 ms**\n");
    println!("| policy | policer | N | use | fairness (Jain) | drops |\n|---|---|---|---|---|---|");
    for mbit in POLICED_MBIT {
        let setup = setup(options, policed(mbit), 13);
        for (label, policy, size) in contenders() {
            if options.shows(label) {
                for count in [1, 2, 4, 8, 16] {
                    let outcome = run(&setup, equal(&policy, size, count));
                    println!(
                        "| {label} | {mbit} Mbit/s | {count} | {:.1} % | {:.3} | {:.2} % |",
                        100.0 * shares(&setup, &outcome).iter().sum::<f64>(),
                        jain(&shares(&setup, &outcome)),
                        dropped(&outcome)
                    );
                }
            }
        }
    }
}

/// Bulk and messages of ours beside somebody else's bulk, which fills the queue and goes by loss
/// alone, as a TCP does.
pub(crate) fn beside(options: &Options) {
    if options.wants("beside") {
        let queues = [30.0, 100.0, 300.0];
        let paths = queues.map(|ms| (format!("{ms:.0} ms"), narrow(50, 10.0, ms, 0.0)));
        beside_newreno(options, ("on 10 Mbit/s", "queue"), &paths);
    }
}

/// Our bulk and messages beside a NewReno flow, behind a policer.
pub(crate) fn beside_policed(options: &Options) {
    if options.wants("policers") {
        let paths = POLICED_MBIT.map(|mbit| (format!("{mbit} Mbit/s"), policed(mbit)));
        let what = ("through a policer with a burst of 10 ms", "policer");
        beside_newreno(options, what, &paths);
    }
}

/// Equal bulk flows where much is lost whatever is sent.
pub(crate) fn heavy_loss(options: &Options) {
    if !options.wants("heavy") {
        return;
    }
    println!("\n**N equal bulk flows on 50 Mbit/s with heavy loss, queue 50 ms, RTT 50 ms**\n");
    println!(
        "| policy | loss | N | use | fairness (Jain) | least flow | drops |\n|---|---|---|---|---|---|---|"
    );
    for loss in [0.16, 0.2, 0.25] {
        let setup = setup(options, narrow(50, 50.0, 50.0, loss), 13);
        for (label, policy, size) in contenders() {
            if options.shows(label) {
                for count in [1, 2, 4] {
                    let outcome = run(&setup, equal(&policy, size, count));
                    let shares = shares(&setup, &outcome);
                    println!(
                        "| {label} | {:.0} % | {count} | {:.1} % | {:.3} | {:.2} % | {:.2} % |",
                        100.0 * loss,
                        100.0 * shares.iter().sum::<f64>(),
                        jain(&shares),
                        100.0 * shares.iter().copied().fold(f64::INFINITY, f64::min),
                        dropped(&outcome)
                    );
                }
            }
        }
    }
}

/// A table of bulk and messages of ours and a NewReno flow, `beside` each other on paths that differ in their `column`.
fn beside_newreno(
    options: &Options,
    (beside, column): (&str, &str),
    paths: &[(String, Conditions)],
) {
    println!(
        "\n**beside one NewReno flow {beside}, RTT 50 ms: our bulk and 60 messages a second**\n"
    );
    println!(
        "| policy | {column} | use of ours | of NewReno | message extra p50 / p99 ms |\n|---|---|---|---|---|"
    );
    for (label, policy, size) in contenders() {
        if !options.shows(label) {
            continue;
        }
        for (path, forward) in paths {
            let row = with_newreno(&setup(options, *forward, 17), &policy, size);
            println!("| {label} | {path} | {row} |");
        }
    }
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

/// The end of a row: ours and a NewReno's.
fn with_newreno(setup: &Setup, policy: &Policy, size: usize) -> String {
    let bulk = |size| (0, BULK, App::Saturate { size });
    let ours = Flow {
        ends: policy.ends(0),
        apps: vec![(0, MESSAGES, input60()), bulk(size)],
    };
    let theirs = Flow {
        ends: Policy::Quic.ends(1),
        apps: vec![bulk(1000)],
    };
    let mut outcome = run(setup, vec![ours, theirs]);
    outcome.extra_ms.sort_by(f64::total_cmp);
    let shares = shares(setup, &outcome);
    format!(
        "{:.1} % | {:.1} % | {:.0} / {:.0}",
        100.0 * shares[0],
        100.0 * shares[1],
        quantile(&outcome.extra_ms, 0.5),
        quantile(&outcome.extra_ms, 0.99)
    )
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
