//! What a datagram from a stranger is worth.

use std::net::SocketAddr;

use super::{Reject, Session};
use crate::ip::IPV4_UDP_HEADER_BYTES;
use crate::time::{Deadline, Now};

/// Decides what a datagram from an address without a session is worth.
pub trait Acceptor: Send {
    /// What kind of datagram this is, without cryptography and without an answer. Asked before any quota is
    /// charged, so that nonsense, which is an error here, does not use up what those with a token need. An empty
    /// datagram is nonsense to most protocols.
    fn classify(
        &mut self,
        _now: Now,
        _from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        if datagram.is_empty() {
            return Err(Reject::Malformed);
        }
        Ok(StrangerClass::Unproven)
    }

    /// Judges one datagram. Must be cheap to call with garbage; see [`Stranger::reply`].
    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict;

    /// Judges one datagram while no new peers are taken. A protocol that can tell a stranger so does.
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

/// What a stranger's datagram is, as far as its bytes and its source tell. Each class has a quota of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrangerClass {
    /// Well-formed. More cannot be told for next to nothing.
    Unproven,
    /// Well-formed, and from a source that has shown a genuine token: its handshake is under way.
    Awaited,
    /// No part of a handshake, from a source whose own handshake is under way: of use once that has ended, and
    /// not before.
    Early,
    /// No part of a handshake: of a session that ended, or of a peer whose address changed.
    Stray,
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
    /// it sent, both counted with IPv4 and UDP headers. That leaves room for rudp's
    /// six-byte probe after a one-byte heartbeat, and none for amplification.
    pub const fn may_reply(datagram_bytes: usize, reply_bytes: usize) -> bool {
        (reply_bytes + IPV4_UDP_HEADER_BYTES) * 10 <= (datagram_bytes + IPV4_UDP_HEADER_BYTES) * 12
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
