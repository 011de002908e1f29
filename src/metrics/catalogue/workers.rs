//! Workers.

use super::WORKER;
use crate::counters::{Histogram, buckets};
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge, Histogram as Distribution};
use crate::metrics::series::each_worker;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_worker_busy_seconds_total",
        kind: Counter,
        labels: WORKER,
        help: "Time the worker was busy. A worker serves its share of every listener.",
        read: |source, out| each_worker(source, out, |w| w.busy.as_secs_f64()),
    },
    Family {
        name: "tidegate_worker_peers",
        kind: Gauge,
        labels: WORKER,
        help: "Sessions of each worker.",
        read: |source, out| each_worker(source, out, |w| w.peers as f64),
    },
    Family {
        name: "tidegate_worker_tick_lag_seconds",
        kind: Distribution,
        labels: &[],
        help: "How late timers fire, all workers.",
        read: |source, out| {
            let mut sum = Histogram::new(buckets::TICK_LAG);
            for listener in &source.snapshot.listeners {
                sum.merge(&listener.counters.tick_lag);
            }
            out.add_histogram(&[], &sum);
        },
    },
];
