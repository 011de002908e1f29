//! The room in the packet that leaves now, and what is put into it.

use std::ops::Range;

use crate::session::Channel;

use super::copies::CopySelector;
use super::outbox::{Entry, Outbox};
use super::params::Framing;
use super::plan::{Fragment, Plan, Planned};
use super::unreliable::UnreliableQueue;

/// What is left of the packet.
pub(super) struct Room {
    framing: Framing,
    /// All that one datagram has.
    datagram: usize,
    left: usize,
    /// Messages are due again by time alone.
    blind: bool,
    /// What one large message may add to the datagram's room.
    longer: usize,
    /// The lane that the last message was of, and how many it has.
    lane: Option<Channel>,
    count: u16,
}

impl Room {
    /// All of a packet whose payload is one datagram of this length. `blind`: messages are due again by time alone.
    pub(super) fn new(framing: Framing, datagram: u16, blind: bool) -> Self {
        let payload = usize::from(datagram - framing.packet_overhead);
        Self {
            framing,
            datagram: payload,
            left: payload,
            blind,
            longer: usize::from(framing.packet - datagram),
            lane: None,
            count: 0,
        }
    }

    /// Reserves room for a message if there is any.
    fn fits(&mut self, lane: Channel, length: usize) -> bool {
        let (need, count) = self.need(lane, length);
        if need > self.left || count > self.framing.messages_max {
            return false;
        }
        self.reserve(lane, need, count);
        true
    }

    /// Reserves room for a message if there is any, and makes the packet longer than a datagram for one that no
    /// datagram holds.
    fn fits_beyond(&mut self, lane: Channel, length: usize) -> bool {
        let framing = &self.framing;
        let alone = usize::from(framing.lane_overhead + framing.message_overhead) + length;
        let (need, count) = self.need(lane, length);
        if alone <= self.datagram || need > self.left + self.longer || count > framing.messages_max
        {
            return false;
        }
        self.reserve(lane, need, count);
        self.longer = 0;
        true
    }

    fn need(&self, lane: Channel, length: usize) -> (usize, u16) {
        let message = usize::from(self.framing.message_overhead) + length;
        if self.lane == Some(lane) {
            (message, self.count + 1)
        } else {
            (message + usize::from(self.framing.lane_overhead), 1)
        }
    }

    fn reserve(&mut self, lane: Channel, need: usize, count: u16) {
        self.left = self.left.saturating_sub(need);
        self.lane = Some(lane);
        self.count = count;
    }

    /// Of these entries the lost messages, then fresh ones; or what `is_old`, when probing. False if some found no
    /// room.
    pub(super) fn take_due(
        &mut self,
        plan: &mut Plan,
        lane: Channel,
        outbox: &Outbox,
        range: Range<usize>,
        is_old: impl Fn(&Entry) -> bool,
    ) -> bool {
        let mut again = if self.blind && outbox.has_fresh() {
            self.left / 2
        } else {
            usize::MAX
        };
        for index in range {
            let Some(entry) = outbox.entry(index) else {
                break;
            };
            if entry.sends == 0 && outbox.goes_as_block(entry) {
                break; // It has a turn of its own, and all that follow come after it.
            }
            if entry.is_block() || entry.acked || !(entry.is_due() || is_old(entry)) {
                continue;
            }
            let length = entry.length as usize;
            if entry.sends > 0 && !is_old(entry) {
                // Blind resends of a far peer's messages would crowd out new ones for ever. The oldest
                // goes in any case: everything behind it waits for it.
                if length > again && index > 0 {
                    continue;
                }
                again = again.saturating_sub(length);
            }
            if !self.fits(lane, length) && !self.fits_beyond(lane, length) {
                return false;
            }
            let id = outbox.base().wrapping_add(index as u16);
            plan.messages.push(Planned { lane, id });
        }
        true
    }

    pub(super) fn take_fragment(
        &mut self,
        plan: &mut Plan,
        lane: Channel,
        outbox: &mut Outbox,
        is_probe: bool,
    ) {
        if plan.fragment.is_some() {
            return;
        }
        let Some((id, index, count, bytes)) = outbox.next_fragment(is_probe) else {
            return;
        };
        let need = usize::from(self.framing.fragment_overhead) + bytes;
        // A piece that no datagram holds makes the packet longer than one.
        let longer = if need > self.datagram { self.longer } else { 0 };
        if need <= self.left + longer {
            self.left = self.left.saturating_sub(need);
            self.longer -= longer;
            plan.fragment = Some(Fragment {
                lane,
                id,
                index,
                count,
            });
        }
    }

    /// Copies of what is under way, as far as there is a budget for them.
    pub(super) fn take_copies(
        &mut self,
        plan: &mut Plan,
        lane: Channel,
        outbox: &mut Outbox,
        selector: &mut CopySelector<'_>,
        in_turns: bool,
    ) {
        let count = outbox.started();
        if !in_turns {
            self.copy(plan, lane, outbox, selector, 0..count.min(SCAN_MAX));
            return;
        }
        // Nobody will say that one of these is missing: they go as often as on a path that loses and answers.
        let newest = (count.saturating_sub(NEWEST)..count).filter(|index| {
            let entry = outbox.entry(*index);
            entry.is_some_and(|entry| entry.sends < SENDS_AT_FIRST)
        });
        self.copy(plan, lane, outbox, selector, newest);
        let first = outbox.copies_from();
        let turns = (0..count.min(SCAN_MAX)).map(|step| (first + step) % count);
        if let Some(last) = self.copy(plan, lane, outbox, selector, turns) {
            outbox.on_copied(last);
        }
    }

    /// Copies of those of these entries that are worth one. The last of them.
    fn copy(
        &mut self,
        plan: &mut Plan,
        lane: Channel,
        outbox: &Outbox,
        selector: &mut CopySelector<'_>,
        indices: impl Iterator<Item = usize>,
    ) -> Option<u16> {
        let mut last = None;
        for index in indices {
            let Some(entry) = outbox.entry(index) else {
                break;
            };
            if entry.acked || entry.in_flight == 0 || entry.is_block() {
                continue;
            }
            let length = entry.length as usize;
            let bytes = length + usize::from(self.framing.message_overhead);
            let Some(source) = selector.source_for(entry, bytes) else {
                continue;
            };
            let id = outbox.base().wrapping_add(index as u16);
            let planned = Planned { lane, id };
            if plan.messages.contains(&planned) {
                continue; // A probe took it already, or it is one of the newest.
            }
            if selector.draw(source, bytes) && self.fits(lane, length) {
                plan.messages.push(planned);
                plan.copy_bytes += bytes;
                selector.on_copied(source, bytes);
                last = Some(id);
            }
        }
        last
    }

    pub(super) fn take_unreliable(
        &mut self,
        plan: &mut Plan,
        lane: Channel,
        queue: &UnreliableQueue,
    ) -> bool {
        for index in 0.. {
            let Some(length) = queue.length(index) else {
                break;
            };
            if !self.fits(lane, length) && !self.fits_beyond(lane, length) {
                return index > 0;
            }
            let id = queue.base().wrapping_add(index as u16);
            plan.messages.push(Planned { lane, id });
        }
        true
    }
}

/// Messages looked at for copies. What holds others up is old, so it is among the first, as long as the peer
/// says what it has.
const SCAN_MAX: usize = 96;

/// While it does not, this many of the newest come before the turns of all, until each went so often: what
/// copies make of a message on a path that loses a few in a hundred.
const NEWEST: usize = 8;
const SENDS_AT_FIRST: u8 = 3;
