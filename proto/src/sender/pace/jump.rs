//! A delay that comes at once, and stays as it is while we go slower: that of another route. A queue of ours grows, and
//! gets shorter; one of others seldom stays as it is.
//!
//! ```text
//!    delay       ▗▄▖                   what is ours of it goes away ...
//!               ▐███▙▄▄▄▄▄▄▄▄▄▄▄▄      ... and what is left stays
//!    limit ─ ─ ─▐████████████████
//!          ▁▁▁▁▁▐████████████████──▶ time
//!               a round trip
//! ```

use std::time::Duration;

use crate::time::{Span, Timestamp};

use super::queueing::Queue;

/// The delay since it was last as good as none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    /// The longest delays, in seconds, that packets met which left in this half of an empty path's round trip, and in each
    /// of the three before.
    halves: [f64; 4],
    half_began: Timestamp,
    /// The most that came at once, in seconds.
    sudden: f64,
    /// How long it stays, roughly.
    level: Level,
    /// How long it stays, closely.
    steady: Level,
    /// What became of packets since it last changed roughly.
    packets: u32,
    lost: u32,
}

impl Jump {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            halves: [f64::INFINITY; 4],
            half_began: now,
            sudden: 0.0,
            level: Level::none(now),
            steady: Level::none(now),
            packets: 0,
            lost: 0,
        }
    }

    pub(super) fn on_acked(&mut self) {
        self.packets = self.packets.saturating_add(1);
    }

    pub(super) fn on_lost(&mut self) {
        self.packets = self.packets.saturating_add(1);
        self.lost = self.lost.saturating_add(1);
    }

    /// A packet that left then met that queue. An empty path takes `base_s` seconds.
    pub(super) fn on_delay(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        queue: Queue,
        base_s: f64,
    ) {
        // A queue of ours, which is no queue yet, makes a round trip that much longer.
        if sent_at > self.half_began + Span::from_secs(0.5 * base_s + queue.low) {
            self.half_began = sent_at;
            self.halves.rotate_right(1);
            self.halves[0] = 0.0;
        }
        self.halves[0] = self.halves[0].max(queue.most);
        if queue.most < queue.low {
            self.sudden = 0.0;
            (self.level.delay, self.steady.delay) = (0.0, 0.0);
            return;
        }
        // Of a longer way there is heard half a round trip later than of a longer way back.
        let [.., before] = self.halves;
        self.sudden = self.sudden.max(queue.most - before);
        // What the peer may have held back says neither that it has changed, nor that it has not.
        if queue.delay < queue.low {
            return;
        }
        let Queue { delay, jitter, .. } = queue;
        if self.level.changes(now, delay, DIFFERS, jitter) {
            self.look_from(now);
        }
        self.steady
            .changes(now, delay, DIFFERS_CLOSELY, jitter.min(DIFFERS * delay));
    }

    fn look_from(&mut self, now: Timestamp) {
        self.level.since = now;
        (self.packets, self.lost) = (0, 0);
    }

    /// It came at once, but for what is ours of it.
    pub(super) fn is_sudden(&self, queue: Queue) -> bool {
        self.is_left_of_sudden(queue, 1.0 + DIFFERS)
    }

    /// It is between [`LEFT`] and so many times what came at once.
    fn is_left_of_sudden(&self, queue: Queue, times: f64) -> bool {
        (LEFT * self.sudden..times * self.sudden).contains(&queue.delay)
    }

    /// Whether it is another route's.
    pub(super) fn is_route(&mut self, now: Timestamp, queue: Queue, slower: &Slower) -> bool {
        let drains = 2 * slower.step + Duration::from_secs_f64(self.level.delay);
        let needs = if slower.is_one_of_many { 2 } else { 1 };
        let stays = |level: &Level| now.since(level.since.max(slower.since));
        let came_at_once = self.is_sudden(queue) && stays(&self.level) > needs * drains;
        let half_came_at_once = self.is_left_of_sudden(queue, 2.0);
        let is_steady = half_came_at_once && stays(&self.steady) > 2 * drains + STEADY;
        if !came_at_once && !is_steady {
            return false;
        }
        let loses = f64::from(self.lost + 1) > slower.loss_max * f64::from(self.packets);
        if self.lost > 1 && loses {
            self.look_from(now);
        }
        !loses
    }
}

/// How we hold back, while the delay is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slower {
    /// A queue of ours would have had the time to get shorter since.
    pub(super) since: Timestamp,
    /// How long the path takes to answer.
    pub(super) step: Duration,
    /// More is lost where a queue is full.
    pub(super) loss_max: f64,
    /// We may be one of many who fill a queue together: what comes at once says less.
    pub(super) is_one_of_many: bool,
}

/// A delay since it last changed.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// In seconds.
    delay: f64,
    since: Timestamp,
}

impl Level {
    fn none(now: Timestamp) -> Self {
        Self {
            delay: 0.0,
            since: now,
        }
    }

    /// Whether this differs by more than such a share of what it was, and than so many seconds.
    fn changes(&mut self, now: Timestamp, delay: f64, share: f64, least: f64) -> bool {
        let differs = (delay - self.delay).abs() > (share * self.delay).max(least);
        if differs {
            (self.delay, self.since) = (delay, now);
        }
        differs
    }
}

