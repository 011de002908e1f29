//! What was delivered so long ago that no copy of it is under way any more.
//!
//! Ids say little about it: a peer that says ten messages a second is after ten seconds where another is after one.

use std::time::Duration;

use crate::time::Timestamp;

/// As long as the silence that ends a session: on a path that delays for longer nobody plays. What was delivered is not
/// requested again, so no answer comes later than that either.
const UNDER_WAY_MAX: Duration = Duration::from_secs(10);

/// Where an answer takes hardly any time, no copy is under way for longer, unless the path stops meanwhile.
const UNDER_WAY_LEAST: Duration = Duration::from_secs(2);

/// A message is settled once or twice that time after it was delivered.
#[derive(Debug, Default)]
pub(super) struct Settled {
    below: u64,
    /// All below `mark` was delivered before `marked_at`.
    mark: u64,
    marked_at: Timestamp,
    /// The longest that an answer took, if any came.
    answer_time: Option<Duration>,
}

impl Settled {
    /// An answer takes so long.
    pub(super) fn on_answer_time(&mut self, answer_time: Duration) {
        self.answer_time = self.answer_time.max(Some(answer_time));
    }

    /// No copy of a message is under way for longer than that.
    fn under_way(&self) -> Duration {
        let answered = |longest| UNDER_WAY_MAX.min(UNDER_WAY_LEAST + 4 * longest);
        self.answer_time.map_or(UNDER_WAY_MAX, answered)
    }

    /// `next` is the next message to deliver.
    pub(super) fn on_time(&mut self, now: Timestamp, next: u64) {
        if now.since(self.marked_at) >= self.under_way() {
            self.below = self.mark;
            (self.mark, self.marked_at) = (next, now);
        }
    }

    /// Whether who says this message now says it for the first time: a peer that restarted.
    pub(super) fn contains(&self, id: u64) -> bool {
        id < self.below
    }
}
