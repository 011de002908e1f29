//! Which packets count as new: the sliding window behind replay protection.
//!
//! Rule: docs/wire/netcode.md, section 6. Does not decrypt: the caller checks the tag between
//! [`Replay::check`] and [`Replay::advance`], or a forged number could move the window.

use crate::session::Reject;

/// Sequences remembered behind the newest one.
pub const WINDOW: u64 = 256;

/// One bit for each of the last 256 sequences.
///
/// The reference keeps the sequences themselves (2 KiB) and marks empty slots with the highest
/// number, which makes that one number replayable. Bits have a real "empty", and give the same
/// verdict on every other sequence.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Highest sequence taken; 0 before the first.
    newest: u64,
    /// Bit `sequence % 256` is set if that sequence, within the window, was taken.
    seen: [u64; 4],
}

impl Replay {
    /// Whether a packet with this sequence may still be taken. Changes nothing.
    pub fn check(&self, sequence: u64) -> Result<(), Reject> {
        if sequence > self.newest {
            return Ok(());
        }
        // A difference, never `sequence + 256`: that overflows near the top (an old bug of ports).
        if self.newest - sequence >= WINDOW {
            return Err(Reject::Stale);
        }
        let (word, bit) = place(sequence);
        if self.seen[word] & bit != 0 {
            return Err(Reject::Replayed);
        }
        Ok(())
    }

    /// Marks a sequence as taken. It must have passed [`Replay::check`], and its packet the cipher.
    pub fn advance(&mut self, sequence: u64) {
        if sequence > self.newest {
            let ahead = sequence - self.newest;
            if ahead >= WINDOW {
                self.seen = [0; 4];
            } else {
                for skipped in self.newest + 1..=sequence {
                    let (word, bit) = place(skipped);
                    self.seen[word] &= !bit;
                }
            }
            self.newest = sequence;
        }
        let (word, bit) = place(sequence);
        self.seen[word] |= bit;
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let index = sequence % WINDOW;
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// The rule by the book: a set of everything ever taken, and the newest.
    #[derive(Default)]
    struct Oracle {
        newest: u64,
        taken: HashSet<u64>,
    }

    impl Oracle {
        fn take(&mut self, sequence: u64) -> bool {
            let old = self.newest >= WINDOW && sequence <= self.newest - WINDOW;
            if old || !self.taken.insert(sequence) {
                return false;
            }
            self.newest = self.newest.max(sequence);
            true
        }
    }

    fn compare(sequences: impl IntoIterator<Item = u64>) {
        let (mut replay, mut oracle) = (Replay::default(), Oracle::default());
        for sequence in sequences {
            let taken = replay.check(sequence).is_ok();
            assert_eq!(taken, oracle.take(sequence), "sequence {sequence}");
            if taken {
                replay.advance(sequence);
            }
        }
    }

    #[test]
    fn the_edges_are_where_the_standard_puts_them() {
        let top = u64::MAX;
        let half = 1u64 << 63;
        for edge in [
            0,
            255,
            256,
            half - 1,
            half,
            top - 256,
            top - 255,
            top - 1,
            top,
        ] {
            for start in [0, edge.saturating_sub(257), edge.saturating_sub(256), edge] {
                let around = (0..=4).map(|n| edge.saturating_sub(2).saturating_add(n));
                let behind = (254..=258).map(|n| edge.saturating_sub(n));
                compare(
                    [start]
                        .into_iter()
                        .chain(around)
                        .chain(behind)
                        .chain([top, top, 0]),
                );
            }
        }
    }

    #[test]
    fn the_highest_sequence_is_taken_once() {
        let mut replay = Replay::default();
        assert_eq!(replay.check(u64::MAX), Ok(()));
        replay.advance(u64::MAX);
        assert_eq!(replay.check(u64::MAX), Err(Reject::Replayed));
        assert_eq!(replay.check(u64::MAX - 255), Ok(()));
        assert_eq!(replay.check(u64::MAX - 256), Err(Reject::Stale));
    }

    proptest! {
        #[test]
        fn any_order_agrees_with_a_set(
            base in prop_oneof![Just(0u64), Just(255), Just((1u64 << 63) - 300), Just(u64::MAX - 1200)],
            walk in proptest::collection::vec((0u64..600, 0u64..4), 1..2000),
        ) {
            let mut at = base;
            compare(walk.into_iter().map(|(offset, stride)| {
                at = at.saturating_add(stride);
                at.saturating_add(offset).saturating_sub(300)
            }));
        }
    }
}
