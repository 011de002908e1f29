//! The closed list of reasons why a datagram went no further.

/// Why a datagram went no further. One variant, one metric label, one log field, one test name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reject {
    // -- before any protocol looks at it
    /// A source we never answer: port 0, multicast, broadcast, unspecified, one of ours.
    BadSource,
    /// Not in the allow list, or in the deny list.
    SourceDenied,
    /// Banned by the operator or by strikes.
    Banned,
    /// The source prefix used up its handshakes.
    SourceLimited,
    /// The listener used up its handshakes.
    ListenerLimited,
    /// The peer used up its packets, bytes or messages.
    PeerLimited,
    // -- what any protocol can say
    /// Empty, too short, too long, or otherwise not of this protocol's shape.
    Malformed,
    /// Another version or protocol id.
    WrongProtocol,
    /// A packet of a session that does not exist (any more).
    UnknownPeer,
    /// Well-formed, but not now or not from this side.
    Unexpected,
    /// The authentication tag is wrong.
    DecryptFailed,
    /// Seen before: the sequence is in the replay window.
    Replayed,
    /// Older than the window, or a duplicate inside it.
    Stale,
    /// Not taken, so not acknowledged: the inbox or window is full. The peer will send it again.
    Refused,
    /// Authenticated, but breaks the protocol; the session ends.
    ProtocolError,
    /// Acknowledges what was never sent.
    BadAck,
    /// A fragment that does not fit its packet.
    BadFragment,
    // -- handshakes
    /// The connect token has expired.
    TokenExpired,
    /// The connect token expires later than any genuine one could.
    TokenFuture,
    /// The connect token may have been used before we started (netcode's restart rule).
    TokenBeforeStart,
    /// The connect token was not made with our key, or was altered.
    TokenKey,
    /// The connect token does not list this server's public address.
    TokenAddress,
    /// The connect token has already carried a session.
    TokenReused,
    /// The connect token was presented from another address before.
    TokenOtherAddress,
    /// No room to remember another connect token.
    TokenHistoryFull,
    /// The connect token is well made but says something impossible.
    TokenInvalid,
    /// A session of this client id is live.
    ClientIdInUse,
    /// The response does not answer our challenge.
    ChallengeFailed,
    /// Too many handshakes under way.
    HandshakesFull,
    /// No free slot.
    Full,
    /// We are going; no new peers.
    Draining,
    /// The source did not answer our probe (gaffer, rudp).
    Unproven,
}

impl Reject {
    /// Every reason, in the order of the enum: metric series exist at zero from the start.
    pub const ALL: [Self; 32] = [
        Self::BadSource,
        Self::SourceDenied,
        Self::Banned,
        Self::SourceLimited,
        Self::ListenerLimited,
        Self::PeerLimited,
        Self::Malformed,
        Self::WrongProtocol,
        Self::UnknownPeer,
        Self::Unexpected,
        Self::DecryptFailed,
        Self::Replayed,
        Self::Stale,
        Self::Refused,
        Self::ProtocolError,
        Self::BadAck,
        Self::BadFragment,
        Self::TokenExpired,
        Self::TokenFuture,
        Self::TokenBeforeStart,
        Self::TokenKey,
        Self::TokenAddress,
        Self::TokenReused,
        Self::TokenOtherAddress,
        Self::TokenHistoryFull,
        Self::TokenInvalid,
        Self::ClientIdInUse,
        Self::ChallengeFailed,
        Self::HandshakesFull,
        Self::Full,
        Self::Draining,
        Self::Unproven,
    ];

    /// Whether whoever named a peer's address may have made, or repeated, a datagram that went no further for this.
    pub const fn proves_no_sender(self) -> bool {
        matches!(
            self,
            Self::Malformed
                | Self::WrongProtocol
                | Self::UnknownPeer
                | Self::Unexpected
                | Self::DecryptFailed
                | Self::Replayed
        )
    }

    /// The metric label and log field.
    pub const fn label(self) -> &'static str {
        match self {
            Self::BadSource => "bad_source",
            Self::SourceDenied => "source_denied",
            Self::Banned => "banned",
            Self::SourceLimited => "source_limited",
            Self::ListenerLimited => "listener_limited",
            Self::PeerLimited => "peer_limited",
            Self::Malformed => "malformed",
            Self::WrongProtocol => "wrong_protocol",
            Self::UnknownPeer => "unknown_peer",
            Self::Unexpected => "unexpected",
            Self::DecryptFailed => "decrypt_failed",
            Self::Replayed => "replayed",
            Self::Stale => "stale",
            Self::Refused => "refused",
            Self::ProtocolError => "protocol_error",
            Self::BadAck => "bad_ack",
            Self::BadFragment => "bad_fragment",
            Self::TokenExpired => "token_expired",
            Self::TokenFuture => "token_future",
            Self::TokenBeforeStart => "token_before_start",
            Self::TokenKey => "token_key",
            Self::TokenAddress => "token_address",
            Self::TokenReused => "token_reused",
            Self::TokenOtherAddress => "token_other_address",
            Self::TokenHistoryFull => "token_history_full",
            Self::TokenInvalid => "token_invalid",
            Self::ClientIdInUse => "client_id_in_use",
            Self::ChallengeFailed => "challenge_failed",
            Self::HandshakesFull => "handshakes_full",
            Self::Full => "full",
            Self::Draining => "draining",
            Self::Unproven => "unproven",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_unique_and_complete() {
        let labels: BTreeSet<_> = Reject::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(labels.len(), Reject::ALL.len());
        for (index, reject) in Reject::ALL.iter().enumerate() {
            assert_eq!(*reject as usize, index, "ALL is in the order of the enum");
        }
    }
}
