//! What the messages of a session ask of its path by themselves: no reason to cut bulk makes it slower than that. A game
//! whose backlogs meet a lower rate would never be rid of them.

use crate::sender::params::Params;
use crate::time::{Span, Timestamp};

use super::asked::Asked;

/// What is said, as long as no queue is met and nothing of it waits for long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    waiting: Waiting,
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
            waiting: Waiting::Not {
                since: now,
                drained: now,
            },
            asked: Asked::new(now),
            late: 0,
            met_queue: false,
        }
    }

    /// The least rate for bulk, in bytes a second: more than messages ask for, so that a backlog of theirs gets
    /// shorter. One that does not is bulk, or more than the path carries now. `is_slow`, while messages are slowed down: a
    /// part of that, so that a queue of theirs gets shorter, and they are not far behind where it is not theirs.
    pub(super) fn floor(&self, now: Timestamp, is_slow: bool, params: &Params) -> f64 {
        let share = if self.has_waited(now, BACKLOG_MAX) {
            0.0
        } else if is_slow {
            SLOWED
        } else if self.met_queue {
            0.0
        } else {
            MARGIN
        };
        (share * self.rate())
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

    /// The queue that was met is not ours.
    pub(super) fn forget_queue(&mut self) {
        self.met_queue = false;
        self.late = 0;
    }

    /// A message of so many bytes was queued. `is_full`: there is no room for another.
    pub(super) fn on_pushed(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        self.asked.on_pushed(now, bytes, is_full);
    }

    /// Whether more waits than a packet takes.
    pub(super) fn on_waiting(&mut self, now: Timestamp, waits: bool) {
        match self.waiting {
            Waiting::Since(since) if !waits => {
                let drained = now;
                self.waiting = Waiting::Not { since, drained };
            }
            Waiting::Since(_) => {}
            Waiting::Not { since, drained } => {
                let is_pause = now > drained + GAP_MAX;
                self.met_queue &= !is_pause;
                if waits {
                    let since = if is_pause { now } else { since };
                    self.waiting = Waiting::Since(since);
                }
            }
        }
    }

    /// What is said evenly, in bytes a second; zero where nothing is, or it finds no room.
    pub(super) fn rate(&self) -> f64 {
        self.asked.rate()
    }

    /// Something has waited all the time for longer than `span`.
    pub(super) fn has_waited(&self, now: Timestamp, span: Span) -> bool {
        matches!(self.waiting, Waiting::Since(since) if now > since + span)
    }
}

/// The floor is so many times the rate of messages.
const MARGIN: f64 = 1.5;

/// While messages are slowed down, it is this share of their rate.
const SLOWED: f64 = 0.5;

/// What waits for longer is bulk, or more than the path carries now.
const BACKLOG_MAX: Span = Span::from_millis(3_000);

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
            demand.on_pushed(at(millis), 500, false);
        }
        let floor = |demand: &Demand, millis| demand.floor(at(millis), false, &params);
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

    /// A program that is read whenever there is room: now and then there is nothing for a moment.
    #[test]
    fn who_makes_hardly_a_pause_waits_all_the_time() {
        let mut demand = Demand::new(at(0));
        for begin in (0..20_000).step_by(100) {
            demand.on_waiting(at(begin), true);
            demand.on_waiting(at(begin + 98), false);
        }
        assert!(!demand.has_waited(at(20_000), Span::ZERO));
        demand.on_waiting(at(20_001), true);
        assert!(demand.has_waited(at(20_001), Span::from_millis(19_000)));
    }
}
