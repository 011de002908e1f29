//! The two interfaces everything hangs on: [`Session`], one peer's protocol state, and
//! [`Acceptor`], which decides what a datagram from a stranger is worth.
//!
//! ```text
//!            handle_datagram  handle_timeout  admit  send  finish  close
//!                   │               │           │     │      │      │      what happened
//!                   ▼               ▼           ▼     ▼      ▼      ▼
//!            ┌───────────────────────────────────────────────────────────┐
//!            │                         Session                           │
//!            └───────────────────────────────────────────────────────────┘
//!                   │               │                 │         │          what to do about it
//!                   ▼               ▼                 ▼         ▼
//!             poll_transmit    poll_event       poll_message  poll_timeout
//! ```
//!
//! The life of a session, whatever its protocol:
//!
//! ```text
//!   new ──▶ proving ──Event::Authenticated──▶ waiting ──admit()──▶ open ──Event::Connected
//!              │                                 │                  │
//!              │                                 │ close()          │ finish(): flush what was sent,
//!              ▼                                 ▼                  ▼ then say goodbye
//!           closed ◀──────────────────────── Event::Closed(reason) ─┘
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use crate::stats::Stats;
use crate::time::{Deadline, Now};

/// One peer's protocol state.
///
/// Contract: after any call that changes it (`handle_*`, `admit`, `send`, `finish`, `close`), the
/// owner polls `poll_transmit` and `poll_event` until they are dry and then reads `poll_timeout`.
/// `poll_message` is different: it is polled only while the far side of the relay has room, and
/// not polling it is the back-pressure (see [`Session::poll_message`]).
pub trait Session: Send {
    /// A datagram arrived from this session's address. May decrypt it in place.
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject>;

    /// A deadline has passed. Harmless when called early or often.
    fn handle_timeout(&mut self, now: Now);

    /// The backend of an authenticated peer is there: seat it. Does nothing in any other state.
    fn admit(&mut self, now: Now);

    /// Queues one message for the peer. Nothing is queued when an error is returned.
    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError>;

    /// Takes nothing more from the owner, delivers what was sent, then closes with `reason`; after
    /// `linger` without any progress it closes even if some of it was not acknowledged.
    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration);

    /// Says goodbye in whatever way the protocol has and is over. A session that was never admitted
    /// denies instead, where its protocol can.
    fn close(&mut self, now: Now, reason: CloseReason);

    /// Appends exactly one datagram to `out` and returns true, or leaves it alone and returns false.
    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool;

    /// The next thing the owner should know. [`Event::Closed`] is the last one, and comes once.
    fn poll_event(&mut self) -> Option<Event>;

    /// The next message from the peer, in order, at most once. Taken when returned.
    ///
    /// What is not polled stays in the session's bounded inbox; when that is full the session
    /// stops acknowledging, so that the peer keeps what we cannot. That is the whole back-pressure.
    /// Still polled after `Event::Closed`: what the peer was told we have must be delivered.
    fn poll_message(&mut self) -> Option<Message<'_>>;

    /// Bytes of messages that `poll_message` still holds.
    fn inbox_bytes(&self) -> usize;

    /// Everything polled so far was written to where it goes. Only sessions that acknowledge after
    /// the write ([`AckPolicy::Written`]) care.
    fn confirm_written(&mut self, _now: Now) {}

    /// Whether [`Session::send`] on the reliable channel would take another message of any legal
    /// size now. While it is false, the owner stops reading from the backend.
    fn has_room(&self) -> bool;

    /// When this session next wants `handle_timeout`; `None` only after it closed.
    fn poll_timeout(&self) -> Option<Deadline>;

    /// True while datagrams should leave before more are handled: an acknowledgement would come too
    /// late for the peer's window. The owner then polls `poll_transmit` between two datagrams.
    fn is_urgent(&self) -> bool {
        false
    }

    /// True if this datagram, which came from another address, was certainly made by this
    /// session's peer (it carries a proof under the session's key). Changes nothing.
    fn vouches_for(&self, _datagram: &[u8]) -> bool {
        false
    }

    /// Who the peer says it is, or, for protocols with authentication, who it is.
    fn identity(&self) -> Identity<'_>;

    /// Plain counters and present values, gathered when asked for.
    fn stats(&self) -> Stats;

    /// What it began with, for a recording.
    fn origin(&self) -> Origin {
        Origin::default()
    }

    /// For a recording: appends what a datagram of this session says, without its encryption and
    /// as long as it is; false for one that it cannot open. Changes nothing.
    fn reveal(&self, _way: Way, datagram: &[u8], clear: &mut Vec<u8>) -> bool {
        clear.extend_from_slice(datagram);
        true
    }

    /// For a replay: appends the datagram by which this session's peer would say what was revealed;
    /// false when no peer would. Changes nothing.
    fn conceal(&self, clear: &[u8], datagram: &mut Vec<u8>) -> bool {
        datagram.extend_from_slice(clear);
        true
    }
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrived.
    FromPeer,
    /// It leaves.
    ToPeer,
}

