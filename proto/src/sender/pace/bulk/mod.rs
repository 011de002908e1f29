//! The byte rate of bulk: blocks and backlogs larger than a packet. It looks for the path's rate from
//! below, by what is delivered, and never by letting a queue fill.
//!
//! ```text
//!               a queue, or losses: the path's end
//!   slow start ───────────────────────────────────▶ step by step, from a part of what was carried
//!       ▲                                                │            │
//!       └── above that without a sign of an end ◀────────┘            └── an end: again from a part
//! ```

mod end;
mod under_loss;

use std::time::Duration;

use crate::sender::in_flight::Sent;
use crate::sender::params::Params;
use crate::time::Timestamp;

use self::end::End;
use super::heavy_loss::HeavyLoss;
use super::queueing::Queue;
use super::volley::Volley;
use super::watch::{Going, Path, Watch};

/// Bytes a second for bulk.
#[derive(Clone, Debug)]
pub(super) struct Bulk {
    rate: f64,
    /// It is no lower than this.
    floor: f64,
    /// Bulk is being sent, or was until a moment ago; else acknowledgements say nothing about the path's rate. Not
    /// always is it the rate that holds it back: [`Bulk::on_held_up`].
    is_active: bool,
    sent_at: Timestamp,
    /// Growing by a factor per round trip, until the first sign of a queue.
    in_slow_start: bool,
    grown_at: Timestamp,
    /// When it was last slowed down because the path is bad, or somebody else's.
    cut_at: Timestamp,
    /// Steps of growth without any queue: the more, the larger they get.
    steps_without_queue: u32,
    end: End,
    /// While loss is heavy and may be the path's own, which few ever see.
    heavy_loss: Option<Box<HeavyLoss>>,
    watch: Watch,
    volley: Volley,
}

impl Bulk {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self {
            rate: params.bulk.start,
            floor: params.bulk.min,
            is_active: false,
            sent_at: now,
            in_slow_start: true,
            grown_at: now,
            cut_at: now,
            steps_without_queue: 0,
            end: End::default(),
            heavy_loss: None,
            watch: Watch::default(),
            volley: Volley::new(now, params),
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes that may leave at once after a pause. Once there was a sign of the path's end, no more of it than
    /// makes a queue of [`PathLimits::queue_max`](crate::sender::PathLimits::queue_max).
    pub(super) fn window(&self, params: &Params) -> f64 {
        let window = self.volley.window();
        let has_met_end = self.end.is_known() || !self.in_slow_start;
        match has_met_end {
            true => {
                let most = self.rate.max(self.end.carried());
                window.min(most * params.path.queue_max.as_secs_f64())
            }
            false => window,
        }
    }

    /// Bulk is being sent: it left, and no pause has begun since.
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    pub(super) fn is_at_floor(&self) -> bool {
        self.rate <= self.floor * AT_FLOOR
    }

    pub(super) fn set_floor(&mut self, floor: f64) {
        self.floor = floor;
        self.rate = self.rate.max(floor);
    }

    /// Bulk was sent, with more waiting behind it.
    pub(super) fn on_sent(&mut self, now: Timestamp, number: u64, bytes: usize) {
        self.watch.on_sent(bytes);
        self.volley.on_sent(now, number, bytes);
        self.sent_at = now;
        if !self.is_active {
            self.is_active = true;
            self.watch.pause();
        }
    }

    /// Without bulk for longer than the rate explains, there is a pause.
    pub(super) fn on_idle(&mut self, now: Timestamp, rtt_s: f64, params: &Params) {
        let idle = now.span_since(self.sent_at).as_secs();
        if self.is_active && idle > 2.0 * rtt_s + IDLE_MIN + self.watch.packet_time(self.rate) {
            self.is_active = false;
            self.watch.pause();
            self.volley.end(now, params);
        }
    }

    /// Some of what left at once after a pause was more than a queue holds.
    pub(super) fn overflows(&self) -> bool {
        self.volley.overflows()
    }

    /// The last acknowledgement met a queue that is felt.
    pub(super) fn on_queue(&mut self) {
        self.volley.on_queue();
    }

