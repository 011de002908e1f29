//! The byte rate of bulk: blocks and backlogs larger than a packet. It looks for the path's rate from
//! below, by what is delivered, and never by letting a queue fill.
//!
//! ```text
//!               a queue, or losses: the path's end
//!   slow start ───────────────────────────────────▶ step by step, from a part of what was carried
//!       ▲                                                │            │
//!       └── above that without a sign of an end ◀────────┘            └── an end: again from a part
//! ```

use std::time::Duration;

use crate::sender::ack_timer::LARGE_PACKET_BYTES;
use crate::sender::in_flight::{DATAGRAM_BYTES, Sent};
use crate::sender::params::Params;
use crate::time::Timestamp;

use super::delivered::Delivered;
use super::losses::{Losses, Witness};
use super::queueing::Queue;
use super::short_queue::ShortQueue;
use super::volley::Volley;

/// Bytes a second for bulk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    rate: f64,
    /// It is no lower than this.
    floor: f64,
    /// Bytes of the last packet of bulk: a message beyond a datagram makes a large one.
    packet: f64,
    /// Bulk is waiting for the rate; else acknowledgements say nothing about the path's.
    is_limited: bool,
    limited_at: Timestamp,
    /// Growing by a factor per round trip, until the first sign of a queue.
    in_slow_start: bool,
    grown_at: Timestamp,
    /// Steps of growth without any queue: the more, the larger they get.
    steps_without_queue: u32,
    /// What was delivered when the path was last found full: where slow start is over, as at a TCP's
    /// ssthresh. Zero before that.
    ceiling: f64,
    /// Steps of growth above that without a sign of a queue.
    steps_above_ceiling: u32,
    /// Acknowledgements in a row that were late, as behind a queue.
    late: u8,
    losses: Losses,
    short_queue: ShortQueue,
    delivered: Delivered,
    volley: Volley,
}

/// What is seen of a path, rates in bytes a second.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// The present delay is more than chance mostly is.
    is_late: bool,
    /// It has been for so long that it is a queue.
    is_queue: bool,
    /// It carries no more.
    is_end: bool,
    /// It may carry no more.
    is_met: bool,
    /// What it carried at best, lately.
    carried: f64,
    /// What it carried, if it carries no more.
    end: f64,
    /// What came through last.
    passed: f64,
}

impl Bulk {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self {
            rate: params.bulk_start,
            floor: params.bulk_min,
            packet: 0.0,
            is_limited: false,
            limited_at: now,
            in_slow_start: true,
            grown_at: now,
            steps_without_queue: 0,
            ceiling: 0.0,
            steps_above_ceiling: 0,
            late: 0,
            losses: Losses::default(),
            short_queue: ShortQueue::default(),
            delivered: Delivered::default(),
            volley: Volley::new(now, params),
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes that may leave at once after a pause. Once there was a sign of the path's end, no more of it than
    /// makes a queue of [`Params::queue_max`].
    pub(super) fn window(&self, params: &Params) -> f64 {
        let window = self.volley.window();
        let has_met_end = self.ceiling > 0.0 || !self.in_slow_start;
        match has_met_end {
            true => window.min(self.rate * params.queue_max.as_secs_f64()),
            false => window,
        }
    }

    /// Bulk left, and the rate is what holds it back.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    pub(super) fn is_at_floor(&self) -> bool {
        self.rate <= self.floor * 1.01
    }

    pub(super) fn set_floor(&mut self, floor: f64) {
        self.floor = floor;
        self.rate = self.rate.max(floor);
    }

