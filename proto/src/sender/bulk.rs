//! The byte rate of bulk: blocks and backlogs larger than a packet. It looks for the path's rate from
//! below, by what is delivered, and never by letting a queue fill.

use std::time::Duration;

use crate::time::Timestamp;

use super::ack_timer::LARGE_PACKET_BYTES;
use super::overflow::{Brim, Losses};
use super::params::Params;
use super::queueing::Queue;

/// Bytes a second for bulk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    rate: f64,
    /// Bytes of the last packet of bulk: a message beyond a datagram makes a large one.
    packet: f64,
    /// Bulk is waiting for the rate; else acknowledgements say nothing about the path's.
    is_limited: bool,
    limited_at: Timestamp,
    /// Growing by shares per round trip, until the first sign of a queue.
    starting: bool,
    grown_at: Timestamp,
    /// Growth steps without any queue: the longer, the faster the search.
    calm: u32,
    /// What was delivered when a queue was met last.
    ceiling: f64,
    /// Growth steps above that without the first sign of a queue.
    clear: u32,
    /// Acknowledgements in a row that were late, as behind a queue.
    late: u8,
    losses: Losses,
    brim: Brim,
    metered_from: Option<Timestamp>,
    metered_bytes: f64,
    /// Delivered rates of the last spans, newest last.
    delivered: [f64; 4],
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
            packet: 0.0,
            is_limited: false,
            limited_at: now,
            starting: true,
            grown_at: now,
            calm: 0,
            ceiling: 0.0,
            clear: 0,
            late: 0,
            losses: Losses::default(),
            brim: Brim::default(),
            metered_from: None,
            metered_bytes: 0.0,
            delivered: [0.0; 4],
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Bulk left, and the rate is what holds it back.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    pub(super) fn is_at_floor(&self, params: &Params) -> bool {
        self.rate <= params.bulk_min * 1.01
    }

    /// So many bytes of bulk were sent, with more behind them.
    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: usize) {
        self.packet = bytes as f64;
        self.limited_at = now;
        if !self.is_limited {
            self.is_limited = true;
            self.metered_from = None;
        }
    }

    /// Without bulk for longer than the rate explains, it is not what limits.
    pub(super) fn on_idle(&mut self, now: Timestamp, rtt: f64) {
        let idle = now.since(self.limited_at).as_secs_f64();
        if self.is_limited && idle > 2.0 * rtt + 0.1 + self.packet / self.rate.max(1.0) {
            self.is_limited = false;
            self.metered_from = None;
        }
    }

    /// A packet was acknowledged.
    pub(super) fn on_acked(&mut self, now: Timestamp, bytes: usize, rtt: f64) {
        if !self.is_limited {
            return;
        }
        self.losses.count(false);
        // The first round trip of a bulk phase still brings acks from before it.
        let begin = now + Duration::from_secs_f64(rtt);
        let from = *self.metered_from.get_or_insert(begin);
        if now < from {
            return;
        }
        self.metered_bytes += bytes as f64;
        let span = now.since(from).as_secs_f64();
        if span >= rtt.max(0.05) {
            self.delivered.rotate_left(1);
            self.delivered[3] = self.metered_bytes / span;
            self.metered_bytes = 0.0;
            self.metered_from = Some(now);
        }
    }

    /// A packet was found lost.
    pub(super) fn on_lost(&mut self) {
        if self.is_limited {
            self.losses.count(true);
        }
    }

    /// How long one packet takes the path, as far as it is known, in seconds, while the rate limits.
    pub(super) fn packet_time(&self) -> f64 {
        if !self.is_limited {
            return 0.0;
        }
        let best = self.best_delivered();
        let carries = if best > 0.0 {
            best.min(self.rate)
        } else {
            self.rate
        };
        (self.packet / carries.max(1.0)).min(PACKET_TIME_MAX)
    }

    /// The path is good: looks for more, once per `step` (a round trip).
    pub(super) fn grow(&mut self, now: Timestamp, step: Duration, queue: Queue, params: &Params) {
        if !self.is_limited {
            return;
        }
        let path = self.look(now, step, queue, params);
        if path.is_end {
            self.meet_end(&path, params);
            self.grown_at = now + step;
            self.losses.rest_until(now + 2 * step);
        }
        if now.since(self.grown_at) < step || now < self.grown_at {
            return;
        }
        if self.starting && path.is_late {
            // The next ones tell whether that is a queue.
            return;
        }
        self.grown_at = now;
        let best = self.best_delivered();
        if self.starting {
            self.multiply(best, params);
        } else {
            self.climb(&path, queue, params);
        }
        if best > 0.0 {
            self.rate = self.rate.min((AHEAD_MAX * best).max(params.bulk_start));
        }
        self.rate = self.rate.min(params.bulk_max);
    }

    /// What the last acknowledgement says of the path.
    fn look(&mut self, now: Timestamp, step: Duration, queue: Queue, params: &Params) -> Path {
        let best = self.best_delivered();
        let is_late = self.note_delay(queue, params);
        let is_queue = self.late >= self.samples_of_a_queue();
        // What the path loses anyway was carried to where it got lost.
        let share = f64::from(1.0 - self.losses.usual());
        let carried = best / share;
        let fills = self.brim.rises(now, step, self.rate, queue);
        let is_full = self.brim.is_near(self.rate, queue);
        let overflows = self.losses.rise(now, step, is_full);
        if overflows {
            self.brim.overflowed(now + 4 * step, carried);
        }
        Path {
            is_late,
            is_queue,
            is_end: best > 0.0 && (overflows || fills || self.starting && is_queue),
            is_met: is_queue || overflows || is_full,
            carried,
            // A path that is merely full delivers evenly; others delivered most a moment ago.
            end: if self.starting || overflows {
                carried
            } else {
                self.usually_delivered() / share
            },
            passed: self.delivered[3] / share,
        }
    }

    /// Until an end was met. It goes on while the path delivers what it is sent: half of it, a round trip
    /// later, while doubling. Where an end was met, with care, until it is some way below.
    fn multiply(&mut self, best: f64, params: &Params) {
        let is_near_end = self.rate < DISPROVED * self.ceiling;
        let (times, enough) = if is_near_end {
            (AGAIN, AGAIN_WITH)
        } else {
            (2.0, DOUBLE_WITH)
        };
        // Before anything of that is known, once at most.
        let unknown = best == 0.0 && self.rate <= params.bulk_start;
        if unknown || self.delivered[3] > enough * self.rate {
            self.rate *= times;
        }
    }

    /// Afterwards: step by step, faster while no queue shows.
    fn climb(&mut self, path: &Path, queue: Queue, params: &Params) {
        self.calm = if queue.delay < queue.low {
            self.calm + 1
        } else {
            0
        };
        let haste = (1.0 + f64::from(self.calm) / 10.0).min(HASTE_MAX);
        let step = (STEP_SHARE * self.rate).clamp(STEP_MIN, params.bulk_step);
        // A rate that is not used, because the window is, is not found to be too low.
        if self.rate < USED * path.carried {
            self.rate += haste * (step + params.bulk_growth * self.rate);
        }
        self.look_anew(path.is_met || path.passed < PASSED * self.ceiling);
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
        let packets = f64::from(SIGN) * DATAGRAM / self.packet.max(1.0);
        (packets as u8).clamp(1, SIGN)
    }

    /// And as many to stop for one. Where an end was met the path is known, and no more is asked than that the
    /// queue stands for its time.
    pub(super) fn samples_to_stop(&self) -> u8 {
        if self.starting {
            self.samples_of_a_queue()
        } else {
            0
        }
    }

    /// The path carried no more than that: goes on with some of it.
    fn meet_end(&mut self, path: &Path, params: &Params) {
        // Where no queue is felt, none has to drain.
        let keep = if path.is_queue {
            params.bulk_return
        } else {
            KEEP
        };
        self.starting = false;
        self.clear = 0;
        self.calm = 0;
        self.ceiling = path.end;
        self.rate = self.rate.min(keep * path.end).max(params.bulk_min);
    }

    /// Where a queue was met last, more than that passes now without one, for some round trips: what
    /// was met there was not the path's end, or the path is another one.
    fn look_anew(&mut self, is_met: bool) {
        if is_met || self.rate < CLEAR_ABOVE * self.ceiling {
            self.clear = 0;
            return;
        }
        self.clear += 1;
        self.starting = self.clear >= CLEAR_STEPS;
    }

    /// The path turned bad.
    pub(super) fn cut(&mut self, params: &Params) {
        self.calm = 0;
        if !self.is_limited {
            return;
        }
        let best = self.best_delivered();
        let delivered = if best > 0.0 {
            best.min(self.rate)
        } else {
            0.5 * self.rate
        };
        self.ceiling = best.max(delivered);
        self.rate = (params.bulk_cut * delivered).max(params.bulk_min);
        self.starting = false;
    }

    /// It is still bad although we cut.
    pub(super) fn cut_again(&mut self, params: &Params) {
        let delivered = if self.delivered[3] > 0.0 {
            self.delivered[3]
        } else {
            self.rate
        };
        self.rate = (self.rate.min(delivered) * params.bulk_cut).max(params.bulk_min);
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
            self.rate = (self.rate * 0.5).max(params.bulk_min);
            *cut_at = now;
            self.grown_at = now;
        } else if !lost && now.since(self.grown_at) >= step {
            self.rate = (self.rate + 1250.0 / step.as_secs_f64()).min(params.bulk_max);
            self.grown_at = now;
        }
    }

    /// Whatever the cause: under heavy loss bulk takes no more than a TCP would, which goes there by
    /// steps too. A packet of several datagrams is lost with any of them.
    pub(super) fn limit_by_loss(&mut self, rtt: f64, loss: f64, params: &Params) {
        if self.is_limited {
            let datagrams = (self.packet / DATAGRAM).max(1.0);
            let loss = 1.0 - (1.0 - loss.min(0.99)).powf(1.0 / datagrams);
            let tcp = 1.22 * DATAGRAM / (rtt.max(1e-3) * loss.sqrt());
            let least = (params.bulk_cut * self.rate).max(params.bulk_min);
            self.rate = self.rate.min(tcp.max(least));
            self.starting = false;
        }
    }

    /// Delivered most lately.
    pub(super) fn peak(&self) -> f64 {
        0.5 * (self.delivered[2] + self.delivered[3])
    }

    /// The second best of the last spans: one of them may be luck, and others may be pauses.
    fn usually_delivered(&self) -> f64 {
        let mut spans = self.delivered;
        spans.sort_by(f64::total_cmp);
        spans[2]
    }

    fn best_delivered(&self) -> f64 {
        self.delivered.iter().copied().fold(0.0, f64::max)
    }
}

