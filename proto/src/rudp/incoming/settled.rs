//! What was delivered so long ago that no copy of it is under way any more.
//!
//! Ids say little about it: a peer that says ten messages a second is after ten seconds where another is after one.

use std::time::Duration;

use crate::time::Timestamp;

/// As long as the silence that ends a session: on a path that delays for longer nobody plays. What was delivered is not
/// requested again, so no answer comes later than that either.
const UNDER_WAY: Duration = Duration::from_secs(10);

/// A message is settled ten to twenty seconds after it was delivered.
#[derive(Debug, Default)]
pub(super) struct Settled {
    below: u64,
    /// All below `mark` was delivered before `marked_at`.
    mark: u64,
    marked_at: Timestamp,
}

impl Settled {
    /// `next` is the next message to deliver.
    pub(super) fn on_time(&mut self, now: Timestamp, next: u64) {
        if now.since(self.marked_at) >= UNDER_WAY {
            self.below = self.mark;
            (self.mark, self.marked_at) = (next, now);
        }
    }

    /// Whether who says this message now says it for the first time: a peer that restarted.
    pub(super) fn contains(&self, id: u64) -> bool {
        id < self.below
    }
}
