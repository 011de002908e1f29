//! Blocks that miss fragments, and what they hold and may grow to together.

use std::collections::BTreeMap;

use super::item::BlockFragment;
use crate::reassembly::Reassembly;

/// The blocks of one channel that miss fragments, by id in full.
#[derive(Debug, Default)]
pub(super) struct IncompleteBlocks {
    blocks: BTreeMap<u64, Reassembly>,
    /// Bytes that all of them may grow to.
    reserved: usize,
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

    /// Bytes that the blocks may grow to.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes that the blocks have grown to.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Adds a fragment of the block `id`: one that is not here yet. The whole block, if nothing is missing now. A block
    /// that is cut in another way stays as it is.
    pub(super) fn add(&mut self, id: u64, fragment: &BlockFragment<'_>) -> Option<Vec<u8>> {
        let block = self.blocks.entry(id).or_insert_with(|| {
            let block = fragment.reassembly();
            self.reserved += block.whole_max();
            self.held += held(&block);
            block
        });
        if !fragment.is_of(block) {
            return None;
        }
        let before = held(block);
        block.add(fragment.place.index, fragment.data);
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
        self.reserved -= block.whole_max();
        self.held -= held(&block);
        Some(block)
    }
}

fn held(block: &Reassembly) -> usize {
    block.held() + size_of::<Reassembly>()
}

#[cfg(test)]
mod tests {
    use super::super::item::FragmentPlace;
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
                        let fragment = BlockFragment {
                            place: FragmentPlace {
                                channel: 0,
                                id: id as u16,
                                count,
                                index,
                            },
                            kind: None,
                            size: 8,
                            whole_max: 8 * u32::from(count),
                            data: &[index as u8; 8],
                        };
                        let whole = incomplete.add(id, &fragment);
                        wholes += usize::from(whole.is_some());
                    }
                }
            }
            let blocks = || incomplete.blocks.values();
            let reserved: usize = blocks().map(Reassembly::whole_max).sum();
            assert_eq!(incomplete.reserved(), reserved);
            assert_eq!(incomplete.held(), blocks().map(held).sum());
            most = most.max(incomplete.blocks.len());
        }
        assert!(
            wholes > 1_000 && most > 20,
            "{wholes} whole, {most} at once"
        );
    }
}
