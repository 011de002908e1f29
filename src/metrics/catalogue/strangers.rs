//! Strangers: who is kept out, and where their quotas stand.

use super::LISTENER;
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::series::{each_listener, each_listener_by};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_limiter_keys",
        kind: Gauge,
        labels: LISTENER,
        help: "Buckets of the address table that are not full again yet, over all workers.",
        read: |source, out| each_listener(source, out, |c| c.admission.buckets_used),
    },
    Family {
        name: "tidegate_limiter_capacity",
        kind: Gauge,
        labels: LISTENER,
        help: "Buckets of the address table, over all workers.",
        read: |source, out| each_listener(source, out, |c| c.admission.buckets),
    },
    Family {
        name: "tidegate_limiter_shared_total",
        kind: Counter,
        labels: LISTENER,
        help: "Strangers that share a bucket with another address prefix.",
        read: |source, out| each_listener(source, out, |c| c.admission.buckets_shared),
    },
    Family {
        name: "tidegate_bans",
        kind: Gauge,
        labels: LISTENER,
        help: "Bans in force at this listener; a manual one is in force at every listener.",
        read: |source, out| each_listener(source, out, |c| c.admission.bans),
    },
    Family {
        name: "tidegate_bans_total",
        kind: Counter,
        labels: &["listener", "source"],
        help: "Bans issued at this listener; a manual one counts once at every listener.",
        read: |source, out| {
            each_listener_by(source, out, &["operator", "strikes"], |c| {
                [c.admission.bans_by_operator, c.admission.bans_by_strikes]
            });
        },
    },
];
