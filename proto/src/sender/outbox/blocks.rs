//! Progress of the blocks that are under way in a lane: which fragments the peer has.
//!
//! One block at a time, or several to a peer that takes them together (docs/wire/reliable.md, section 7.3).

use std::collections::VecDeque;

use crate::sender::lane::Blocks;
use crate::sequence::is_newer;

/// What is known of one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    InFlight,
    Lost,
    /// Under way, and goes once more.
    Again,
    Acked,
}

impl State {
    fn is_due(self) -> bool {
        matches!(self, Self::Unsent | Self::Lost | Self::Again)
    }
}

/// One block that began to leave.
#[derive(Debug)]
struct Block {
    id: u16,
    /// Bytes of each fragment but the last.
    size: u16,
    count: u16,
    /// Bytes that it counts for among those under way.
    counted: u32,
    /// Where its fragments are, counted from the first fragment of the first block ever.
    start: u64,
    acked: u16,
    /// Fragments unsent or lost.
    due: u16,
    /// No fragment below this is due.
    first_due: u16,
}

impl Block {
    fn is_whole(&self) -> bool {
        self.acked == self.count
    }

    /// The lowest fragment that is unsent or lost.
    fn next_due(&mut self, fragments: &VecDeque<State>, start: u64) -> Option<u16> {
        let at = (self.start - start) as usize;
        let mut left = self.first_due..self.count;
        let is_due = |index: &u16| fragments[at + usize::from(*index)].is_due();
        self.first_due = left.find(is_due).unwrap_or(self.count);
        (self.first_due < self.count).then_some(self.first_due)
    }
}

/// Blocks of one lane that began to leave and that the peer does not have as a whole, oldest first; and
/// those that it has, while an older one is not whole.
#[derive(Debug, Default)]
pub(super) struct BlocksUnderWay {
    blocks: VecDeque<Block>,
    /// The fragments of all these blocks, block after block.
    fragments: VecDeque<State>,
    /// Where the first of them is.
    start: u64,
    /// Bytes that the blocks count for that are not whole.
    under_way: u32,
    /// Fragments unsent, lost, or to go once more.
    due: u32,
    /// Of these, unsent.
    unsent: u32,
    /// No block before this one has any.
    first_due: u16,
}

impl BlocksUnderWay {
    /// Whether a block of so many bytes may begin beside these. One alone always may.
    pub(super) fn take(&self, length: u32, blocks: &Blocks) -> bool {
        self.under_way == 0 || self.under_way + counted(length, blocks) <= blocks.together_max
    }

    /// A block of so many bytes, newer than the others, begins: in fragments of `size` bytes.
    pub(super) fn begin(&mut self, id: u16, length: u32, size: u16, blocks: &Blocks) {
        let count = length.div_ceil(size.into()) as u16;
        let counted = counted(length, blocks);
        if self.due == 0 {
            self.first_due = id;
        }
        self.blocks.push_back(Block {
            id,
            size,
            count,
            counted,
            start: self.start + self.fragments.len() as u64,
            acked: 0,
            due: count,
            first_due: 0,
        });
        let unsent = std::iter::repeat_n(State::Unsent, count.into());
        self.fragments.extend(unsent);
        self.under_way += counted;
        self.due += u32::from(count);
        self.unsent += u32::from(count);
    }

    /// Whether no block is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Some fragment is unsent or lost.
    pub(super) fn is_due(&self) -> bool {
        self.due > 0
    }

    /// The oldest block with such a fragment.
    pub(super) fn first_due(&self) -> Option<u16> {
        Some(self.blocks[self.index_due()?].id)
    }

    /// The lowest fragment of the oldest block that has one unsent or lost: the block's id, the fragment,
    /// and of how many.
    pub(super) fn next_due(&mut self) -> Option<(u16, u16, u16)> {
        let index = self.index_due()?;
        let block = &mut self.blocks[index];
        self.first_due = block.id;
        let fragment = block.next_due(&self.fragments, self.start)?;
        Some((block.id, fragment, block.count))
    }

    fn index_due(&self) -> Option<usize> {
        if !self.is_due() {
            return None;
        }
        let from = self.place(self.first_due);
        let mut rest = self.blocks.range(from..);
        rest.position(|block| block.due > 0).map(|at| from + at)
    }

    /// The oldest fragment under way goes again, if nothing is due in any case.
    pub(super) fn probe(&mut self) {
        let Some(oldest) = self.blocks.front().filter(|_| self.due == 0) else {
            return;
        };
        let id = oldest.id;
        let mut its = self.fragments.range(..usize::from(oldest.count));
        if let Some(fragment) = its.position(|state| *state == State::InFlight) {
            self.change(id, fragment as u16, State::Again);
        }
    }

    /// True if it went before. `twice`: what was lost goes twice, if nothing else waits to leave: each time that it is lost
    /// once more, all of the block waits for it another round trip.
    pub(super) fn on_sent(&mut self, id: u16, fragment: u16, twice: bool) -> bool {
        let Some((_, before)) = self.change(id, fragment, State::InFlight) else {
            return false;
        };
        if twice && before == State::Lost && self.unsent == 0 {
            self.change(id, fragment, State::Again);
        }
        before != State::Unsent
    }

