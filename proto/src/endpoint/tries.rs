//! How many sessions may be tried for what came from an unknown address.

use crate::per_second::PerSecond;
use crate::time::Timestamp;

/// What is left of a second, and of an instant.
pub(super) struct Tries {
    per_sec: u32,
    others: PerSecond,
    /// Goodbyes have tries of their own, so that forged ones keep nobody from being followed.
    goodbyes: PerSecond,
    /// Of both kinds, the last time that there were any.
    at_once: u32,
    at: Timestamp,
}

impl Tries {
    pub(super) fn new(per_sec: u32) -> Self {
        Self {
            per_sec,
            others: PerSecond::default(),
            goodbyes: PerSecond::default(),
            at_once: 0,
            at: Timestamp::ZERO,
        }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now: Timestamp, is_goodbye: bool) -> bool {
        if now != self.at {
            (self.at, self.at_once) = (now, 0);
        }
        if self.at_once == AT_ONCE {
            return false;
        }
        self.at_once += 1;
        let per_sec = self.per_sec;
        self.second(is_goodbye).take(now, per_sec)
    }

    /// So many of this second were not in vain. The instant took its time all the same.
    pub(super) fn give_back(&mut self, is_goodbye: bool, count: u32) {
        self.second(is_goodbye).give_back(count);
    }

    /// More than half of a second's are left.
    pub(super) fn are_plenty(&self, now: Timestamp) -> bool {
        self.others.left(now, self.per_sec) > self.per_sec / 2
    }

    fn second(&mut self, is_goodbye: bool) -> &mut PerSecond {
        match is_goodbye {
            true => &mut self.goodbyes,
            false => &mut self.others,
        }
    }
}

/// At one time, which is one turn of a daemon's loop: those of a second would keep everybody waiting for five to eight
/// milliseconds.
const AT_ONCE: u32 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found was not in vain, and took its time: a turn in which thousands lost their ports keeps nobody waiting.
    #[test]
    fn an_instant_has_so_many_whatever_comes_of_them() {
        let mut tries = Tries::new(10_000);
        let mut take = |millis| {
            let taken = tries.take(Timestamp::from_millis(millis), false);
            tries.give_back(false, 1);
            taken
        };
        assert!((0..AT_ONCE).all(|_| take(1)));
        assert!(!take(1));
        assert!(take(2));
    }
}