/// Late acknowledgements in a row that are a queue: at a low rate a moment has one or two round trips, of which
/// the smallest says little. HyStart++ takes as many (RFC 9406, section 4.3: N_RTT_SAMPLE).
const SIGN: u8 = 8;

/// What is kept of the delivered rate where no queue has to drain.
const KEEP: f64 = 0.95;

/// So far above the last ceiling, a path at its end would show a queue within a few round trips.
const CLEAR_ABOVE: f64 = 1.1;

/// And so much of it must have come through: a rate that the window keeps from being used shows nothing.
const PASSED: f64 = 1.04;

/// Round trips without one before the rate grows by shares again.
const CLEAR_STEPS: u32 = 3;

/// By this much then, and no more: the path's end was near once, and at twice what it takes, every packet
/// that is made of several datagrams breaks.
const AGAIN: f64 = 1.125;

/// Share of the rate that must have come through for that, and for doubling, where a round trip ago it was
/// half of it.
const AGAIN_WITH: f64 = 0.8;
const DOUBLE_WITH: f64 = 0.35;

/// However that looks, the rate is no more than so many times what was delivered.
const AHEAD_MAX: f64 = 3.0;

/// A step is at most this share of the rate, so that a slow flow gains no more than its path can tell it in
/// a round trip; and at least so many bytes a second.
const STEP_SHARE: f64 = 0.06;
const STEP_MIN: f64 = 400.0;

/// Steps are so many times as large at most, after seventy without a queue.
const HASTE_MAX: f64 = 8.0;

/// A rate of so many times what an end was met at, without meeting it, shows that it was none, or is gone.
const DISPROVED: f64 = 4.0;

/// Bytes of a full datagram, roughly.
const DATAGRAM: f64 = 1100.0;

/// In seconds: a queue of more than this is one, however slow the path.
const PACKET_TIME_MAX: f64 = 0.1;

/// Beyond this times what was carried, the rate is not what limits.
const USED: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_at_a_slow_rate_is_no_pause() {
        let start = Timestamp::ZERO;
        let mut bulk = Bulk::new(start, &Params::default());
        // 7057 bytes at 64 KiB a second take 108 ms.
        bulk.on_sent(start, 7_057);
        bulk.on_idle(start + Duration::from_millis(150), 0.001);
        assert!(bulk.is_limited(), "the next is not yet due, or just is");
        bulk.on_idle(start + Duration::from_millis(250), 0.001);
        assert!(!bulk.is_limited());
    }
}
