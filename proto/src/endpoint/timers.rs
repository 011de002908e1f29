//! When which peer wants to be woken: by its session, in an endpoint, or by what its owner keeps beside it.
//!
//! A heap with at most one live entry per peer. Deadlines mostly move later (each datagram puts the
//! idle timeout off), so an entry that fires early costs one look at the peer, while a push for
//! every datagram would cost a heap operation: the entry in the heap may be earlier than the peer's
//! deadline, never later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::peer_table::PeerId;
use crate::time::Timestamp;

/// The deadlines of all peers of one owner.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Timestamp, PeerId)>>,
}

/// When a peer is woken next, if at all: which of its entries in [`Timers`] is the live one. Kept with the peer.
#[derive(Debug)]
pub struct Scheduled(Timestamp);

impl Timers {
    /// Wakes `peer` at `at`, or before: nothing is done when what is `scheduled` for it is early enough.
    pub fn schedule(&mut self, peer: PeerId, at: Timestamp, scheduled: &mut Scheduled) {
        if at < scheduled.0 {
            scheduled.0 = at;
            self.heap.push(Reverse((at, peer)));
        }
    }

    /// The earliest entry, which may be stale.
    pub fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next entry that is due. It may be stale: the caller asks [`Scheduled::take`], and skips peers that are
    /// gone.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, PeerId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl Default for Scheduled {
    /// Not at all.
    fn default() -> Self {
        Self(Timestamp::MAX)
    }
}

impl Scheduled {
    /// Whether the entry for `at` is the live one. If so, nothing is scheduled any more.
    pub fn take(&mut self, at: Timestamp) -> bool {
        let is_live = at == self.0;
        if is_live {
            *self = Self::default();
        }
        is_live
    }
}
