//! When the next message is asked for although nothing says it exists.
//!
//! Rule: docs/wire/rudp.md, section 6, 3.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::inbox::MESSAGE_OVERHEAD;
use crate::rudp::incoming::STORED_BYTES_MAX;
use crate::rudp::outgoing::LEAD_MAX;
use crate::time::Timestamp;

/// First and longest wait between two polls. The longest is a prime number of ticks, as that of requests is.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_millis(530);

/// Where a peer answers each poll, at its next tick, the waits in turn are 40 ms shorter, and so much longer. Sums of one
/// to four that follow each other are as often an odd number of ticks as an even one: where every second datagram is lost,
/// or third, or fourth, either way or both, some poll arrives whose answer does.
const SHORTER: Duration = Duration::from_millis(40);
const LONGER: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(40),
    Duration::from_millis(20),
    Duration::ZERO,
    Duration::from_millis(30),
];

/// So many polls in a row wait no longer than an answer takes. By then the poll got lost, or its answer; and on a path
/// that is dead, there are few in vain.
const POLLS_AT_ANSWER_TIME: u8 = 8;

/// Messages asked for in one poll, at most. What a peer said before it was let in is fetched so, before it forgets it.
const REACH_MAX: u16 = 128;

/// Who sends no more than there is room for hears four times in that how far we got.
const SHOWN_MESSAGES: u64 = LEAD_MAX / 4;
const SHOWN_BYTES: u64 = STORED_BYTES_MAX as u64 / 4;

/// Asking for a message that may not exist: finds a lost last message, is the keep-alive, and says what arrived.
#[derive(Debug)]
pub(super) struct Poll {
    at: Timestamp,
    interval: Duration,
    /// Messages asked for at once. Doubles while the answers show that there is more.
    reach: u16,
    /// How many waits there were.
    turn: u8,
    /// Polls since one was answered by a peer that answers all of them.
    unanswered: u8,
    /// The ids asked for.
    asked: Option<RangeInclusive<u16>>,
    /// When one that was asked for came.
    answered_at: Option<Timestamp>,
    /// When anything was last asked for.
    last_asked: Timestamp,
    /// When a message came that nobody asked for.
    last_message: Option<Timestamp>,
    /// Messages delivered since anything was asked for, and their bytes.
    unshown: (u64, u64),
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
            turn: 0,
            unanswered: 0,
            asked: None,
            answered_at: None,
            last_asked: at,
            last_message: None,
            unshown: (0, 0),
        }
    }

    /// Asks for one message, at this time, whatever was asked for before.
    pub(super) fn start_over(&mut self, at: Timestamp) {
        *self = Self::due(at);
    }

    pub(super) fn due_at(&self) -> Timestamp {
        self.at
    }

    /// Asks now.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.at = now;
    }

    pub(super) fn on_message(&mut self, now: Timestamp, id: u16, answer_time: Duration) {
        self.unanswered = 0;
        if self.asked.as_ref().is_some_and(|asked| *asked.end() == id) {
            // A whole tail was lost, or refused: fetch it without waiting.
            let reach = (self.reach * 2).min(REACH_MAX);
            self.start_over(now);
            (self.reach, self.answered_at) = (reach, Some(now));
        } else if self.has_asked_for(id) {
            // There is more. If the last one got lost, the next poll asks for as many, and soon, whatever else is asked
            // for meanwhile.
            self.answered_at = Some(now);
            self.interval = FIRST;
            self.at = self.at.min(now + first_wait(answer_time));
        } else {
            // Put off, but not past the time the peer should hear from us: it may time out too,
            // and our polls are all it learns about what arrived.
            self.at =
                (now + first_wait(answer_time)).min(self.last_asked + longest_wait(answer_time));
            self.interval = FIRST;
            self.last_message = Some(now);
        }
    }

    /// The peer has yet to say this one, which comes after all that came: so all of a tail was asked for, and what came
    /// of it would have come anyway, perhaps.
    pub(super) fn on_end(&mut self, id: u16) {
        if self.has_asked_for(id) {
            self.unanswered = 0;
            (self.reach, self.asked, self.answered_at) = (1, None, None);
        }
    }

    /// Messages went into the inbox: much of it is said at once.
    pub(super) fn on_delivered(&mut self, now: Timestamp, messages: u64, bytes: u64) {
        self.unshown.0 += messages;
        self.unshown.1 += bytes + messages * MESSAGE_OVERHEAD as u64;
        if self.unshown.0 >= SHOWN_MESSAGES || self.unshown.1 >= SHOWN_BYTES {
            self.at = self.at.min(now);
        }
    }

    /// The ids of a poll, from the next message on.
    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        next: u16,
        answer_time: Duration,
        ids_max: usize,
        ids: &mut Vec<u16>,
    ) {
        if self
            .last_message
            .is_some_and(|at| now < at + first_wait(answer_time))
        {
            // In the midst of messages: the next one is on its way, and says nothing about a lost tail.
            ids.push(next);
            self.asked = None;
            return;
        }
        if self
            .answered_at
            .is_none_or(|at| now >= at + longest_wait(answer_time))
        {
            // No answer is under way any more: there was nothing.
            self.reach = 1;
        }
        let reach = usize::from(self.reach).min(ids_max) as u16;
        ids.extend((0..reach).map(|ahead| next.wrapping_add(ahead)));
        self.asked = ids.last().map(|last| next..=*last);
    }

    /// The last poll asked for this message.
    fn has_asked_for(&self, id: u16) -> bool {
        let asked = self.asked.as_ref();
        asked.is_some_and(|asked| {
            let count = asked.end().wrapping_sub(*asked.start());
            id.wrapping_sub(*asked.start()) <= count
        })
    }

    /// Something was asked for, of a peer that `answers` every question or does not.
    pub(super) fn on_asked(&mut self, now: Timestamp, answer_time: Duration, answers: bool) {
        self.last_asked = now;
        self.unshown = (0, 0);
        let wait = match self.unanswered {
            1..=POLLS_AT_ANSWER_TIME if answers => FIRST,
            _ => {
                let longer = (2 * self.interval).min(LONGEST);
                std::mem::replace(&mut self.interval, longer)
            }
        };
        self.unanswered = self.unanswered.saturating_add(1);
        self.turn = (self.turn + 1) % LONGER.len() as u8;
        self.at = match answers {
            true => now + (wait - SHORTER).max(answer_time) + LONGER[usize::from(self.turn)],
            false => now + wait.max(answer_time),
        };
    }
}

