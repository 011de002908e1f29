//! The tables of bulk where the delay swings, which looks like a queue and is none: one flow, and several.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::bottleneck::{dropped, equal, jain, shares};
use crate::end::BULK;
use crate::paths::narrow;
use crate::run::{App, Flow, Setup, quantile, run};
use crate::{Options, Policy};

/// One bulk flow, by the rate of the link, how far the delay swings and how much is lost.
pub(crate) fn swinging(options: &Options) {
    let label = "tidegate";
    if !options.wants("jitter") || !options.shows(label) {
        return;
    }
    println!("\n**bulk where the delay swings, RTT 50 ms, {SEEDS} runs each**\n");
    println!(
        "| policy | link | jitter each way | loss | use least / median | queue p95 ms |\n|---|---|---|---|---|---|"
    );
    for (mbit, queue_ms) in [(0.2, 1000.0), (1.0, 300.0), (10.0, 100.0), (100.0, 50.0)] {
        for jitter_ms in [0, 5, 15] {
            for loss in [0.0, 0.01] {
                let link = Conditions {
                    jitter: Duration::from_millis(jitter_ms),
                    ..narrow(50, mbit, queue_ms, loss)
                };
                let (used, queue) = runs(options, link);
                println!(
                    "| {label} | {mbit} Mbit/s | {jitter_ms} ms | {:.0} % | {:.1} / {:.1} % | {:.1} |",
                    loss * 100.0,
                    used[0],
                    quantile(&used, 0.5),
                    quantile(&queue, 0.95)
                );
            }
        }
    }
}

/// What was used of the link, in percent, run by run; and how long its queue was, in ms, in all of them. Both sorted.
fn runs(options: &Options, link: Conditions) -> (Vec<f64>, Vec<f64>) {
    let policy = Policy::Tide(Arc::new(Params::default()));
    let (mut used, mut queue) = (Vec::new(), Vec::new());
    for seed in 1..=SEEDS {
        let setup = Setup {
            forward: link,
            back: Conditions { rate: 0, ..link },
            warm_up: Duration::from_secs(10),
            measured: Duration::from_secs(if options.quick { 5 } else { 10 }),
            seed,
        };
        let flow = Flow {
            ends: policy.ends(seed as usize),
            apps: vec![(0, BULK, App::Saturate { size: 1000 })],
        };
        let outcome = run(&setup, vec![flow]);
        let bits = outcome.bulk_bytes[0] as f64 * 8.0;
        used.push(bits / setup.measured.as_secs_f64() / link.rate as f64 * 100.0);
        queue.extend(outcome.queue_ms());
    }
    used.sort_by(f64::total_cmp);
    queue.sort_by(f64::total_cmp);
    (used, queue)
}

/// Equal bulk flows, by the rate of the link, how far the delay swings and how many they are.
pub(crate) fn shared(options: &Options) {
    let label = "tidegate";
    if !options.wants("jitter") || !options.shows(label) {
        return;
    }
    println!(
        "\n**N equal bulk flows where the delay swings, RTT 50 ms, {SHARED_SEEDS} runs each**\n"
    );
    println!(
        "| policy | link | jitter each way | N | use | fairness (Jain) least / mean | queue p95 ms | drops |\n|---|---|---|---|---|---|---|---|"
    );
    for (mbit, queue_ms) in [(10.0, 100.0), (50.0, 50.0)] {
        for jitter_ms in [5, 10, 15] {
            let link = Conditions {
                jitter: Duration::from_millis(jitter_ms),
                ..narrow(50, mbit, queue_ms, 0.0)
            };
            for count in [2, 4, 16] {
                let row = sharing(options, link, count);
                println!("| {label} | {mbit} Mbit/s | {jitter_ms} ms | {count} | {row} |");
            }
        }
    }
}

/// The end of a row: what so many flows made of the link.
fn sharing(options: &Options, link: Conditions, count: usize) -> String {
    let policy = Policy::Tide(Arc::new(Params::default()));
    let (mut used, mut fairness, mut queue, mut drops) = (0.0, Vec::new(), Vec::new(), 0.0);
    for seed in 1..=SHARED_SEEDS {
        let setup = Setup {
            forward: link,
            back: Conditions { rate: 0, ..link },
            warm_up: Duration::from_secs(20),
            measured: Duration::from_secs(if options.quick { 10 } else { 40 }),
            seed,
        };
        let outcome = run(&setup, equal(&policy, 1000, count));
        let shares = shares(&setup, &outcome);
        used += 100.0 * shares.iter().sum::<f64>();
        fairness.push(jain(&shares));
        queue.extend(outcome.queue_ms());
        drops += dropped(&outcome);
    }
    queue.sort_by(f64::total_cmp);
    let runs = SHARED_SEEDS as f64;
    format!(
        "{:.1} % | {:.3} / {:.3} | {:.1} | {:.2} %",
        used / runs,
        fairness.iter().copied().fold(f64::INFINITY, f64::min),
        fairness.iter().sum::<f64>() / runs,
        quantile(&queue, 0.95),
        drops / runs
    )
}

/// Runs of a row of several flows.
const SHARED_SEEDS: u64 = 6;

/// Runs of a row: those that chance keeps slow are a few in a hundred.
const SEEDS: u64 = 20;
