//! What the messages of a session ask of its path by themselves, and were given: no reason to cut bulk makes it
//! slower than that. A game whose backlogs meet a lower rate would never be rid of them.

use crate::sender::params::Params;
use crate::time::{Span, Timestamp};

use super::asked::Asked;

/// Bytes a second that left, from one moment at which nothing waited to a later one: the path had room for all. And
/// those that were said, as long as no queue is met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    counted_since: Timestamp,
    bytes: f64,
    waiting: Waiting,
    /// Smoothed; zero before it is known.
    rate: f64,
    asked: Asked,
    /// Late acknowledgements in a row.
    late: u8,
    /// A queue was felt since nothing waited: what is said may be more than the path carries.
    met_queue: bool,
}

/// Whether more waits than a packet takes.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Since(Timestamp),
    /// It did from `since` until `drained`.
    Not {
        since: Timestamp,
        drained: Timestamp,
    },
}

impl Demand {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            counted_since: now,
            bytes: 0.0,
            waiting: Waiting::Not {
                since: now,
                drained: now,
            },
            rate: 0.0,
            asked: Asked::new(now),
            late: 0,
            met_queue: false,
        }
    }

    /// The least rate for bulk, in bytes a second: more than messages ask for, so that a backlog of theirs gets
    /// shorter. One that does not is bulk, or more than the path carries now.
    pub(super) fn floor(&self, now: Timestamp, params: &Params) -> f64 {
        let left = match self.has_waited(now, BACKLOG_MAX) {
            true => 0.0,
            false => self.rate,
        };
        let said = match self.met_queue || self.has_waited(now, SAID_BACKLOG_MAX) {
            true => 0.0,
            false => self.asked.rate(),
        };
        (MARGIN * left.max(said))
            .max(params.bulk.min)
            .min(params.bulk.max)
    }

    /// An acknowledgement came late, as behind a queue that is felt, or did not. `is_new`: it says more than the one
    /// before.
    pub(super) fn on_delay(&mut self, is_late: bool, is_new: bool) {
        self.late = match is_late {
            true => self.late.saturating_add(is_new.into()),
            false => 0,
        };
        self.met_queue |= self.late >= LATE_MAX;
    }

    /// A message of so many bytes was queued. `is_full`: there is no room for another.
    pub(super) fn on_said(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        self.asked.on_said(now, bytes, is_full);
    }

    /// So many bytes left, of whatever kind.
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.bytes += bytes as f64;
    }

    /// Whether more waits than a packet takes.
    pub(super) fn on_waiting(&mut self, now: Timestamp, waits: bool) {
        match self.waiting {
            Waiting::Since(since) if !waits => {
                let drained = now;
                self.waiting = Waiting::Not { since, drained };
            }
            Waiting::Since(_) => {}
            Waiting::Not { since, drained } if now <= drained + GAP_MAX => {
                if waits {
                    self.waiting = Waiting::Since(since);
                }
            }
            Waiting::Not { since, drained } => {
                self.on_pause(now, drained.span_since(since));
                self.waiting = match waits {
                    true => Waiting::Since(now),
                    false => Waiting::Not {
                        since: drained,
                        drained,
                    },
                };
            }
        }
    }

    /// Something has waited all the time for longer than `span`.
    pub(super) fn has_waited(&self, now: Timestamp, span: Span) -> bool {
        matches!(self.waiting, Waiting::Since(since) if now > since + span)
    }

    /// Nothing waits, after something did for so long.
    fn on_pause(&mut self, now: Timestamp, waited: Span) {
        self.met_queue = false;
        let is_bulk = waited > BACKLOG_MAX;
        let span = now.span_since(self.counted_since);
        if !is_bulk && span < SPAN {
            return;
        }
        // Bulk takes what it is given, which says nothing.
        if !is_bulk {
            let rate = self.bytes / span.as_secs();
            let gain = if self.rate == 0.0 { 1.0 } else { GAIN };
            self.rate += gain * (rate - self.rate);
        }
        (self.counted_since, self.bytes) = (now, 0.0);
    }
}