    pub(super) fn on_lost(&mut self, id: u16, fragment: u16) {
        self.change(id, fragment, State::Lost);
    }

    /// True if the peer has every fragment since now; the block is under way no longer.
    pub(super) fn on_acked(&mut self, id: u16, fragment: u16) -> bool {
        let Some((index, _)) = self.change(id, fragment, State::Acked) else {
            return false;
        };
        let block = &self.blocks[index];
        if !block.is_whole() {
            return false;
        }
        self.under_way -= block.counted;
        while let Some(oldest) = self.blocks.front().filter(|block| block.is_whole()) {
            self.start += u64::from(oldest.count);
            self.fragments.drain(..usize::from(oldest.count));
            self.blocks.pop_front();
        }
        true
    }

    /// The block's place and what the fragment was, if that changed it: what the peer has, it keeps, and
    /// what is lost was under way.
    fn change(&mut self, id: u16, fragment: u16, to: State) -> Option<(usize, State)> {
        let index = self.index(id)?;
        let block = &mut self.blocks[index];
        if fragment >= block.count {
            return None;
        }
        let at = (block.start - self.start) as usize + usize::from(fragment);
        let from = self.fragments[at];
        if from == State::Acked || to == State::Lost && from != State::InFlight {
            return None;
        }
        self.fragments[at] = to;
        block.acked += u16::from(to == State::Acked);
        self.unsent -= u32::from(from == State::Unsent);
        match (from.is_due(), to.is_due()) {
            (true, false) => {
                block.due -= 1;
                self.due -= 1;
            }
            (false, true) => {
                block.due += 1;
                block.first_due = block.first_due.min(fragment);
                if self.due == 0 || is_newer(self.first_due, id) {
                    self.first_due = id;
                }
                self.due += 1;
            }
            _ => {}
        }
        Some((index, from))
    }

    /// Bytes of each fragment but the last of a block that began to leave.
    pub(super) fn size(&self, id: u16) -> Option<u16> {
        Some(self.blocks[self.index(id)?].size)
    }

    fn index(&self, id: u16) -> Option<usize> {
        let place = self.place(id);
        let block = self.blocks.get(place)?;
        (block.id == id).then_some(place)
    }

    /// Where the block `id` is, or the first after it.
    fn place(&self, id: u16) -> usize {
        self.blocks.partition_point(|block| is_newer(id, block.id))
    }
}

/// What a block of so many bytes counts for among those under way: whole fragments of the wire's own size, however
/// it is cut. That is no less than its peer counts.
fn counted(length: u32, blocks: &Blocks) -> u32 {
    length.next_multiple_of(blocks.fragment.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    const OF_TEN: Blocks = Blocks {
        fragment: 10,
        bytes_max: 100,
        together_max: 1_000,
    };

    impl BlocksUnderWay {
        /// Looks at every fragment.
        fn check(&self) {
            let mut fragments = self.fragments.iter();
            let (mut due, mut unsent, mut under_way, mut first) = (0, 0, 0, None);
            for block in &self.blocks {
                let its: Vec<State> = fragments
                    .by_ref()
                    .take(block.count.into())
                    .copied()
                    .collect();
                let count =
                    |wanted: fn(State) -> bool| its.iter().filter(|it| wanted(**it)).count();
                assert_eq!(count(State::is_due), block.due.into());
                unsent += count(|it| it == State::Unsent) as u32;
                assert_eq!(count(|it| it == State::Acked), block.acked.into());
                due += u32::from(block.due);
                if !block.is_whole() {
                    under_way += block.counted;
                }
                first = first.or((block.due > 0).then_some(block.id));
            }
            assert!(fragments.next().is_none());
            let counted = (self.due, self.unsent, self.under_way);
            assert_eq!(counted, (due, unsent, under_way));
            assert_eq!(self.first_due(), first);
        }
    }

    /// Whatever is sent, lost and acknowledged in whatever order: looking at every fragment finds the same.
    #[test]
    fn what_is_due_and_under_way_is_known_without_looking() {
        let mut random = Random::new(5);
        let mut blocks = BlocksUnderWay::default();
        let (mut next, mut most, mut ended) = (65_000_u16, 0, 0);
        for _ in 0..200_000 {
            let back = random.below(120) as u16;
            let (id, fragment) = (next.wrapping_sub(back), random.below(7) as u16);
            match random.below(16) {
                0 if blocks.blocks.len() < 40 => {
                    let (fragments, bytes) = (1 + random.below(6) as u32, random.below(10) as u32);
                    // Of the wire's size, or longer.
                    let size = 10 + 3 * random.below(2) as u16;
                    let length = fragments * u32::from(size) - bytes;
                    blocks.begin(next, length, size, &OF_TEN);
                    next = next.wrapping_add(1 + random.below(3) as u16);
                }
                1..6 => {
                    if let Some((id, fragment, _)) = blocks.next_due() {
                        blocks.on_sent(id, fragment, random.below(2) == 0);
                    }
                }
                6..9 => blocks.on_lost(id, fragment),
                9 => blocks.probe(),
                _ => ended += u32::from(blocks.on_acked(id, fragment)),
            }
            blocks.check();
            most = most.max(blocks.blocks.len());
        }
        assert!(ended > 500 && most > 20, "{ended} ended, {most} at once");
    }
}
