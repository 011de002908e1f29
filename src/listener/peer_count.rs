//! How many peers a listener has, over all of its sockets: `max_peers` is for all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Shared by the workers of a listener. Those that take a newcomer in the same moment may all take the last place; netcode's
/// slots are counted again, one by one, in its roster.
#[derive(Clone, Debug, Default)]
pub struct PeerCount(Arc<AtomicUsize>);

/// One peer of them, until it closed. Goes with the peer from one worker to another.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicUsize>);

impl PeerCount {
    pub(super) fn now(&self) -> usize {
        self.0.load(Relaxed)
    }

    pub(super) fn add_one(&self) -> Counted {
        self.0.fetch_add(1, Relaxed);
        Counted(self.0.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
