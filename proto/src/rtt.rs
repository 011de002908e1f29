//! The round trip of a path: latest, smoothed, its variation, and the smallest of the recent past.

use std::time::Duration;

use crate::time::Timestamp;

/// Estimates the round trip from samples of sent-to-acknowledged time.
#[derive(Clone, Debug)]
pub struct Rtt {
    latest: Duration,
    smoothed: Duration,
    variation: Duration,
    /// Minima of the present and the two slices before it.
    minima: [Duration; 3],
    slice_began: Timestamp,
}

impl Rtt {
    /// No sample yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            latest: Duration::ZERO,
            smoothed: Duration::ZERO,
            variation: Duration::ZERO,
            minima: [Duration::MAX; 3],
            slice_began: now,
        }
    }

    /// Takes a sample. Zero says nothing (the peer acknowledged what it can hardly have seen), and
    /// so does a minute: both are dropped, and false is returned.
    pub fn on_sample(&mut self, now: Timestamp, sample: Duration) -> bool {
        if sample.is_zero() || sample >= SAMPLE_MAX {
            return false;
        }
        if now.since(self.slice_began) > MINIMUM_WINDOW / 3 {
            self.slice_began = now;
            self.minima = [self.minima[1], self.minima[2], Duration::MAX];
        }
        self.minima[2] = self.minima[2].min(sample);
        self.latest = sample;
        if self.smoothed.is_zero() {
            self.smoothed = sample;
            self.variation = sample / 2;
            return true;
        }
        // A late ack (the first one was lost) must not blow up the estimate: the error is clipped.
        let above = sample.saturating_sub(self.smoothed);
        let below = self.smoothed.saturating_sub(sample);
        let above = above.min(4 * self.variation + Duration::from_millis(10));
        self.variation = (3 * self.variation + above.max(below)) / 4;
        self.smoothed = self.smoothed + above / 8 - below / 8;
        true
    }

    /// Whether there was a sample.
    pub fn is_known(&self) -> bool {
        !self.smoothed.is_zero()
    }

    /// The last sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Smoothed (gain 1/8); [`ASSUMED`] before the first sample.
    pub fn smoothed(&self) -> Duration {
        if self.is_known() {
            self.smoothed
        } else {
            ASSUMED
        }
    }

    /// Mean deviation (gain 1/4).
    pub fn variation(&self) -> Duration {
        if self.is_known() {
            self.variation
        } else {
            ASSUMED / 4
        }
    }

    /// Smallest of the last 20 to 30 s; zero before the first sample.
    pub fn min(&self) -> Duration {
        let min = self.minima.iter().min().copied().unwrap_or_default();
        if min == Duration::MAX {
            Duration::ZERO
        } else {
            min
        }
    }
}

/// What a path is taken for before it was measured.
pub const ASSUMED: Duration = Duration::from_millis(100);

/// Samples from here on are not round trips but accidents: a paused process, a replayed ack.
const SAMPLE_MAX: Duration = Duration::from_secs(60);

/// How long a minimum is believed: routes change.
const MINIMUM_WINDOW: Duration = Duration::from_secs(30);
