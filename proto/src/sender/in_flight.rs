//! Packets sent and what they carried, until their fate is known: the packet-to-messages map.
//!
//! One ring of packets and one of the items they carried; nothing is allocated per packet. Packet
//! numbers may have gaps (a session skips numbers on purpose).

use std::collections::VecDeque;
use std::ops::Range;

use crate::session::Channel;
use crate::time::Timestamp;

use super::high_water::HighWater;

/// One message or fragment inside a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) lane: Channel,
    /// Which fragment, if the message is a block.
    pub(super) fragment: u16,
    pub(super) id: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Unknown,
    Acked,
    Lost,
    /// It left before the peer is known to have been there. What it carried goes again, and whether it arrived
    /// says nothing of the path.
    Early,
    /// The number was never used, or by a packet of an idle peer that is not worth remembering.
    Skipped,
}

/// A packet as it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) at: Timestamp,
    pub(super) wire_bytes: usize,
    /// It brings what the peer lacks, so that its acknowledgement is not late on purpose.
    pub(super) prompts: bool,
    /// Copies go with it and its neighbours.
    pub(super) with_copies: bool,
    /// In several datagrams.
    pub(super) split: bool,
    /// All that it brings waits to be acknowledged.
    pub(super) whole: bool,
    /// It is this packet once more, under its number on the wire.
    pub(super) again: Option<u64>,
}

/// One sent packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Timestamp,
    pub(super) wire_bytes: u16,
    items: u16,
    /// Where its items begin, counted (wrapping) from the first item ever filed.
    items_from: u32,
    pub(super) fate: Fate,
    /// It brought what the peer lacked: its ack is not late on purpose, so it times the path.
    pub(super) prompts: bool,
    /// Copies went with it and its neighbours.
    pub(super) with_copies: bool,
    /// It was several datagrams.
    pub(super) split: bool,
    /// All that it brought waits to be acknowledged.
    pub(super) whole: bool,
    /// It repeated an earlier packet, under the number that this one has on the wire: how many numbers before it that is.
    /// 0 if it repeated none.
    again_of: u8,
    /// It was repeated itself: how many numbers after it the last repeat is. 0 if it was not.
    again_as: u8,
    /// Times that it went before.
    pub(super) repeats: u8,
    /// One datagram, and larger than every path takes.
    pub(super) large: bool,
    /// What it carried is due again, although its fate is open.
    pub(super) expired: bool,
    /// Packets of the peer that should have acknowledged it and did not come.
    pub(super) missed: u8,
    /// How likely it is lost, as last judged.
    pub(super) loss_chance: f32,
}

impl Sent {
    /// A number that no packet had.
    pub(super) fn skipped(at: Timestamp, items_from: u32) -> Self {
        Self {
            at,
            wire_bytes: 0,
            items: 0,
            items_from,
            fate: Fate::Skipped,
            prompts: false,
            with_copies: false,
            split: false,
            whole: false,
            again_of: 0,
            again_as: 0,
            repeats: 0,
            large: false,
            expired: false,
            missed: 0,
            loss_chance: 0.0,
        }
    }

    pub(super) fn has_items(&self) -> bool {
        self.items > 0
    }

    /// In how many datagrams it left, roughly.
    pub(super) fn datagrams(&self) -> u32 {
        match self.split {
            true => u32::from(self.wire_bytes).div_ceil(DATAGRAM_BYTES).max(2),
            false => 1,
        }
    }

    /// It carried messages, and nobody knows what became of them.
    fn is_unsettled(&self) -> bool {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        self.fate == Fate::Unknown && self.has_items()
    }
}

/// Bytes of a full datagram, roughly.
pub(super) const DATAGRAM_BYTES: u32 = 1100;

/// Sent packets from the oldest whose fate may still change.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Number of `packets[0]`.
    base: u64,
    packets: VecDeque<Sent>,
    items: VecDeque<Item>,
    /// Count (wrapping) of `items[0]`.
    items_base: u32,
    /// Packets with messages whose fate is unknown: 16,384 at most.
    unsettled: u16,
    /// Packets before the first one that is unsettled and that no acknowledged one overtook: 16,384 at most.
    passed: u16,
    packets_most: HighWater,
    items_most: HighWater,
}