    /// A packet that was sent then was acknowledged.
    pub(super) fn on_acked(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        bytes: usize,
        rtt_s: f64,
    ) {
        if !self.is_active {
            return;
        }
        self.volley.on_acked(sent_at, bytes);
        self.watch.on_acked(now, bytes, rtt_s, self.rate);
    }

    /// A packet was found lost; `follows`, when the one before it was as well.
    pub(super) fn on_lost(&mut self, number: u64, sent: &Sent, follows: bool, params: &Params) {
        if self.is_active && !self.volley.on_lost(number, sent, follows, params) {
            self.watch.on_lost(sent, follows);
        }
    }

    /// Bulk waits for answers, or there is none, and it does not wait for the rate: what is acknowledged then is not
    /// what the path carries.
    pub(super) fn on_held_up(&mut self) {
        self.watch.on_held_up();
    }

    /// How long one packet takes the path, as far as it is known, in seconds, while bulk is sent.
    pub(super) fn packet_time(&self) -> f64 {
        if !self.is_active {
            return 0.0;
        }
        let best = self.watch.delivered().best();
        let carries = if best > 0.0 {
            best.min(self.rate)
        } else {
            self.rate
        };
        self.watch.packet_time(carries).min(PACKET_TIME_MAX)
    }

    /// Bulk is being sent and the path is good: looks for more, once per `step` (a round trip). True when a queue was
    /// met, and the rate fell.
    pub(super) fn grow(
        &mut self,
        now: Timestamp,
        step: Duration,
        queue: Queue,
        params: &Params,
    ) -> bool {
        let going = Going {
            rate: self.rate,
            in_slow_start: self.in_slow_start,
            knows_end: self.end.is_known(),
        };
        let path = self.watch.look(now, step, queue, going, params);
        let felt = queue.felt(params);
        if path.is_end {
            self.grown_at = now + self.rest(step, &path);
            let end_min = self.volley.end_min(now, step, felt, params);
            self.on_path_full(&path, path.end.max(end_min));
            self.watch.rest_until(now + 2 * step);
        } else {
            // Until the path's end was met, what left at once says more than a rate that nobody measured.
            if self.in_slow_start && !self.end.is_known() {
                let carried = self.volley.carried(step, felt);
                self.rate = self.rate.max(carried.min(params.bulk.max));
            }
            self.search(now, step, &path, queue, params);
        }
        path.is_end && path.is_queue
    }

    /// The end was not met: goes faster, if it is time to.
    fn search(
        &mut self,
        now: Timestamp,
        step: Duration,
        path: &Path,
        queue: Queue,
        params: &Params,
    ) {
        if now.since(self.grown_at) < step || now < self.grown_at {
            return;
        }
        if self.in_slow_start && path.is_late {
            // The next ones tell whether that is a queue.
            return;
        }
        self.grown_at = now;
        let best = self.watch.delivered().best();
        if self.in_slow_start {
            self.slow_start(best, params);
        } else {
            self.avoid_congestion(path, queue);
        }
        if best > 0.0 {
            self.rate = self
                .rate
                .min((RATE_TO_DELIVERED_MAX * best).max(params.bulk.start));
        }
        self.rate = self.rate.min(params.bulk.max);
    }

    /// The rate stays until then.
    pub(super) fn hold_until(&mut self, at: Timestamp) {
        self.grown_at = self.grown_at.max(at);
    }

    /// What looked like the path's end was not: looks for it further on.
    pub(super) fn search_on(&mut self) {
        self.in_slow_start = true;
        self.watch.forget_late();
    }

    /// What was taken for the path's end was another route.
    pub(super) fn on_another_route(&mut self) {
        self.end.take_back();
        self.search_on();
        self.watch.forget_short_queue();
    }

    /// Until the path was found full. It goes on while the path delivers what it is sent: half of it, a
    /// round trip later, while doubling. Near where it was full before, by less.
    fn slow_start(&mut self, best: f64, params: &Params) {
        let (times, enough) = if self.end.is_near(self.rate) {
            (REGROWTH, REGROW_DELIVERED_MIN)
        } else {
            (2.0, DOUBLE_DELIVERED_MIN)
        };
        // Before anything of that is known, once at most.
        let unknown = best == 0.0 && self.rate <= params.bulk.start;
        if unknown || self.watch.passed_own() > enough * self.rate {
            self.rate *= times;
        }
    }

