//! Numbers that wrap: which of two 16-bit sequences is newer, and a window of entries by sequence.
//!
//! Rule: reliable 1.0, "Sequence numbers" (docs/wire/reliable.md, section 3).

/// Whether `a` is newer than `b`: at most half the circle ahead of it.
pub const fn is_newer(a: u16, b: u16) -> bool {
    let ahead = a.wrapping_sub(b);
    // At exactly half the circle the larger number is the newer one.
    ahead != 0 && (ahead < 32768 || (ahead == 32768 && a > b))
}

/// The full number that `wire`, its low 16 bits, stands for: the one nearest to `reference`.
///
/// Numbers below zero do not exist, so near the start the nearest number from zero up is meant.
pub const fn nearest(reference: u64, wire: u16) -> u64 {
    let ahead = wire.wrapping_sub(reference as u16);
    if ahead < 32768 {
        return reference + ahead as u64;
    }
    let behind = 65536 - ahead as u64;
    if reference >= behind {
        reference - behind
    } else {
        reference + ahead as u64
    }
}

/// A window of `size` entries, each filed under its 16-bit sequence.
///
/// An entry is found only under the very sequence it was filed with, so a number from one lap ago
/// never aliases. Moving the window forward empties what it skips. Memory is what is in use: slots
/// are allocated up to the highest index touched, and not before the first entry.
#[derive(Clone, Debug)]
pub struct SequenceBuffer<T> {
    /// Newest sequence filed, plus one.
    next: u16,
    size: usize,
    slots: Vec<Option<(u16, T)>>,
}

impl<T> SequenceBuffer<T> {
    /// An empty window whose next sequence is 0. `size` must divide 65536, so that slots do not
    /// alias across the wrap.
    pub fn new(size: usize) -> Self {
        assert!(
            size.is_power_of_two() && size <= 32768,
            "window size {size} must be a power of two up to 32768"
        );
        Self {
            next: 0,
            size,
            slots: Vec::new(),
        }
    }

    /// Newest sequence filed, plus one.
    pub fn next(&self) -> u16 {
        self.next
    }

    /// Whether `sequence` is too old to be filed.
    pub fn is_stale(&self, sequence: u16) -> bool {
        is_newer(self.next.wrapping_sub(self.size as u16), sequence)
    }

    /// Moves the window forward so that `sequence` is in it, emptying what is skipped.
    pub fn advance(&mut self, sequence: u16) {
        let after = sequence.wrapping_add(1);
        if !is_newer(after, self.next) {
            return;
        }
        let skipped = usize::from(after.wrapping_sub(self.next)).min(self.size);
        for step in 0..skipped {
            let index = usize::from(after.wrapping_sub(1 + step as u16)) % self.size;
            if let Some(slot) = self.slots.get_mut(index) {
                *slot = None;
            }
        }
        self.next = after;
    }

    /// Files `entry`, moving the window forward if need be; false (and nothing changes) when stale.
    pub fn insert(&mut self, sequence: u16, entry: T) -> bool {
        if self.is_stale(sequence) {
            return false;
        }
        self.advance(sequence);
        let index = usize::from(sequence) % self.size;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some((sequence, entry));
        true
    }

    /// The entry filed under `sequence`.
    pub fn get(&self, sequence: u16) -> Option<&T> {
        match self.slots.get(usize::from(sequence) % self.size) {
            Some(Some((filed, entry))) if *filed == sequence => Some(entry),
            _ => None,
        }
    }

    /// The entry filed under `sequence`.
    pub fn get_mut(&mut self, sequence: u16) -> Option<&mut T> {
        match self.slots.get_mut(usize::from(sequence) % self.size) {
            Some(Some((filed, entry))) if *filed == sequence => Some(entry),
            _ => None,
        }
    }

    /// Takes the entry filed under `sequence` out.
    pub fn remove(&mut self, sequence: u16) -> Option<T> {
        self.get(sequence)?;
        let slot = self.slots.get_mut(usize::from(sequence) % self.size)?;
        slot.take().map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_wraps_at_half_the_circle() {
        for (a, b, newer) in [
            (1, 0, true),
            (0, 1, false),
            (0, 0, false),
            (0, 65535, true),
            (65535, 0, false),
            (32768, 0, true),
            (0, 32768, false),
            (32769, 0, false),
        ] {
            assert_eq!(is_newer(a, b), newer, "{a} newer than {b}");
        }
    }

    #[test]
    fn the_nearest_full_number_is_found() {
        for (reference, wire, full) in [
            (0, 5, 5),
            (0, 65535, 65535),
            (65535, 0, 65536),
            (65536, 65535, 65535),
            (1 << 32, 65535, (1 << 32) - 1),
            (100_000, (99_000u32 & 0xffff) as u16, 99_000),
        ] {
            assert_eq!(nearest(reference, wire), full, "{wire} near {reference}");
        }
    }

    #[test]
    fn a_fresh_window_takes_what_the_reference_takes() {
        let window = SequenceBuffer::<()>::new(256);
        for (sequence, stale) in [
            (0, false),
            (32511, false),
            (32512, true),
            (65279, true),
            (65280, false),
        ] {
            assert_eq!(window.is_stale(sequence), stale, "{sequence}");
        }
    }

    #[test]
    fn entries_do_not_alias_after_a_lap() {
        let mut window = SequenceBuffer::new(4);
        for sequence in 0..4 {
            assert!(window.insert(sequence, sequence));
        }
        assert!(window.insert(9, 9));
        assert_eq!(window.get(5), None, "skipped");
        assert_eq!(window.get(1), None, "a lap ago");
        assert_eq!(window.get(9), Some(&9));
        assert!(!window.insert(5, 5), "stale: older than the window");
        assert!(window.insert(6, 6));
        assert_eq!(
            window.next(),
            10,
            "an older entry does not move the window back"
        );
        assert_eq!(window.remove(6), Some(6));
        assert_eq!(window.get(6), None);
    }

    #[test]
    fn the_window_survives_any_walk() {
        // A pseudo-random walk with long jumps, against a plain list of what must be there.
        let mut window = SequenceBuffer::new(256);
        let mut filed = std::collections::VecDeque::new();
        let (mut at, mut state) = (0u16, 12345u32);
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            at = at.wrapping_add((state >> 24) as u16 % 97 + 1);
            assert!(window.insert(at, at));
            filed.push_back(at);
            while filed
                .front()
                .is_some_and(|old| at.wrapping_sub(*old) >= 256)
            {
                let old = filed.pop_front().unwrap();
                assert_eq!(window.get(old), None);
            }
            assert!(filed.iter().all(|s| window.get(*s) == Some(s)));
        }
    }
}
