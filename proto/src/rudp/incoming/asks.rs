//! When missing messages are asked for, and which of them: a new gap at once, all of them again ever more rarely.

use std::time::Duration;

use crate::time::Timestamp;

/// Ids asked for in one output: as many as go into a datagram of 512 bytes. A peer that says 1500 messages a second, of
/// which a third is lost, must be asked for more than a thousand in that time, since a third of questions and of answers
/// is lost too.
const REQUESTS_MAX: usize = 170;

/// No more than bring so much if they are as large as those that came, but 64 at least: a thin path would carry the same
/// answers again and again.
const REQUESTED_BYTES: usize = 64 * 1024;
const REQUESTS_LEAST: usize = 64;

/// Size of a request record.
const REQUEST_BYTES: usize = 3;

/// So many rounds in a row wait no longer than an answer takes. On a path that loses a third both ways, five of nine
/// questions bring nothing; and on one that is dead, there are few in vain.
const ROUNDS_AT_ANSWER_TIME: u8 = 8;

/// How many ids go into one output that has so much room, where a message has so many bytes on average.
pub(super) fn ids_max(datagram_room: usize, message: usize) -> usize {
    let most = (REQUESTED_BYTES / message.max(1)).clamp(REQUESTS_LEAST, REQUESTS_MAX);
    most.min(datagram_room / REQUEST_BYTES)
}

/// When to ask, and what was asked.
#[derive(Debug)]
pub(super) struct Asks {
    interval: Duration,
    interval_first: Duration,
    interval_max: Duration,
    /// Rounds that waited for that since the next message came.
    at_answer_time: u8,
    /// All gaps are asked for again at this time.
    again_at: Timestamp,
    /// A gap below this id was asked for before.
    asked_below: u64,
    /// Some gap was perhaps never asked for.
    fresh: bool,
}

impl Asks {
    /// Repeats after `interval`, doubling up to `interval_max`, and for some rounds up to what an answer takes.
    pub(super) fn new(interval: Duration, interval_max: Duration) -> Self {
        Self {
            interval,
            interval_first: interval,
            interval_max,
            at_answer_time: 0,
            again_at: Timestamp::ZERO,
            asked_below: 0,
            fresh: false,
        }
    }

    /// A gap was found that may not have been asked for yet.
    pub(super) fn on_gap(&mut self) {
        self.fresh = true;
    }

    /// The next message came: after the round that is due, waits are short again.
    pub(super) fn on_progress(&mut self) {
        self.be_quick();
    }

    /// All gaps are asked for at this time, and waits are short again.
    pub(super) fn hurry(&mut self, at: Timestamp) {
        self.again_at = at;
        self.be_quick();
    }

    fn be_quick(&mut self) {
        self.interval = self.interval_first;
        self.at_answer_time = 0;
    }

    /// A round left: the next waits longer, but for some rounds no longer than an answer takes.
    fn slow_down(&mut self, answer_time: Duration) {
        let longer = (self.interval * 2).min(self.interval_max);
        let answered = answer_time.max(self.interval);
        if !answer_time.is_zero()
            && longer > answered
            && self.at_answer_time < ROUNDS_AT_ANSWER_TIME
        {
            self.at_answer_time += 1;
            self.interval = answered;
        } else {
            self.interval = longer;
        }
    }

    /// When to ask, if anything is missing.
    pub(super) fn due(&self) -> Timestamp {
        match self.fresh {
            true => Timestamp::ZERO,
            false => self.again_at,
        }
    }

