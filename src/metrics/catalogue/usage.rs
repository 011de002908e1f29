//! What the kernel says of the process, under the names that Prometheus' own clients use.

use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "process_cpu_seconds_total",
        kind: Counter,
        labels: &[],
        help: "CPU time, user and system.",
        read: |source, out| out.add(&[], source.usage.cpu_seconds),
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: Gauge,
        labels: &[],
        help: "Memory in RAM.",
        read: |source, out| out.add_known(source.usage.resident_bytes.map(|it| it as f64)),
    },
    Family {
        name: "process_open_fds",
        kind: Gauge,
        labels: &[],
        help: "Open file descriptors.",
        read: |source, out| out.add_known(source.usage.open_fds.map(|it| it as f64)),
    },
    Family {
        name: "process_max_fds",
        kind: Gauge,
        labels: &[],
        help: "Open file descriptors at most.",
        read: |source, out| out.add_known(source.usage.max_fds.map(|it| it as f64)),
    },
    Family {
        name: "process_threads",
        kind: Gauge,
        labels: &[],
        help: "Threads.",
        read: |source, out| out.add_known(source.usage.threads.map(|it| it as f64)),
    },
    Family {
        name: "process_start_time_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the process started, in seconds since 1970.",
        read: |source, out| {
            out.add(&[], source.snapshot.started_unix as f64);
        },
    },
];
