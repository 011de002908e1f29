//! How far the workers are, for the thread that waits for them; and what that tells them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use super::tally::{self, Tally};

/// What workers have counted so far, and when they are to begin and to stop.
pub(super) struct Progress {
    /// When the measurement begins, in nanoseconds; 0 until that is known.
    pub(super) go: AtomicU64,
    stop: AtomicBool,
    seen: Mutex<Seen>,
}

struct Seen {
    /// The latest tally of each worker, by its index.
    tallies: Vec<(usize, Tally)>,
    /// Round trips since the last look.
    fresh: Histogram<u64>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            go: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            seen: Mutex::new(Seen {
                tallies: Vec::new(),
                fresh: tally::histogram(),
            }),
        }
    }

    /// Everything so far.
    pub(super) fn glance(&self) -> Tally {
        let seen = self.seen();
        let mut total = Tally::default();
        for (_, tally) in &seen.tallies {
            total.absorb(tally);
        }
        total
    }

    /// Everything so far, but round trips only since the last look.
    pub(super) fn look(&self) -> Tally {
        let mut total = self.glance();
        let mut seen = self.seen();
        total.round_trip = seen.fresh.clone();
        seen.fresh.reset();
        total
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What this worker has counted so far.
    pub(super) fn publish(&self, worker: usize, tally: &Tally) {
        let mut seen = self.seen();
        let Seen { tallies, fresh } = &mut *seen;
        // All histograms have the same bounds, and they only grow.
        fresh.add(&tally.round_trip).ok();
        match tallies.iter_mut().find(|(index, _)| *index == worker) {
            Some((_, latest)) => {
                fresh.subtract(&latest.round_trip).ok();
                *latest = tally.clone();
            }
            None => tallies.push((worker, tally.clone())),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
