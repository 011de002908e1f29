//! When the last message is repeated: nobody can know that it is missing. Rule: docs/wire/rudp.md, section 6, 4.

use std::time::Duration;

use crate::time::Timestamp;

/// Repeats of what was sent last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    due: Option<Timestamp>,
    repeats: u32,
}

impl Tail {
    /// For a message that leaves now.
    pub(super) fn sent(now: Timestamp) -> Self {
        Self {
            due: Some(now + FIRST),
            repeats: 0,
        }
    }

    /// Once more, at this time.
    pub(super) fn once(now: Timestamp) -> Self {
        Self {
            due: Some(now),
            repeats: REPEATS - 1,
        }
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    pub(super) fn on_repeated(&mut self, now: Timestamp) {
        self.repeats += 1;
        self.due = (self.repeats < REPEATS).then(|| now + FIRST * (1 << self.repeats));
    }

    /// The peer has it.
    pub(super) fn stop(&mut self) {
        self.due = None;
    }
}

const FIRST: Duration = Duration::from_millis(100);

/// After 100, 200, 400, 800 and 1600 ms: at 30 % loss, one tail in 400 needs more.
const REPEATS: u32 = 5;