    /// After slow start: step by step, in larger steps while no queue shows.
    fn avoid_congestion(&mut self, path: &Path, queue: Queue) {
        self.steps_without_queue = if queue.delay < queue.low {
            self.steps_without_queue + 1
        } else {
            0
        };
        let speedup = (1.0 + f64::from(self.steps_without_queue) / SPEEDUP_STEPS).min(SPEEDUP_MAX);
        let step = (STEP_SHARE * self.rate).clamp(STEP_MIN, STEP_MAX);
        // A rate that is not used, because the window is, is not found to be too low.
        if self.rate < RATE_USED * path.carried {
            self.rate += speedup * (step + GROWTH * self.rate);
        }
        self.in_slow_start = self.end.is_passed(self.rate, path.passed, path.is_met);
    }

    /// Late acknowledgements in a row to stop for: as many as are a queue. Where an end was met the path is known, and
    /// no more is asked than that the queue stands for its time.
    pub(super) fn samples_to_stop(&self) -> u8 {
        if self.in_slow_start {
            self.watch.samples_of_a_queue()
        } else {
            0
        }
    }

    /// The path carries no more than `end`: goes on with a part of that.
    fn on_path_full(&mut self, path: &Path, end: f64) {
        let keep = if path.is_queue {
            KEPT_ON_RETURN
        } else if path.is_shared {
            // The flow that has more gives more. That makes flows equal that share their losses.
            KEPT_ON_RETURN - self.watch.distrust()
        } else {
            // Where no queue is felt, none has to drain.
            KEPT_WITHOUT_QUEUE - self.watch.distrust()
        };
        self.in_slow_start = false;
        self.steps_without_queue = 0;
        self.end.meet(end);
        self.rate = self.rate.min(keep * end).max(self.floor);
    }

    /// How long the rate stays when the path's end was met. Who shares it heard the losses as well, and needs the time to
    /// come back. What slow start carried first is too little known to stay with.
    fn rest(&self, step: Duration, path: &Path) -> Duration {
        match path.is_shared && !path.is_queue && self.end.is_known() {
            true => (RESTS_AFTER_LOSSES * step).min(RESTS_MAX).max(step),
            false => step,
        }
    }

    /// The path turned bad.
    pub(super) fn cut(&mut self, now: Timestamp) {
        self.cut_at = now;
        self.steps_without_queue = 0;
        if !self.is_active {
            return;
        }
        let best = self.watch.delivered().best();
        let delivered = if best > 0.0 {
            best.min(self.rate)
        } else {
            UNMEASURED * self.rate
        };
        self.end.replace(best.max(delivered));
        self.rate = (KEPT_WHEN_BAD * delivered).max(self.floor);
        self.in_slow_start = false;
    }

    /// It is still bad although we cut: cuts once more when it had the time (a `step` is a round trip) to help.
    pub(super) fn cut_again(&mut self, now: Timestamp, step: Duration) {
        if !self.is_active || now.since(self.cut_at) < 2 * step + CUT_EVERY {
            return;
        }
        self.cut_at = now;
        let delivered = if self.watch.delivered().last() > 0.0 {
            self.watch.delivered().last()
        } else {
            self.rate
        };
        self.rate = (self.rate.min(delivered) * KEPT_WHEN_BAD).max(self.floor);
    }

    /// The path is good again.
    pub(super) fn resume(&mut self, now: Timestamp) {
        self.grown_at = now;
        if self.is_active && self.end.is_known() {
            self.rate = self.rate.max(KEPT_ON_RETURN * self.end.carried());
        }
    }

    /// Goes by loss, like a TCP beside it.
    pub(super) fn compete(&mut self, now: Timestamp, step: Duration, lost: bool, params: &Params) {
        if !self.is_active {
            return;
        }
        if lost && now.since(self.cut_at) >= step {
            self.rate = (self.rate * TCP_DECREASE).max(self.floor);
            self.cut_at = now;
            self.grown_at = now;
        } else if !lost && now.since(self.grown_at) >= step {
            self.rate = (self.rate + TCP_INCREASE / step.as_secs_f64()).min(params.bulk.max);
            self.grown_at = now;
        }
    }