impl InFlight {
    /// First number remembered.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// One more than the last number remembered.
    pub(super) fn end(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    pub(super) fn get(&self, number: u64) -> Option<&Sent> {
        self.packets.get(number.checked_sub(self.base)? as usize)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Sent> {
        self.packets
            .get_mut(number.checked_sub(self.base)? as usize)
    }

    /// The packets of this range that are remembered.
    pub(super) fn range_mut(&mut self, numbers: Range<u64>) -> impl Iterator<Item = &mut Sent> {
        let index = |number: u64| (number.min(self.end()).saturating_sub(self.base)) as usize;
        let range = index(numbers.start)..index(numbers.end);
        self.packets.range_mut(range)
    }

    /// The first packet with messages whose fate is open, of those that no acknowledged packet overtook. It is asked
    /// for at each poll, and thousands before it may carry nothing that waits for an answer.
    pub(super) fn first_open(&self) -> Option<&Sent> {
        self.packets.get(usize::from(self.passed))
    }

    /// Packet `number` is acknowledged, before all that left before it.
    pub(super) fn overtake(&mut self, number: u64) {
        let overtaken = (number + 1).min(self.end()).saturating_sub(self.base);
        self.passed = self.passed.max(overtaken as u16);
        self.pass_settled();
    }

    /// What is passed here waits for no answer, and never will: no packet is passed twice.
    fn pass_settled(&mut self) {
        while self.first_open().is_some_and(|sent| !sent.is_unsettled()) {
            self.passed += 1;
        }
    }

    /// Packets with messages whose fate is unknown.
    pub(super) fn unsettled(&self) -> u16 {
        self.unsettled
    }

    /// The packet that first had the number on the wire that `number` has.
    pub(super) fn first_of(&self, number: u64) -> u64 {
        number - self.get(number).map_or(0, |sent| sent.again_of.into())
    }

    /// The packet that last had the number of `first` on the wire.
    pub(super) fn last_as(&self, first: u64) -> u64 {
        first + self.get(first).map_or(0, |sent| sent.again_as.into())
    }

    /// It is not known yet what became of the packet.
    pub(super) fn is_unsettled(&self, number: u64) -> bool {
        self.get(number).is_some_and(Sent::is_unsettled)
    }

    /// Files a packet; whether it carried messages. Numbers between the last one and this one were
    /// skipped.
    pub(super) fn push(
        &mut self,
        number: u64,
        leaving: Departure,
        items: impl Iterator<Item = Item>,
    ) -> bool {
        if self.packets.is_empty() {
            self.base = number;
        }
        let (items_from, before) = (self.items_end(), self.items.len());
        let skipped = Sent::skipped(leaving.at, items_from);
        while self.end() < number {
            self.packets.push_back(skipped);
        }
        // `extend` would ask before each how many come, and nearly always it is one.
        for item in items {
            self.items.push_back(item);
        }
        let before_it = leaving
            .again
            .and_then(|first| self.get(self.last_as(first)));
        let sent = Sent {
            wire_bytes: leaving.wire_bytes.min(usize::from(u16::MAX)) as u16,
            items: (self.items.len() - before) as u16,
            fate: Fate::Unknown,
            prompts: leaving.prompts,
            with_copies: leaving.with_copies,
            split: leaving.split,
            whole: leaving.whole,
            again_of: leaving.again.map_or(0, |first| (number - first) as u8),
            repeats: before_it.map_or(0, |it| it.repeats.saturating_add(1)),
            ..skipped
        };
        if let Some(first) = leaving.again.and_then(|first| self.get_mut(first)) {
            first.again_as = sent.again_of;
        }
        self.packets.push_back(sent);
        self.unsettled += u16::from(sent.has_items());
        self.pass_settled();
        sent.has_items()
    }

    /// Packet `number` is known to be acknowledged, or lost. How it was before, if it is remembered.
    pub(super) fn settle(&mut self, number: u64, fate: Fate) -> Option<Sent> {
        let sent = self.get_mut(number)?;
        let before = *sent;
        if before.fate != Fate::Skipped {
            sent.fate = fate;
        }
        self.unsettled -= u16::from(before.is_unsettled());
        self.pass_settled();
        Some(before)
    }

    /// Packet `number` left before the peer is known to have been there.
    pub(super) fn disregard(&mut self, number: u64) {
        self.settle(number, Fate::Early);
        if let Some(sent) = self.get_mut(number) {
            sent.prompts = false;
        }
    }

    /// The packet before `number` was lost as well.
    pub(super) fn follows_a_loss(&self, number: u64) -> bool {
        let before = number.checked_sub(1).and_then(|before| self.get(before));
        before.is_some_and(|before| matches!(before.fate, Fate::Lost | Fate::Skipped))
    }

    /// A packet that left right before or after `number` was acknowledged.
    pub(super) fn is_beside_acked(&self, number: u64) -> bool {
        let beside = [number.checked_sub(1), number.checked_add(1)];
        let mut beside = beside.into_iter().flatten();
        beside.any(|number| self.get(number).is_some_and(|it| it.fate == Fate::Acked))
    }

    /// What packet `number` carried is due again, although its fate is open.
    pub(super) fn expire(&mut self, number: u64) {
        if let Some(sent) = self.get_mut(number) {
            sent.expired = true;
        }
    }

    /// What packet `number` carried.
    pub(super) fn items(&self, number: u64) -> impl Iterator<Item = Item> + '_ {
        let (from, count) = self.get(number).map_or((0, 0), |sent| {
            let from = sent.items_from.wrapping_sub(self.items_base);
            (from as usize, usize::from(sent.items))
        });
        (from..from + count).map(|index| self.items[index])
    }

    /// Forgets the oldest packet.
    pub(super) fn pop(&mut self) -> Option<Sent> {
        self.packets_most.note(self.packets.len());
        self.items_most.note(self.items.len());
        let sent = self.packets.pop_front()?;
        self.items.drain(..usize::from(sent.items));
        self.items_base = self.items_base.wrapping_add(u32::from(sent.items));
        self.base += 1;
        self.passed = self.passed.saturating_sub(1);
        Some(sent)
    }

    /// Lets go of memory that was not in use since this was last called.
    pub(super) fn shrink(&mut self) {
        self.packets_most.shrink(&mut self.packets, 64);
        self.items_most.shrink(&mut self.items, 128);
    }

    pub(super) fn front(&self) -> Option<&Sent> {
        self.packets.front()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.packets.capacity()
    }

    fn items_end(&self) -> u32 {
        self.items_base.wrapping_add(self.items.len() as u32)
    }
}

#[cfg(test)]
thread_local! {
    /// How often a packet was looked at, whether anything that it carried is unsettled.
    pub(super) static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