    /// So many bytes of bulk were sent, with more behind them.
    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: usize) {
        self.packet = bytes as f64;
        self.volley.on_sent(now, bytes);
        self.limited_at = now;
        if !self.is_limited {
            self.is_limited = true;
            self.delivered.pause();
        }
    }

    /// Without bulk for longer than the rate explains, it is not what limits.
    pub(super) fn on_idle(&mut self, now: Timestamp, rtt: f64, params: &Params) {
        let idle = now.since(self.limited_at).as_secs_f64();
        if self.is_limited && idle > 2.0 * rtt + 0.1 + self.packet / self.rate.max(1.0) {
            self.is_limited = false;
            self.delivered.pause();
            self.volley.end(now, params);
        }
    }

    /// The last acknowledgement met this.
    pub(super) fn note_queue(&mut self, queue: Queue, params: &Params) {
        if queue.latest > (2.0 * queue.jitter).max(params.queue_max.as_secs_f64()) {
            self.volley.on_queue();
        }
    }

    /// A packet was acknowledged.
    pub(super) fn on_acked(&mut self, now: Timestamp, bytes: usize, rtt: f64) {
        if !self.is_limited {
            return;
        }
        self.losses.on_acked();
        self.delivered.on_acked(now, bytes, rtt);
    }

    /// A packet was found lost; `follows`, when the one before it was as well.
    pub(super) fn on_lost(&mut self, sent: &Sent, follows: bool, params: &Params) {
        if self.is_limited
            && !self
                .volley
                .on_lost(sent.at, sent.wire_bytes, follows, params)
        {
            self.losses.on_lost(sent.at, follows, sent.split);
        }
    }

    /// Bulk waits for answers, or there is none, and it does not wait for the rate: what is acknowledged then is not
    /// what the path carries.
    pub(super) fn on_held_up(&mut self) {
        self.delivered.on_held_up();
    }

    /// How long one packet takes the path, as far as it is known, in seconds, while the rate limits.
    pub(super) fn packet_time(&self) -> f64 {
        if !self.is_limited {
            return 0.0;
        }
        let best = self.delivered.best();
        let carries = if best > 0.0 {
            best.min(self.rate)
        } else {
            self.rate
        };
        (self.packet / carries.max(1.0)).min(PACKET_TIME_MAX)
    }

    /// The path is good: looks for more, once per `step` (a round trip). True when a queue was met, and the rate
    /// fell.
    pub(super) fn grow(
        &mut self,
        now: Timestamp,
        step: Duration,
        queue: Queue,
        params: &Params,
    ) -> bool {
        if !self.is_limited {
            return false;
        }
        let path = self.look(now, step, queue, params);
        if path.is_end {
            self.on_path_full(&path, params);
            self.grown_at = now + step;
            self.losses.rest_until(now + 2 * step);
        } else {
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
        let best = self.delivered.best();
        if self.in_slow_start {
            self.slow_start(best, params);
        } else {
            self.avoid_congestion(path, queue, params);
        }
        if best > 0.0 {
            self.rate = self
                .rate
                .min((RATE_TO_DELIVERED_MAX * best).max(params.bulk_start));
        }
        self.rate = self.rate.min(params.bulk_max);
    }

    /// The rate stays until then.
    pub(super) fn hold_until(&mut self, at: Timestamp) {
        self.grown_at = self.grown_at.max(at);
    }

    /// What looked like the path's end was not: looks for it further on.
    pub(super) fn search_on(&mut self) {
        (self.in_slow_start, self.late) = (true, 0);
    }

    /// What the last acknowledgement says of the path.
    fn look(&mut self, now: Timestamp, step: Duration, queue: Queue, params: &Params) -> Path {
        let best = self.delivered.best();
        let is_late = self.note_delay(queue, params);
        let is_queue = self.late >= self.samples_of_a_queue();
        // What the path loses anyway was carried to where it got lost.
        let share = f64::from(1.0 - self.losses.usual());
        let carried = best / share;
        let fills = self.short_queue.fills(now, step, self.rate, queue);
        let is_full = self.short_queue.is_half_full(self.rate, queue);
        let witness = self.witness(step, queue, is_full);
        let overflows = self.losses.have_risen(now, step, witness);
        if overflows {
            self.short_queue.on_overflow(now + 4 * step, carried);
        }
        Path {
            is_late,
            is_queue,
            is_end: best > 0.0 && (overflows || fills || self.in_slow_start && is_queue),
            is_met: is_queue || overflows || is_full,
            carried,
            // A path that is merely full delivers evenly; others delivered most a moment ago.
            end: if self.in_slow_start || overflows {
                carried
            } else {
                self.delivered.usual() / share
            },
            passed: self.delivered.last() / share,
        }
    }

    /// What is lost now may be many's doing where the queue is never empty. And who has few datagrams under way
    /// is one of many, for all that is known: a TCP would go no faster with such losses.
    fn witness(&self, step: Duration, queue: Queue, is_full: bool) -> Witness {
        let under_way = self.rate * step.as_secs_f64();
        if is_full {
            Witness::Overflow
        } else if queue.fill > FILL_OF_CROWD || under_way < SHARE_OF_CROWD {
            Witness::Crowd
        } else {
            Witness::Path
        }
    }

    /// Until the path was found full. It goes on while the path delivers what it is sent: half of it, a
    /// round trip later, while doubling. Near where it was full before, by less.
    fn slow_start(&mut self, best: f64, params: &Params) {
        let is_near_end = self.rate < CEILING_DISPROVED * self.ceiling;
        let (times, enough) = if is_near_end {
            (REGROWTH, REGROW_DELIVERED_MIN)
        } else {
            (2.0, DOUBLE_DELIVERED_MIN)
        };
        // Before anything of that is known, once at most.
        let unknown = best == 0.0 && self.rate <= params.bulk_start;
        if unknown || self.delivered.last() > enough * self.rate {
            self.rate *= times;
        }
    }

    /// After slow start: step by step, in larger steps while no queue shows.
    fn avoid_congestion(&mut self, path: &Path, queue: Queue, params: &Params) {
        self.steps_without_queue = if queue.delay < queue.low {
            self.steps_without_queue + 1
        } else {
            0
        };
        let speedup = (1.0 + f64::from(self.steps_without_queue) / 10.0).min(SPEEDUP_MAX);
        let step = (STEP_SHARE * self.rate).clamp(STEP_MIN, params.bulk_step);
        // A rate that is not used, because the window is, is not found to be too low.
        if self.rate < RATE_USED * path.carried {
            self.rate += speedup * (step + params.bulk_growth * self.rate);
        }
        self.resume_slow_start(path.is_met || path.passed < DELIVERED_ABOVE_CEILING * self.ceiling);
    }

    /// Whether the present delay is more than chance mostly is.
    fn note_delay(&mut self, queue: Queue, params: &Params) -> bool {
        let most = params.queue_max.as_secs_f64();
        let noise = if self.is_large() { 0.0 } else { queue.noise };
        let least = if self.is_large() || self.ceiling > 0.0 {
            most / 3.0
        } else {
            // Of a path of which nothing is known, jitter is not known either.
            most / 2.0
        };
        let is_late = queue.delay > (2.0 * queue.jitter).max(noise).max(least);
        self.late = match is_late {
            true => self.late.saturating_add(queue.is_new.into()),
            false => 0,
        };
        is_late
    }

    /// Large packets are acknowledged at once, and a queue that has room for few of them may not be seen
    /// twice.
    fn is_large(&self) -> bool {
        self.packet > LARGE_PACKET_BYTES as f64
    }

    /// Late acknowledgements in a row that are a queue: of packets of several datagrams fewer, as a queue has
    /// room for fewer of them.
    fn samples_of_a_queue(&self) -> u8 {
        let packets = f64::from(QUEUE_SAMPLES) * DATAGRAM / self.packet.max(1.0);
        (packets as u8).clamp(1, QUEUE_SAMPLES)
    }

    /// And as many to stop for one. Where an end was met the path is known, and no more is asked than that the
    /// queue stands for its time.
    pub(super) fn samples_to_stop(&self) -> u8 {
        if self.in_slow_start {
            self.samples_of_a_queue()
        } else {
            0
        }
    }

    /// The path carries no more: goes on with a part of what it carried.
    fn on_path_full(&mut self, path: &Path, params: &Params) {
        // Where no queue is felt, none has to drain.
        let keep = if path.is_queue {
            params.bulk_return
        } else {
            KEPT_WITHOUT_QUEUE - self.losses.distrust()
        };
        self.in_slow_start = false;
        self.steps_above_ceiling = 0;
        self.steps_without_queue = 0;
        self.ceiling = path.end;
        self.rate = self.rate.min(keep * path.end).max(self.floor);
    }

    /// More comes through than where the path was last found full, without a queue, for some round trips:
    /// it was not full then, or it is another path.
    fn resume_slow_start(&mut self, is_met: bool) {
        if is_met || self.rate < ABOVE_CEILING * self.ceiling {
            self.steps_above_ceiling = 0;
            return;
        }
        self.steps_above_ceiling += 1;
        self.in_slow_start = self.steps_above_ceiling >= STEPS_ABOVE_CEILING;
    }

    /// The path turned bad.
    pub(super) fn cut(&mut self, params: &Params) {
        self.steps_without_queue = 0;
        if !self.is_limited {
            return;
        }
        let best = self.delivered.best();
        let delivered = if best > 0.0 {
            best.min(self.rate)
        } else {
            0.5 * self.rate
        };
        self.ceiling = best.max(delivered);
        self.rate = (params.bulk_cut * delivered).max(self.floor);
        self.in_slow_start = false;
    }

    /// It is still bad although we cut.
    pub(super) fn cut_again(&mut self, params: &Params) {
        let delivered = if self.delivered.last() > 0.0 {
            self.delivered.last()
        } else {
            self.rate
        };
        self.rate = (self.rate.min(delivered) * params.bulk_cut).max(self.floor);
    }

    /// The path is good again.
    pub(super) fn resume(&mut self, now: Timestamp, params: &Params) {
        self.grown_at = now;
        if self.is_limited && self.ceiling > 0.0 {
            self.rate = self.rate.max(params.bulk_return * self.ceiling);
        }
    }

    /// Somebody else fills the queue: goes on by loss, like a TCP beside it.
    pub(super) fn compete(
        &mut self,
        now: Timestamp,
        step: Duration,
        lost: bool,
        cut_at: &mut Timestamp,
        params: &Params,
    ) {
        if !self.is_limited {
            return;
        }
        if lost && now.since(*cut_at) >= step {
            self.rate = (self.rate * 0.5).max(self.floor);
            *cut_at = now;
            self.grown_at = now;
        } else if !lost && now.since(self.grown_at) >= step {
            self.rate = (self.rate + 1250.0 / step.as_secs_f64()).min(params.bulk_max);
            self.grown_at = now;
        }
    }

    /// Whatever the cause: under heavy loss of datagrams bulk takes no more than a TCP would, which goes
    /// there by steps too.
    pub(super) fn limit_by_loss(&mut self, rtt: f64, loss: f64, params: &Params) {
        if self.is_limited {
            let tcp = 1.22 * DATAGRAM / (rtt.max(1e-3) * loss.sqrt());
            let least = (params.bulk_cut * self.rate).max(self.floor);
            self.rate = self.rate.min(tcp.max(least));
            self.in_slow_start = false;
        }
    }

    /// So much is lost here whatever is sent.
    pub(super) fn is_usual_loss(&self, share: f64) -> bool {
        self.losses.is_usual(share as f32)
    }

    /// Delivered most lately.
    pub(super) fn peak(&self) -> f64 {
        self.delivered.lately()
    }
}

