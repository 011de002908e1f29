//! When which of many numbered things wants to be looked at: for the loops of `lag` and `load`.
//!
//! A heap with at most one live entry for each. The owner keeps that entry's time beside the thing, and
//! skips entries that are not it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_proto::Timestamp;

/// Alarms by slot.
#[derive(Debug, Default)]
pub struct Alarms(BinaryHeap<Reverse<(Timestamp, usize)>>);

impl Alarms {
    /// Sets an alarm, unless the live one, `wakes`, is early enough.
    pub fn schedule(&mut self, slot: usize, at: Timestamp, wakes: &mut Timestamp) {
        if at < *wakes {
            *wakes = at;
            self.0.push(Reverse((at, slot)));
        }
    }

    /// The earliest, which may be stale.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one that is due. It is stale unless its time is the slot's `wakes`.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, usize)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
