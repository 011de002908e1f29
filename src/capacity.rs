//! What all listeners of the process share: seats, and memory of queues. Touched when a peer comes or
//! goes and four times a second, never per datagram.
//!
//! What waits for something before or beside it (messages behind a gap, fragments) is counted among
//! the queues, and may take a quarter of their memory: a peer that finishes nothing fills it for
//! nothing (docs/THREAT-MODEL.md, "Fragment and block floods").

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How much there is, and how much is taken.
#[derive(Debug)]
pub struct Capacity {
    peers_max: usize,
    queued_max: u64,
    peers: AtomicUsize,
    queued: AtomicU64,
    assembling: AtomicU64,
}

/// A limit of the process, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Peers over all listeners.
    Peers(usize),
    /// Bytes in all queues.
    QueueMemory(u64),
}

impl Capacity {
    /// Nothing is taken yet.
    pub fn new(peers_max: usize, queued_max: u64) -> Self {
        Self {
            peers_max,
            queued_max,
            peers: AtomicUsize::new(0),
            queued: AtomicU64::new(0),
            assembling: AtomicU64::new(0),
        }
    }

    /// What a newcomer would be too many for: no seat is left, or nine tenths of the memory are used,
    /// so that those who are here keep some.
    pub fn limit_met(&self) -> Option<Limit> {
        if self.peers.load(Relaxed) >= self.peers_max {
            Some(Limit::Peers(self.peers_max))
        } else if self.queued.load(Relaxed) >= self.queued_max / 10 * 9 {
            Some(Limit::QueueMemory(self.queued_max))
        } else {
            None
        }
    }

    /// Bytes that somebody whose queues hold `own` has to let go, so that all of them together hold
    /// what they may.
    pub fn excess(&self, own: u64) -> u64 {
        share_of_excess(own, self.queued.load(Relaxed), self.queued_max)
    }

    /// The same for what waits to be complete.
    pub fn assembly_excess(&self, own: u64) -> u64 {
        share_of_excess(own, self.assembling.load(Relaxed), self.queued_max / 4)
    }

    /// A peer is here.
    pub fn on_arrival(&self) {
        self.peers.fetch_add(1, Relaxed);
    }

    /// A peer is gone.
    pub fn on_departure(&self) {
        self.peers.fetch_sub(1, Relaxed);
    }

    /// Somebody's queues, which held `before` bytes, hold `now`.
    pub fn on_queued(&self, before: u64, now: u64) {
        // Wraps around for less, which comes to the same.
        self.queued.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Somebody's incomplete packets and messages, which held `before` bytes, hold `now`.
    pub fn on_assembling(&self, before: u64, now: u64) {
        self.assembling.fetch_add(now.wrapping_sub(before), Relaxed);
    }
}

/// Each lets go in proportion to what it holds, so that workers that decide at the same time do not
/// all free the whole.
fn share_of_excess(own: u64, all: u64, max: u64) -> u64 {
    let over = u128::from(all.saturating_sub(max));
    let share = over * u128::from(own) / u128::from(all.max(1));
    // Rounded up: what is left over would stay for ever.
    (share as u64).saturating_add(u64::from(over > 0 && own > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_and_memory_run_out() {
        let capacity = Capacity::new(2, 1_000);
        capacity.on_arrival();
        assert_eq!(capacity.limit_met(), None);
        capacity.on_arrival();
        assert_eq!(capacity.limit_met(), Some(Limit::Peers(2)));
        capacity.on_departure();
        capacity.on_queued(0, 899);
        assert_eq!(capacity.limit_met(), None);
        capacity.on_queued(899, 900);
        assert_eq!(capacity.limit_met(), Some(Limit::QueueMemory(1_000)));
        assert_eq!(capacity.excess(900), 0);
        capacity.on_queued(900, 1_200);
        assert_eq!(
            [0, 600, 1_200].map(|own| capacity.excess(own)),
            [0, 101, 201]
        );
        capacity.on_queued(1_200, 0);
        assert_eq!(capacity.limit_met(), None);
    }

    #[test]
    fn what_is_incomplete_has_a_quarter() {
        let capacity = Capacity::new(2, 1_000);
        capacity.on_assembling(0, 250);
        assert_eq!(capacity.assembly_excess(250), 0);
        capacity.on_assembling(250, 300);
        assert_eq!(capacity.assembly_excess(300), 51);
        assert_eq!(capacity.excess(300), 0, "the queues have room");
    }
}
