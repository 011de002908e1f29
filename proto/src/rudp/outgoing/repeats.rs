//! When a message may go once more to a peer that asks for it.
//!
//! Rule: docs/wire/rudp.md, section 6, rule 7. The reference answers each request, and so do we at first. But three
//! bytes, which anybody can forge, ask for a whole message: if each were answered for as long as the message is kept,
//! who asks without end would be sent 1.6 MB a second, at a cost that everybody on the worker shares.

use std::time::Duration;

use crate::time::Timestamp;

/// Answers have no pause for so long. A reference peer asks on each tick of 10 ms until it has the message; where a third of
/// the answers is lost, eight are too few for one in 6561. More would be copies that wait behind each other: on a line with
/// a queue of a second a hundred of each message, and these keep the queue full.
const AT_ONCE: Duration = Duration::from_millis(70);

/// Pause behind the last of those; behind each further one it doubles.
const PAUSE: Duration = Duration::from_millis(20);

/// Times the pause doubles: up to 320 ms.
const DOUBLINGS_MAX: u8 = 4;

/// When one message may be repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeats {
    /// When the pauses begin; zero before it was repeated. There is one of these for each message that is kept.
    rarely_from: Timestamp,
    last_at: Timestamp,
    /// Pauses so far, no more than make a difference.
    pauses: u8,
}

impl Repeats {
    /// Whether a request is worth an answer; else the peer asks again.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.last_at + self.pause()
    }

    /// Whether the peer may have asked before the last answer reached it: one more would be a copy, if that one arrives.
    pub(super) fn is_under_way(&self, now: Timestamp, answer_time: Duration) -> bool {
        self.rarely_from > Timestamp::ZERO && now < self.last_at + answer_time
    }

    /// The message left once more.
    pub(super) fn on_repeated(&mut self, now: Timestamp) {
        if self.rarely_from == Timestamp::ZERO {
            self.rarely_from = now + AT_ONCE;
        }
        self.last_at = now;
        if now >= self.rarely_from {
            self.pauses = (self.pauses + 1).min(DOUBLINGS_MAX + 1);
        }
    }

    /// Behind the last answer.
    fn pause(&self) -> Duration {
        match self.pauses.checked_sub(1) {
            Some(doublings) => PAUSE * (1 << doublings),
            None => Duration::ZERO,
        }
    }
}
