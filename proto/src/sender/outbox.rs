//! A reliable lane's messages from the moment they are pushed until the peer has them.
//!
//! Payloads lie one after the other in one byte ring, entries in another; both grow with use and
//! are given back when little of them was in use for a while. Ids are 16 bits and wrap; an entry is
//! found by its distance from the oldest unacknowledged id.
//! Rules: docs/wire/yojimbo.md, section 6, rules 3 (window) and 4 (a block travels alone);
//! docs/wire/reliable.md, section 7 (neither is so narrow between two tidegates).

use std::collections::VecDeque;

use crate::ring;
use crate::time::Timestamp;

use super::block::BlocksUnderWay;
use super::high_water::HighWater;
use super::params::{Blocks, Framing};

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In one packet.
    Packet,
    /// As a block.
    Block,
    /// As a block if there is room for another one under way when its turn comes, or else in one packet.
    Either,
}

/// One message that the peer does not have yet, as far as we know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Where the payload begins, counted from the first byte ever pushed.
    start: u64,
    pub(super) length: u32,
    /// Packets under way that carry it.
    pub(super) in_flight: u8,
    /// Times it went out.
    pub(super) sends: u8,
    pub(super) acked: bool,
    way: Way,
    /// First packet of the present round of copies (a loss of all of them starts a new round).
    pub(super) first_packet: u64,
    /// Which packets from there on carried it: bit n is packet `first_packet + n`.
    pub(super) carried: u64,
    pub(super) pushed_at: Timestamp,
}

impl Entry {
    /// Packets of this round that carried it, oldest first.
    pub(super) fn carriers(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, mut left) = (self.first_packet, self.carried);
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < 64).then(|| first + u64::from(bit))
        })
    }

    /// The last of them.
    pub(super) fn last_packet(&self) -> Option<u64> {
        let bit = self.carried.checked_ilog2()?;
        Some(self.first_packet + u64::from(bit))
    }

    /// It went as a block, or can go in no other way.
    pub(super) fn is_block(&self) -> bool {
        self.way == Way::Block
    }

    /// Never sent, or every packet that carried it was lost.
    pub(super) fn is_due(&self) -> bool {
        !self.acked && self.in_flight == 0
    }

    /// All of it, when it is whole and each copy that left was lost.
    fn lost_bytes(&self) -> usize {
        let is_lost = self.is_due() && self.sends > 0 && !self.is_block();
        if is_lost { self.length as usize } else { 0 }
    }
}