/// Late acknowledgements in a row that are a queue: at a low rate the time over which round trips are compared
/// has one or two of them, of which the smallest says little. HyStart++ takes as many (RFC 9406, section 4.3: N_RTT_SAMPLE).
const QUEUE_SAMPLES: u8 = 8;

/// What is kept of the delivered rate where no queue has to drain.
const KEPT_WITHOUT_QUEUE: f64 = 0.95;

/// A queue that is mostly this full has others in it. One that only we fill, and keep short, is a twentieth to an
/// eighth full.
const FILL_OF_CROWD: f64 = 0.25;

/// Bytes under way, of one of many: three times what a TCP has where a tenth is lost (RFC 5348, section 3.1).
const SHARE_OF_CROWD: f64 = 12.0 * DATAGRAM;

/// At this many times the ceiling, a path that is full would show a queue within a few round trips.
const ABOVE_CEILING: f64 = 1.1;

/// And this many times the ceiling must have come through: a rate that the window keeps from being used
/// shows nothing.
const DELIVERED_ABOVE_CEILING: f64 = 1.04;

/// Round trips without one before slow start resumes.
const STEPS_ABOVE_CEILING: u32 = 3;

/// The factor of a slow start that resumed near the ceiling: at twice what the path takes, every packet that
/// is made of several datagrams is lost.
const REGROWTH: f64 = 1.125;

