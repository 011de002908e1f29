//! The tables of bulk where the delay swings, which looks like a queue and is none: one flow, and several.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::bottleneck::{dropped, equal, jain, shares};
use crate::end::BULK;
use crate::paths::narrow;
use crate::run::{App, Flow, Setup, quantile, run};
use crate::table::table;
use crate::{Options, Policy};

/// One bulk flow, by the rate of the link, how far the delay swings and how much is lost.
pub(crate) fn swinging(options: &Options) {
    if !options.wants("jitter") {
        return;
    }
    let links = [(0.2, 1000.0), (1.0, 300.0), (10.0, 100.0), (100.0, 50.0)];
    let rows = by_jitter(&links, [0, 5, 15]);
    let columns = [0.0, 0.01].map(|loss| (format!("{:.0} % loss", loss * 100.0), loss));
    let title = format!("bulk of tidegate where the delay swings, RTT 50 ms, {SEEDS} runs each");
    let note = "use least / median in %; queue p95 in ms";
    table(
        (&title, note),
        ("link, jitter each way", &rows),
        &columns,
        |&link, &loss| {
            let (used, queue) = runs(options, Conditions { loss, ..link });
            let [median, p95] = [quantile(&used, 0.5), quantile(&queue, 0.95)];
            format!("{:.1} / {median:.1}; {p95:.1}", used[0])
        },
    );
}

/// Each of these links, of so many Mbit/s and with a queue of so many ms, with each jitter.
fn by_jitter(links: &[(f64, f64)], jitters_ms: [u64; 3]) -> Vec<(String, Conditions)> {
    let rows = links.iter().flat_map(|&(mbit, queue_ms)| {
        jitters_ms.map(|jitter_ms| {
            let link = Conditions {
                jitter: Duration::from_millis(jitter_ms),
                ..narrow(50, mbit, queue_ms, 0.0)
            };
            (format!("{mbit} Mbit/s, {jitter_ms} ms"), link)
        })
    });
    rows.collect()
}

/// What was used of the link, in percent, run by run; and how long its queue was, in ms, in all of them. Both sorted.
fn runs(options: &Options, link: Conditions) -> (Vec<f64>, Vec<f64>) {
    let policy = Policy::Tide(Arc::new(Params::default()));
    let (mut used, mut queue) = (Vec::new(), Vec::new());
    for seed in 1..=SEEDS {
        let setup = Setup {
            forward: link,
            back: Conditions { rate: 0, ..link },
            longer_by: Duration::ZERO,
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
    if !options.wants("jitter") {
        return;
    }
    let rows = by_jitter(&[(10.0, 100.0), (50.0, 50.0)], [5, 10, 15]);
    let columns = [2, 4, 16].map(|count| (count, count));
    let title = format!(
        "N equal bulk flows of tidegate where the delay swings, RTT 50 ms, {SHARED_SEEDS} runs each"
    );
    let note = "by N: use; fairness (Jain) least / mean; queue p95 in ms; drops";
    let corner = "link, jitter each way";
    table(
        (&title, note),
        (corner, &rows),
        &columns,
        |&link, &count| sharing(options, link, count),
    );
}

/// What so many flows made of the link.
fn sharing(options: &Options, link: Conditions, count: usize) -> String {
    let policy = Policy::Tide(Arc::new(Params::default()));
    let (mut used, mut fairness, mut queue, mut drops) = (0.0, Vec::new(), Vec::new(), 0.0);
    for seed in 1..=SHARED_SEEDS {
        let setup = Setup {
            forward: link,
            back: Conditions { rate: 0, ..link },
            longer_by: Duration::ZERO,
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
        "{:.1} %; {:.3} / {:.3}; {:.1}; {:.2} %",
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