    /// Delivered most lately.
    pub(super) fn peak(&self) -> f64 {
        self.watch.delivered().lately()
    }
}

/// Share of the delivered rate that is kept when the path turns bad.
pub(super) const KEPT_WHEN_BAD: f64 = 0.7;

/// Share of it that is kept on return to good, or where a queue shows that the path is full.
pub(super) const KEPT_ON_RETURN: f64 = 0.85;

/// What is kept of the delivered rate where no queue has to drain.
const KEPT_WITHOUT_QUEUE: f64 = 0.95;

/// Round trips for which the rate stays after such losses, and the most time: a TCP that halved the 60 segments it has under
/// way takes as many to have them back (RFC 5681, section 3.1: a segment a round trip).
const RESTS_AFTER_LOSSES: u32 = 30;
const RESTS_MAX: Duration = Duration::from_secs(2);

/// The factor of a slow start that resumed near the end: at twice what the path takes, every packet that
/// is made of several datagrams is lost.
const REGROWTH: f64 = 1.125;

/// Share of the rate that must have come through for that, and for doubling: the rate of a round trip ago was
/// half of the present one.
const REGROW_DELIVERED_MIN: f64 = 0.8;
const DOUBLE_DELIVERED_MIN: f64 = 0.35;

/// Whatever the search says, the rate is at most this many times what was delivered.
const RATE_TO_DELIVERED_MAX: f64 = 3.0;

/// Bytes a second gained per round trip: the same for fast and slow flows, which makes them fair to each other; 2000 keeps
/// the queue of sixteen flows that find each other under 50 ms.
const STEP_MAX: f64 = 2_000.0;

/// A step is at most this share of the rate, so that a slow flow gains no more than its path can tell it in
/// a round trip; and at least so many bytes a second.
const STEP_SHARE: f64 = 0.06;
const STEP_MIN: f64 = 400.0;

/// Share of the rate gained beside it, so that a wide path is found within seconds; small, because it keeps unequal flows
/// unequal.
const GROWTH: f64 = 0.003;

/// Steps grow by their size each ten without a queue, up to this many times that.
const SPEEDUP_STEPS: f64 = 10.0;
const SPEEDUP_MAX: f64 = 8.0;

/// In seconds: a queue of more than this is one, however slow the path.
const PACKET_TIME_MAX: f64 = 0.1;

/// Above this many times what was carried, the rate is not what limits.
const RATE_USED: f64 = 1.2;

/// Up to this many times the floor, nothing is left to cut.
pub(super) const AT_FLOOR: f64 = 1.01;

/// Beside two round trips, the least time from one cut to the next: acknowledgements may be late, and a queue takes
/// time to drain.
const CUT_EVERY: Duration = Duration::from_millis(100);

/// In seconds: beside two round trips, bulk that is late by less than this is still going on.
const IDLE_MIN: f64 = 0.1;

/// Share of its rate that bulk is thought to get through a bad path, where nothing was measured.
const UNMEASURED: f64 = 0.5;

/// As a TCP goes by loss: half is kept, and a segment more, in bytes, is sent each round trip (RFC 5681, section 3.1).
const TCP_DECREASE: f64 = 0.5;
const TCP_INCREASE: f64 = 1250.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_at_a_slow_rate_is_no_pause() {
        let start = Timestamp::ZERO;
        let mut bulk = Bulk::new(start, &Params::default());
        // 7057 bytes at 64 KiB a second take 108 ms.
        bulk.on_sent(start, 0, 7_057);
        bulk.on_idle(
            start + Duration::from_millis(150),
            0.001,
            &Params::default(),
        );
        assert!(bulk.is_active(), "the next is not yet due, or just is");
        bulk.on_idle(
            start + Duration::from_millis(250),
            0.001,
            &Params::default(),
        );
        assert!(!bulk.is_active());
    }
}