/// An answer takes `answer_time`: who asks sooner has not heard yet that there is nothing, and gets copies of what there
/// is.
fn first_wait(answer_time: Duration) -> Duration {
    FIRST.max(answer_time)
}

fn longest_wait(answer_time: Duration) -> Duration {
    LONGEST.max(answer_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// How long an answer takes.
    const UNKNOWN: Duration = Duration::ZERO;

    /// The ids of a poll at this time, of which the first is `next`.
    fn asked(poll: &mut Poll, millis: u64, next: u16) -> Vec<u16> {
        asked_slowly(poll, millis, next, UNKNOWN)
    }

    fn asked_slowly(poll: &mut Poll, millis: u64, next: u16, answer_time: Duration) -> Vec<u16> {
        let mut ids = Vec::new();
        poll.ask(at(millis), next, answer_time, 170, &mut ids);
        poll.on_asked(at(millis), answer_time, false);
        ids
    }

    #[test]
    fn a_lost_tail_is_fetched_in_steps_that_double() {
        let mut poll = Poll::due(at(0));
        let mut next = 0;
        for reach in [1, 2, 4, 8, 16, 32, 64, 128, 128] {
            assert_eq!(poll.due_at(), at(0), "at once");
            let ids = asked(&mut poll, 0, next);
            next += reach;
            assert_eq!((ids.len(), ids.last()), (reach as usize, Some(&(next - 1))));
            poll.on_message(at(0), next - 1, UNKNOWN);
        }
        for due in [0, 100, 300] {
            assert_eq!(poll.due_at(), at(due));
            let ids = asked(&mut poll, due, next);
            assert_eq!(ids.len(), 128, "the answer to the first may be under way");
        }
        assert_eq!(asked(&mut poll, 700, next), [next], "there was nothing");
    }

    /// A round trip takes longer than the first wait: the answer to the first of two polls is to both of them.
    #[test]
    fn an_answer_may_take_longer_than_the_next_poll() {
        let mut poll = Poll::due(at(0));
        let mut next = 0;
        for (round, reach) in [1, 2, 4, 8].into_iter().enumerate() {
            let began = 200 * round as u64;
            for due in [began, began + 100] {
                assert_eq!(poll.due_at(), at(due));
                assert_eq!(asked(&mut poll, due, next).len(), reach);
            }
            next += reach as u16;
            poll.on_message(at(began + 200), next - 1, UNKNOWN);
        }
    }

    /// The datagram with the end of an answer got lost: what came of it says that there is more.
    #[test]
    fn half_an_answer_is_one() {
        let mut poll = Poll::due(at(0));
        (poll.reach, poll.answered_at) = (REACH_MAX, Some(at(0)));
        let ids = asked(&mut poll, 0, u16::MAX - 9);
        assert_eq!(ids.last(), Some(&117), "around the end of the ids");
        for id in [u16::MAX, 0, 12] {
            poll.on_message(at(40), id, UNKNOWN);
        }
        assert_eq!(poll.due_at(), at(100));
        assert_eq!(asked(&mut poll, 100, 13).len(), usize::from(REACH_MAX));
        // What was missing in the midst of the answer was asked for.
        poll.on_asked(at(130), UNKNOWN, false);
        assert_eq!(poll.due_at(), at(330));
        poll.on_message(at(150), 13, UNKNOWN);
        assert_eq!(poll.due_at(), at(250));
        poll.on_message(at(150), 140, UNKNOWN);
        assert_eq!(poll.due_at(), at(150), "at once");
    }

    /// A peer that says thirty messages a second has one or two on the way at any time.
    #[test]
    fn what_the_peer_has_yet_to_say_ends_a_tail() {
        let mut poll = Poll::due(at(0));
        assert_eq!(asked(&mut poll, 0, 5), [5]);
        poll.on_message(at(30), 5, UNKNOWN);
        assert_eq!(asked(&mut poll, 30, 6), [6, 7], "there may be more");
        poll.on_message(at(63), 6, UNKNOWN);
        poll.on_end(9);
        assert!(poll.has_asked_for(7), "it did not ask for that one");
        poll.on_end(7);
        for id in [7, 8, 9] {
            poll.on_message(at(63 + 33 * u64::from(id - 6)), id, UNKNOWN);
        }
        assert_eq!(poll.due_at(), at(262), "put off by the last");
        assert_eq!(asked(&mut poll, 262, 10), [10]);
    }

    #[test]
    fn nothing_is_asked_for_again_while_an_answer_may_be_under_way() {
        let mut poll = Poll::due(at(0));
        let answer_time = Duration::from_millis(700);
        asked_slowly(&mut poll, 0, 5, answer_time);
        for (due, next) in [(700, 1_400), (1_400, 2_100)] {
            assert_eq!(poll.due_at(), at(due));
            asked_slowly(&mut poll, due, 5, answer_time);
            assert_eq!(poll.due_at(), at(next));
        }
        poll.on_message(at(1_500), 3, answer_time);
        assert_eq!(poll.due_at(), at(2_100), "put off, and not for ever");
        poll.start_over(at(1_600));
        asked_slowly(&mut poll, 1_600, 5, answer_time);
        assert_eq!(poll.due_at(), at(2_300), "as long as before");
    }

    /// Where a peer answers each question, one without an answer got lost, or its answer.
    #[test]
    fn a_poll_that_is_not_answered_is_soon_repeated() {
        let waits = |answered: bool| {
            let mut poll = Poll::due(at(0));
            let mut waits = Vec::new();
            for _ in 0..12 {
                let now = poll.due_at();
                poll.ask(now, 5, UNKNOWN, 170, &mut Vec::new());
                poll.on_asked(now, Duration::from_millis(30), true);
                if answered {
                    poll.on_end(5);
                }
                waits.push(poll.due_at().since(now).as_millis());
            }
            waits
        };
        let usual = [100, 180, 360, 520, 500, 530, 510, 490, 520, 500, 530, 510];
        assert_eq!(waits(true), usual);
        let sooner = [100, 80, 60, 90, 70, 100, 80, 60, 90, 170, 400, 510];
        assert_eq!(waits(false), sooner);
    }

    /// Who sends no more than there is room for waits for it; nobody else, if there is hardly a pause to ask in.
    #[test]
    fn what_was_delivered_is_said_before_the_room_runs_out() {
        for (messages, bytes) in [(SHOWN_MESSAGES, 0), (1, SHOWN_BYTES)] {
            let mut poll = Poll::due(at(0));
            asked(&mut poll, 0, 0);
            poll.on_delivered(at(20), messages - 1, bytes / 2);
            assert_eq!(poll.due_at(), at(100), "half of it, or less");
            poll.on_delivered(at(30), 1, bytes / 2);
            assert_eq!(poll.due_at(), at(30));
            asked(&mut poll, 30, 0);
            poll.on_delivered(at(40), 1, 0);
            assert_eq!(poll.due_at(), at(230), "all else was said");
        }
    }

    #[test]
    fn messages_put_a_poll_off_and_not_for_ever() {
        let mut poll = Poll::due(at(0));
        asked(&mut poll, 0, 0);
        assert_eq!(poll.due_at(), at(100));
        for (heard, due) in [(50, 150), (399, 499), (450, 530)] {
            poll.on_message(at(heard), 7, UNKNOWN);
            assert_eq!(poll.due_at(), at(due));
        }
        assert_eq!(asked(&mut poll, 530, 8), [8], "in the midst of messages");
        for (due, next) in [(630, 830), (830, 1_230), (1_230, 1_760), (1_760, 2_290)] {
            assert_eq!(poll.due_at(), at(due), "idle");
            asked(&mut poll, due, 8);
            assert_eq!(poll.due_at(), at(next), "idle");
        }
    }
}
