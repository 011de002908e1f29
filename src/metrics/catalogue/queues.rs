//! What waits, and what was dropped.

use super::{DIRECTION, LISTENER};
use crate::counters::Direction;
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::series::{each_direction, each_listener};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_peers_blocked",
        kind: Gauge,
        labels: DIRECTION,
        help: "Peers whose queue in this direction is full now.",
        read: |source, out| each_direction(source, out, |c| c.peers_blocked),
    },
    Family {
        name: "tidegate_backpressure_seconds_total",
        kind: Counter,
        labels: DIRECTION,
        help: "Peer-seconds spent with a full queue.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for direction in Direction::ALL {
                    let spent = listener.counters.backpressure[direction as usize];
                    let labels = [listener.about.name.as_str(), direction.label()];
                    out.add(&labels, spent.as_secs_f64());
                }
            }
        },
    },
    Family {
        name: "tidegate_queued_bytes",
        kind: Gauge,
        labels: DIRECTION,
        help: "Bytes waiting in queues.",
        read: |source, out| each_direction(source, out, |c| c.queued_bytes),
    },
    Family {
        name: "tidegate_queued_bytes_most",
        kind: Gauge,
        labels: &[],
        help: "Most bytes that all queues together have held since the start.",
        read: |source, out| out.add(&[], source.snapshot.most_queued_bytes as f64),
    },
    Family {
        name: "tidegate_peers_held_back",
        kind: Gauge,
        labels: LISTENER,
        help: "Peers with a queue at its share of the remaining queue memory: it may not grow.",
        read: |source, out| each_listener(source, out, |c| c.peers_held_back),
    },
    Family {
        name: "tidegate_queued_bytes_limit",
        kind: Gauge,
        labels: &[],
        help: "Bytes that all queues together may hold.",
        read: |source, out| out.add(&[], source.snapshot.queue_memory_bytes as f64),
    },
];
