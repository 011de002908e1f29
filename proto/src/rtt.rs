//! The round trip of a path: latest, smoothed, its variation, and the smallest of the recent past.

use std::time::Duration;

use crate::time::{Span, Timestamp};
use crate::windowed::{Smallest, Windowed};

/// From a packet's leaving to its acknowledgement. The peer may have held that back: until it had
/// something to say, until its next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From sending the packet to receiving its acknowledgement.
    pub took: Span,
    /// The path's share is at least this: the peer's packet before the one that acknowledged arrived so
    /// long after ours had left, and did not know of it.
    pub least: Span,
}

/// Estimates the round trip from samples of sent-to-acknowledged time. Microseconds inside: there is
/// one of these for each idle peer.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    latest: u32,
    /// Zero before the first sample.
    path: u32,
    smoothed: u32,
    variation: u32,
    /// The smallest of [`MINIMUM_WINDOW`].
    minimum: Windowed<u32, Smallest>,
    /// In milliseconds, which wrap.
    slice_began: u32,
}

impl Rtt {
    /// No sample yet.
    pub fn new(now: Timestamp) -> Self {
        Self {
            latest: 0,
            path: 0,
            smoothed: 0,
            variation: 0,
            minimum: Windowed::new(),
            slice_began: millis(now),
        }
    }

    /// Takes a sample. Zero says nothing (the peer acknowledged what it can hardly have seen), and
    /// so does a minute: both are dropped, and false is returned.
    pub fn on_sample(&mut self, now: Timestamp, sample: Sample) -> bool {
        let Sample { took, least } = sample;
        if took < SAMPLE_MIN || took >= SAMPLE_MAX {
            return false;
        }
        let sample = took.as_micros();
        let least = least.as_micros().min(sample);
        self.note_minimum(now, sample);
        // The path's share lies between the two. Where the peer may have held the acknowledgement back
        // for long that says nothing new, and what was known stays: no less than the shortest lately, nor
        // more than that and what peers usually hold back.
        let shortest = self.minimum.get().unwrap_or(sample);
        let known = if self.path == 0 { sample } else { self.path };
        let known = known.clamp(shortest, shortest + HELD_USUALLY);
        self.latest = known.clamp(least, sample);
        if self.smoothed == 0 {
            self.path = self.latest;
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
        let longer = self.latest.saturating_sub(self.path) / 8;
        self.path = (self.path + longer) - self.path.saturating_sub(self.latest) / 8;
        true
    }

    /// A packet that its peer may have had reason to acknowledge late took so long: a bound, no more.
    pub fn on_bound(&mut self, now: Timestamp, took: Span) {
        if took >= SAMPLE_MIN && took < SAMPLE_MAX {
            self.note_minimum(now, took.as_micros());
        }
    }

    fn note_minimum(&mut self, now: Timestamp, sample: u32) {
        if millis(now).wrapping_sub(self.slice_began) > MINIMUM_WINDOW / 3 {
            self.slice_began = millis(now);
            self.minimum.turn();
            self.lift(sample);
        }
        self.minimum.note(sample);
    }

    /// A shorter past is forgotten, and what lags behind it must not tell of it any longer: nothing that is shown is
    /// below the smallest.
    fn lift(&mut self, sample: u32) {
        if self.is_known() {
            let shortest = self.minimum.get().unwrap_or(sample).min(sample);
            self.latest = self.latest.max(shortest);
            self.path = self.path.max(shortest);
        }
    }

    /// Whether there was a sample.
    pub fn is_known(&self) -> bool {
        self.smoothed > 0
    }

    /// The path's share of the last sample; zero before the first.
    pub fn latest(&self) -> Duration {
        micros(self.latest)
    }

    /// The path's share, smoothed (gain 1/8); zero before the first sample.
    pub fn path(&self) -> Duration {
        micros(self.path)
    }

    /// How long until an acknowledgement comes, smoothed (gain 1/8); [`ASSUMED`] before the first
    /// sample.
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
        self.minimum.get().map_or(Duration::ZERO, micros)
    }

    /// [`Rtt::smoothed`], [`Rtt::variation`] and [`Rtt::min`].
    pub(crate) fn spans(&self) -> [Span; 3] {
        let least = self.minimum.get().unwrap_or(0);
        let [smoothed, variation] = match self.is_known() {
            true => [self.smoothed, self.variation].map(Span::from_micros),
            false => [ASSUMED_MS, ASSUMED_MS / 4].map(Span::from_millis),
        };
        [smoothed, variation, Span::from_micros(least)]
    }
}

