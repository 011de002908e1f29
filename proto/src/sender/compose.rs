//! What goes into the packet that leaves now: first what must (lost, then fresh), then, in the room
//! that is left, copies of what the peer may still lack.

use std::ops::Range;

use super::copies::CopySelector;
use super::lanes::Turn;
use super::outbox::{Entry, Outbox};
use super::unreliable::UnreliableQueue;
use super::*;

/// Why a packet is composed, beside what is due in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    No,
    /// Nothing was heard for a whole timeout: whatever is old goes again.
    Timeout,
}

impl Sender {
    /// Fills the plan; it may stay empty. Small things first, so that bulk, which fills whatever
    /// room there is, leaves them theirs.
    pub(super) fn compose(&mut self, now: Timestamp, probe: Probe, bulk_open: bool) {
        self.plan.clear();
        let framing = self.framing;
        // Who asks why nothing is heard takes what certainly arrives.
        let datagram = match probe {
            Probe::No if bulk_open => self.datagram(),
            Probe::No | Probe::Timeout => framing.datagram,
        };
        self.plan.datagram = datagram;
        let datagram = usize::from(datagram - framing.packet_overhead);
        let mut room = Room {
            framing,
            datagram,
            left: datagram,
            blind: self.params.resend_after.is_some(),
            longer: usize::from(framing.packet - self.plan.datagram),
            lane: None,
            count: 0,
        };
        let old = (probe == Probe::Timeout).then(|| now - self.rtt.smoothed());
        // Whoever found no room last time comes first this time.
        let first = self.lanes.take_crowded_out();
        if let Some(lane) = first {
            self.take_lane(lane, old, bulk_open, &mut room);
        }
        for turn in [Turn::Unreliable, Turn::Messages, Turn::Bulk] {
            for lane in self.lanes.numbers() {
                if self.lanes.turn(lane, &framing) == turn && Some(lane) != first {
                    self.take_lane(lane, old, bulk_open, &mut room);
                }
            }
        }
        // A peer that acknowledges only what it could deliver owes a probe an answer as soon as it has
        // what the probe begins with: a copy of something later would take the answer back.
        let is_repeated = probe == Probe::Timeout && self.probes.are_unanswered();
        if !self.plan.is_bulk && !is_repeated {
            self.add_copies(now, &mut room);
        }
        self.sort_plan();
    }

    fn take_lane(
        &mut self,
        lane: Channel,
        old: Option<Timestamp>,
        bulk_open: bool,
        room: &mut Room,
    ) {
        let plan = &mut self.plan;
        let before = plan.messages.len();
        let turn = self.lanes.turn(lane, &self.framing);
        let all = match self.lanes.queue_mut(lane) {
            LaneQueue::Unreliable(queue) => room.take_unreliable(plan, lane, queue),
            LaneQueue::Reliable(_) if turn == Turn::Bulk && !bulk_open => true,
            LaneQueue::Reliable(outbox) if outbox.is_block_next(old.is_some()) => {
                room.take_fragment(plan, lane, outbox, old.is_some());
                plan.is_bulk |= plan.fragment.is_some();
                true
            }
            LaneQueue::Reliable(outbox) => match old {
                None => {
                    let due = outbox.first_due()..outbox.len();
                    room.take_due(plan, lane, outbox, due, |_| false)
                }
                Some(old) => self.take_old(lane, old, room),
            },
        };
        let took = self.plan.messages.len() > before;
        self.plan.is_bulk |= turn == Turn::Bulk && took;
        if !all && !took {
            self.lanes.on_crowded_out(lane);
        }
    }

    /// What a probe repeats of a reliable lane: what last left by `old`, with what is due anyway.
    fn take_old(&mut self, lane: Channel, old: Timestamp, room: &mut Room) -> bool {
        let Some(outbox) = self.lanes.outbox_mut(lane) else {
            return true;
        };
        let goes_on = self.probes.go_on();
        let range = match goes_on {
            true => outbox.probe_from()..outbox.len(),
            // What comes after a block that is missing waits for it, and would keep the answer back.
            false => 0..outbox.first_block(),
        };
        let is_old = |entry: &Entry| {
            let last = entry.last_packet().and_then(|n| self.in_flight.get(n));
            last.is_none_or(|sent| sent.at <= old)
        };
        let before = self.plan.messages.len();
        let all = room.take_due(&mut self.plan, lane, outbox, range, is_old);
        if (goes_on || !self.probes.are_unanswered())
            && let Some(last) = self.plan.messages[before..].last()
        {
            outbox.on_probed(last.id);
        }
        all
    }

    fn add_copies(&mut self, now: Timestamp, room: &mut Room) {
        if !self.copier.have_a_use(&self.params) {
            return;
        }
        let open = self.in_flight.open_mut(self.detector.settled());
        self.copier.judge(now, &self.rtt, self.heard.every(), open);
        let (copier, pace) = (&self.copier, &self.pace);
        if !copier.are_allowed() || copier.are_paused(now) || !pace.allows_copies() {
            return;
        }
        let mut selector = self
            .copier
            .selector(now, &self.in_flight, &self.rtt, &self.params);
        // Without an answer to a probe nobody knows which message is missing: take turns.
        let in_turns = self.probes.are_unanswered();
        for lane in self.lanes.numbers() {
            if let Some(outbox) = self.lanes.outbox_mut(lane)
                && !outbox.is_bulk(&room.framing)
            {
                room.take_copies(&mut self.plan, lane, outbox, &mut selector, in_turns);
            }
        }
    }

    /// The wire wants lanes and ids ascending.
    fn sort_plan(&mut self) {
        if self.plan.messages.len() > 1 {
            let messages = &mut self.plan.messages;
            messages.sort_unstable_by_key(|planned| (planned.lane, self.lanes.place(*planned)));
        }
    }
}

/// What is left of the packet.
struct Room {
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
    /// Reserves room for a message if there is any.
    fn fits(&mut self, lane: Channel, length: usize) -> bool {
        let (need, count) = self.need(lane, length);
        if need > self.left || count > self.framing.messages_max {
            return false;
        }
        self.reserve(lane, need, count);
        true
    }

    /// The same, but a message that no datagram holds makes the packet longer than one.
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
    fn take_due(
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

    fn take_fragment(
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
    fn take_copies(
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

    fn take_unreliable(&mut self, plan: &mut Plan, lane: Channel, queue: &UnreliableQueue) -> bool {
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
