//! The closed list of reasons why a session ended.

/// Why a session ended. A closed list, the same in logs, metrics and on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    // -- the peer
    /// The peer said goodbye.
    PeerDisconnect,
    /// The peer was silent for the whole timeout.
    PeerTimeout,
    /// The peer stopped acknowledging while data was outstanding.
    PeerStalled,
    /// The peer left a gap in its messages open for too long.
    PeerGapStall,
    /// The peer broke the protocol.
    ProtocolViolation,
    /// A message the peer forgot before we received it (rudp).
    PeerHistoryExpired,
    // -- the backend
    /// The backend refused the connection.
    BackendRefused,
    /// The backend cannot be reached.
    BackendUnreachable,
    /// The backend did not answer the connect in time.
    BackendConnectTimeout,
    /// The backend closed its side; everything it wrote was delivered.
    BackendClosed,
    /// The backend's connection broke.
    BackendReset,
    /// The backend stopped reading.
    BackendStalled,
    /// The backend wrote something that is not a frame.
    BackendProtocolError,
    /// A message that fits no frame, or a frame that fits no message.
    MessageTooLarge,
    // -- us
    /// Memory or descriptors ran out.
    Overload,
    /// A newer session of the same client took its place.
    Replaced,
    /// The operator ended it.
    Kicked,
    /// The operator banned it.
    Banned,
    /// The drain's grace was over.
    Drain,
    /// The process ends at once.
    Shutdown,
    // -- only when we dial
    /// The server denied the connection (full, or its backend is away).
    Denied,
    /// The server never answered the connection request.
    ConnectTimeout,
    /// The connect token ran out before the server answered.
    TokenExpired,
}

impl CloseReason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 23] = [
        Self::PeerDisconnect,
        Self::PeerTimeout,
        Self::PeerStalled,
        Self::PeerGapStall,
        Self::ProtocolViolation,
        Self::PeerHistoryExpired,
        Self::BackendRefused,
        Self::BackendUnreachable,
        Self::BackendConnectTimeout,
        Self::BackendClosed,
        Self::BackendReset,
        Self::BackendStalled,
        Self::BackendProtocolError,
        Self::MessageTooLarge,
        Self::Overload,
        Self::Replaced,
        Self::Kicked,
        Self::Banned,
        Self::Drain,
        Self::Shutdown,
        Self::Denied,
        Self::ConnectTimeout,
        Self::TokenExpired,
    ];

    /// The metric label and log field.
    pub const fn label(self) -> &'static str {
        match self {
            Self::PeerDisconnect => "peer_disconnect",
            Self::PeerTimeout => "peer_timeout",
            Self::PeerStalled => "peer_stalled",
            Self::PeerGapStall => "peer_gap_stall",
            Self::ProtocolViolation => "protocol_violation",
            Self::PeerHistoryExpired => "peer_history_expired",
            Self::BackendRefused => "backend_refused",
            Self::BackendUnreachable => "backend_unreachable",
            Self::BackendConnectTimeout => "backend_connect_timeout",
            Self::BackendClosed => "backend_closed",
            Self::BackendReset => "backend_reset",
            Self::BackendStalled => "backend_stalled",
            Self::BackendProtocolError => "backend_protocol_error",
            Self::MessageTooLarge => "message_too_large",
            Self::Overload => "overload",
            Self::Replaced => "replaced",
            Self::Kicked => "kicked",
            Self::Banned => "banned",
            Self::Drain => "drain",
            Self::Shutdown => "shutdown",
            Self::Denied => "denied",
            Self::ConnectTimeout => "connect_timeout",
            Self::TokenExpired => "token_expired",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_unique_and_complete() {
        let labels: BTreeSet<_> = CloseReason::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(labels.len(), CloseReason::ALL.len());
        for (index, reason) in CloseReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index, "ALL is in the order of the enum");
        }
    }
}
