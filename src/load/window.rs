//! Where crews and the one who waits for them meet.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;

use super::tally::{self, Tally};

/// What crews show, and what they are told.
pub(super) struct Window {
    /// When the measurement begins, in nanoseconds; 0 while that is open.
    pub(super) go: Arc<AtomicU64>,
    stop: AtomicBool,
    seen: Mutex<Seen>,
}

struct Seen {
    /// Each crew's latest.
    tallies: Vec<(usize, Tally)>,
    /// Round trips since the last look.
    fresh: Histogram<u64>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            go: Arc::default(),
            stop: AtomicBool::new(false),
            seen: Mutex::new(Seen {
                tallies: Vec::new(),
                fresh: tally::histogram(),
            }),
        }
    }

    /// Everything so far.
    pub(super) fn glance(&self) -> Tally {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = Tally::default();
        for (_, tally) in &seen.tallies {
            total.absorb(tally);
        }
        total
    }

    /// Everything so far, but round trips only since the last look.
    pub(super) fn look(&self) -> Tally {
        let mut total = self.glance();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// What this crew has counted so far.
    pub(super) fn publish(&self, crew: usize, tally: &Tally) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { tallies, fresh } = &mut *seen;
        // All histograms have the same bounds, and they only grow.
        fresh.add(&tally.round_trip).ok();
        match tallies.iter_mut().find(|(index, _)| *index == crew) {
            Some((_, latest)) => {
                fresh.subtract(&latest.round_trip).ok();
                *latest = tally.clone();
            }
            None => tallies.push((crew, tally.clone())),
        }
    }
}
