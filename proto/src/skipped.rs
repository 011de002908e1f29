//! Packet numbers that are skipped. To the peer they look lost, and a peer that acknowledges one
//! acknowledges what it never received (RFC 9000, section 21.4, has the same defence).
//!
//! Rule: docs/wire/reliable.md, section 2; docs/wire/gaffer.md, section 6.

use std::ops::Range;

use crate::siphash::Key;

/// One number in every 192; which one, only the owner of the key can tell. Nothing is remembered: an
/// acknowledgement may speak of thousands of packets, and each of them is checked.
#[derive(Debug)]
pub(crate) struct SkippedNumbers {
    key: Key,
    /// The skipped number of the newest group, which is asked for most.
    newest: u64,
}

impl SkippedNumbers {
    /// `seed` is a secret of the session.
    pub(crate) fn new(seed: u64) -> Self {
        let key = Key::from_seed(seed);
        Self {
            key,
            newest: of_group(key, 0),
        }
    }

    /// Whether `number`, which comes next, is one of them.
    pub(crate) fn is_next(&mut self, number: u64) -> bool {
        if number / GROUP > self.newest / GROUP {
            self.newest = of_group(self.key, number / GROUP);
        }
        number == self.newest
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        number == self.of_group(number / GROUP)
    }

    /// The skipped numbers of this range.
    pub(crate) fn among(&self, numbers: Range<u64>) -> impl Iterator<Item = u64> {
        let groups = numbers.start / GROUP..numbers.end.div_ceil(GROUP);
        groups
            .map(|group| self.of_group(group))
            .filter(move |number| numbers.contains(number))
    }

    fn of_group(&self, group: u64) -> u64 {
        match self.newest / GROUP == group {
            true => self.newest,
            false => of_group(self.key, group),
        }
    }
}

fn of_group(key: Key, group: u64) -> u64 {
    (group + 1) * GROUP - 1 - key.number(group) % PLACES
}

/// Numbers of which one is skipped: often enough to catch a liar within seconds, rarely enough to look like
/// a very good network.
const GROUP: u64 = 192;

/// The skipped number is among the last of its group: never among the first packets of a session.
const PLACES: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_group_is_skipped_and_nobody_knows_which() {
        let mut skipped = SkippedNumbers::new(7);
        let numbers: Vec<u64> = (0..GROUP * 1000).filter(|n| skipped.is_next(*n)).collect();
        let known: Vec<u64> = (0..GROUP * 1000).filter(|n| skipped.contains(*n)).collect();
        assert_eq!(numbers, known);
        assert_eq!(numbers.len(), 1000);
        assert!(numbers[0] >= GROUP - PLACES);
        let places: std::collections::BTreeSet<u64> = numbers.iter().map(|n| n % GROUP).collect();
        assert_eq!(places.len(), PLACES as usize, "each place has its turn");
        let others = SkippedNumbers::new(8);
        let same = numbers.iter().filter(|n| others.contains(**n)).count();
        assert!(same < 50, "{same} of 1000 do not depend on the key");
    }

    #[test]
    fn those_among_others_are_found() {
        let skipped = SkippedNumbers::new(1);
        let one = (0..)
            .find(|n| skipped.contains(*n))
            .expect("there are many");
        let among = |numbers| skipped.among(numbers).collect::<Vec<_>>();
        assert_eq!(among(one..one + 1), [one]);
        assert_eq!(among(0..100 * GROUP).len(), 100);
        assert_eq!(among(one + 1..one + 1), [], "nothing");
        assert_eq!(among(one + 1..GROUP), []);
        assert_eq!(among(0..one), []);
    }
}
