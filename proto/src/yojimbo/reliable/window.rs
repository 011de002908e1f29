//! The last packet numbers, each received or not: one bit each is enough, because whatever is neither
//! stale nor ahead has a place of its own among them.
//!
//! Rule: docs/wire/reliable.md, section 3.

use crate::sequence::is_newer;

/// The last `64 * WORDS` packet numbers; `WORDS` is a power of two up to 256.
#[derive(Clone, Debug)]
pub struct Window<const WORDS: usize> {
    /// Newest number seen, plus one; 0 at the start.
    next: u16,
    /// Bit `n % NUMBERS` belongs to the one number in `next - NUMBERS .. next` with that remainder.
    bits: [u64; WORDS],
}

impl<const WORDS: usize> Window<WORDS> {
    /// How many numbers are remembered.
    pub const NUMBERS: u16 = 64 * WORDS as u16;

    /// Nothing up to `newest` was received.
    pub fn after(newest: u16) -> Self {
        Self {
            next: newest.wrapping_add(1),
            bits: [0; WORDS],
        }
    }

    /// Newest number seen, plus one.
    pub fn next(&self) -> u16 {
        self.next
    }

    /// Whether `sequence` is too old to be judged.
    pub fn is_stale(&self, sequence: u16) -> bool {
        is_newer(self.next.wrapping_sub(Self::NUMBERS), sequence)
    }

    /// Whether `sequence` was received before.
    pub fn contains(&self, sequence: u16) -> bool {
        !self.is_stale(sequence) && !is_newer(sequence.wrapping_add(1), self.next) && {
            let (word, bit) = Self::place(sequence);
            self.bits[word] & bit != 0
        }
    }

    /// Notes that `sequence` exists, received or not: the window moves so that it is inside. True if
    /// nothing is left of what was inside before.
    pub fn see(&mut self, sequence: u16) -> bool {
        let after = sequence.wrapping_add(1);
        if !is_newer(after, self.next) {
            return false;
        }
        let is_jump = after.wrapping_sub(self.next) >= Self::NUMBERS;
        if is_jump {
            self.bits = [0; WORDS];
        } else {
            let mut skipped = self.next;
            while skipped != after {
                let (word, bit) = Self::place(skipped);
                self.bits[word] &= !bit;
                skipped = skipped.wrapping_add(1);
            }
        }
        self.next = after;
        is_jump
    }

    /// Counts `sequence` as received, which was seen and is not stale.
    pub fn set(&mut self, sequence: u16) {
        let (word, bit) = Self::place(sequence);
        self.bits[word] |= bit;
    }

    /// Whether `newest` and the 63 before it were received: bit `n` is `newest - n`. All of them must be in
    /// the window, or the bits are those of other numbers.
    pub fn bits_before(&self, newest: u16) -> u64 {
        let (word, shift) = (Self::place(newest).0, newest % 64);
        let before = self.bits[(word + WORDS - 1) % WORDS];
        let joined = u128::from(self.bits[word]) << 64 | u128::from(before);
        // The bit of `newest` to the top, then the 64 highest turned round.
        let highest = (joined << (63 - shift) >> 64) as u64;
        highest.reverse_bits()
    }

    fn place(sequence: u16) -> (usize, u64) {
        let index = sequence % Self::NUMBERS;
        (usize::from(index) / 64, 1 << (index % 64))
    }
}

impl<const WORDS: usize> Default for Window<WORDS> {
    /// Before the first packet, which is number 0.
    fn default() -> Self {
        Self::after(u16::MAX)
    }
}
