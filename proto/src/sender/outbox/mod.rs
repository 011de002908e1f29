//! A reliable lane's messages from the moment they are pushed until the peer has them.
//!
//! Payloads lie one after the other in one byte ring, entries in another; both grow with use and
//! are given back when little of them was in use for a while. Ids are 16 bits and wrap; an entry is
//! found by its distance from the oldest unacknowledged id.
//! Rules: docs/wire/yojimbo.md, section 6, rules 3 (window) and 4 (a block travels alone);
//! docs/wire/reliable.md, section 7.3 (neither is so narrow between two tidegates).

mod blocks;
mod due;
mod entry;
mod fate;

use std::collections::VecDeque;

use crate::ring::{self, Split};
use crate::time::Timestamp;

use super::framing::Framing;
use super::high_water::HighWater;
use super::lane::Blocks;
use super::plan::LongFragment;

pub(super) use entry::Entry;

use blocks::BlocksUnderWay;
use entry::Way;

/// Messages of one reliable lane.
#[derive(Debug)]
pub(super) struct Outbox {
    /// How messages that fit no packet travel; without, there are none.
    blocks: Option<Blocks>,
    /// What the peer takes, counted from the oldest id it has not acknowledged.
    window: u16,
    /// Messages in one packet, at most.
    per_packet: u16,
    /// It takes several blocks at once, and messages beside them.
    takes_together: bool,
    /// Id of `entries[0]`: the oldest unacknowledged message.
    base: u16,
    entries: VecDeque<Entry>,
    /// Entries that were sent at least once; the rest of the queue is fresh.
    started: u16,
    /// Id of the first started message whose every copy was lost, or else of the first not started.
    due_from: u16,
    /// Bytes of all that are due again.
    lost_bytes: u32,
    bytes: VecDeque<u8>,
    /// Stream position of `bytes[0]`.
    bytes_start: u64,
    /// Where the next probe in a row goes on: one that always began with the oldest would never say
    /// the others again to a peer that acknowledges only what it could deliver.
    probe_next: u16,
    /// Where copies that take turns go on. They have a place of their own: the small ones that a nearly empty
    /// budget affords would otherwise call each probe back to where it began, and a large one before them would
    /// never go again.
    copy_next: u16,
    /// Once there was a block, and while there are any.
    under_way: Option<Box<BlocksUnderWay>>,
    /// Messages that were let go although the peer does not have them.
    released: u16,
    entries_most: HighWater,
    bytes_most: HighWater,
}

impl Outbox {
    /// For a peer that takes `window` messages from the oldest on that it has not, and `per_packet` at once.
    pub(super) fn new(window: u16, per_packet: u16, blocks: Option<Blocks>) -> Self {
        Self {
            blocks,
            window,
            per_packet,
            takes_together: false,
            base: 0,
            entries: VecDeque::new(),
            started: 0,
            due_from: 0,
            lost_bytes: 0,
            bytes: VecDeque::new(),
            bytes_start: 0,
            probe_next: 0,
            copy_next: 0,
            under_way: None,
            released: 0,
            entries_most: HighWater::default(),
            bytes_most: HighWater::default(),
        }
    }

    /// The peer takes so many, and blocks together. What waits and is longer than `datagram` may be one from
    /// now on.
    pub(super) fn widen(&mut self, window: u16, datagram: u16) {
        self.window = self.window.max(window);
        self.takes_together = true;
        for index in self.started()..self.entries.len() {
            let Entry { way, length, .. } = self.entries[index];
            self.entries[index].way = self.way(length, way == Way::Block, datagram);
        }
    }

    /// How a message of this length goes. `is_block`: as a block.
    fn way(&self, length: u32, is_block: bool, datagram: u16) -> Way {
        match &self.blocks {
            Some(_) if is_block => Way::Block,
            Some(blocks) if self.takes_together => match length {
                _ if length <= datagram.into() || length > blocks.bytes_max => Way::Packet,
                _ => Way::Either,
            },
            _ => Way::Packet,
        }
    }

    /// Bytes of the longest block; `None` where there are none.
    pub(super) fn block_max(&self) -> Option<usize> {
        self.blocks.map(|blocks| blocks.bytes_max as usize)
    }

