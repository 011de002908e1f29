//! Where a path's end shows although no queue is felt: more gets lost than usual, or a queue that holds
//! only some milliseconds is half full.

use std::time::Duration;

use crate::time::Timestamp;

use super::outage::Run;
use super::queueing::Queue;

/// What is lost of what is sent, now and usually.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    since: Timestamp,
    packets: u32,
    lost: u32,
    run: Run,
    /// Smoothed: what the path loses whatever is sent.
    usual: Option<f32>,
    /// Of so many packets.
    known: f32,
    /// Rows of losses in this window, each after something that arrived.
    rows: u32,
    /// Losses in one of them, usually.
    row: f32,
}

impl Losses {
    pub(super) fn on_acked(&mut self) {
        self.packets += 1;
    }

    /// A packet sent then was lost; `follows`, when the one sent before it was, too; `split`, when it was
    /// several datagrams.
    pub(super) fn on_lost(&mut self, sent_at: Timestamp, follows: bool, split: bool) {
        self.rows += u32::from(!follows);
        if !follows || split {
            self.run.end();
        }
        if self.run.goes_on(sent_at) {
            self.packets += 1;
            self.lost += 1;
        } else {
            let none = self.run.take_back();
            self.packets -= none;
            self.lost -= none;
        }
    }

    fn restart(&mut self) {
        (self.packets, self.lost, self.rows) = (0, 0, 0);
        self.run.take_back();
    }

    /// What is usual, as far as it may be the path's own.
    pub(super) fn usual(&self) -> f32 {
        self.usual.unwrap_or(0.0).min(USUAL_MAX)
    }

    /// What is found lost until then was sent at a rate that is known to be too high.
    pub(super) fn rest_until(&mut self, at: Timestamp) {
        self.since = at;
    }

    /// In the last `step`, clearly more was lost than usual. False until there is enough to say. What
    /// a path loses that `is_full` teaches nothing about the usual.
    pub(super) fn have_risen(&mut self, now: Timestamp, step: Duration, is_full: bool) -> bool {
        if now < self.since {
            self.restart();
        }
        // Half of everything is no chance.
        let most_of_some = self.packets >= LOSSES_OF / 4 && 2 * self.lost > self.packets;
        if !most_of_some && self.packets < LOSSES_OF || now.since(self.since) < step {
            return false;
        }
        let count = self.packets as f32;
        let share = self.lost as f32 / count;
        let row = self.lost as f32 / self.rows.max(1) as f32;
        self.since = now;
        self.restart();
        // The first share is the path's own, or else there is soon more of it.
        let usual = self.usual.get_or_insert(share.min(USUAL_MAX));
        // What little is known may be luck: two losses and two deliveries are added.
        let likely = (*usual * self.known + 2.0) / (self.known + 4.0);
        // A row is lost by one chance, not by many.
        let spread = likely * (1.0 - likely) * self.row.max(1.0);
        let chance = (spread / count).sqrt() + 2.0 * (spread / self.known.max(1.0)).sqrt();
        let most = 1.5 * likely + 0.05 + chance;
        // Slowly up: a rate that is a little too high must not make its own losses usual.
        let gain = if share < *usual {
            0.1
        } else if is_full {
            0.0
        } else {
            0.03
        };
        *usual += gain * (share.min(most) - *usual);
        if share > 0.0 && share <= most && !is_full {
            self.row += 0.1 * (row.min(ROW_MAX) - self.row);
        }
        self.known = (self.known + count).min(KNOWN_MAX);
        share > most
    }
}

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
        if !self.is_half_full(rate, queue) {
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
        true
    }

    /// Half of what the queue holds is there.
    pub(super) fn is_half_full(&self, rate: f64, queue: Queue) -> bool {
        let half = 0.5 * self.depth;
        half > queue.noise.max(NOISE_MIN) && queue.delay > half && rate > NEAR * self.rate
    }

    /// It ran over, while the path `carried` so much. The next look at it is not before `again_at`.
    pub(super) fn on_overflow(&mut self, again_at: Timestamp, carried: f64) {
        self.again_at = again_at;
        self.rate = carried;
        // A longer one is felt as a queue.
        self.depth = if self.peak < SHORT { self.peak } else { 0.0 };
        self.tries = 0;
    }
}

/// Packets that make a share, at least.
const LOSSES_OF: u32 = 64;

/// What is usual is a mean over so many packets.
const KNOWN_MAX: f32 = 2000.0;

/// A row of losses counts as no longer than this.
const ROW_MAX: f32 = 64.0;

/// More than this is hardly a path's own, even if each packet is made of seven datagrams.
const USUAL_MAX: f32 = 0.1;

/// Cuts in a row after which a queue is somebody else's, or the path another one.
const TRIES: u8 = 3;

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
    use crate::sim::Random;

    const STEP: Duration = Duration::from_millis(50);

    /// Rounds of 100 packets of which `loss(round)` get lost; the rounds in which that was a rise.
    fn rises(seed: u64, rounds: u64, loss: impl Fn(u64) -> f64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut losses = Losses::default();
        let mut found = Vec::new();
        for round in 0..rounds {
            let mut follows = false;
            let now = Timestamp::from_millis(50 * (round + 1));
            for _ in 0..100 {
                let lost = random.happens(loss(round));
                match lost {
                    true => losses.on_lost(now, follows, false),
                    false => losses.on_acked(),
                }
                follows = lost;
            }
            if losses.have_risen(now, STEP, false) {
                found.push(round);
            }
        }
        found
    }

    #[test]
    fn what_a_path_always_loses_is_no_rise() {
        for loss in [0.0, 0.01, 0.07] {
            let found = rises(3, 1_000, |_| loss);
            assert!(found.len() < 10, "{found:?} of 1000 at {loss}");
        }
    }

    #[test]
    fn what_is_lost_above_that_is() {
        let found = rises(4, 220, |round| if round < 200 { 0.02 } else { 0.25 });
        let late = found.iter().filter(|round| **round >= 200).count();
        assert!(late >= 10 && found.len() - late < 3, "{found:?}");
    }

    /// A delay in which nothing is chance.
    fn quiet(delay: f64) -> Queue {
        Queue {
            delay,
            noise: 0.0,
            jitter: 0.0,
            low: 0.01,
            over: false,
            is_new: true,
            stands: false,
        }
    }

    #[test]
    fn a_short_queue_is_met_before_it_runs_over_again() {
        let mut short_queue = ShortQueue::default();
        let mut now = Timestamp::from_millis(1_000);
        let mut at = |short_queue: &mut ShortQueue, rate: f64, queue_ms: f64| {
            now += STEP;
            short_queue.fills(now, STEP, rate, quiet(queue_ms * 1e-3))
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

    /// After a change of route the round trip is longer whatever is sent: that is no queue of ours.
    #[test]
    fn what_going_slower_does_not_shorten_is_left_alone() {
        let mut short_queue = ShortQueue::default();
        short_queue.fills(Timestamp::ZERO, STEP, 100.0, quiet(0.005));
        short_queue.on_overflow(Timestamp::ZERO, 100.0);
        let mut met = 0;
        for round in 0..200 {
            let now = Timestamp::from_millis(50 * round);
            met += u32::from(short_queue.fills(now, STEP, 100.0, quiet(0.006)));
        }
        assert_eq!(met, u32::from(TRIES));
    }
}
