//! A queue that holds only some milliseconds: where a path's end shows although no queue is felt.

use std::time::Duration;

use crate::time::Timestamp;

use super::queueing::Queue;

/// A queue too short to be felt as one: how much of it was felt when it ran over, so that next time it
/// need not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortQueue {
    /// The longest recent delay, in seconds; it fades.
    peak: f64,
    /// What it was when the queue ran over, in seconds; zero while that is not known.
    depth: f64,
    /// What the path carried then, in bytes a second.
    rate: f64,
    /// Times in a row that going slower did not shorten it.
    tries: u8,
    /// From then on more of it must be met than ran over, once.
    doubted_from: Timestamp,
    again_at: Timestamp,
}

impl ShortQueue {
    /// The delay is `queue` at this `rate`: true when it has grown to half of what the queue holds.
    pub(super) fn fills(
        &mut self,
        now: Timestamp,
        step: Duration,
        rate: f64,
        queue: Queue,
    ) -> bool {
        self.peak = queue.delay.max(self.peak * 0.9);
        if !self.is_filling(now, rate, queue) {
            if queue.delay < 0.25 * self.depth {
                self.tries = 0;
            }
            return false;
        }
        if now < self.again_at {
            return false;
        }
        self.again_at = now + 4 * step;
        if self.tries == TRIES {
            self.depth = 0.0;
            return false;
        }
        self.tries += 1;
        if now > self.doubted_from {
            self.doubted_from = now + BELIEVED;
        }
        true
    }

    /// Half of what the queue holds is there; or more than it holds, once that is doubted.
    pub(super) fn is_filling(&self, now: Timestamp, rate: f64, queue: Queue) -> bool {
        let half = 0.5 * self.depth;
        let share = if now > self.doubted_from { MORE } else { 0.5 };
        half > queue.noise.max(NOISE_MIN)
            && queue.delay > share * self.depth
            && rate > NEAR * self.rate
    }

    /// It ran over, while the path `carried` so much. The next look at it is not before `again_at`.
    pub(super) fn on_overflow(&mut self, again_at: Timestamp, carried: f64) {
        self.again_at = again_at;
        self.rate = carried;
        // A longer one is felt as a queue.
        self.depth = if self.peak < SHORT { self.peak } else { 0.0 };
        self.tries = 0;
        self.doubted_from = again_at + BELIEVED;
    }
}

/// Cuts in a row after which a queue is somebody else's, or the path another one.
const TRIES: u8 = 3;

/// After this long a queue is doubted: a delay so short may be the rhythm in which packets leave and are acknowledged, and then
/// it is met again and again, however much the path carries by now.
const BELIEVED: Duration = Duration::from_secs(20);

/// This many times what it holds is met only where it holds more. Where it does not, it runs over once more.
const MORE: f64 = 1.5;

/// Queues that hold less than this, in seconds, are short.
const SHORT: f64 = 0.02;

/// Delays in seconds below this are the noise of clocks and processors.
const NOISE_MIN: f64 = 0.001;

/// Below this share of what the path carried when the queue ran over, what looks like it is noise. After a
/// cut there is room above for growth, and nothing to cut again.
const NEAR: f64 = 0.93;

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    #[test]
    fn a_short_queue_is_met_before_it_runs_over_again() {
        let mut short_queue = ShortQueue::default();
        let mut now = Timestamp::from_millis(1_000);
        let mut at = |short_queue: &mut ShortQueue, rate: f64, queue_ms: f64| {
            now += STEP;
            short_queue.fills(now, STEP, rate, Queue::quiet(queue_ms * 1e-3))
        };
        assert!(!at(&mut short_queue, 100.0, 5.0), "nothing ran over so far");
        short_queue.on_overflow(Timestamp::ZERO, 100.0);
        assert!(!at(&mut short_queue, 100.0, 1.0));
        assert!(at(&mut short_queue, 100.0, 3.0));
        assert!(
            !at(&mut short_queue, 95.0, 3.0),
            "the answer is a round trip away"
        );
        assert!(
            !at(&mut short_queue, 60.0, 3.0),
            "at such a rate it is noise"
        );
    }

    /// A rhythm of packets that looks like half of the queue, or all of it, at any rate near that at which it ran over.
    #[test]
    fn what_never_runs_over_again_is_forgotten() {
        for queue_ms in [3.0, 7.0] {
            let mut short_queue = ShortQueue::default();
            short_queue.fills(Timestamp::ZERO, STEP, 100.0, Queue::quiet(0.005));
            short_queue.on_overflow(Timestamp::ZERO, 100.0);
            let mut met = |millis: std::ops::Range<u64>| {
                let rounds = (millis.start / 50..millis.end / 50).filter(|round| {
                    // It is gone for a moment after each cut.
                    let delay = if round % 8 < 4 { 0.0 } else { queue_ms * 1e-3 };
                    let now = Timestamp::from_millis(50 * round);
                    short_queue.fills(now, STEP, 100.0, Queue::quiet(delay))
                });
                rounds.count()
            };
            assert_eq!(met(0..20_000), 50, "{queue_ms}");
            assert_eq!(met(20_000..100_000), 0, "{queue_ms}");
        }
    }

    /// It holds more than it seemed to, as where it was filled by several, and need not run over to show that.
    #[test]
    fn what_is_still_there_is_met_before_it_runs_over() {
        let mut short_queue = ShortQueue::default();
        short_queue.fills(Timestamp::ZERO, STEP, 100.0, Queue::quiet(0.005));
        short_queue.on_overflow(Timestamp::ZERO, 100.0);
        let mut met = |millis, queue_ms: f64| {
            let now = Timestamp::from_millis(millis);
            short_queue.fills(now, STEP, 100.0, Queue::quiet(queue_ms * 1e-3))
        };
        assert!(!met(21_000, 7.0));
        assert!(met(21_050, 8.0));
        assert!(met(22_000, 3.0));
    }

    /// After a change of route the round trip is longer whatever is sent: that is no queue of ours.
    #[test]
    fn what_going_slower_does_not_shorten_is_left_alone() {
        let mut short_queue = ShortQueue::default();
        short_queue.fills(Timestamp::ZERO, STEP, 100.0, Queue::quiet(0.005));
        short_queue.on_overflow(Timestamp::ZERO, 100.0);
        let mut met = 0;
        for round in 0..200 {
            let now = Timestamp::from_millis(50 * round);
            met += u32::from(short_queue.fills(now, STEP, 100.0, Queue::quiet(0.006)));
        }
        assert_eq!(met, u32::from(TRIES));
    }
}