/// What an accepted session began with, besides its rules and the time: numbers that only its
/// protocol reads. There are no keys among them: with them and its rules, a session under keys of its
/// own repeats what the recorded one did.
pub type Origin = [u64; 5];

/// Decides what a datagram from an address without a session is worth.
pub trait Acceptor: Send {
    /// What can be told of a datagram without cryptography and without an answer. Told before any
    /// quota is charged, so that nonsense does not use up what those with a token need.
    fn glance(&mut self, _now: Now, _from: SocketAddr, _datagram: &[u8]) -> Result<Glance, Reject> {
        Ok(Glance::Unproven)
    }

    /// Judges one datagram. Must be cheap to call with garbage; see [`Stranger::reply`].
    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict;

    /// As [`Acceptor::handle_unknown`], while no new peers are taken. A protocol that can tell a
    /// stranger so does.
    fn handle_refused(&mut self, _now: Now, _stranger: Stranger<'_>, why: Reject) -> Verdict {
        Verdict::Reject(why)
    }

    /// Forgets handshakes that ran out of time.
    fn handle_timeout(&mut self, _now: Now) {}

    /// When `handle_timeout` has something to do.
    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    /// Handshakes under way.
    fn pending(&self) -> usize {
        0
    }
}

/// What a stranger's datagram is at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// Well-formed. More cannot be told for next to nothing.
    Unproven,
    /// Well-formed, and from a source that has shown a genuine token: its handshake is under way.
    Awaited,
}

/// A datagram from an address that has no session.
pub struct Stranger<'a> {
    /// Where it came from. May be forged.
    pub from: SocketAddr,
    /// The datagram; may be decrypted in place.
    pub datagram: &'a mut [u8],
    /// Where a reply goes: empty, and whatever is in it when the verdict is [`Verdict::Reply`] is
    /// sent back, if [`Stranger::may_reply`].
    pub reply: &'a mut Vec<u8>,
}

impl Stranger<'_> {
    /// Whether a reply may answer a datagram of an unproven source: never more than 1.2 times what
    /// it sent, counted with the 28 bytes of IPv4 and UDP headers. That leaves room for rudp's
    /// six-byte probe after a one-byte heartbeat, and none for amplification.
    pub const fn may_reply(datagram_bytes: usize, reply_bytes: usize) -> bool {
        (reply_bytes + 28) * 10 <= (datagram_bytes + 28) * 12
    }
}

/// What a stranger's datagram was worth.
pub enum Verdict {
    /// Nothing. Counted under this reason.
    Reject(Reject),
    /// Nothing, but the protocol tells the stranger so (netcode's "denied").
    Deny(Reject),
    /// An answer, and no session yet.
    Reply,
    /// A session, which has already taken this datagram into account.
    Accept(Box<dyn Session>),
}

/// A lane of messages with one ordering rule; an index into the protocol's channels.
pub type Channel = u8;

/// One message from the peer, whole, borrowed from the session's inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The lane it came on.
    pub channel: Channel,
    /// Whether that lane is reliable and ordered.
    pub reliable: bool,
    /// What the application sent.
    pub payload: &'a [u8],
}

/// What the owner of a session should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer proved who it is (yojimbo) or that it receives what we send (gaffer, rudp). The
    /// owner opens the backend and then calls [`Session::admit`] or [`Session::close`].
    Authenticated,
    /// Messages can flow both ways.
    Connected,
    /// The session is over; drain `poll_message` and `poll_transmit`, then drop it.
    Closed(CloseReason),
}

/// Who a peer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The token's client id; `None` where the protocol has no authentication.
    pub client_id: Option<u64>,
    /// The token's user data, 256 bytes; empty where there is none.
    pub user_data: &'a [u8],
}

/// When a packet counts as received, that is, when its sender may forget it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// When its messages were taken by the bounded inbox.
    #[default]
    Queued,
    /// When its messages were written to the backend's socket.
    Written,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The queue for this peer is full; wait until [`Session::has_room`].
    Full,
    /// Longer than the channel can carry.
    TooLarge {
        /// Bytes offered.
        size: usize,
        /// Bytes the channel takes at most.
        max: usize,
    },
    /// The channel does not exist in this protocol's configuration.
    NoSuchChannel,
    /// The session is not open (any more).
    Closed,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str("the queue for the peer is full"),
            Self::TooLarge { size, max } => write!(f, "{size} bytes, where {max} fit"),
            Self::NoSuchChannel => f.write_str("there is no such channel"),
            Self::Closed => f.write_str("the session is not open"),
        }
    }
}

impl std::error::Error for SendError {}

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
        let rejects: BTreeSet<_> = Reject::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(rejects.len(), Reject::ALL.len());
        let reasons: BTreeSet<_> = CloseReason::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(reasons.len(), CloseReason::ALL.len());
        for (index, reject) in Reject::ALL.iter().enumerate() {
            assert_eq!(*reject as usize, index, "ALL is in the order of the enum");
        }
        for (index, reason) in CloseReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index, "ALL is in the order of the enum");
        }
    }
}
