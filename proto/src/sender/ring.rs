//! The memory of queues: a peer costs what it uses and not what it once used.

use std::collections::VecDeque;

/// Gives back what `ring` had to grow to, once an eighth of that or less is in use; `least` elements it
/// may keep in any case. What stays has room to double, so that each element moves a few times at most.
pub(super) fn give_back<T>(ring: &mut VecDeque<T>, least: usize) {
    if ring.capacity() > least && ring.len() <= ring.capacity() / 8 {
        ring.shrink_to(2 * ring.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_burst_took_goes_back_while_some_of_it_is_in_use() {
        let mut ring: VecDeque<u32> = (0..1000).collect();
        let grown = ring.capacity();
        while ring.len() > grown / 8 {
            ring.pop_front();
            give_back(&mut ring, 64);
        }
        assert!(
            ring.capacity() < grown / 2,
            "{} of {grown}",
            ring.capacity()
        );
        assert_eq!(ring.back(), Some(&999));
        ring.clear();
        give_back(&mut ring, 64);
        assert_eq!(ring.capacity(), 0);
    }

    #[test]
    fn what_everybody_needs_stays() {
        let mut ring: VecDeque<u32> = (0..64).collect();
        ring.clear();
        give_back(&mut ring, 64);
        assert!(ring.capacity() >= 64);
    }
}
