//! Backends and their targets.

use super::TARGET;
use crate::counters::{ClosedBy, ConnectFailure};
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge, Histogram as Distribution};
use crate::metrics::series::{each_target, each_target_by};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_backend_up",
        kind: Gauge,
        labels: TARGET,
        help: "1 while the target takes connections, by the health checks; without them, 0 after five connects in a row that failed.",
        read: |source, out| {
            // Nobody asks any more whether one is there that a reload removed.
            for backend in &source.snapshot.backends {
                for target in backend.in_use() {
                    out.add(&[&backend.name, &target.name], f64::from(target.state.up));
                }
            }
        },
    },
    Family {
        name: "tidegate_backend_addresses",
        kind: Gauge,
        labels: &["backend", "target", "state"],
        help: "Addresses that the target resolves to, by whether they take connections; the target is up while one does.",
        read: |source, out| {
            each_target_by(source, out, &["up", "down"], |t| {
                let (all, up) = (t.state.addresses, t.state.addresses_up);
                [up as u64, (all - up) as u64]
            });
        },
    },
    Family {
        name: "tidegate_backend_draining",
        kind: Gauge,
        labels: TARGET,
        help: "1 while the target is taken out of rotation by hand.",
        read: |source, out| each_target(source, out, |t| u64::from(t.state.draining)),
    },
    Family {
        name: "tidegate_backend_connections",
        kind: Gauge,
        labels: TARGET,
        help: "Connections open now.",
        read: |source, out| each_target(source, out, |t| t.counters.connections),
    },
    Family {
        name: "tidegate_backend_connections_total",
        kind: Counter,
        labels: TARGET,
        help: "Connections made.",
        read: |source, out| each_target(source, out, |t| t.counters.connects),
    },
    Family {
        name: "tidegate_backend_connect_failures_total",
        kind: Counter,
        labels: &["backend", "target", "reason"],
        help: "Connections that were not made.",
        read: |source, out| {
            let reasons = ConnectFailure::ALL.map(ConnectFailure::label);
            each_target_by(source, out, &reasons, |t| t.counters.connect_failures);
        },
    },
    Family {
        name: "tidegate_backend_connect_duration_seconds",
        kind: Distribution,
        labels: &["backend"],
        help: "How long successful connects took.",
        read: |source, out| {
            for backend in &source.snapshot.backends {
                out.add_histogram(&[&backend.name], &backend.connect_duration);
            }
        },
    },
    Family {
        name: "tidegate_backend_closes_total",
        kind: Counter,
        labels: &["backend", "target", "by"],
        help: "Connections ended, by whom.",
        read: |source, out| {
            let by = ClosedBy::ALL.map(ClosedBy::label);
            each_target_by(source, out, &by, |t| t.counters.closes);
        },
    },
    Family {
        name: "tidegate_backend_received_bytes_total",
        kind: Counter,
        labels: TARGET,
        help: "Stream bytes from the backend, framing included.",
        read: |source, out| each_target(source, out, |t| t.counters.bytes_received),
    },
    Family {
        name: "tidegate_backend_sent_bytes_total",
        kind: Counter,
        labels: TARGET,
        help: "Stream bytes to the backend, framing included.",
        read: |source, out| each_target(source, out, |t| t.counters.bytes_sent),
    },
    Family {
        name: "tidegate_backend_health_checks_total",
        kind: Counter,
        labels: &["backend", "target", "result"],
        help: "Health checks run.",
        read: |source, out| {
            each_target_by(source, out, &["ok", "failed"], |t| {
                [t.state.checks_ok, t.state.checks_failed]
            });
        },
    },
];
