//! When which of many wants to be woken: peers, by their sessions in an endpoint and by what its owner keeps beside them.
//!
//! A heap with at most one live entry for each. Deadlines mostly move later (each datagram puts the
//! idle timeout off), so an entry that fires early costs one look, while a push for
//! every datagram would cost a heap operation: the entry in the heap may be earlier than the
//! deadline, never later.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Timestamp;

/// The deadlines of all that one owner wakes, by a key that is the owner's: a peer's id, a slot.
#[derive(Debug)]
pub struct Timers<K> {
    heap: BinaryHeap<Entry<K>>,
}

/// The earlier is the greater, which a heap gives first. Keys are not compared: each packet moves an entry or two through
/// the heap.
#[derive(Debug)]
struct Entry<K> {
    at: Timestamp,
    key: K,
}

/// When one of them is woken next, if at all: which of its entries in [`Timers`] is the live one. Kept beside what is
/// woken.
#[derive(Debug)]
pub struct Scheduled(Timestamp);

impl<K> Timers<K> {
    /// Wakes `key` at `at`, or before: nothing is done when what is `scheduled` for it is early enough.
    pub fn schedule(&mut self, key: K, at: Timestamp, scheduled: &mut Scheduled) {
        if at < scheduled.0 {
            scheduled.0 = at;
            self.heap.push(Entry { at, key });
        }
    }

    /// The earliest entry, which may be stale.
    pub fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next entry that is due. It may be stale: the caller asks [`Scheduled::take`], and skips what is gone.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, K)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Entry { at, key }| (at, key))
    }
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<K> Eq for Entry<K> {}

impl<K> Default for Timers<K> {
    /// Nobody is woken.
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
        }
    }
}

impl Default for Scheduled {
    /// Never.
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
