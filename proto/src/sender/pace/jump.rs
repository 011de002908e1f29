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
    /// What it was when it last changed, in seconds.
    level: f64,
    level_since: Timestamp,
    /// What became of packets since then.
    packets: u32,
    lost: u32,
}

impl Jump {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            halves: [f64::INFINITY; 4],
            half_began: now,
            sudden: 0.0,
            level: 0.0,
            level_since: now,
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
            (self.sudden, self.level) = (0.0, 0.0);
            return;
        }
        // Of a longer way there is heard half a round trip later than of a longer way back.
        let [.., before] = self.halves;
        self.sudden = self.sudden.max(queue.most - before);
        // What the peer may have held back says neither that it has changed, nor that it has not.
        let is_proven = queue.delay >= queue.low;
        let differs = (queue.delay - self.level).abs();
        if is_proven && differs > (DIFFERS * self.level).max(queue.jitter) {
            self.level = queue.delay;
            self.look_from(now);
        }
    }

    fn look_from(&mut self, now: Timestamp) {
        self.level_since = now;
        (self.packets, self.lost) = (0, 0);
    }

    /// It came at once, but for what is ours of it.
    pub(super) fn is_sudden(&self, queue: Queue) -> bool {
        (LEFT * self.sudden..(1.0 + DIFFERS) * self.sudden).contains(&queue.delay)
    }

    /// Whether it is another route's. We went slower at `slower_since`, and a queue of ours would have had the time to
    /// get shorter since. `step`: how long the path takes to answer. More than `loss_max` is lost where a queue is full.
    pub(super) fn is_route(
        &mut self,
        now: Timestamp,
        queue: Queue,
        slower_since: Timestamp,
        step: Duration,
        loss_max: f64,
    ) -> bool {
        let stayed = now.since(self.level_since.max(slower_since));
        if !self.is_sudden(queue) || stayed <= 2 * step + Duration::from_secs_f64(self.level) {
            return false;
        }
        let loses = f64::from(self.lost + 1) > loss_max * f64::from(self.packets);
        if self.lost > 1 && loses {
            self.look_from(now);
        }
        !loses
    }
}

/// What differs by less than this share of what it was has not changed. A TCP that lost something gives more back, and
/// nearly all of a queue of ours drains in the time.
const DIFFERS: f64 = 0.2;

/// No more of it was ours than leaves this share.
const LEFT: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    /// Delays in milliseconds, of packets that leave each 10 ms from 1 s on; we go slower from 1.1 s on. When it is found to
    /// be a route's. One packet in `each` is lost.
    fn found(delays: impl IntoIterator<Item = u32>, each: u64) -> Option<u64> {
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
            let slower_since = Timestamp::from_millis(1_100);
            let is_route = jump.is_route(now, queue, slower_since, STEP, 0.02);
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
