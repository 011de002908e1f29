//! Large packets that never become whole: the peer cuts them in another way than we put them together.

use std::time::Duration;

use crate::time::Timestamp;

/// A row of fragments that cannot be ours: when the first and the last of them came, on the clock that
/// counts against the peer. A packet that is put together in between ends the row.
#[derive(Debug, Default)]
pub(super) struct MismatchedFragments(Option<(Timestamp, Timestamp)>);

impl MismatchedFragments {
    /// One more came; long after the last it begins a new row.
    pub(super) fn note(&mut self, at: Timestamp) {
        let row = self.0.filter(|(_, last)| at - MISMATCH_EVERY_MAX <= *last);
        self.0 = Some((row.map_or(at, |(first, _)| first), at));
    }

    /// It lasted for too long.
    pub(super) fn is_over(&self) -> bool {
        self.0
            .is_some_and(|(first, last)| last.since(first) >= MISMATCHED_MAX)
    }
}

/// Further apart than this they are no row.
const MISMATCH_EVERY_MAX: Duration = Duration::from_secs(2);

/// A row of them lasts so long at most.
const MISMATCHED_MAX: Duration = Duration::from_secs(10);
