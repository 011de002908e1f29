//! The memory of queues: a peer costs what it uses and not what it once used.

use std::collections::VecDeque;
use std::time::Duration;

/// The most that a queue held lately, and with that the memory it should have.
///
/// A fast path empties its queues with each acknowledgement and fills them again at once. Memory that
/// goes back as soon as it is free would be asked for again a moment later, each page of it cleared by
/// the kernel: a fifth of all time for one fast connection. So what was not needed for
/// [`SHRINK_EVERY`] goes back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HighWater(u32);

impl HighWater {
    /// So many elements are held now, before some of them leave.
    pub(super) fn note(&mut self, held: usize) {
        self.0 = self.0.max(held as u32);
    }

    /// Gives back what `ring` had to grow to, if an eighth of that or less was in use since this was
    /// last called; `least` elements it may keep in any case. What stays has room to double, so that each
    /// element moves a few times at most.
    pub(super) fn shrink<T>(&mut self, ring: &mut VecDeque<T>, least: usize) {
        let most = (self.0 as usize).max(ring.len());
        self.0 = 0;
        if ring.capacity() > least && most <= ring.capacity() / 8 {
            ring.shrink_to(2 * most);
        }
    }
}

/// How often memory is looked at; less often while nothing is sent.
pub(super) const SHRINK_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn pop(ring: &mut VecDeque<u32>, high_water: &mut HighWater) {
        high_water.note(ring.len());
        ring.pop_front();
    }

    #[test]
    fn what_a_burst_took_goes_back_while_some_of_it_is_in_use() {
        let mut ring: VecDeque<u32> = (0..1000).collect();
        let mut high_water = HighWater::default();
        let grown = ring.capacity();
        while ring.len() > grown / 8 {
            pop(&mut ring, &mut high_water);
        }
        high_water.shrink(&mut ring, 64);
        assert_eq!(ring.capacity(), grown, "it was in use a moment ago");
        high_water.shrink(&mut ring, 64);
        assert!(
            ring.capacity() < grown / 2,
            "{} of {grown}",
            ring.capacity()
        );
        assert_eq!(ring.back(), Some(&999));
        ring.clear();
        high_water.shrink(&mut ring, 64);
        assert_eq!(ring.capacity(), 0);
    }

    #[test]
    fn what_is_filled_and_emptied_again_and_again_stays() {
        let mut ring = VecDeque::new();
        let mut high_water = HighWater::default();
        let mut kept = None;
        for _ in 0..10 {
            ring.extend(0..1000);
            while !ring.is_empty() {
                pop(&mut ring, &mut high_water);
            }
            high_water.shrink(&mut ring, 64);
            assert_eq!(*kept.get_or_insert(ring.capacity()), ring.capacity());
        }
    }

    #[test]
    fn what_everybody_needs_stays() {
        let mut ring: VecDeque<u32> = (0..64).collect();
        ring.clear();
        HighWater::default().shrink(&mut ring, 64);
        assert!(ring.capacity() >= 64);
    }
}