    /// Writes which of the first `most` of the `gaps`, ascending, to ask for now: when all are due, all of these; else the
    /// new ones, behind the `next` message.
    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        answer_time: Duration,
        next: u64,
        gaps: impl Iterator<Item = u64>,
        most: usize,
        ids: &mut Vec<u16>,
    ) {
        let all = now >= self.again_at;
        let from = if all { next } else { self.asked_below };
        let mut news = false;
        for id in gaps.take(most) {
            if id == next || id >= from {
                ids.push(id as u16);
                news |= id >= self.asked_below;
                self.asked_below = self.asked_below.max(id + 1);
            }
        }
        self.fresh = false;
        if all {
            self.again_at = now + self.interval;
            self.slow_down(answer_time);
        } else if !news {
            // Only the next message, and it was asked for already: leave it to the timer.
            ids.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks() -> Asks {
        Asks::new(Duration::from_millis(100), Duration::from_millis(400))
    }

    /// What is asked for at this time, with room for three.
    fn ask(asks: &mut Asks, millis: u64, gaps: &[u64]) -> Vec<u16> {
        ask_slowly(asks, millis, gaps, Duration::ZERO)
    }

    /// What is asked for at this time, with room for three, where an answer takes so long.
    fn ask_slowly(asks: &mut Asks, millis: u64, gaps: &[u64], answer_time: Duration) -> Vec<u16> {
        let now = Timestamp::from_millis(millis);
        let mut ids = Vec::new();
        if now >= asks.due() {
            let gaps_left = gaps.iter().copied();
            asks.ask(now, answer_time, gaps[0], gaps_left, 3, &mut ids);
        }
        ids
    }

    #[test]
    fn a_round_asks_for_as_many_as_there_is_room_for() {
        let mut asks = asks();
        assert_eq!(ask(&mut asks, 0, &[5, 6, 7, 8]), [5, 6, 7]);
        assert_eq!(ask(&mut asks, 99, &[5, 6, 7, 8]), []);
        assert_eq!(ask(&mut asks, 100, &[5, 6, 7, 8]), [5, 6, 7]);
    }

    #[test]
    fn between_two_rounds_only_new_gaps_are_asked_for() {
        let mut asks = asks();
        assert_eq!(ask(&mut asks, 0, &[5, 7]), [5, 7]);
        asks.on_gap();
        assert_eq!(ask(&mut asks, 10, &[5, 7]), [], "none is new");
        asks.on_gap();
        assert_eq!(ask(&mut asks, 20, &[5, 7, 9]), [5, 9]);
    }

    #[test]
    fn waits_grow_until_something_comes() {
        let mut asks = asks();
        let rounds = |until: u64, asks: &mut Asks| -> Vec<u64> {
            let due = |millis: &u64| !ask(asks, *millis, &[5]).is_empty();
            (0..until).filter(due).collect()
        };
        assert_eq!(rounds(1_200, &mut asks), [0, 100, 300, 700, 1_100]);
        asks.on_progress();
        assert_eq!(ask(&mut asks, 1_500, &[6]), [6], "the round that was due");
        assert_eq!(ask(&mut asks, 1_600, &[6]), [6], "and then soon");
        asks.hurry(Timestamp::from_millis(1_650));
        assert_eq!(ask(&mut asks, 1_650, &[6]), [6]);
        assert_eq!(ask(&mut asks, 1_750, &[6]), [6]);
    }

    /// An answer that is not there by now got lost, or its question did; after eight such rounds the path may be dead.
    #[test]
    fn for_some_rounds_none_waits_longer_than_an_answer_takes() {
        let mut asks = Asks::new(Duration::from_millis(20), Duration::from_millis(470));
        let answer_time = Duration::from_millis(50);
        let rounds = |from: u64, until: u64, asks: &mut Asks| -> Vec<u64> {
            let due = |millis: &u64| !ask_slowly(asks, *millis, &[5], answer_time).is_empty();
            (from..until).filter(due).collect()
        };
        let quick = [0, 20, 60, 110, 160, 210, 260, 310, 360, 410, 460];
        assert_eq!(rounds(0, 500, &mut asks), quick);
        assert_eq!(
            rounds(500, 2_000, &mut asks),
            [560, 760, 1_160, 1_630],
            "dead, perhaps"
        );
        asks.hurry(Timestamp::from_millis(2_000));
        assert_eq!(
            rounds(2_000, 2_500, &mut asks),
            quick.map(|millis| millis + 2_000)
        );
    }
}
