//! How long our packets wait in somebody's queue: the round trip's rise over the path's own.

use std::time::Duration;

use crate::time::Timestamp;

/// Compares the present round trip with the smallest of the recent past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    /// Quickly smoothed (gain 1/4), in seconds; zero before the first sample.
    fast: f64,
    /// Ordinary deviation from it, learned only while the queue looks short.
    variation: f64,
    /// Minima of `fast` in the present and the two slices of time before it.
    minima: [f64; 3],
    slice_began: Timestamp,
    samples: u32,
    over_since: Option<Timestamp>,
}

/// What the queue looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Queueing delay in seconds.
    pub(super) delay: f64,
    /// Below this it counts as gone.
    pub(super) low: f64,
    /// It exceeds the limit.
    pub(super) over: bool,
    /// It has done so for a while.
    pub(super) stands: bool,
}

/// What counts as a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// More delay than this is one, in seconds.
    pub(super) queue: f64,
    /// It stands once it has been one for this long.
    pub(super) stands: Duration,
    /// How long one packet of ours takes at the present rate, in seconds: no queue yet.
    pub(super) packet: f64,
    /// How long a base is believed.
    pub(super) base_window: Duration,
}

impl Queueing {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            fast: 0.0,
            variation: 0.0,
            minima: [f64::INFINITY; 3],
            slice_began: now,
            samples: 0,
            over_since: None,
        }
    }

    /// The round trip now, quickly smoothed.
    pub(super) fn rtt(&self) -> f64 {
        self.fast
    }

    /// Ordinary deviation, in seconds.
    pub(super) fn variation(&self) -> f64 {
        self.variation
    }

    /// A round trip was sampled.
    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: Duration, limits: &Limits) -> Queue {
        let packet = limits.packet;
        let rtt = rtt.as_secs_f64();
        if self.fast == 0.0 {
            (self.fast, self.variation) = (rtt, rtt / 8.0);
        }
        self.fast += 0.25 * (rtt - self.fast);
        self.samples = self.samples.saturating_add(1);
        if now.since(self.slice_began) > limits.base_window / 3 {
            self.slice_began = now;
            self.minima = [self.minima[1], self.minima[2], f64::INFINITY];
        }
        // Of the smoothed value, so that ordinary jitter does not count as queue.
        if self.samples > 8 {
            self.minima[2] = self.minima[2].min(self.fast);
        }
        let base = self.minima.iter().copied().fold(f64::INFINITY, f64::min);
        let delay = if base.is_finite() {
            self.fast - base
        } else {
            0.0
        };
        let limit = (limits.queue).max(4.0 * self.variation).max(1.5 * packet);
        let over = delay > limit;
        if over {
            self.over_since.get_or_insert(now);
        } else {
            self.over_since = None;
            self.variation += 0.02 * ((rtt - self.fast).abs() - self.variation);
        }
        Queue {
            delay,
            low: (0.5 * limit).max(packet),
            over,
            stands: self
                .over_since
                .is_some_and(|since| now.since(since) >= limits.stands),
        }
    }
}
