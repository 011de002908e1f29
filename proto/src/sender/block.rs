//! Progress of the blocks that are under way in a lane: which fragments the peer has.
//!
//! One block at a time, or several to a peer that takes them together (docs/wire/reliable.md, section 7).

use super::params::Blocks;

/// What is known of one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    InFlight,
    Lost,
    Acked,
}

/// One block that began to leave.
#[derive(Debug)]
struct Block {
    id: u16,
    fragments: Vec<State>,
    acked: u16,
    /// Fragments unsent or lost.
    due: u16,
    /// No fragment below this is due.
    first_due: u16,
}

impl Block {
    /// A block of `count` fragments, none sent.
    fn new(id: u16, count: u16) -> Self {
        Self {
            id,
            fragments: vec![State::Unsent; usize::from(count)],
            acked: 0,
            due: count,
            first_due: 0,
        }
    }

    fn count(&self) -> u16 {
        self.fragments.len() as u16
    }

    /// The lowest fragment that is unsent or lost.
    fn next_due(&mut self) -> Option<u16> {
        while let Some(state) = self.fragments.get(usize::from(self.first_due)) {
            if matches!(state, State::Unsent | State::Lost) {
                return Some(self.first_due);
            }
            self.first_due += 1;
        }
        None
    }

    fn on_sent(&mut self, fragment: u16) {
        if let Some(state) = self.fragments.get_mut(usize::from(fragment))
            && *state != State::Acked
        {
            self.due -= u16::from(*state != State::InFlight);
            *state = State::InFlight;
        }
    }

    fn on_lost(&mut self, fragment: u16) {
        if let Some(state) = self.fragments.get_mut(usize::from(fragment))
            && *state == State::InFlight
        {
            *state = State::Lost;
            self.due += 1;
            self.first_due = self.first_due.min(fragment);
        }
    }

    /// True once the peer has every fragment.
    fn on_acked(&mut self, fragment: u16) -> bool {
        if let Some(state) = self.fragments.get_mut(usize::from(fragment))
            && *state != State::Acked
        {
            self.due -= u16::from(matches!(state, State::Unsent | State::Lost));
            *state = State::Acked;
            self.acked += 1;
        }
        self.acked == self.count()
    }

    /// The lowest fragment under way goes again (a probe: nothing was heard for too long).
    fn probe(&mut self) {
        let under_way = |state: &State| *state == State::InFlight;
        if let Some(at) = self.fragments.iter().position(under_way) {
            self.on_lost(at as u16);
        }
    }
}

/// Blocks of one lane that began to leave and that the peer does not have as a whole, oldest first.
#[derive(Debug, Default)]
pub(super) struct BlocksUnderWay(Vec<Block>);

impl BlocksUnderWay {
    /// Whether a block of so many bytes may begin beside these. One alone always may.
    pub(super) fn take(&self, length: u32, blocks: &Blocks) -> bool {
        let fragments: u32 = self.0.iter().map(|block| u32::from(block.count())).sum();
        let all = fragments + length.div_ceil(blocks.fragment.into());
        self.0.is_empty() || all * u32::from(blocks.fragment) <= blocks.together_max
    }

    /// A block of `count` fragments, newer than the others, begins.
    pub(super) fn begin(&mut self, id: u16, count: u16) {
        self.0.push(Block::new(id, count));
    }

    /// Some fragment is unsent or lost.
    pub(super) fn is_due(&self) -> bool {
        self.first_due().is_some()
    }

    /// The oldest block with such a fragment.
    pub(super) fn first_due(&self) -> Option<u16> {
        let due = self.0.iter().find(|block| block.due > 0);
        due.map(|block| block.id)
    }

    /// The lowest fragment of the oldest block that has one unsent or lost: the block's id, the fragment,
    /// and of how many.
    pub(super) fn next_due(&mut self) -> Option<(u16, u16, u16)> {
        let mut blocks = self.0.iter_mut();
        let block = blocks.find(|block| block.due > 0)?;
        let index = block.next_due()?;
        Some((block.id, index, block.count()))
    }

    /// The oldest fragment under way goes again, if nothing is due in any case.
    pub(super) fn probe(&mut self) {
        if !self.is_due()
            && let Some(oldest) = self.0.first_mut()
        {
            oldest.probe();
        }
    }

    pub(super) fn on_sent(&mut self, id: u16, fragment: u16) {
        if let Some(block) = self.get_mut(id) {
            block.on_sent(fragment);
        }
    }

    pub(super) fn on_lost(&mut self, id: u16, fragment: u16) {
        if let Some(block) = self.get_mut(id) {
            block.on_lost(fragment);
        }
    }

    /// True if the peer has every fragment now; the block is under way no longer.
    pub(super) fn on_acked(&mut self, id: u16, fragment: u16) -> bool {
        let is_whole = self
            .get_mut(id)
            .is_some_and(|block| block.on_acked(fragment));
        if is_whole {
            self.0.retain(|block| block.id != id);
        }
        is_whole
    }

    fn get_mut(&mut self, id: u16) -> Option<&mut Block> {
        self.0.iter_mut().find(|block| block.id == id)
    }
}
