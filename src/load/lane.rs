//! The messages of one kind that a client sent, and which of them came back.

use std::collections::VecDeque;

use tidegate_proto::Timestamp;

/// One row of numbered messages.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Number of the first in `due`.
    first: u32,
    /// When those that did not come back were due; `None` for those that did.
    due: VecDeque<Option<Timestamp>>,
    /// Messages of `due` that did not come back.
    open: usize,
    /// The highest number that came back, plus one.
    seen: u32,
}

/// What the return of a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// It was due then.
    New {
        due: Timestamp,
        /// A later one was here before it.
        late: bool,
    },
    /// It was here already.
    Again,
    /// It was not sent.
    Never,
}

impl Lane {
    /// The number of the next message.
    pub(super) fn next(&self) -> u32 {
        self.first.wrapping_add(self.due.len() as u32)
    }

    /// It was sent.
    pub(super) fn on_sent(&mut self, due: Timestamp) {
        self.due.push_back(Some(due));
        self.open += 1;
    }

    /// It came back.
    pub(super) fn on_return(&mut self, number: u32) -> Return {
        if number >= self.next() {
            return Return::Never;
        }
        let slot = number
            .checked_sub(self.first)
            .and_then(|index| self.due.get_mut(index as usize));
        let Some(due) = slot.and_then(Option::take) else {
            return Return::Again;
        };
        let late = number < self.seen;
        self.seen = self.seen.max(number + 1);
        self.open -= 1;
        self.forget_settled();
        Return::New { due, late }
    }

    /// The next one that is awaited came back, but not as it was: it is no longer awaited.
    pub(super) fn on_damaged(&mut self) {
        if let Some(due) = self.due.iter_mut().find(|due| due.is_some()) {
            *due = None;
            self.open -= 1;
            self.forget_settled();
        }
    }

    /// The number of the oldest that is awaited.
    pub(super) fn oldest(&self) -> Option<u32> {
        let index = self.due.iter().position(Option::is_some)?;
        Some(self.first + index as u32)
    }

    /// Awaited.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Gives up the oldest when more than so many are remembered; how many.
    pub(super) fn give_up_beyond(&mut self, count: usize) -> u64 {
        let mut lost = 0;
        while self.due.len() > count {
            if self.due.pop_front().flatten().is_some() {
                self.open -= 1;
                lost += 1;
            }
            self.first += 1;
        }
        lost
    }

    fn forget_settled(&mut self) {
        while let Some(None) = self.due.front() {
            self.due.pop_front();
            self.first += 1;
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
    fn each_return_is_judged() {
        let mut lane = Lane::default();
        for number in 0..5 {
            assert_eq!(lane.next(), number as u32);
            lane.on_sent(at(number));
        }
        let new = |millis, late| Return::New {
            due: at(millis),
            late,
        };
        assert_eq!(lane.on_return(0), new(0, false));
        assert_eq!(lane.on_return(0), Return::Again);
        assert_eq!(lane.on_return(2), new(2, false));
        assert_eq!(lane.on_return(1), new(1, true), "2 was here before it");
        assert_eq!(lane.on_return(2), Return::Again);
        assert_eq!(lane.on_return(5), Return::Never);
        assert_eq!((lane.open(), lane.oldest()), (2, Some(3)));
        lane.on_damaged();
        assert_eq!((lane.open(), lane.oldest()), (1, Some(4)));
        assert_eq!(lane.on_return(3), Return::Again);
    }

    #[test]
    fn what_never_comes_back_is_given_up() {
        let mut lane = Lane::default();
        for number in 0..10 {
            lane.on_sent(at(number));
        }
        lane.on_return(7);
        assert_eq!(lane.give_up_beyond(4), 6);
        assert_eq!(lane.open(), 3);
        assert_eq!(lane.give_up_beyond(0), 3);
        assert_eq!((lane.open(), lane.oldest()), (0, None));
        lane.on_sent(at(11));
        assert_eq!(lane.oldest(), Some(10));
    }
}
