//! Ranges of a byte ring, which are two slices where the ring wraps.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes in two pieces, as they lie in a ring; the second may be empty.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// The bytes of `ring` in `range`, which must lie inside it.
pub(crate) fn slices(ring: &VecDeque<u8>, range: Range<usize>) -> Split<'_> {
    let (front, back) = ring.as_slices();
    let wrap = front.len();
    let Range { start, end } = range;
    (
        &front[start.min(wrap)..end.min(wrap)],
        &back[start.saturating_sub(wrap)..end.saturating_sub(wrap)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_a_ring_that_wraps_is_whole() {
        let mut ring = VecDeque::with_capacity(8);
        ring.extend(0..8);
        ring.drain(..5);
        ring.extend(8..13);
        assert!(!ring.as_slices().1.is_empty(), "it does not wrap");
        let bytes: Vec<u8> = (5..13).collect();
        for start in 0..=bytes.len() {
            for end in start..=bytes.len() {
                let (first, second) = slices(&ring, start..end);
                assert_eq!([first, second].concat(), bytes[start..end]);
            }
        }
    }
}