/// So many times what messages ask for.
const MARGIN: f64 = 1.5;

/// Time over which bytes are counted, at least.
const SPAN: Span = Span::from_millis(1_000);

/// Of what the last span says, this share counts.
const GAIN: f64 = 0.25;

/// What waits for longer is bulk: what a hole in the peer's messages kept back, and what came meanwhile, are gone
/// by then.
const BACKLOG_MAX: Span = Span::from_millis(1_000);

/// What was said and waits for longer than this is bulk too, where no queue is met.
const SAID_BACKLOG_MAX: Span = Span::from_millis(3_000);

/// Late acknowledgements in a row that may be a queue. Bulk that looks for the path's end waits for twice as many, as it
/// pays for what it takes for one by mistake.
const LATE_MAX: u8 = 4;

/// A program that is read from as soon as there is room again makes no longer pause than this.
const GAP_MAX: Span = Span::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Among losses, where nothing was ever without a backlog.
    #[test]
    fn what_is_said_is_the_least_until_a_queue_is_felt() {
        let params = Params::default();
        let mut demand = Demand::new(at(0));
        demand.on_waiting(at(0), true);
        for millis in (0..2_000).step_by(25) {
            demand.on_said(at(millis), 500, false);
        }
        let floor = |demand: &Demand, millis| demand.floor(at(millis), &params);
        assert_eq!(floor(&demand, 2_000), 30_000.0);
        for is_late in [true, true, true, false, true, true, true] {
            demand.on_delay(is_late, true);
        }
        assert_eq!(floor(&demand, 2_000), 30_000.0, "late by chance");
        assert_eq!(floor(&demand, 3_001), params.bulk.min, "it takes too long");
        demand.on_delay(true, false);
        assert_eq!(floor(&demand, 2_000), 30_000.0, "the same again");
        demand.on_delay(true, true);
        assert_eq!(floor(&demand, 2_000), params.bulk.min);
        demand.on_waiting(at(2_100), false);
        demand.on_waiting(at(2_200), true);
        assert_eq!(floor(&demand, 2_200), 30_000.0);
    }

    /// Each tenth of a second 4000 bytes leave, of which there is more than a packet for `waits` ms.
    fn bursts(demand: &mut Demand, millis: std::ops::Range<u64>, waits: u64) {
        for begin in millis.step_by(100) {
            demand.on_waiting(at(begin), true);
            demand.on_sent(4_000);
            demand.on_waiting(at(begin + waits), false);
        }
    }

    #[test]
    fn what_messages_ask_for_is_the_least() {
        let params = Params::default();
        let mut demand = Demand::new(at(0));
        assert_eq!(demand.floor(at(0), &params), params.bulk.min);
        bursts(&mut demand, 0..5_000, 60);
        let floor = demand.floor(at(5_000), &params);
        assert!((59_000.0..66_000.0).contains(&floor), "{floor}");
    }

    /// A path that carries less than before.
    #[test]
    fn a_backlog_that_stays_is_bulk() {
        let params = Params::default();
        let mut demand = Demand::new(at(0));
        bursts(&mut demand, 0..5_000, 60);
        demand.on_waiting(at(5_000), true);
        assert!(demand.floor(at(6_000), &params) > params.bulk.min);
        assert_eq!(demand.floor(at(10_000), &params), params.bulk.min);
    }

    /// A program that is read whenever there is room: now and then there is nothing for a moment.
    #[test]
    fn bulk_asks_for_nothing() {
        let params = Params::default();
        let mut demand = Demand::new(at(0));
        bursts(&mut demand, 0..20_000, 98);
        assert_eq!(demand.floor(at(20_000), &params), params.bulk.min);
        assert!(!demand.has_waited(at(20_000), Span::ZERO));
        demand.on_waiting(at(20_001), true);
        assert!(demand.has_waited(at(20_001), Span::from_millis(19_000)));
    }
}
