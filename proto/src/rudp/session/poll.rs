//! When the next message is asked for although nothing says it exists.
//!
//! Rule: docs/wire/rudp.md, section 6, 3.

use std::time::Duration;

use crate::time::Timestamp;

/// First and longest wait between two polls.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_millis(500);

/// Messages asked for in one poll, at most.
const REACH_MAX: u16 = 32;

/// Asking for a message that may not exist: finds a lost last message, and is the keep-alive.
#[derive(Debug)]
pub(super) struct Poll {
    at: Timestamp,
    interval: Duration,
    /// Messages asked for at once. Doubles while the answers show that there is more.
    reach: u16,
    /// The last id asked for.
    asked: Option<u16>,
    /// When anything was last asked for.
    last_asked: Timestamp,
}

impl Poll {
    /// Asks when nothing has been heard for the first wait.
    pub(super) fn after_the_first_wait(now: Timestamp) -> Self {
        Self::due(now + FIRST)
    }

    /// Asks for one message, at this time.
    pub(super) fn due(at: Timestamp) -> Self {
        Self {
            at,
            interval: FIRST,
            reach: 1,
            asked: None,
            last_asked: at,
        }
    }

    pub(super) fn due_at(&self) -> Timestamp {
        self.at
    }

    /// Asks now.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.at = now;
    }

    pub(super) fn on_message(&mut self, now: Timestamp, id: u16) {
        if self.asked == Some(id) {
            // A whole tail was lost, or refused: fetch it without waiting.
            let reach = (self.reach * 2).min(REACH_MAX);
            *self = Self {
                reach,
                ..Self::due(now)
            };
        } else {
            // Put off, but not past the time the peer should hear from us: it may time out too,
            // and our polls are all it learns about what arrived.
            self.at = (now + FIRST).min(self.last_asked + LONGEST);
            self.interval = FIRST;
        }
    }

    /// The ids of a poll, from the next message on.
    pub(super) fn ask(&mut self, next: u16, ids_max: usize, ids: &mut Vec<u16>) {
        if self.asked.is_some() {
            // The last one was not answered: there was nothing.
            self.reach = 1;
        }
        let reach = usize::from(self.reach).min(ids_max) as u16;
        ids.extend((0..reach).map(|ahead| next.wrapping_add(ahead)));
        self.asked = ids.last().copied();
    }

    pub(super) fn on_asked(&mut self, now: Timestamp) {
        self.last_asked = now;
        self.at = now + self.interval;
        self.interval = (self.interval * 2).min(LONGEST);
    }
}
