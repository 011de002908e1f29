//! The room in the packet that leaves now, and what is put into it.

use std::ops::Range;

use crate::session::Channel;

use super::copies::CopySelector;
use super::datagrams::LongFragments;
use super::framing::Framing;
use super::lanes::LANES_MAX;
use super::outbox::{Entry, Outbox};
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
    /// The path takes no full datagrams: what fits no shorter one goes alone.
    is_short: bool,
    /// How many messages each lane has in it.
    counts: [u16; LANES_MAX],
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
            is_short: false,
            counts: [0; LANES_MAX],
        }
    }

    /// Of an empty packet: only so much payload goes together.
    pub(super) fn shorten(&mut self, payload: u16) {
        let payload = usize::from(payload.saturating_sub(self.framing.packet_overhead));
        if payload < self.datagram {
            self.is_short = true;
            self.longer += self.datagram - payload;
            (self.datagram, self.left) = (payload, payload);
        }
    }

    /// Something is in it beside which nothing longer than the room goes.
    fn is_taken(&self) -> bool {
        self.is_short && self.left < self.datagram
    }

    /// Reserves room for a message if there is any. `per_packet`: what the lane may have in it.
    fn fits(&mut self, lane: Channel, per_packet: u16, length: usize) -> bool {
        let need = self.need(lane, length);
        if need > self.left || self.count(lane) >= per_packet {
            return false;
        }
        self.reserve(lane, need);
        true
    }

    /// Reserves room for a message if there is any, and makes the packet longer than a datagram for one that no
    /// datagram holds.
    fn fits_beyond(&mut self, lane: Channel, per_packet: u16, length: usize) -> bool {
        let framing = &self.framing;
        let alone = usize::from(framing.lane_overhead + framing.message_overhead) + length;
        let need = self.need(lane, length);
        if alone <= self.datagram
            || self.is_taken()
            || need > self.left + self.longer
            || self.count(lane) >= per_packet
        {
            return false;
        }
        self.reserve(lane, need);
        self.longer = 0;
        true
    }

    fn need(&self, lane: Channel, length: usize) -> usize {
        let message = usize::from(self.framing.message_overhead) + length;
        match self.count(lane) {
            0 => message + usize::from(self.framing.lane_overhead),
            _ => message,
        }
    }

    /// Messages of this lane so far. It may have had its turn before another one did: copies come after all.
    fn count(&self, lane: Channel) -> u16 {
        self.counts[usize::from(lane)]
    }

    fn reserve(&mut self, lane: Channel, need: usize) {
        self.left = self.left.saturating_sub(need);
        self.counts[usize::from(lane)] += 1;
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
        let per_packet = outbox.per_packet();
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
            if !self.fits(lane, per_packet, length) && !self.fits_beyond(lane, per_packet, length) {
                return false;
            }
            let id = outbox.base().wrapping_add(index as u16);
            plan.messages.push(Planned { lane, id });
        }
        true
    }

    /// The fragment that goes next; of a block that begins, it is as long as `long` says. False if one that must have
    /// the packet to itself finds something in it.
    pub(super) fn take_fragment(
        &mut self,
        plan: &mut Plan,
        lane: Channel,
        outbox: &mut Outbox,
        is_probe: bool,
        long: LongFragments,
    ) -> bool {
        if plan.fragment.is_some() {
            return true;
        }
        let Some(next) = outbox.next_fragment(is_probe, long.fill(self.datagram)) else {
            return true;
        };
        let overhead = match next.is_long {
            true => long.overhead,
            false => self.framing.fragment_overhead,
        };
        let need = usize::from(overhead) + next.bytes;
        let is_alone = next.is_long || need > self.datagram && self.is_short;
        if is_alone && !plan.is_empty() {
            return false;
        }
        // A piece that no datagram holds makes the packet longer than one.
        let longer = if need > self.datagram { self.longer } else { 0 };
        if need <= self.left + longer {
            self.left = self.left.saturating_sub(need);
            self.longer -= longer;
            if next.is_long {
                (self.left, self.longer) = (0, 0);
                plan.datagram = plan.datagram.max(long.datagram);
            }
            plan.fragment = Some(Fragment {
                lane,
                id: next.id,
                index: next.index,
                count: next.count,
            });
        }
        true
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
        // The peer cannot say that one of these is missing, so they go as often as on a lossy path that answers.
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
        let per_packet = outbox.per_packet();
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
            if selector.draw(source, bytes) && self.fits(lane, per_packet, length) {
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
        let per_packet = queue.per_packet();
        for index in 0.. {
            let Some(length) = queue.length(index) else {
                break;
            };
            if !self.fits(lane, per_packet, length) && !self.fits_beyond(lane, per_packet, length) {
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
