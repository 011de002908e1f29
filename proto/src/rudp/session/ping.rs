//! How long a question takes until it is answered, with all that waits before it on the path.
//!
//! The wire has no acknowledgement. But a reference peer answers a request for a message that it never sent with
//! *missing* and the same id, at its next tick. Rule: docs/wire/rudp.md, section 6 (rule 13).

use std::collections::VecDeque;
use std::time::Duration;

use crate::rtt::{Rtt, Sample};
use crate::time::Timestamp;

/// So far beyond all that either side said lie the ids that are asked for: beyond what a tidegate takes for a poll, and
/// below half of all ids, from where on they count as old.
const BEYOND: u64 = 0x2000;

/// So many ids take turns, so that a late answer is not taken for that to a later question.
const IDS: u64 = 0x1000;

/// Pause before the first one and behind each answer, and while an answer is awaited.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_WITHOUT_ANSWER: Duration = Duration::from_secs(1);

/// So many answers are awaited: a path may take seconds.
const UNANSWERED_MAX: usize = 4;

/// However long it takes: nobody waits longer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Less than this above twice the shortest time is no queue: ticks of both sides, and jitter.
const QUEUE_LEAST: Duration = Duration::from_millis(20);

/// Asks for messages that do not exist, and measures.
#[derive(Debug)]
pub(super) struct Ping {
    /// The ids that were asked for last, and when, until *missing* comes.
    unanswered: VecDeque<(u16, Timestamp)>,
    asked_at: Timestamp,
    turn: u64,
    rtt: Rtt,
}

impl Ping {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            unanswered: VecDeque::new(),
            asked_at: now,
            turn: 0,
            rtt: Rtt::new(now),
        }
    }

    /// The id to ask for beside other questions, if it is time; both sides said what lies below `said`.
    pub(super) fn ask(&mut self, now: Timestamp, said: u64) -> Option<u16> {
        let pause = match self.unanswered.is_empty() {
            true => PAUSE,
            false => PAUSE_WITHOUT_ANSWER,
        };
        (now >= self.asked_at + pause).then(|| self.ask_now(now, said))
    }

    /// Another one, to learn whether the datagram arrives that it goes into.
    pub(super) fn ask_now(&mut self, now: Timestamp, said: u64) -> u16 {
        self.turn = (self.turn + 1) % IDS;
        self.asked_at = now;
        let id = (said + BEYOND + self.turn) as u16;
        if self.unanswered.len() == UNANSWERED_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((id, now));
        id
    }

    /// The peer says that it has no such message. Whether that was the answer.
    pub(super) fn on_missing(&mut self, now: Timestamp, id: u16) -> bool {
        let Some(index) = self.unanswered.iter().position(|asked| asked.0 == id) else {
            return false;
        };
        let took = now.since(self.unanswered[index].1).into();
        self.rtt.on_sample(now, Sample { took, least: took });
        // Those before it got lost, or their answers did.
        self.unanswered.drain(..=index);
        true
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

    /// [`Ping::answer_time`] while no queue shows; else zero. In a queue that grows an answer takes longer than was
    /// measured, and who asks again meanwhile makes it grow.
    pub(super) fn answer_time_without_queue(&self) -> Duration {
        let answer_time = self.answer_time();
        match answer_time <= 2 * self.rtt.min() + QUEUE_LEAST {
            true => answer_time,
            false => Duration::ZERO,
        }
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

    /// Where answers get lost, or take longer than anybody waits.
    #[test]
    fn several_are_under_way() {
        let mut ping = Ping::new(at(0));
        let ids: Vec<_> = (1_000..5_000)
            .filter_map(|millis| ping.ask(at(millis), 0))
            .collect();
        assert_eq!(ids.len(), 4, "one each second");
        assert!(ping.on_missing(at(5_000), ids[1]));
        assert_eq!(
            ping.answer_time(),
            ANSWER_TIME_MAX,
            "three seconds, and no more"
        );
        assert!(!ping.on_missing(at(5_010), ids[0]), "that one is over");
        assert!(ping.on_missing(at(5_010), ids[3]));
        assert!(!ping.on_missing(at(5_010), ids[2]));
        let first = ping.ask(at(5_010), 0).unwrap();
        for secs in 6..10 {
            ping.ask(at(secs * 1_000 + 10), 0).unwrap();
        }
        assert!(!ping.on_missing(at(9_010), first), "forgotten");
    }

    /// A line of 50 ms gets a queue of half a second.
    #[test]
    fn no_gap_is_asked_for_by_the_answer_time_of_a_queue() {
        let mut ping = Ping::new(at(0));
        let mut answer_twenty = |from: u64, took: u64| {
            for asked in (0..20).map(|i| from + i * (took + 100)) {
                let id = ping.ask(at(asked), 0).expect("one is due");
                assert!(ping.on_missing(at(asked + took), id));
            }
            (ping.answer_time(), ping.answer_time_without_queue())
        };
        let (clean, quick) = answer_twenty(1_000, 50);
        assert_eq!(quick, clean);
        let (queued, quick) = answer_twenty(6_000, 550);
        assert!(queued > Duration::from_millis(500), "{queued:?}");
        assert_eq!(quick, Duration::ZERO);
    }
}
