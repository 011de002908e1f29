//! A token bucket: how much may be spent now, and when there will be enough again.

use std::time::Duration;

use crate::time::Timestamp;

/// Tokens that come back at a rate, up to a limit. Spending may leave a debt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    filled_at: Timestamp,
}

impl Bucket {
    /// A bucket with `tokens` in it.
    pub(crate) fn new(now: Timestamp, tokens: f64) -> Self {
        Self {
            tokens,
            filled_at: now,
        }
    }

    /// Adds what came back since the last call. A clock that stood still or a process that was
    /// paused brings at most `limit`, so a pause is never followed by a flood.
    pub(crate) fn fill(&mut self, now: Timestamp, per_second: f64, limit: f64) {
        let seconds = now.span_since(self.filled_at).as_secs();
        self.filled_at = self.filled_at.max(now);
        self.tokens = (self.tokens + seconds * per_second).min(limit);
    }

    /// When [`Bucket::fill`] was last called.
    pub(crate) fn filled_at(&self) -> Timestamp {
        self.filled_at
    }

    /// What is in it; negative while in debt.
    pub(crate) fn tokens(&self) -> f64 {
        self.tokens
    }

    /// Takes `amount`, even if that leaves a debt.
    pub(crate) fn spend(&mut self, amount: f64) {
        self.tokens -= amount;
    }

    /// Leaves a debt of no more than this.
    pub(crate) fn forgive_beyond(&mut self, debt: f64) {
        self.tokens = self.tokens.max(-debt);
    }

    /// Puts tokens in at once, up to `limit`.
    pub(crate) fn add(&mut self, amount: f64, limit: f64) {
        self.tokens = (self.tokens + amount).min(limit);
    }

    /// When there will be `amount`, refilled at `per_second`.
    pub(crate) fn when(&self, amount: f64, per_second: f64) -> Timestamp {
        let missing = (amount - self.tokens).max(0.0);
        if missing == 0.0 {
            return self.filled_at;
        }
        // A little late rather than a little early: early would wake once more for nothing.
        let seconds = (missing / per_second.max(1e-3)).min(3600.0) + 2e-6;
        self.filled_at + Duration::from_secs_f64(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_brings_no_more_than_the_limit() {
        let mut bucket = Bucket::new(Timestamp::ZERO, 0.0);
        bucket.fill(Timestamp::from_millis(60_000), 90.0, 8.0);
        assert_eq!(bucket.tokens(), 8.0);
        bucket.fill(Timestamp::from_millis(1_000), 90.0, 8.0);
        assert_eq!(
            bucket.tokens(),
            8.0,
            "time that runs backwards takes nothing"
        );
    }

    #[test]
    fn there_is_enough_when_it_said_so() {
        let mut bucket = Bucket::new(Timestamp::ZERO, 0.25);
        let at = bucket.when(1.0, 30.0);
        bucket.fill(at, 30.0, 8.0);
        assert!(bucket.tokens() >= 1.0, "{}", bucket.tokens());
        assert!(at < Timestamp::from_millis(26));
    }
}
