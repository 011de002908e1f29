//! A packet or message put together from numbered fragments of equal size, in whatever order they come.
//!
//! Fragments lie one behind the other as they arrived, so memory grows with what was received and not
//! with what a fragment claims about the whole. Fragments that came in order are the whole already.

/// The fragments received so far. All are `size` bytes long but the last, which may be shorter; the
/// caller has checked that.
#[derive(Debug)]
pub(crate) struct Reassembly {
    size: usize,
    /// Bytes of the whole, at most.
    whole_max: usize,
    /// The index of each fragment, in order of arrival.
    arrived: Vec<u16>,
    data: Vec<u8>,
    count: u16,
}

impl Reassembly {
    /// Nothing has come of `count` fragments.
    pub(crate) fn new(count: u16, size: usize) -> Self {
        Self::of_length(count, size, usize::from(count) * size)
    }

    /// Nothing has come of `count` fragments, which are no more than `whole_max` bytes together.
    pub(crate) fn of_length(count: u16, size: usize, whole_max: usize) -> Self {
        Self {
            size,
            whole_max,
            arrived: Vec::new(),
            data: Vec::new(),
            count,
        }
    }

    /// Fragments of the whole.
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// Bytes of each fragment but the last.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the whole, at most.
    pub(crate) fn whole_max(&self) -> usize {
        self.whole_max
    }

    pub(crate) fn contains(&self, index: u16) -> bool {
        self.arrived.contains(&index)
    }

    /// Keeps a fragment that is not here yet.
    pub(crate) fn add(&mut self, index: u16, fragment: &[u8]) {
        debug_assert!(!self.contains(index) && index < self.count);
        let needed = self.data.len() + fragment.len();
        if needed > self.data.capacity() {
            // Doubling, but never beyond the whole: a complete one has no slack.
            let room = (self.data.len() * 2).min(self.whole_max).max(needed);
            self.data.reserve_exact(room - self.data.len());
        }
        self.data.extend_from_slice(fragment);
        self.arrived.push(index);
    }

    /// Fragments that have not come.
    pub(crate) fn missing(&self) -> u16 {
        self.count - self.arrived.len() as u16
    }

    /// Bytes held, received or reserved.
    pub(crate) fn held(&self) -> usize {
        self.data.capacity() + self.arrived.capacity() * size_of::<u16>()
    }

    /// The whole, once nothing is missing.
    pub(crate) fn into_whole(self) -> Vec<u8> {
        debug_assert_eq!(self.missing(), 0);
        if self.arrived.is_sorted() {
            return self.data;
        }
        let short = usize::from(self.count) * self.size - self.data.len();
        let mut whole = vec![0; self.data.len()];
        let mut from = 0;
        for index in self.arrived {
            let last = index + 1 == self.count;
            let length = if last { self.size - short } else { self.size };
            let to = usize::from(index) * self.size;
            whole[to..to + length].copy_from_slice(&self.data[from..from + length]);
            from += length;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_gives_the_whole(
            whole in prop::collection::vec(any::<u8>(), 0..600),
            size in 1usize..80,
            mix: u64,
        ) {
            let mut parts: Vec<_> = whole.chunks(size).enumerate().collect();
            if parts.is_empty() {
                parts.push((0, &[]));
            }
            parts.sort_by_key(|(index, _)| (*index as u64 + 1).wrapping_mul(mix | 1));
            let mut reassembly = Reassembly::new(parts.len() as u16, size);
            let mut received = 0;
            for (arrived, (index, part)) in (1usize..).zip(&parts) {
                prop_assert!(!reassembly.contains(*index as u16));
                reassembly.add(*index as u16, part);
                received += part.len();
                prop_assert!(reassembly.held() <= 2 * received + 64 * parts.len());
                prop_assert!(reassembly.held() >= received + 2 * arrived, "all of it counts");
                let whole = size * parts.len();
                prop_assert!(reassembly.held() <= whole + 8 + 4 * parts.len(), "no slack beyond it");
            }
            prop_assert_eq!(reassembly.missing(), 0);
            prop_assert_eq!(reassembly.into_whole(), whole);
        }
    }
}
