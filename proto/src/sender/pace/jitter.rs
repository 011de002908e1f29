//! How much the path delays one packet more than the next.

use crate::windowed::{Largest, Windowed};

/// Seconds by which round trips after each other lie apart while bulk leaves, and the most of that lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter {
    last: f64,
    step: f64,
    mean: f64,
    samples: u8,
    /// The largest mean of the base's window.
    most: Windowed<f64, Largest>,
}

impl Jitter {
    /// A round trip; `pause`: long after the one before. A queue that comes or goes moves once: so the smaller of
    /// two such steps counts, and none over a pause. Nor does what may be a queue that moves by a packet or two, of
    /// `packet` seconds each at the present rate. Who goes slower later, for what others do, knows what he knew.
    pub(super) fn note(&mut self, rtt: f64, pause: bool, packet: f64) {
        let step = (rtt - self.last).abs();
        let smaller = step.min(self.step);
        self.last = rtt;
        if pause {
            self.step = 0.0;
            return;
        }
        self.step = step;
        self.samples = (self.samples + 1).min(SAMPLES);
        self.mean += (smaller - self.mean) / f64::from(self.samples);
        if self.samples == SAMPLES && self.mean > PACKETS * packet {
            self.most.note(self.mean);
        }
    }

    /// A slice of the base's window is over.
    pub(super) fn turn(&mut self) {
        self.most.turn();
    }

    /// How far apart the least and the most delay may be, in seconds, both directions together. Zero where that is not
    /// known.
    pub(super) fn range(&self) -> f64 {
        RANGE * self.most.get().unwrap_or(0.0)
    }
}

/// Round trips over which their distance is averaged.
const SAMPLES: u8 = 16;

/// Less than the time of so many packets may be others' packets in a queue.
const PACKETS: f64 = 2.0;

/// From the least to the most is no more than so many times that distance, with packets close to each other.
const RANGE: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    const PACKET: f64 = 0.001;

    #[test]
    fn what_delays_single_packets_is_seen() {
        let (mut random, mut jitter) = (Random::new(5), Jitter::default());
        for _ in 0..200 {
            jitter.note(0.05 + 0.06 * random.share(), false, 0.02);
        }
        assert_eq!(jitter.range(), 0.0, "may be a queue of few packets");
        for _ in 0..200 {
            jitter.note(0.05 + 0.06 * random.share(), false, PACKET);
        }
        let range = jitter.range();
        assert!((0.06..0.24).contains(&range), "{range}");
        for _ in 0..200 {
            jitter.note(0.05, false, 0.02);
        }
        assert_eq!(jitter.range(), range, "a low rate says nothing");
    }

    #[test]
    fn a_queue_that_comes_and_goes_is_none() {
        let mut jitter = Jitter::default();
        for sample in 0..200 {
            let queue = if sample / 10 % 2 == 0 { 0.0 } else { 0.03 };
            jitter.note(0.05 + queue, false, PACKET);
        }
        assert_eq!(jitter.range(), 0.0);
    }
}
