//! The round trip of a path: latest, smoothed, its variation, and the smallest of the recent past.

use std::time::Duration;

use crate::time::Timestamp;

/// Estimates the round trip from samples of sent-to-acknowledged time. Microseconds inside: there is
/// one of these for each idle peer.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    latest: u32,
    /// Zero before the first sample.
    smoothed: u32,
    variation: u32,
    /// Minima of the present and the two slices of time before it.
    minima: [u32; 3],
    slice_began: Timestamp,
}

impl Rtt {
    /// No sample yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            latest: 0,
            smoothed: 0,
            variation: 0,
            minima: [u32::MAX; 3],
            slice_began: now,
        }
    }

    /// Takes a sample. Zero says nothing (the peer acknowledged what it can hardly have seen), and
    /// so does a minute: both are dropped, and false is returned.
    pub fn on_sample(&mut self, now: Timestamp, sample: Duration) -> bool {
        if sample < SAMPLE_MIN || sample >= SAMPLE_MAX {
            return false;
        }
        let sample = sample.as_micros() as u32;
        if now.since(self.slice_began) > MINIMUM_WINDOW / 3 {
            self.slice_began = now;
            self.minima = [self.minima[1], self.minima[2], u32::MAX];
        }
        self.minima[2] = self.minima[2].min(sample);
        self.latest = sample;
        if self.smoothed == 0 {
            self.smoothed = sample;
            self.variation = sample / 2;
            return true;
        }
        // A late ack (the first one was lost) must not blow up the estimate: the error is clipped.
        let above = sample.saturating_sub(self.smoothed);
        let below = self.smoothed.saturating_sub(sample);
        let above = above.min(4 * self.variation + 10_000);
        self.variation = (3 * self.variation + above.max(below)) / 4;
        self.smoothed = (self.smoothed + above / 8).saturating_sub(below / 8).max(1);
        true
    }

    /// Whether there was a sample.
    pub fn is_known(&self) -> bool {
        self.smoothed > 0
    }

    /// The last sample; zero before the first.
    pub fn latest(&self) -> Duration {
        micros(self.latest)
    }

    /// Smoothed (gain 1/8); [`ASSUMED`] before the first sample.
    pub fn smoothed(&self) -> Duration {
        if self.is_known() {
            micros(self.smoothed)
        } else {
            ASSUMED
        }
    }

    /// Mean deviation (gain 1/4).
    pub fn variation(&self) -> Duration {
        if self.is_known() {
            micros(self.variation)
        } else {
            ASSUMED / 4
        }
    }

    /// Smallest of the last 20 to 30 s; zero before the first sample.
    pub fn min(&self) -> Duration {
        let min = self.minima.iter().min().copied().unwrap_or(u32::MAX);
        if min == u32::MAX {
            Duration::ZERO
        } else {
            micros(min)
        }
    }
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(u64::from(micros))
}

/// What a path is taken for before it was measured.
pub const ASSUMED: Duration = Duration::from_millis(100);

/// Less than this cannot be told from nothing.
const SAMPLE_MIN: Duration = Duration::from_micros(1);

/// Samples from here on are not round trips but accidents: a paused process, a replayed ack.
const SAMPLE_MAX: Duration = Duration::from_secs(60);

/// How long a minimum is believed: routes change.
const MINIMUM_WINDOW: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(millis: &[u64]) -> Rtt {
        let mut rtt = Rtt::new(Timestamp::ZERO);
        for (n, sample) in millis.iter().enumerate() {
            let now = Timestamp::from_millis(n as u64 * 100);
            rtt.on_sample(now, Duration::from_millis(*sample));
        }
        rtt
    }

    #[test]
    fn the_first_sample_is_taken_as_it_is() {
        let rtt = sampled(&[80]);
        assert_eq!(rtt.smoothed(), Duration::from_millis(80));
        assert_eq!(rtt.variation(), Duration::from_millis(40));
        assert_eq!(sampled(&[]).smoothed(), ASSUMED);
    }

    #[test]
    fn accidents_are_not_samples() {
        let mut rtt = sampled(&[50, 50, 50]);
        let now = Timestamp::from_millis(10_000);
        for sample in [Duration::ZERO, Duration::from_secs(60), Duration::MAX] {
            assert!(!rtt.on_sample(now, sample), "{sample:?}");
        }
        assert_eq!(rtt.smoothed(), Duration::from_millis(50));
        assert!(
            rtt.on_sample(now, Duration::from_secs(59)),
            "nearly a minute is odd, but possible"
        );
        assert!(
            rtt.smoothed() < Duration::from_millis(80),
            "one late ack moved it to {:?}",
            rtt.smoothed()
        );
    }

    #[test]
    fn an_old_minimum_is_forgotten() {
        let mut rtt = sampled(&[20]);
        for n in 0..400 {
            rtt.on_sample(Timestamp::from_millis(n * 100), Duration::from_millis(90));
        }
        assert_eq!(rtt.min(), Duration::from_millis(90));
    }
}
