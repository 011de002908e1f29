//! Messages of one kind that a client sent and that have not come back.

use std::collections::VecDeque;

use tidegate_proto::Timestamp;

/// Numbered messages, of which some came back.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// Number of the first in `due`.
    first: u32,
    /// When each message that has not come back was due; `None` for one that has.
    due: VecDeque<Option<Timestamp>>,
    /// Messages of `due` that have not come back.
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

impl Outstanding {
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

    /// Whether this one was sent and has not come back.
    pub(super) fn is_awaited(&self, number: u32) -> bool {
        let index = number.checked_sub(self.first);
        let slot = index.and_then(|index| self.due.get(index as usize));
        slot.is_some_and(Option::is_some)
    }

    /// Messages that are awaited.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Forgets the oldest until `count` messages are remembered; returns how many of those forgotten were
    /// still awaited.
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
        let mut outstanding = Outstanding::default();
        for number in 0..5 {
            assert_eq!(outstanding.next(), number as u32);
            outstanding.on_sent(at(number));
        }
        let new = |millis, late| Return::New {
            due: at(millis),
            late,
        };
        assert_eq!(outstanding.on_return(0), new(0, false));
        assert_eq!(outstanding.on_return(0), Return::Again);
        assert_eq!(outstanding.on_return(2), new(2, false));
        assert_eq!(
            outstanding.on_return(1),
            new(1, true),
            "2 was here before it"
        );
        assert_eq!(outstanding.on_return(2), Return::Again);
        assert_eq!(outstanding.on_return(5), Return::Never);
        assert_eq!((outstanding.open(), outstanding.oldest()), (2, Some(3)));
        outstanding.on_damaged();
        assert_eq!((outstanding.open(), outstanding.oldest()), (1, Some(4)));
        assert_eq!(outstanding.on_return(3), Return::Again);
    }

    #[test]
    fn what_never_comes_back_is_given_up() {
        let mut outstanding = Outstanding::default();
        for number in 0..10 {
            outstanding.on_sent(at(number));
        }
        outstanding.on_return(7);
        assert_eq!(outstanding.give_up_beyond(4), 6);
        assert_eq!(outstanding.open(), 3);
        assert_eq!(outstanding.give_up_beyond(0), 3);
        assert_eq!((outstanding.open(), outstanding.oldest()), (0, None));
        outstanding.on_sent(at(11));
        assert_eq!(outstanding.oldest(), Some(10));
    }
}
