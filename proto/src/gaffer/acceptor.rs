//! Strangers: told a number made for their address, and given a session once they acknowledge it.
//!
//! Rule: docs/wire/gaffer.md, section 6. The number is a keyed hash, so nothing is remembered of an
//! address that never answers. It is our first sequence; to the peer it looks like a keep-alive. It
//! opens one session: what was still under way when that one ended must not open another, to which
//! the peer would seem to have said the beginning already.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::gaffer::wire::{Header, KEEP_ALIVE};
use crate::gaffer::{Params, Session};
use crate::session::{Acceptor as Interface, Reject, Session as _, Stranger, Verdict};
use crate::siphash::Key;
use crate::time::Now;

/// How long one number is given out. An acknowledgement counts during this span and the next.
const EPOCH: Duration = Duration::from_secs(30);

/// Entries of the table that remembers for whom sessions were opened. Its size is fixed; addresses
/// that share an entry get new numbers more often than they need.
const ENTRIES: usize = 4096;

/// Decides who gets a session.
#[derive(Debug)]
pub struct Acceptor {
    params: Arc<Params>,
    key: Key,
    /// By hash of the address. Allocated by the first session.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Sessions opened for addresses of this entry.
    opened: u32,
    /// Tag of the address that got the last one.
    last: u64,
}

impl Acceptor {
    /// `secret` keys the first sequences: fresh random bytes at every start.
    pub fn new(params: Arc<Params>, secret: [u8; 16]) -> Self {
        Self {
            params,
            key: Key::new(secret),
            entries: Vec::new(),
        }
    }

    /// Sessions from now on follow these rules. Numbers that were told and sessions that were opened
    /// are still known.
    pub fn set_params(&mut self, params: Arc<Params>) {
        self.params = params;
    }

    /// Our first sequence for this address, from 1 to 2^31 - 1: newer than the 0 the peer begins
    /// with. Another one after each session opened there.
    fn first_sequence(&self, from: SocketAddr, epoch: u64, opened: u32) -> u32 {
        let hash = self.key.address(from, epoch | u64::from(opened) << 32);
        (hash % 0x7fff_ffff) as u32 + 1
    }

    /// The sequence that this packet names as the newest it knows of, if we ever told it this address and no session has come
    /// of it. Whoever guesses would name 32 more with its ack bits, of numbers that nobody was told.
    fn proven(&self, epoch: u64, from: SocketAddr, header: &Header) -> Option<u32> {
        let Entry { opened, last } = self.entry(from);
        // A session for another address must not spoil the number this one was told.
        let before = opened.wrapping_sub((last != self.tag(from)).into());
        [opened, before]
            .into_iter()
            .flat_map(|opened| [epoch, epoch.saturating_sub(1)].map(|epoch| (epoch, opened)))
            .map(|(epoch, opened)| self.first_sequence(from, epoch, opened))
            .find(|first| header.ack == *first)
    }

    fn entry(&self, from: SocketAddr) -> Entry {
        let index = self.tag(from) as usize % ENTRIES;
        self.entries.get(index).copied().unwrap_or_default()
    }

    fn tag(&self, from: SocketAddr) -> u64 {
        self.key.address(from, u64::MAX)
    }

    fn accept(&mut self, now: Now, from: SocketAddr, first: u32, datagram: &mut [u8]) -> Verdict {
        let (tag, opened) = (self.tag(from), self.entry(from).opened);
        let key = self.key.address(from, u64::MAX - 1 - u64::from(opened));
        self.entries.resize(ENTRIES, Entry::default());
        self.entries[tag as usize % ENTRIES] = Entry {
            opened: opened.wrapping_add(1),
            last: tag,
        };
        let mut session = Session::accept(now, &self.params, first.wrapping_add(1), key);
        // What it refuses of its first datagram is its own affair: the peer will send it again.
        session.handle_datagram(now, datagram).ok();
        Verdict::Accept(Box::new(session))
    }

    /// Why this is nobody who wants to come in.
    fn dismiss(&self, epoch: u64, from: SocketAddr, datagram: &[u8]) -> Result<(), Reject> {
        let id = self.params.protocol_id.to_be_bytes();
        if !datagram.starts_with(&id) {
            return Err(if datagram.len() < id.len() {
                Reject::Malformed
            } else {
                Reject::WrongProtocol
            });
        }
        if datagram.len() == id.len() {
            return Err(Reject::Malformed);
        }
        if !self.params.probe {
            return Ok(());
        }
        let Some((header, _)) = Header::parse(datagram) else {
            return Err(Reject::Unproven);
        };
        if (header.ack, header.ack_bits) != (0, 0) && self.proven(epoch, from, &header).is_none() {
            // In the middle of a session we do not know. Silence ends it; and another listener, to
            // which a forger pointed us, is not answered either.
            return Err(Reject::UnknownPeer);
        }
        Ok(())
    }
}

fn epoch(now: Now) -> u64 {
    now.mono.as_nanos() / EPOCH.as_nanos() as u64
}

impl Interface for Acceptor {
    fn handle_refused(&mut self, now: Now, stranger: Stranger<'_>, why: Reject) -> Verdict {
        let judged = self.dismiss(epoch(now), stranger.from, stranger.datagram);
        Verdict::Reject(judged.err().unwrap_or(why))
    }

    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        let Stranger {
            from,
            datagram,
            reply,
        } = stranger;
        let epoch = epoch(now);
        if let Err(reject) = self.dismiss(epoch, from, datagram) {
            return Verdict::Reject(reject);
        }
        let opened = self.entry(from).opened;
        if !self.params.probe {
            // The article: any packet of the right protocol makes its sender the peer.
            let first = self.first_sequence(from, epoch, opened);
            return self.accept(now, from, first, datagram);
        }
        let Some((header, _)) = Header::parse(datagram) else {
            return Verdict::Reject(Reject::Unproven);
        };
        if let Some(first) = self.proven(epoch, from, &header) {
            return self.accept(now, from, first, datagram);
        }
        let hello = Header {
            protocol_id: header.protocol_id,
            sequence: self.first_sequence(from, epoch, opened),
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
