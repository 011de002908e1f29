//! How long a question takes until it is answered, with all that waits before it on the path.
//!
//! The wire has no acknowledgement. But a reference peer answers a request for a message that it never sent with
//! *missing* and the same id, at its next tick. Rule: docs/wire/rudp.md, section 6 (rule 13).

use std::time::Duration;

use crate::rtt::{Rtt, Sample};
use crate::time::Timestamp;

/// So far beyond all that either side said lie the ids that are asked for: beyond what a tidegate takes for a poll, and
/// below half of all ids, from where on they count as old.
const BEYOND: u64 = 0x2000;

/// So many ids take turns, so that a late answer is not taken for that to a later question.
const IDS: u64 = 0x1000;

/// Pause before the first one and behind each answer, and time in which one must come.
const PAUSE: Duration = Duration::from_millis(100);
const LOST_AFTER: Duration = Duration::from_secs(1);

/// However long it takes: nobody waits longer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Asks for messages that do not exist, and measures.
#[derive(Debug)]
pub(super) struct Ping {
    /// The id that was asked for last, until *missing* comes.
    asked: Option<u16>,
    asked_at: Timestamp,
    turn: u64,
    rtt: Rtt,
}

impl Ping {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            asked: None,
            asked_at: now,
            turn: 0,
            rtt: Rtt::new(now),
        }
    }

    /// The id to ask for beside other questions, if it is time; both sides said what lies below `said`.
    pub(super) fn ask(&mut self, now: Timestamp, said: u64) -> Option<u16> {
        let wait = match self.asked {
            Some(_) => LOST_AFTER.max(2 * self.answer_time()),
            None => PAUSE,
        };
        if now < self.asked_at + wait {
            return None;
        }
        self.turn = (self.turn + 1) % IDS;
        self.asked_at = now;
        self.asked = Some((said + BEYOND + self.turn) as u16);
        self.asked
    }

    /// The peer says that it has no such message. Whether that was the answer.
    pub(super) fn on_missing(&mut self, now: Timestamp, id: u16) -> bool {
        let is_answer = self.asked == Some(id);
        if is_answer {
            self.asked = None;
            let took = now.since(self.asked_at).into();
            self.rtt.on_sample(now, Sample { took, least: took });
        }
        is_answer
    }

    pub(super) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Who asked so long ago and got no answer need not wait for it any more; zero while that is not known.
    pub(super) fn answer_time(&self) -> Duration {
        if !self.rtt.is_known() {
            return Duration::ZERO;
        }
        (self.rtt.smoothed() + 2 * self.rtt.variation()).min(ANSWER_TIME_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn an_answer_says_how_long_it_took() {
        let mut ping = Ping::new(at(0));
        assert_eq!(ping.answer_time(), Duration::ZERO, "not known");
        let id = ping.ask(at(1_000), 70_000).unwrap();
        assert_eq!(id, (70_001 + BEYOND) as u16);
        assert_eq!(ping.ask(at(1_050), 70_000), None, "it is under way");
        assert!(!ping.on_missing(at(1_060), id + 1));
        assert!(ping.on_missing(at(1_080), id));
        assert!(!ping.on_missing(at(1_090), id), "once");
        assert_eq!(ping.answer_time(), Duration::from_millis(80 + 2 * 40));
        assert_eq!(ping.ask(at(1_099), 70_000), None, "a moment ago");
        assert!(ping.ask(at(1_100), 70_000).is_some());
    }

    /// The answer to the first would make the second one's look too fast, or too slow.
    #[test]
    fn a_lost_one_is_followed_by_another_id() {
        let mut ping = Ping::new(at(0));
        let lost = ping.ask(at(1_000), 0).unwrap();
        assert_eq!(ping.ask(at(1_999), 0), None);
        let next = ping.ask(at(2_000), 0).unwrap();
        assert_ne!(lost, next);
        assert!(!ping.on_missing(at(2_001), lost), "late");
        assert!(ping.on_missing(at(3_500), next));
        assert_eq!(ping.answer_time(), ANSWER_TIME_MAX, "and no more");
        let under_way = ping.ask(at(3_500), 0).unwrap();
        assert_eq!(ping.ask(at(7_499), 0), None, "a slow path");
        assert_ne!(ping.ask(at(7_500), 0), Some(under_way));
    }
}
