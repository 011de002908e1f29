//! What copies may cost: a share of what is sent anyway, and for outages something beside it.

use crate::bucket::Bucket;
use crate::time::{Span, Timestamp};

/// The budget for copies: a share of what fresh packets cost, and a trickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyBudget(Bucket);

impl CopyBudget {
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Bucket::new(now, TRICKLE / 4.0))
    }

    pub(super) fn fill(&mut self, now: Timestamp) {
        self.0.fill(now, TRICKLE, BUDGET_MAX);
    }

    /// A packet with something new in it left, `gap` after the one before: so many bytes may go to
    /// copies, less what the trickle brought meanwhile.
    pub(super) fn on_fresh(&mut self, bytes: f64, gap: Span) {
        let trickled = gap.as_secs() * TRICKLE;
        self.0.add((bytes - trickled).max(0.0), BUDGET_MAX);
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.0.spend(bytes as f64);
    }

    pub(super) fn affords(&self, bytes: usize) -> bool {
        self.0.tokens() >= bytes as f64
    }

    /// How much of it is left, from 0 to 1.
    pub(super) fn fullness(&self) -> f64 {
        (self.0.tokens() / BUDGET_MAX).clamp(0.0, 1.0)
    }
}

/// Bytes a second of copies beside their share, for traffic that is too thin to pay for them.
const TRICKLE: f64 = 4_000.0;

/// What outages may cost beside the budget: everything unacknowledged goes with every packet, however often
/// it went, so that the first one through brings it all. Kept apart, because a budget that an outage
/// emptied would be missed afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutageBudget(Bucket);

impl OutageBudget {
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Bucket::new(now, OUTAGE_BUDGET_MAX))
    }

    pub(super) fn fill(&mut self, now: Timestamp) {
        self.0.fill(now, OUTAGE_BUDGET_TRICKLE, OUTAGE_BUDGET_MAX);
    }

    /// True, and spent, if there is so much.
    pub(super) fn pays(&mut self, bytes: usize) -> bool {
        let enough = self.0.tokens() >= bytes as f64;
        if enough {
            self.0.spend(bytes as f64);
        }
        enough
    }
}

/// Bytes of full packets for a fifth of a second. An address that is gone for good costs no more, and the
/// trickle.
const OUTAGE_BUDGET_MAX: f64 = 20_000.0;

/// Bytes a second: an outage every five seconds has all of it.
const OUTAGE_BUDGET_TRICKLE: f64 = 4_000.0;

/// Bytes the budget holds: what a second of a 60 Hz game may save up would come out as one burst,
/// so it holds no more than a few packets of copies.
const BUDGET_MAX: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_without_end_costs_its_budget_and_the_trickle() {
        let mut budget = OutageBudget::new(Timestamp::ZERO);
        let mut paid = 0;
        for second in 0..=10 {
            budget.fill(Timestamp::from_millis(1_000 * second));
            while budget.pays(69) {
                paid += 69;
            }
        }
        let most = OUTAGE_BUDGET_MAX + 10.0 * OUTAGE_BUDGET_TRICKLE;
        assert!(
            (most - 700.0..=most).contains(&f64::from(paid)),
            "{paid} bytes"
        );
    }
}
