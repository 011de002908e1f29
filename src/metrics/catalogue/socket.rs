//! The sockets of the listeners, and what came by them in vain.

use tidegate_proto::Reject;

use super::LISTENER;
use super::peers::ends_handshake;
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge};
use crate::metrics::series::{each_listener, each_listener_by};
use crate::udp::UdpError;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_udp_received_packets_total",
        kind: Counter,
        labels: LISTENER,
        help: "Datagrams read from the socket.",
        read: |source, out| each_listener(source, out, |c| c.datagrams_received),
    },
    Family {
        name: "tidegate_udp_received_bytes_total",
        kind: Counter,
        labels: LISTENER,
        help: "UDP payload bytes of those datagrams.",
        read: |source, out| each_listener(source, out, |c| c.datagram_bytes_received),
    },
    Family {
        name: "tidegate_udp_sent_packets_total",
        kind: Counter,
        labels: LISTENER,
        help: "Datagrams handed to the kernel.",
        read: |source, out| each_listener(source, out, |c| c.sent.datagrams),
    },
    Family {
        name: "tidegate_udp_sent_bytes_total",
        kind: Counter,
        labels: LISTENER,
        help: "UDP payload bytes of those datagrams.",
        read: |source, out| each_listener(source, out, |c| c.sent.bytes),
    },
    Family {
        name: "tidegate_udp_receive_calls_total",
        kind: Counter,
        labels: LISTENER,
        help: "Receive system calls that returned data; packets / calls is the size of a batch.",
        read: |source, out| each_listener(source, out, |c| c.receive_calls),
    },
    Family {
        name: "tidegate_udp_send_calls_total",
        kind: Counter,
        labels: LISTENER,
        help: "Send system calls.",
        read: |source, out| each_listener(source, out, |c| c.sent.calls),
    },
    Family {
        name: "tidegate_udp_send_errors_total",
        kind: Counter,
        labels: &["listener", "kind"],
        help: "Datagrams the kernel did not take.",
        read: |source, out| {
            let kinds = UdpError::ALL.map(UdpError::label);
            each_listener_by(source, out, &kinds, |c| c.sent.errors.0);
        },
    },
    Family {
        name: "tidegate_udp_rejected_packets_total",
        kind: Counter,
        labels: &["listener", "reason"],
        help: "Datagrams that changed nothing, other than handshakes (see tidegate_handshakes_total).",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for reject in Reject::ALL.into_iter().filter(|r| !ends_handshake(*r)) {
                    let count = listener.counters.rejects[reject as usize];
                    out.add(&[&listener.about.name, reject.label()], count as f64);
                }
            }
        },
    },
    Family {
        name: "tidegate_udp_socket_dropped_packets_total",
        kind: Counter,
        labels: LISTENER,
        help: "Datagrams the kernel dropped because the socket's receive queue was full.",
        read: |source, out| each_listener(source, out, |c| c.kernel_drops),
    },
    Family {
        name: "tidegate_udp_socket_buffer_bytes",
        kind: Gauge,
        labels: &["listener", "direction"],
        help: "Socket buffers the kernel granted, over all workers.",
        read: |source, out| {
            each_listener_by(source, out, &["in", "out"], |c| {
                [c.receive_buffer_bytes, c.send_buffer_bytes]
            });
        },
    },
];
