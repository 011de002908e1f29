//! How many peers a listener has, over all of its sockets: `max_peers` is for all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Shared by the workers of a listener. Those that take a newcomer in the same moment may all take the last seat; netcode's
/// slots are counted again, one by one, in its roster.
#[derive(Clone, Debug, Default)]
pub struct Seats(Arc<AtomicUsize>);

/// A peer's, until it closed. Goes with the peer from one worker to another.
#[derive(Debug)]
pub(super) struct Seat(Arc<AtomicUsize>);

impl Seats {
    /// Peers that have one.
    pub(super) fn taken(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// One more.
    pub(super) fn take(&self) -> Seat {
        self.0.fetch_add(1, Relaxed);
        Seat(self.0.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
