//! What all listeners of the process share: seats, and memory of queues. Touched when a peer comes or
//! goes and four times a second, never per datagram.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How much there is, and how much is taken.
#[derive(Debug)]
pub struct Capacity {
    peers_max: usize,
    queued_max: u64,
    peers: AtomicUsize,
    queued: AtomicU64,
}

impl Capacity {
    /// Nothing is taken yet.
    pub fn new(peers_max: usize, queued_max: u64) -> Self {
        Self {
            peers_max,
            queued_max,
            peers: AtomicUsize::new(0),
            queued: AtomicU64::new(0),
        }
    }

    /// Whether a newcomer would be too many: no seat is left, or nine tenths of the memory are used,
    /// so that those who are here keep some.
    pub fn is_full(&self) -> bool {
        self.peers.load(Relaxed) >= self.peers_max
            || self.queued.load(Relaxed) >= self.queued_max / 10 * 9
    }

    /// Whether queues hold more than they may: somebody has to go.
    pub fn is_exceeded(&self) -> bool {
        self.queued.load(Relaxed) > self.queued_max
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_and_memory_run_out() {
        let capacity = Capacity::new(2, 1_000);
        capacity.on_arrival();
        assert!(!capacity.is_full());
        capacity.on_arrival();
        assert!(capacity.is_full());
        capacity.on_departure();
        capacity.on_queued(0, 899);
        assert!(!capacity.is_full());
        capacity.on_queued(899, 900);
        assert!(capacity.is_full() && !capacity.is_exceeded());
        capacity.on_queued(900, 1_001);
        assert!(capacity.is_exceeded());
        capacity.on_queued(1_001, 0);
        assert!(!capacity.is_full());
    }
}
