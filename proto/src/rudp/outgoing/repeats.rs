//! When a message may go once more to a peer that asks for it.
//!
//! Rule: docs/wire/rudp.md, section 6, rule 7. The reference answers each request, and so do we at first. But three
//! bytes, which anybody can forge, ask for a whole message: if each were answered for as long as the message is kept,
//! who asks without end would be sent 1.6 MB a second, at a cost that everybody on the worker shares.

use std::time::Duration;

use crate::time::Timestamp;

/// Answers without a pause: as many as a peer gets that asks on each tick of 10 ms, over a round trip of 320 ms.
const AT_ONCE: u8 = 32;

/// Pause behind the last of those; behind each further one it doubles. By then a tidegate asks every 470 ms.
const PAUSE: Duration = Duration::from_millis(20);

/// Times the pause doubles: up to 320 ms.
const DOUBLINGS_MAX: u8 = 4;

/// When one message may be repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeats {
    not_before: Timestamp,
    /// How often it was, up to where the pause grows no more.
    count: u8,
}

impl Repeats {
    /// Whether a request is worth an answer; else the peer asks again.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.not_before
    }

    /// The message left once more.
    pub(super) fn on_repeated(&mut self, now: Timestamp) {
        self.count = (self.count + 1).min(AT_ONCE + DOUBLINGS_MAX);
        if let Some(doublings) = self.count.checked_sub(AT_ONCE) {
            self.not_before = now + PAUSE * (1 << doublings);
        }
    }
}