fn millis(now: Timestamp) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(u64::from(micros))
}

/// What a path is taken for before it was measured.
pub const ASSUMED: Duration = Duration::from_millis(ASSUMED_MS as u64);
const ASSUMED_MS: u32 = 100;

/// Less than this cannot be told from nothing.
const SAMPLE_MIN: Span = Span::from_micros(1);

/// Samples from here on are not round trips but accidents: a paused process, a replayed ack.
const SAMPLE_MAX: Span = Span::from_millis(60_000);

/// In microseconds: peers like us hold acknowledgements back for so long.
const HELD_USUALLY: u32 = 20_000;

/// How long a minimum is believed, in milliseconds: routes change.
const MINIMUM_WINDOW: u32 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(millis: &[u64]) -> Rtt {
        let mut rtt = Rtt::new(Timestamp::ZERO);
        for (n, sample) in millis.iter().enumerate() {
            let now = Timestamp::from_millis(n as u64 * 100);
            rtt.on_sample(now, prompt(*sample));
        }
        rtt
    }

    /// A round trip that the peer did not lengthen.
    fn prompt(millis: u64) -> Sample {
        let took = Duration::from_millis(millis).into();
        Sample { took, least: took }
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
        for took in [Span::ZERO, Span::from_millis(60_000), Span::MAX] {
            let sample = Sample { took, least: took };
            assert!(!rtt.on_sample(now, sample), "{took:?}");
        }
        assert_eq!(rtt.smoothed(), Duration::from_millis(50));
        assert!(
            rtt.on_sample(now, prompt(59_000)),
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
            rtt.on_sample(Timestamp::from_millis(n * 100), prompt(90));
        }
        assert_eq!(rtt.min(), Duration::from_millis(90));
    }

    /// A path that becomes longer, and a peer that says little. Rounding must not keep it below either.
    #[test]
    fn what_is_shown_is_never_below_the_smallest() {
        let mut rtt = sampled(&[20]);
        for n in 1..400 {
            let now = Timestamp::from_millis(n * 5_000);
            let took = Span::from_micros(20_000 + n as u32 / 4 * 29);
            let least = if n % 3 == 1 { took } else { Span::ZERO };
            if n % 3 == 0 {
                rtt.on_bound(now, took);
            } else {
                rtt.on_sample(now, Sample { took, least });
            }
            let [shown, latest, least] = [rtt.path(), rtt.latest(), rtt.min()];
            assert!(
                shown >= least && latest >= least,
                "{n}: {shown:?} {latest:?} {least:?}"
            );
        }
    }

    /// A path of 50 ms, and a peer that speaks five times a second: what is late may be its doing.
    #[test]
    fn what_the_peer_held_back_is_not_the_path() {
        let mut rtt = sampled(&[50]);
        for n in 1..200 {
            let took = Span::from(Duration::from_millis(50 + n * 37 % 200));
            let least = took - Span::from_millis(200);
            rtt.on_sample(Timestamp::from_millis(n * 200), Sample { took, least });
        }
        let path = rtt.path().as_millis();
        assert!((45..=75).contains(&path), "{path} ms");
        let waits = rtt.smoothed().as_millis();
        assert!(
            waits > 100,
            "who waits for acknowledgements waits longer: {waits} ms"
        );
        for n in 200..300 {
            rtt.on_sample(Timestamp::from_millis(n * 200), prompt(300));
        }
        let path = rtt.path().as_millis();
        assert!(
            path > 280,
            "what the peer did not hold back is the path: {path} ms"
        );
    }

    /// A path of 1 ms, and a peer that acknowledges 20 ms late all but once.
    #[test]
    fn one_prompt_answer_in_many_tells_the_path() {
        let mut rtt = Rtt::new(Timestamp::ZERO);
        for n in 0..200 {
            let now = Timestamp::from_millis(n * 50);
            if n % 64 == 0 {
                rtt.on_sample(now, prompt(1));
            } else {
                let took = Span::from_millis(21);
                let least = Span::ZERO;
                rtt.on_sample(now, Sample { took, least });
            }
        }
        assert_eq!(rtt.path(), Duration::from_millis(1));
        assert!(
            rtt.smoothed() > Duration::from_millis(15),
            "answers are late"
        );
    }
}
