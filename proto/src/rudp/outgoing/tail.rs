//! When the last message is repeated: nobody can know that it is missing. Rule: docs/wire/rudp.md, section 6, 4.

use std::time::Duration;

use crate::time::Timestamp;

/// Repeats of what was sent last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    due: Option<Timestamp>,
    repeats: u32,
    /// What was asked for along with the last repeat, by a datagram that has arrived if it is answered.
    asked: Option<u16>,
    /// Not before then is it certain enough that nothing else is missing.
    over_at: Timestamp,
}

impl Tail {
    /// For a message that leaves now.
    pub(super) fn sent(now: Timestamp) -> Self {
        Self {
            due: Some(now + FIRST),
            over_at: now + FIRST * ((1 << REPEATS) - 1),
            ..Self::default()
        }
    }

    /// Once more, at this time.
    pub(super) fn once(now: Timestamp) -> Self {
        Self {
            due: Some(now),
            repeats: REPEATS - 1,
            ..Self::default()
        }
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// It left in one datagram with this question, or without any.
    pub(super) fn on_repeated(&mut self, now: Timestamp, asked: Option<u16>) {
        self.repeats += 1;
        self.asked = asked;
        let (most, waits) = match (asked, self.repeats) {
            (None, repeats) => (REPEATS, 1 << repeats),
            (Some(_), 1) => (REPEATS_ASKING, 2),
            (Some(_), repeats) => (REPEATS_ASKING, 4 - repeats % 2),
        };
        self.due = (self.repeats < most).then(|| now + FIRST * waits);
    }

    /// The peer answered this question.
    pub(super) fn on_answer(&mut self, asked: u16) {
        if self.asked == Some(asked) {
            self.due = None;
        }
    }

    /// The peer has it.
    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// Whether it is repeated no more, and all else that the peer lacks would have been asked for.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.due.is_none() && now >= self.over_at
    }
}

const FIRST: Duration = Duration::from_millis(100);

/// After 100, 200, 400, 800 and 1600 ms: at 30 % loss, one tail in 400 needs more.
const REPEATS: u32 = 5;

/// After 100, 200, and then 400 and 300 ms in turn, while a peer that answers questions has not answered one that went
/// along. Polls leave in between: where two of three datagrams are lost, the third must not be one of them each time.
const REPEATS_ASKING: u32 = 14;
