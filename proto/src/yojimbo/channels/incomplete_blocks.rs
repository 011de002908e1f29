//! Blocks that miss fragments, and what they hold and may grow to together.

use std::collections::BTreeMap;

use crate::reassembly::Reassembly;

/// The blocks of one channel that miss fragments, by id in full.
#[derive(Debug, Default)]
pub(super) struct IncompleteBlocks {
    blocks: BTreeMap<u64, Reassembly>,
    /// Fragments of all of them, those that are missing too.
    fragments: usize,
    /// Bytes they have grown to, with their own.
    held: usize,
}

impl IncompleteBlocks {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Reassembly> {
        self.blocks.get(&id)
    }

    /// Fragments that make all blocks whole, those that are here among them.
    pub(super) fn fragments(&self) -> usize {
        self.fragments
    }

    /// Bytes that the blocks have grown to.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Adds a fragment of the block `id`, which has `count` of them, of `size` bytes each but the last: one that
    /// is not here yet. The whole block, if nothing is missing now. A block of another count stays as it is.
    pub(super) fn add(
        &mut self,
        id: u64,
        (index, count): (u16, u16),
        size: usize,
        data: &[u8],
    ) -> Option<Vec<u8>> {
        let block = self.blocks.entry(id).or_insert_with(|| {
            let block = Reassembly::new(count, size);
            self.fragments += usize::from(count);
            self.held += held(&block);
            block
        });
        if block.count() != count {
            return None;
        }
        let before = held(block);
        block.add(index, data);
        self.held += held(block) - before;
        if block.missing() > 0 {
            return None;
        }
        self.take(id).map(Reassembly::into_whole)
    }

    /// Lets go of the block `id`; whether there was one.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        self.take(id).is_some()
    }

    /// Lets go of all blocks older than `id`, and says how many there were.
    pub(super) fn remove_before(&mut self, id: u64) -> usize {
        let before = self.blocks.len();
        while let Some((&oldest, _)) = self.blocks.first_key_value()
            && oldest < id
        {
            self.remove(oldest);
        }
        before - self.blocks.len()
    }

    fn take(&mut self, id: u64) -> Option<Reassembly> {
        let block = self.blocks.remove(&id)?;
        self.fragments -= usize::from(block.count());
        self.held -= held(&block);
        Some(block)
    }
}

fn held(block: &Reassembly) -> usize {
    block.held() + size_of::<Reassembly>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Whatever comes in whatever order: counting every block finds the same.
    #[test]
    fn what_all_hold_is_known_without_looking() {
        let mut random = Random::new(11);
        let mut incomplete = IncompleteBlocks::default();
        let (mut wholes, mut most) = (0, 0);
        for _ in 0..20_000 {
            let id = random.below(40);
            match random.below(50) {
                0 => _ = incomplete.remove(id),
                1 => _ = incomplete.remove_before(id / 4),
                _ => {
                    let (index, count) = (random.below(5) as u16, 3 + (id % 3) as u16);
                    let is_here = incomplete.get(id).is_some_and(|it| it.contains(index));
                    if index < count && !is_here {
                        let whole = incomplete.add(id, (index, count), 8, &[index as u8; 8]);
                        wholes += usize::from(whole.is_some());
                    }
                }
            }
            let blocks = || incomplete.blocks.values();
            let fragments: u16 = blocks().map(Reassembly::count).sum();
            assert_eq!(incomplete.fragments(), usize::from(fragments));
            assert_eq!(incomplete.held(), blocks().map(held).sum());
            most = most.max(incomplete.blocks.len());
        }
        assert!(
            wholes > 1_000 && most > 20,
            "{wholes} whole, {most} at once"
        );
    }
}