    /// Whether a message of any legal size may be added: the peer would take it, and less than so many
    /// bytes wait.
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        self.entries.len() < self.window.into() && self.bytes.len() < bytes_max
    }

    /// What is under way or waits takes half of the room there is.
    pub(super) fn is_half_full(&self, bytes_max: usize) -> bool {
        2 * self.entries.len() > self.window.into() || 2 * self.bytes.len() > bytes_max
    }

    /// Adds a message: as a block if it should be one and there are any, and one that is longer than
    /// `datagram` if the peer takes several.
    pub(super) fn push(&mut self, now: Timestamp, payload: &[u8], is_block: bool, datagram: u16) {
        let length = payload.len() as u32;
        self.entries.push_back(Entry {
            start: self.bytes_start + self.bytes.len() as u64,
            length,
            in_flight: 0,
            sends: 0,
            acked: false,
            way: self.way(length, is_block, datagram),
            first_packet: 0,
            carried: 0,
            pushed_at: now,
        });
        self.bytes.extend(payload);
    }

    /// Messages in one packet, at most.
    pub(in crate::sender) fn per_packet(&self) -> u16 {
        self.per_packet
    }

    /// Id of the oldest unacknowledged message, or of the next one.
    pub(super) fn base(&self) -> u16 {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Payload bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn started(&self) -> usize {
        usize::from(self.started)
    }

    /// Place of the message `id` among the entries, or beyond them.
    fn index(&self, id: u16) -> usize {
        usize::from(id.wrapping_sub(self.base))
    }

    pub(super) fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    pub(super) fn get(&self, id: u16) -> Option<&Entry> {
        self.entries.get(self.index(id))
    }

    pub(super) fn oldest_pushed_at(&self) -> Option<Timestamp> {
        self.entries.front().map(|entry| entry.pushed_at)
    }

    /// The payload's bytes, in two pieces where the ring wraps.
    pub(super) fn payload(&self, id: u16) -> Option<Split<'_>> {
        let entry = self.get(id)?;
        Some(self.piece(entry, 0, entry.length as usize))
    }

    /// The bytes of a fragment of a block.
    pub(super) fn fragment(&self, id: u16, index: u16) -> Option<Split<'_>> {
        let (entry, size) = (self.get(id)?, usize::from(self.fragment_size(id)?));
        let from = usize::from(index) * size;
        let length = (entry.length as usize).saturating_sub(from).min(size);
        Some(self.piece(entry, from, length))
    }

    /// Bytes of each fragment but the last of a block that began to leave.
    fn fragment_size(&self, id: u16) -> Option<u16> {
        self.under_way.as_ref()?.size(id)
    }

    /// How a block that began to leave is cut, if into longer fragments than the wire's own.
    pub(super) fn long_fragment(&self, id: u16) -> Option<LongFragment> {
        let (size, length) = (self.fragment_size(id)?, self.get(id)?.length);
        (size > self.blocks?.fragment).then_some(LongFragment { length, size })
    }

    /// `length` bytes of the payload from `offset`.
    fn piece(&self, entry: &Entry, offset: usize, length: usize) -> Split<'_> {
        let from = (entry.start - self.bytes_start) as usize + offset;
        ring::slices(&self.bytes, from..from + length)
    }

    /// Lets go of what the peer has, from the oldest on.
    pub(super) fn release(&mut self) {
        self.entries_most.note(self.entries.len());
        self.bytes_most.note(self.bytes.len());
        let mut freed = 0;
        while let Some(front) = self.entries.front()
            && front.acked
        {
            freed += front.length as usize;
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
            self.started -= 1;
        }
        self.bytes.drain(..freed);
        self.bytes_start += freed as u64;
    }

    /// Lets go of memory that was not in use since this was last called.
    pub(super) fn shrink(&mut self) {
        self.bytes_most.shrink(&mut self.bytes, 4096);
        self.entries_most.shrink(&mut self.entries, 32);
        self.under_way.take_if(|them| them.is_empty());
    }

    /// Nothing will be sent any more.
    pub(super) fn release_all(&mut self) {
        *self = Self {
            released: u16::try_from(self.unacked()).unwrap_or(u16::MAX),
            ..Self::new(self.window, self.per_packet, self.blocks)
        };
    }

    /// Messages the peer does not have, those that were let go included.
    pub(super) fn unacked(&self) -> usize {
        usize::from(self.released) + self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}
