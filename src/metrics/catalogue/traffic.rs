//! Packets and messages.

use super::{DIRECTION, LISTENER};
use crate::counters::{Direction, DropReason};
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Histogram as Distribution};
use crate::metrics::series::{each_direction, each_listener, each_listener_by};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_packets_acked_total",
        kind: Counter,
        labels: LISTENER,
        help: "Own packets known to have arrived.",
        read: |source, out| each_listener(source, out, |c| c.sessions.packets_acked),
    },
    Family {
        name: "tidegate_packets_lost_total",
        kind: Counter,
        labels: LISTENER,
        help: "Own packets counted as lost.",
        read: |source, out| each_listener(source, out, |c| c.sessions.packets_lost),
    },
    Family {
        name: "tidegate_packets_late_total",
        kind: Counter,
        labels: &["listener", "kind"],
        help: "Packets received twice, or after a newer one. Duplicates from a yojimbo peer count as \
               rejected datagrams instead, reason replayed.",
        read: |source, out| {
            each_listener_by(source, out, &["duplicate", "out_of_order"], |c| {
                [
                    c.sessions.packets_duplicate,
                    c.sessions.packets_out_of_order,
                ]
            });
        },
    },
    Family {
        name: "tidegate_fragments_received_total",
        kind: Counter,
        labels: LISTENER,
        help: "Fragments received.",
        read: |source, out| each_listener(source, out, |c| c.sessions.fragments_received),
    },
    Family {
        name: "tidegate_reassembly_failures_total",
        kind: Counter,
        labels: LISTENER,
        help: "Packets or blocks whose fragments never became whole.",
        read: |source, out| each_listener(source, out, |c| c.sessions.reassembly_failures),
    },
    Family {
        name: "tidegate_messages_sent_total",
        kind: Counter,
        labels: &["listener", "reliability"],
        help: "Messages first put into a packet.",
        read: |source, out| {
            each_listener_by(source, out, &["reliable", "unreliable"], |c| {
                [
                    c.sessions.messages_sent_reliable,
                    c.sessions.messages_sent_unreliable,
                ]
            });
        },
    },
    Family {
        name: "tidegate_messages_resent_total",
        kind: Counter,
        labels: &["listener", "why"],
        help: "Reliable messages, and fragments of long ones, put into a packet again: after a loss, or ahead of one.",
        read: |source, out| {
            each_listener_by(source, out, &["loss", "ahead"], |c| {
                [c.sessions.messages_resent, c.sessions.messages_repeated]
            });
        },
    },
    Family {
        name: "tidegate_messages_forwarded_total",
        kind: Counter,
        labels: DIRECTION,
        help: "Messages handed to the other side.",
        read: |source, out| each_direction(source, out, |c| c.messages_forwarded),
    },
    Family {
        name: "tidegate_message_bytes_forwarded_total",
        kind: Counter,
        labels: DIRECTION,
        help: "Payload bytes of those messages.",
        read: |source, out| each_direction(source, out, |c| c.message_bytes_forwarded),
    },
    Family {
        name: "tidegate_messages_dropped_total",
        kind: Counter,
        labels: &["listener", "direction", "reason"],
        help: "Messages that went no further. Reliable ones only because their session ended.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for direction in Direction::ALL {
                    for reason in DropReason::ALL {
                        let dropped = &listener.counters.messages_dropped;
                        let count = dropped[direction as usize][reason as usize];
                        let name = listener.about.name.as_str();
                        out.add(&[name, direction.label(), reason.label()], count as f64);
                    }
                }
            }
        },
    },
    Family {
        name: "tidegate_unreliable_messages_dropped_total",
        kind: Counter,
        labels: LISTENER,
        help: "Unreliable messages that a protocol's own queue dropped.",
        read: |source, out| each_listener(source, out, |c| c.sessions.unreliable_dropped),
    },
    Family {
        name: "tidegate_messages_skipped_total",
        kind: Counter,
        labels: LISTENER,
        help: "Messages that a rudp peer forgot before they arrived, with on_missing = \"skip\".",
        read: |source, out| each_listener(source, out, |c| c.sessions.messages_skipped),
    },
    Family {
        name: "tidegate_forward_duration_seconds",
        kind: Distribution,
        labels: DIRECTION,
        help: "Time from reading a message to writing it, without time in queues: one sample per message, the length of the worker's whole turn, which is an upper bound.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for direction in Direction::ALL {
                    let labels = [listener.about.name.as_str(), direction.label()];
                    let duration = &listener.counters.forward_duration[direction as usize];
                    out.add_histogram(&labels, duration);
                }
            }
        },
    },
];
