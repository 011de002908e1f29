//! Peers: how they come, how they are, how they go.

use tidegate_proto::{CloseReason, Reject};

use super::{LISTENER, MODES};
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge, Histogram as Distribution};
use crate::metrics::series::{each_distribution, each_listener, each_listener_by};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_handshakes_total",
        kind: Counter,
        labels: &["listener", "result"],
        help: "Handshakes that ended, by result. Peers repeat a refused request, and each repetition counts.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                let name = listener.about.name.as_str();
                let accepted = listener.counters.handshakes_accepted;
                out.add(&[name, "accepted"], accepted as f64);
                for reject in Reject::ALL.into_iter().filter(|r| ends_handshake(*r)) {
                    let count = listener.counters.rejects[reject as usize];
                    out.add(&[name, reject.label()], count as f64);
                }
            }
        },
    },
    Family {
        name: "tidegate_handshakes_pending",
        kind: Gauge,
        labels: LISTENER,
        help: "Handshakes under way.",
        read: |source, out| each_listener(source, out, |c| c.handshakes_pending),
    },
    Family {
        name: "tidegate_handshake_duration_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "Time from the proof of a peer's address until it is told that it is connected: the wait for the backend, without network round trips.",
        read: |source, out| each_distribution(source, out, |c| &c.handshake_duration),
    },
    Family {
        name: "tidegate_peers",
        kind: Gauge,
        labels: LISTENER,
        help: "Sessions now, and those that have ended but still deliver to their backend.",
        read: |source, out| each_listener(source, out, |c| c.peers),
    },
    Family {
        name: "tidegate_peers_limit",
        kind: Gauge,
        labels: LISTENER,
        help: "Sessions at most, without those that have ended.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                out.add(&[&listener.about.name], listener.about.peers_max as f64);
            }
        },
    },
    Family {
        name: "tidegate_process_peers_limit",
        kind: Gauge,
        labels: &[],
        help: "Sessions at most over all listeners: the smaller of their limits together and runtime.max_peers, which counts those too that have ended but still deliver.",
        read: |source, out| out.add(&[], source.snapshot.peers_limit() as f64),
    },
    Family {
        name: "tidegate_peer_sessions_total",
        kind: Counter,
        labels: LISTENER,
        help: "Sessions begun.",
        read: |source, out| each_listener(source, out, |c| c.sessions_opened),
    },
    Family {
        name: "tidegate_peer_disconnects_total",
        kind: Counter,
        labels: &["listener", "reason"],
        help: "Sessions ended, by reason.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for reason in CloseReason::ALL.into_iter().filter(|r| !is_for_dialers(*r)) {
                    let count = listener.counters.sessions_closed[reason as usize];
                    out.add(&[&listener.about.name, reason.label()], count as f64);
                }
            }
        },
    },
    Family {
        name: "tidegate_peer_session_duration_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "How long sessions lasted, counted when they end.",
        read: |source, out| each_distribution(source, out, |c| &c.session_duration),
    },
    Family {
        name: "tidegate_peer_address_changes_total",
        kind: Counter,
        labels: LISTENER,
        help: "Sessions that followed their peer to another address.",
        read: |source, out| each_listener(source, out, |c| c.address_moves),
    },
    Family {
        name: "tidegate_peer_rtt_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "Smoothed round trip, one sample per peer and second. With rudp, a tick of the peer is part of it.",
        read: |source, out| each_distribution(source, out, |c| &c.rtt),
    },
    Family {
        name: "tidegate_peer_jitter_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "Mean deviation of the time until an acknowledgement comes, what the peer holds back included, one sample per peer and second.",
        read: |source, out| each_distribution(source, out, |c| &c.jitter),
    },
    Family {
        name: "tidegate_peer_loss_ratio",
        kind: Distribution,
        labels: LISTENER,
        help: "Share of own packets that get lost, 0 to 1, one sample per peer and second; not known with rudp.",
        read: |source, out| each_distribution(source, out, |c| &c.loss),
    },
    Family {
        name: "tidegate_peers_in_mode",
        kind: Gauge,
        labels: &["listener", "mode"],
        help: "Peers by the rate they are sent at.",
        read: |source, out| {
            each_listener_by(source, out, MODES, |c| {
                [
                    c.peers.saturating_sub(c.peers_in_bad_mode),
                    c.peers_in_bad_mode,
                ]
            });
        },
    },
    Family {
        name: "tidegate_mode_changes_total",
        kind: Counter,
        labels: &["listener", "to"],
        help: "Switches between good and bad mode.",
        read: |source, out| {
            each_listener_by(source, out, MODES, |c| {
                [c.sessions.mode_to_good, c.sessions.mode_to_bad]
            });
        },
    },
];

/// Whether a reject is the end of a handshake: such are results of `tidegate_handshakes_total`, all
/// others reasons of `tidegate_udp_rejected_packets_total`, and none is both, so that the two add up
/// to the datagrams that changed nothing.
pub(super) const fn ends_handshake(reject: Reject) -> bool {
    match reject {
        Reject::BadSource
        | Reject::SourceDenied
        | Reject::Banned
        | Reject::SourceLimited
        | Reject::ListenerLimited
        | Reject::PeerLimited
        | Reject::Malformed
        | Reject::WrongProtocol
        | Reject::UnknownPeer
        | Reject::Unexpected
        | Reject::DecryptFailed
        | Reject::Replayed
        | Reject::Stale
        | Reject::Refused
        | Reject::ProtocolError
        | Reject::BadAck
        | Reject::BadFragment => false,
        Reject::TokenExpired
        | Reject::TokenFuture
        | Reject::TokenBeforeStart
        | Reject::TokenKey
        | Reject::TokenAddress
        | Reject::TokenReused
        | Reject::TokenOtherAddress
        | Reject::TokenHistoryFull
        | Reject::TokenInvalid
        | Reject::ClientIdInUse
        | Reject::ChallengeFailed
        | Reject::HandshakesFull
        | Reject::Full
        | Reject::Draining
        | Reject::Unproven => true,
    }
}

/// Whether only `tidegate connect` can see this reason; a listener's sessions are never dialled.
const fn is_for_dialers(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::Denied | CloseReason::ConnectTimeout | CloseReason::TokenExpired
    )
}
