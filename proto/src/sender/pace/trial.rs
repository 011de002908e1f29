//! Whether a delay is a queue of ours: it gets shorter while we send less.

use std::time::Duration;

use crate::time::Timestamp;

/// A delay that is looked at again when a queue would have had the time to change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    until: Timestamp,
    /// What the delay was, in seconds.
    delay: f64,
}

impl Trial {
    /// We go slower by this share of the rate, which a queue drains with. `step`: how long the path takes to answer.
    pub(super) fn slower_by(share: f64, now: Timestamp, step: Duration, delay: f64) -> Self {
        let drained = (DRAIN_MARGIN * delay / share).clamp(0.0, DRAINED_AFTER_MAX);
        let until = now + 2 * step + Duration::from_secs_f64(drained);
        Self { until, delay }
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        self.until
    }

    /// With so many seconds left, the delay was a queue.
    pub(super) fn has_drained(&self, left: f64) -> bool {
        left < DRAINED * self.delay
    }
}

/// A queue is given half as long again as it takes to drain.
const DRAIN_MARGIN: f64 = 1.5;

/// In seconds; no trial waits longer.
const DRAINED_AFTER_MAX: f64 = 2.0;

/// Share of a queue's delay that may be left after the time it needs to drain.
const DRAINED: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_the_time_to_drain() {
        let (now, step) = (Timestamp::from_millis(1_000), Duration::from_millis(50));
        let slower = |delay| Trial::slower_by(0.25, now, step, delay);
        assert_eq!(slower(0.1).ends_at(), Timestamp::from_millis(1_700));
        assert_eq!(slower(9.0).ends_at(), Timestamp::from_millis(3_100));
        let trial = slower(0.1);
        assert!(trial.has_drained(0.024) && !trial.has_drained(0.026));
    }
}