/// What differs by less than this share of what it was has not changed. A TCP that lost something gives more back, and
/// nearly all of a queue of ours drains in the time.
const DIFFERS: f64 = 0.2;

/// What differs by less has not changed, whoever sends how much: half of it need not have come at once, as where a queue of
/// ours was there before.
const DIFFERS_CLOSELY: f64 = 0.1;

/// It must stay for longer then. A TCP adds a segment in each round trip.
const STEADY: Duration = Duration::from_millis(400);

/// No more of it was ours than leaves this share.
const LEFT: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    /// Delays in milliseconds, of packets that leave each 10 ms from 1 s on; we go slower from 1.1 s on. When it is found to
    /// be a route's. One packet in `each` is lost.
    fn found(delays: impl IntoIterator<Item = u32>, each: u64) -> Option<u64> {
        found_by(false, delays, each)
    }

    fn found_by(
        is_one_of_many: bool,
        delays: impl IntoIterator<Item = u32>,
        each: u64,
    ) -> Option<u64> {
        let mut jump = Jump::new(Timestamp::ZERO);
        (100..).zip(delays).find_map(|(tick, millis)| {
            let sent_at = Timestamp::from_millis(10 * tick);
            let delay = f64::from(millis) / 1_000.0;
            let now = sent_at + STEP + Duration::from_millis(millis.into());
            for packet in 10 * tick..10 * tick + 10 {
                match packet.is_multiple_of(each) {
                    true => jump.on_lost(),
                    false => jump.on_acked(),
                }
            }
            let queue = Queue::quiet(delay);
            jump.on_delay(now, sent_at, queue, STEP.as_secs_f64());
            let slower = Slower {
                since: Timestamp::from_millis(1_100),
                step: STEP,
                loss_max: 0.02,
                is_one_of_many,
            };
            let is_route = jump.is_route(now, queue, &slower);
            is_route.then_some(10 * tick)
        })
    }

    #[test]
    fn what_comes_at_once_and_stays_is_a_routes() {
        assert_eq!(
            found([0; 10].into_iter().chain([60; 50]), 1_000),
            Some(1_270)
        );
        // The way there is longer as well, and that is heard of later.
        let both = [[0; 5].as_slice(), &[30; 5], &[60; 50]].concat();
        assert_eq!(found(both, 1_000), Some(1_270));
        assert_eq!(found([0; 100], 1_000), None);
    }

    /// Somebody else of many may have sent a lot at once.
    #[test]
    fn what_many_meet_must_stay_for_twice_as_long() {
        let delays = || [0; 10].into_iter().chain([60; 80]);
        assert_eq!(found_by(false, delays(), 1_000), Some(1_270));
        assert_eq!(found_by(true, delays(), 1_000), Some(1_430));
        let gone = [0; 10].into_iter().chain([60; 30]).chain([25; 80]);
        assert_eq!(found_by(true, gone, 1_000), None);
    }

    /// A queue of ours was there when the path became longer, and went away in the moment in which that was heard of: what came
    /// at once is less than what stays.
    #[test]
    fn what_stays_as_it_is_need_not_come_at_once() {
        let stays = |last: u32| {
            let delays = [18; 10].into_iter().chain([42; 30]);
            delays.chain((0..80).map(move |tick| 42 + tick * last / 80))
        };
        assert_eq!(found(stays(2), 1_000), Some(1_790));
        assert_eq!(found(stays(2), 20), None, "it loses");
        assert_eq!(found(stays(24), 1_000), None, "it grows");
    }

    /// It met a queue of ours, which drains while we go slower.
    #[test]
    fn what_is_ours_of_it_goes_away_before() {
        let drains = (0..10).map(|tick| 100 - 4 * tick);
        let delays = [15; 10].into_iter().chain(drains).chain([60; 50]);
        assert!(found(delays, 1_000).is_some_and(|at| at > 1_300));
    }

    #[test]
    fn what_grows_or_gets_shorter_is_a_queue() {
        let grows = (0..100).map(|tick| 2 * tick);
        assert_eq!(found(grows, 1_000), None);
        // It is full in the end.
        let fills = (0..100).map(|tick| (8 * tick).min(150));
        assert_eq!(found(fills, 1_000), None);
        let drains = [0; 5].into_iter().chain((0..100).map(|tick| 100 - tick));
        assert_eq!(found(drains, 1_000), None);
        // A TCP had filled it, and halved what it sends.
        let halved = [[0; 5].as_slice(), &[150; 15], &[60; 50]].concat();
        assert_eq!(found(halved, 1_000), None);
    }

    #[test]
    fn what_runs_over_is_a_queue() {
        let delays = || [0; 10].into_iter().chain([60; 100]);
        assert_eq!(found(delays(), 20), None);
        assert!(found(delays(), 100).is_some());
    }

    /// There was none in between.
    #[test]
    fn what_comes_again_is_another() {
        let delays = [[0; 5].as_slice(), &[60; 15], &[0; 5], &[60; 50]].concat();
        assert_eq!(found(delays, 1_000), Some(1_420));
    }
}
