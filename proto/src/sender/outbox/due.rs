//! What of an outbox leaves next: what was lost, then what is fresh; whole messages, or fragments of
//! blocks.

use super::entry::{Entry, Way};
use super::{Blocks, Framing, Outbox};

/// A fragment that leaves next.
#[derive(Clone, Copy, Debug)]
pub(in crate::sender) struct NextFragment {
    /// Id of its block.
    pub(in crate::sender) id: u16,
    pub(in crate::sender) index: u16,
    /// How many fragments the block has.
    pub(in crate::sender) count: u16,
    /// Length of the fragment.
    pub(in crate::sender) bytes: usize,
    /// Its block is cut into longer fragments than the wire's own.
    pub(in crate::sender) is_long: bool,
}

impl Outbox {
    /// Index of the first message that must leave: the first that is lost, or else the first that was never sent.
    pub(in crate::sender) fn first_due(&self) -> usize {
        self.index(self.due_from)
    }

    /// Index at which the next probe in a row begins.
    pub(in crate::sender) fn probe_from(&self) -> usize {
        self.resume(self.probe_next)
    }

    /// Index of the first block that the peer does not have, or the number of messages.
    pub(in crate::sender) fn first_block(&self) -> usize {
        let mut entries = self.entries.iter();
        let block = entries.position(|entry| entry.is_block() && !entry.acked);
        block.unwrap_or(self.entries.len())
    }

    /// Whether the peer lacks a block.
    pub(in crate::sender) fn has_block(&self) -> bool {
        self.first_block() < self.entries.len()
    }

    /// A probe said everything up to `id`.
    pub(in crate::sender) fn on_probed(&mut self, id: u16) {
        self.probe_next = id.wrapping_add(1);
    }

    /// Index at which copies that take turns begin.
    pub(in crate::sender) fn copies_from(&self) -> usize {
        self.resume(self.copy_next)
    }

    /// A copy of `id` went in its turn.
    pub(in crate::sender) fn on_copied(&mut self, id: u16) {
        self.copy_next = id.wrapping_add(1);
    }

    fn resume(&self, next: u16) -> usize {
        let index = self.index(next);
        if index < self.started() { index } else { 0 }
    }

    /// A block stands at the front.
    fn is_front_block(&self) -> bool {
        self.entries.front().is_some_and(Entry::is_block)
    }

    /// What goes next for the first time is longer than this.
    pub(in crate::sender) fn is_next_longer(&self, length: u16) -> bool {
        let next = self.entries.get(self.started());
        next.is_some_and(|entry| entry.length > length.into())
    }

    /// Messages wait for a block that goes alone.
    pub(in crate::sender) fn is_held_up(&self) -> bool {
        !self.takes_together && self.is_front_block() && self.entries.len() > 1
    }

    /// What leaves next is a fragment of a block, whether it may already or not. `is_probe`: something
    /// old goes again.
    pub(in crate::sender) fn is_block_next(&self, is_probe: bool) -> bool {
        if is_probe || !self.takes_together {
            return self.is_front_block();
        }
        let fresh = self.entries.get(self.started());
        let block = match self.under_way.as_ref().and_then(|them| them.first_due()) {
            Some(id) => self.index(id),
            None if fresh.is_some_and(|entry| self.goes_as_block(entry)) => self.started(),
            None => return false,
        };
        // Oldest first: what is not delivered yet may not be acknowledged yet, and so be lost for ever.
        block <= self.first_due()
    }

    /// The fragment that leaves next, if any may. `is_probe`: one that is under way goes again. `long`: bytes of the
    /// fragments of a block that begins, if that is more than the wire's own.
    pub(in crate::sender) fn next_fragment(
        &mut self,
        is_probe: bool,
        long: u16,
    ) -> Option<NextFragment> {
        let blocks = self.blocks?;
        let has_fresh = self.has_fresh();
        let under_way = self.under_way.get_or_insert_default();
        if is_probe {
            under_way.probe();
        }
        if !under_way.is_due() && has_fresh {
            let length = self.entries[usize::from(self.started)].length;
            let id = self.base.wrapping_add(self.started);
            under_way.begin(id, length, long.max(blocks.fragment), &blocks);
        }
        let (id, index, count) = under_way.next_due()?;
        let size = under_way.size(id)?;
        let from = u32::from(index) * u32::from(size);
        let bytes = self.get(id)?.length.saturating_sub(from).min(size.into());
        Some(NextFragment {
            id,
            index,
            count,
            bytes: bytes as usize,
            is_long: size > blocks.fragment,
        })
    }

    /// A message that was never sent is a block if it goes now.
    pub(in crate::sender) fn goes_as_block(&self, fresh: &Entry) -> bool {
        match (fresh.way, &self.blocks) {
            (Way::Either, Some(blocks)) => self.may_begin(fresh.length, blocks),
            (way, _) => way == Way::Block,
        }
    }

    /// A block of this length may go beside those under way.
    fn may_begin(&self, length: u32, blocks: &Blocks) -> bool {
        let under_way = self.under_way.as_ref();
        under_way.is_none_or(|them| them.take(length, blocks))
    }

    /// Something was never sent and may be.
    pub(in crate::sender) fn has_fresh(&self) -> bool {
        let next = self.started();
        let Some(entry) = self.entries.get(next) else {
            return false;
        };
        match &self.blocks {
            Some(blocks) if self.takes_together => {
                !entry.is_block() || self.may_begin(entry.length, blocks)
            }
            // A block goes alone: nothing before it is without acknowledgement, nothing after it leaves.
            _ => next == 0 || !(entry.is_block() || self.is_front_block()),
        }
    }

    /// Nothing waits to leave, nothing of what left is lost, and none of it is a block's.
    pub(in crate::sender) fn is_all_under_way(&self) -> bool {
        let started = self.started();
        started == self.entries.len() && self.first_due() == started && self.under_way.is_none()
    }

    /// Something that left is lost, and due again.
    pub(in crate::sender) fn has_lost(&self) -> bool {
        self.first_due() < self.started()
    }

    /// Something may leave.
    pub(in crate::sender) fn is_due(&self) -> bool {
        let fragments = self.under_way.as_ref().is_some_and(|them| them.is_due());
        self.has_lost() || fragments || self.has_fresh()
    }

    /// Bytes never sent, blocks included.
    pub(in crate::sender) fn fresh_bytes(&self) -> usize {
        match self.entries.get(self.started()) {
            Some(entry) => (self.bytes_start + self.bytes.len() as u64 - entry.start) as usize,
            None => 0,
        }
    }

    /// A block, or more than one packet holds: goes by the bulk rate. So does what was lost of it, however
    /// little is fresh behind that: one packet at a time, as messages go, would take the end of a transfer
    /// for minutes.
    pub(in crate::sender) fn is_bulk(&self, framing: &Framing) -> bool {
        let datagram = usize::from(framing.datagram);
        self.is_block_next(false)
            || self.fresh_bytes() > datagram
            || self.lost_bytes as usize > LOST_OF_BULK * datagram
    }
}

/// What a game loses at once is less than so many datagrams, and leaves as messages do, within a tenth of a
/// second.
const LOST_OF_BULK: usize = 8;
