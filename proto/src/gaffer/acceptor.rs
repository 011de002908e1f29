//! Strangers: told a number made for their address, and given a session once they acknowledge it.
//!
//! Rule: docs/wire/gaffer.md, section 6. The number is a keyed hash, so nothing is remembered of an
//! address that never answers. It is our first sequence; to the peer it looks like a keep-alive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::gaffer::session::KEEP_ALIVE;
use crate::gaffer::wire::Header;
use crate::gaffer::{Params, Session};
use crate::session::{Acceptor as Interface, Reject, Session as _, Stranger, Verdict};
use crate::siphash::Key;
use crate::time::Now;

/// How long one number is given out. An acknowledgement counts during this span and the next.
const EPOCH: Duration = Duration::from_secs(30);

/// Decides who gets a session.
#[derive(Debug)]
pub struct Acceptor {
    params: Arc<Params>,
    key: Key,
}

impl Acceptor {
    /// `secret` keys the first sequences: fresh random bytes at every start.
    pub fn new(params: Arc<Params>, secret: [u8; 16]) -> Self {
        Self {
            params,
            key: Key::new(secret),
        }
    }

    /// Our first sequence for this address, from 1 to 2^31 - 1: newer than the 0 the peer begins
    /// with.
    fn first_sequence(&self, from: SocketAddr, epoch: u64) -> u32 {
        (self.key.address(from, epoch) % 0x7fff_ffff) as u32 + 1
    }

    /// The first sequence this packet acknowledges, if we ever told it this address.
    fn proven(&self, epoch: u64, from: SocketAddr, header: &Header) -> Option<u32> {
        [epoch, epoch.wrapping_sub(1)]
            .into_iter()
            .map(|epoch| self.first_sequence(from, epoch))
            .find(|first| header.acknowledges(*first))
    }

    fn accept(&self, now: Now, first: u32, key: u64, datagram: &mut [u8]) -> Verdict {
        let mut session = Session::accept(&self.params, first.wrapping_add(1), key, now);
        // What it refuses of its first datagram is its own affair: the peer will send it again.
        session.handle_datagram(now, datagram).ok();
        Verdict::Accept(Box::new(session))
    }
}

impl Interface for Acceptor {
    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        let Stranger {
            from,
            datagram,
            reply,
        } = stranger;
        let id = self.params.protocol_id.to_be_bytes();
        if !datagram.starts_with(&id) {
            return Verdict::Reject(if datagram.len() < id.len() {
                Reject::Malformed
            } else {
                Reject::WrongProtocol
            });
        }
        if datagram.len() == id.len() {
            return Verdict::Reject(Reject::Malformed);
        }
        let epoch = now.mono.as_nanos() / EPOCH.as_nanos() as u64;
        let seed = self.key.address(from, u64::MAX - epoch);
        if !self.params.probe {
            // The article: any packet of the right protocol makes its sender the peer.
            return self.accept(now, self.first_sequence(from, epoch), seed, datagram);
        }
        let Some((header, _)) = Header::parse(datagram) else {
            return Verdict::Reject(Reject::Unproven);
        };
        if let Some(first) = self.proven(epoch, from, &header) {
            return self.accept(now, first, seed, datagram);
        }
        if (header.ack, header.ack_bits) != (0, 0) {
            // In the middle of a session we do not know. Silence ends it; and another listener, to
            // which a forger pointed us, is not answered either.
            return Verdict::Reject(Reject::UnknownPeer);
        }
        let hello = Header {
            protocol_id: header.protocol_id,
            sequence: self.first_sequence(from, epoch),
            // This packet was not kept, so nothing near it may be acknowledged, only something long
            // before it; and not 0, which a listener answers.
            ack: header.sequence.wrapping_sub(1 << 30) | 1,
            ack_bits: 0,
        };
        hello.emit(reply);
        reply.push(KEEP_ALIVE);
        Verdict::Reply
    }
}