/// Share of the rate that must have come through for that, and for doubling: the rate of a round trip ago was
/// half of the present one.
const REGROW_DELIVERED_MIN: f64 = 0.8;
const DOUBLE_DELIVERED_MIN: f64 = 0.35;

/// Whatever the search says, the rate is at most this many times what was delivered.
const RATE_TO_DELIVERED_MAX: f64 = 3.0;

/// A step is at most this share of the rate, so that a slow flow gains no more than its path can tell it in
/// a round trip; and at least so many bytes a second.
const STEP_SHARE: f64 = 0.06;
const STEP_MIN: f64 = 400.0;

/// Steps grow to this many times their size, after seventy without a queue.
const SPEEDUP_MAX: f64 = 8.0;

/// A rate of this many times the ceiling, without a queue, shows that the path was not full there, or is not
/// any more.
const CEILING_DISPROVED: f64 = 4.0;

/// Bytes of a full datagram, roughly.
const DATAGRAM: f64 = DATAGRAM_BYTES as f64;

/// In seconds: a queue of more than this is one, however slow the path.
const PACKET_TIME_MAX: f64 = 0.1;

/// Above this many times what was carried, the rate is not what limits.
const RATE_USED: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_at_a_slow_rate_is_no_pause() {
        let start = Timestamp::ZERO;
        let mut bulk = Bulk::new(start, &Params::default());
        // 7057 bytes at 64 KiB a second take 108 ms.
        bulk.on_sent(start, 7_057);
        bulk.on_idle(
            start + Duration::from_millis(150),
            0.001,
            &Params::default(),
        );
        assert!(bulk.is_limited(), "the next is not yet due, or just is");
        bulk.on_idle(
            start + Duration::from_millis(250),
            0.001,
            &Params::default(),
        );
        assert!(!bulk.is_limited());
    }
}
