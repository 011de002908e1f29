//! So much in a second, and no more: what bounds the cost of a flood, or how often a peer may be wrong.

use std::time::Duration;

use crate::time::Timestamp;

/// Counts within a second. It begins with the first that is counted, and the next one with the first after that:
/// any second has at most twice as much as is allowed.
#[derive(Debug, Default)]
pub struct PerSecond {
    since: Timestamp,
    count: u32,
}

impl PerSecond {
    /// One more; whether it is among the first `max` of its second.
    pub fn take(&mut self, now: Timestamp, max: u32) -> bool {
        if now.since(self.since) > SECOND {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= max
    }

    /// How many more of `max` there may be in this second.
    pub fn left(&self, now: Timestamp, max: u32) -> u32 {
        match now.since(self.since) > SECOND {
            true => max,
            false => max.saturating_sub(self.count),
        }
    }

    /// So many that were counted lately are not to count.
    pub fn give_back(&mut self, count: u32) {
        self.count = self.count.saturating_sub(count);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_begins_with_the_first() {
        let mut taken = PerSecond::default();
        let at = [5_700, 6_200, 6_700, 6_701, 7_701, 7_701, 60_000];
        let granted = at.map(|millis| taken.take(Timestamp::from_millis(millis), 2));
        assert_eq!(granted, [true, true, false, true, true, false, true]);
    }

    #[test]
    fn what_is_given_back_is_there_again() {
        let mut taken = PerSecond::default();
        let at = Timestamp::from_millis;
        (0..3).for_each(|_| _ = taken.take(at(5_000), 3));
        assert_eq!(taken.left(at(5_500), 3), 0);
        taken.give_back(2);
        assert_eq!(taken.left(at(5_500), 3), 2);
        taken.give_back(7);
        assert_eq!(taken.left(at(5_500), 3), 3, "no more than was taken");
        assert!(taken.take(at(5_600), 3));
        assert_eq!(taken.left(at(6_001), 3), 3, "another second");
    }

    #[test]
    fn nothing_is_allowed_of_nothing() {
        assert!(!PerSecond::default().take(Timestamp::from_millis(9), 0));
    }
}
