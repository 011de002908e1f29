//! When which peer wants to be woken.
//!
//! A heap with at most one live entry per peer. Deadlines mostly move later (each datagram puts the
//! idle timeout off), so an entry that fires early costs one look at the peer, while a push for
//! every datagram would cost a heap operation: the entry in the heap may be earlier than the peer's
//! deadline, never later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::peer_table::PeerId;
use crate::time::Timestamp;

/// The deadlines of all peers of one endpoint.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Timestamp, PeerId)>>,
}

impl Timers {
    /// Wakes `peer` at `at`. `scheduled` is the peer's live entry, kept by the peer's slot: nothing
    /// is done when that is early enough.
    pub(super) fn schedule(&mut self, peer: PeerId, at: Timestamp, scheduled: &mut Timestamp) {
        if at < *scheduled {
            *scheduled = at;
            self.heap.push(Reverse((at, peer)));
        }
    }

    /// The earliest entry, which may be stale.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next entry that is due. The caller skips it if it is not the peer's live one.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, PeerId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}
