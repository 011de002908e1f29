//! The path is bad, and that may be our doing: we hold back, in this order bulk, copies and messages, and look whether
//! it helps.

use std::time::Duration;

use crate::sender::params::Params;
use crate::time::Timestamp;

use super::bulk::{AT_FLOOR, Bulk};
use super::competing::held_back_for;

/// What came of holding back so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bad {
    since: Timestamp,
    /// Messages keep their rate, because bulk or copies can be cut first.
    spares_messages: bool,
    /// What bulk had delivered when it began, in bytes a second.
    peak: f64,
    /// Since when the queue is nearly empty.
    low_since: Option<Timestamp>,
    /// Since when there is nothing left to cut, and the queue was not nearly empty once.
    floor_since: Option<Timestamp>,
}

impl Bad {
    /// `spares_messages`: bulk leaves, or copies do. `peak`: what is delivered of bulk, in bytes a second.
    pub(super) fn new(now: Timestamp, spares_messages: bool, peak: f64) -> Self {
        Self {
            since: now,
            spares_messages,
            peak,
            low_since: None,
            floor_since: None,
        }
    }

    /// When we began to hold back.
    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// While bulk or copies are there to be cut, messages keep their rate.
    pub(super) fn spares_messages(&self) -> bool {
        self.spares_messages
    }

    /// The queue is nearly empty. True if bulk has its rate again at once, after a round trip (`step`) of that:
    /// where messages were slowed down, they wait out the penalty.
    pub(super) fn on_low(&mut self, now: Timestamp, step: Duration) -> bool {
        self.floor_since = None;
        let since = *self.low_since.get_or_insert(now);
        self.spares_messages && now.since(since) >= step
    }

    /// It is not, or too much gets lost.
    pub(super) fn on_not_low(&mut self) {
        self.low_since = None;
    }

    /// The queue is over its limit with nothing left to cut beside messages: after a while they slow down too.
    pub(super) fn on_nothing_to_cut(&mut self, now: Timestamp, step: Duration) {
        if now.since(self.since) > 4 * step + SPARED {
            self.spares_messages = false;
        }
    }

    /// We slowed down, and the queue never was nearly empty: whether that has lasted for so long that the congestion
    /// is not ours. `asked`: what is said evenly, in bytes a second.
    pub(super) fn is_not_ours(
        &mut self,
        now: Timestamp,
        step: Duration,
        bulk: &Bulk,
        asked: f64,
        params: &Params,
    ) -> bool {
        let enough = (HELD_BACK * self.peak.max(asked)).max(params.bulk.min);
        if bulk.is_active() && bulk.rate() > enough * AT_FLOOR {
            self.floor_since = None;
            return false;
        }
        let since = *self.floor_since.get_or_insert(now);
        now.since(since) >= held_back_for(step)
    }
}

/// Beside four round trips, the time that a queue has to drain without bulk and copies, before messages slow down.
const SPARED: Duration = Duration::from_millis(500);

/// Bulk that sends no more than this share of what was delivered of it, or is said evenly, holds back: a queue of ours would get shorter.
const HELD_BACK: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn messages_slow_down_last() {
        let mut bad = Bad::new(at(0), true, 0.0);
        bad.on_nothing_to_cut(at(700), STEP);
        assert!(bad.spares_messages());
        bad.on_nothing_to_cut(at(701), STEP);
        assert!(!bad.spares_messages());
        assert!(!bad.on_low(at(800), STEP));
        assert!(!bad.on_low(at(9_000), STEP), "they wait out the penalty");
    }

    #[test]
    fn a_queue_that_was_never_gone_while_we_held_back_is_not_ours() {
        let params = Params::default();
        let bulk = Bulk::new(at(0), &params);
        let mut bad = Bad::new(at(0), false, 0.0);
        assert!(!bad.is_not_ours(at(0), STEP, &bulk, 0.0, &params));
        assert!(!bad.is_not_ours(at(1_999), STEP, &bulk, 0.0, &params));
        bad.on_low(at(1_999), STEP);
        assert!(!bad.is_not_ours(at(2_000), STEP, &bulk, 0.0, &params));
        assert!(bad.is_not_ours(at(4_000), STEP, &bulk, 0.0, &params));
    }
}