/// Messages of one reliable lane.
#[derive(Debug)]
pub(super) struct Outbox {
    /// How messages that fit no packet travel; without, there are none.
    blocks: Option<Blocks>,
    /// What the peer takes, counted from the oldest id it has not acknowledged.
    window: u16,
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
    lost_bytes: usize,
    bytes: VecDeque<u8>,
    /// Stream position of `bytes[0]`.
    bytes_start: u64,
    /// Where the next probe in a row goes on: one that always began with the oldest would never say
    /// the others again to a peer that acknowledges only what it could deliver.
    probe_next: u16,
    /// The same for copies. They have a place of their own: the small ones that a nearly empty budget
    /// affords would otherwise call each probe back to where it began, and a large one before them would
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
    /// For a peer that takes `window` messages from the oldest on that it has not.
    pub(super) fn new(window: u16, blocks: Option<Blocks>) -> Self {
        Self {
            blocks,
            window,
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

    /// Where what must go begins: the first that is lost, or else the first not started.
    pub(super) fn first_due(&self) -> usize {
        self.index(self.due_from)
    }

    /// Where the next probe in a row begins.
    pub(super) fn probe_from(&self) -> usize {
        self.resume(self.probe_next)
    }

    /// A probe said everything up to `id`.
    pub(super) fn on_probed(&mut self, id: u16) {
        self.probe_next = id.wrapping_add(1);
    }

    /// Where copies that take turns begin.
    pub(super) fn copies_from(&self) -> usize {
        self.resume(self.copy_next)
    }

    /// A copy of `id` went in its turn.
    pub(super) fn on_copied(&mut self, id: u16) {
        self.copy_next = id.wrapping_add(1);
    }

    fn resume(&self, next: u16) -> usize {
        let index = self.index(next);
        if index < self.started() { index } else { 0 }
    }

    /// Place of the message `id` among the entries, or beyond them.
    fn index(&self, id: u16) -> usize {
        usize::from(id.wrapping_sub(self.base))
    }

    /// A block stands at the front.
    fn is_front_block(&self) -> bool {
        self.entries.front().is_some_and(Entry::is_block)
    }

    /// What goes next for the first time is longer than this.
    pub(super) fn is_next_longer(&self, length: u16) -> bool {
        let next = self.entries.get(self.started());
        next.is_some_and(|entry| entry.length > length.into())
    }

    /// Messages wait for a block that goes alone.
    pub(super) fn is_held_up(&self) -> bool {
        !self.takes_together && self.is_front_block() && self.entries.len() > 1
    }

    /// What leaves next is a fragment of a block, whether it may already or not. `is_probe`: something
    /// old goes again.
    pub(super) fn is_block_next(&self, is_probe: bool) -> bool {
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

    /// The fragment that leaves next, if any may: its block's id, which one, of how many, and its bytes.
    /// `is_probe`: one that is under way goes again.
    pub(super) fn next_fragment(&mut self, is_probe: bool) -> Option<(u16, u16, u16, usize)> {
        let size = u32::from(self.blocks?.fragment);
        let has_fresh = self.has_fresh();
        let under_way = self.under_way.get_or_insert_default();
        if is_probe {
            under_way.probe();
        }
        if !under_way.is_due() && has_fresh {
            let length = self.entries[usize::from(self.started)].length;
            let id = self.base.wrapping_add(self.started);
            under_way.begin(id, length.div_ceil(size) as u16);
        }
        let (id, index, count) = under_way.next_due()?;
        let from = u32::from(index) * size;
        let bytes = self.get(id)?.length.saturating_sub(from).min(size);
        Some((id, index, count, bytes as usize))
    }

    /// A message that was never sent is a block if it goes now.
    pub(super) fn goes_as_block(&self, fresh: &Entry) -> bool {
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
    pub(super) fn has_fresh(&self) -> bool {
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

    /// Something may leave.
    pub(super) fn is_due(&self) -> bool {
        let fragments = self.under_way.as_ref().is_some_and(|them| them.is_due());
        self.first_due() < self.started() || fragments || self.has_fresh()
    }

    /// Bytes never sent, blocks included.
    pub(super) fn fresh_bytes(&self) -> usize {
        match self.entries.get(self.started()) {
            Some(entry) => (self.bytes_start + self.bytes.len() as u64 - entry.start) as usize,
            None => 0,
        }
    }

    /// A block, or more than one packet holds: goes by the bulk rate. So does what was lost of it, however
    /// little is fresh behind that: one packet at a time, as messages go, would take the end of a transfer
    /// for minutes.
    pub(super) fn is_bulk(&self, framing: &Framing) -> bool {
        let datagram = usize::from(framing.datagram);
        self.is_block_next(false)
            || self.fresh_bytes() > datagram
            || self.lost_bytes > LOST_OF_BULK * datagram
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
    pub(super) fn payload(&self, id: u16) -> Option<(&[u8], &[u8])> {
        let entry = self.get(id)?;
        Some(self.piece(entry, 0, entry.length as usize))
    }

    /// The bytes of a fragment of a block.
    pub(super) fn fragment(&self, id: u16, index: u16) -> Option<(&[u8], &[u8])> {
        let (entry, size) = (self.get(id)?, usize::from(self.blocks?.fragment));
        let from = usize::from(index) * size;
        let length = (entry.length as usize).saturating_sub(from).min(size);
        Some(self.piece(entry, from, length))
    }

    /// `length` bytes of the payload from `offset`.
    fn piece(&self, entry: &Entry, offset: usize, length: usize) -> (&[u8], &[u8]) {
        let from = (entry.start - self.bytes_start) as usize + offset;
        ring::slices(&self.bytes, from..from + length)
    }

    /// The message went out in packet `number`.
    pub(super) fn on_sent(&mut self, id: u16, number: u64) {
        self.on_sent_as(Way::Packet, id, number);
    }

    fn on_sent_as(&mut self, way: Way, id: u16, number: u64) {
        let index = self.index(id);
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        self.lost_bytes -= entry.lost_bytes();
        entry.way = way;
        // Carriers too far back to be noted are too old to hope for.
        if entry.in_flight == 0 || number - entry.first_packet >= 64 {
            entry.first_packet = number;
            entry.carried = 0;
        }
        entry.carried |= 1 << (number - entry.first_packet);
        entry.in_flight = entry.in_flight.saturating_add(1);
        entry.sends = entry.sends.saturating_add(1);
        self.started = self.started.max(index as u16 + 1);
        self.on_not_due(id);
    }

    /// The message `id` was sent, or is acknowledged.
    fn on_not_due(&mut self, id: u16) {
        if id == self.due_from {
            let (from, end) = (self.index(id), self.started());
            let ahead = self.entries.range(from..end).position(Entry::is_due);
            let ahead = ahead.unwrap_or(end - from);
            self.due_from = id.wrapping_add(ahead as u16);
        }
    }

    /// A fragment of the block `id` went out in packet `number`; of the message, that is as good as sent.
    /// True if the fragment went before.
    pub(super) fn on_fragment_sent(&mut self, id: u16, fragment: u16, number: u64) -> bool {
        if self.get(id).is_some_and(|entry| entry.sends == 0) {
            self.on_sent_as(Way::Block, id, number);
        }
        let under_way = self.under_way.as_mut();
        under_way.is_some_and(|them| them.on_sent(id, fragment))
    }

    /// A packet that carried the message, or this fragment of it, will not arrive.
    pub(super) fn on_lost(&mut self, id: u16, fragment: u16) {
        let index = self.index(id);
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        if entry.is_block() {
            if let Some(under_way) = &mut self.under_way {
                under_way.on_lost(id, fragment);
            }
        } else if !entry.acked && entry.in_flight > 0 {
            entry.in_flight -= 1;
            if entry.in_flight > 0 {
                return;
            }
            self.lost_bytes += entry.length as usize;
            if index < self.first_due() {
                self.due_from = id;
            }
        }
    }

    /// The peer has the message, or this fragment of it. True if it has all of it since now.
    pub(super) fn on_acked(&mut self, id: u16, fragment: u16) -> bool {
        let index = self.index(id);
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        if entry.acked || entry.sends == 0 {
            return false;
        }
        if entry.is_block() {
            let under_way = self.under_way.as_mut();
            if !under_way.is_some_and(|them| them.on_acked(id, fragment)) {
                return false;
            }
        }
        self.lost_bytes -= entry.lost_bytes();
        entry.acked = true;
        self.on_not_due(id);
        true
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
    pub(super) fn give_back(&mut self) {
        self.bytes_most.give_back(&mut self.bytes, 4096);
        self.entries_most.give_back(&mut self.entries, 32);
        self.under_way.take_if(|them| them.is_empty());
    }

    /// Nothing will be sent any more.
    pub(super) fn release_all(&mut self) {
        *self = Self {
            released: u16::try_from(self.unacked()).unwrap_or(u16::MAX),
            ..Self::new(self.window, self.blocks)
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

/// What a game loses at once is less than so many datagrams, and leaves as messages do, within a tenth of a
/// second.
const LOST_OF_BULK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Whatever is sent, lost and acknowledged in whatever order: looking at every entry finds the same.
    #[test]
    fn what_is_lost_is_known_without_looking() {
        let mut random = Random::new(7);
        let mut outbox = Outbox::new(64, None);
        let (mut number, mut lost) = (0, 0);
        for _ in 0..100_000 {
            let id = outbox.base().wrapping_add(random.below(64) as u16);
            match random.below(8) {
                0 if outbox.has_room(usize::MAX) => {
                    let length = random.below(9) as usize;
                    outbox.push(Timestamp::ZERO, &[7; 9][..length], false, 1000);
                }
                0..3 => {
                    number += 1;
                    let next = outbox.base().wrapping_add(outbox.first_due() as u16);
                    outbox.on_sent(next, number);
                }
                3..6 => outbox.on_lost(id, 0),
                6 => _ = outbox.on_acked(id, 0),
                _ => outbox.release(),
            }
            let is_due = |index: &usize| outbox.entries[*index].is_due();
            let first = (0..outbox.started()).find(is_due);
            assert_eq!(outbox.first_due(), first.unwrap_or(outbox.started()));
            let lost_bytes: usize = outbox.entries.iter().map(Entry::lost_bytes).sum();
            assert_eq!(outbox.lost_bytes, lost_bytes);
            lost += u32::from(first.is_some_and(|first| first > 0));
        }
        assert!(lost > 10_000, "the first was always the oldest");
    }
}
