//! What goes into the packet that leaves now: first what must (lost, then fresh), then, in the room
//! that is left, copies of what the peer may still lack.

use super::copies::Prospect;
use super::datagrams::ANY_PATH;
use super::departure::{Open, Reason};
use super::lanes::Turn;
use super::outbox::Entry;
use super::patience::TOO_LONG;
use super::room::Room;
use super::*;

impl Sender {
    /// Fills the plan; it may stay empty. Small things first, so that bulk, which fills whatever
    /// room there is, leaves them theirs.
    pub(super) fn compose(&mut self, now: Timestamp, reason: Reason, open: Open) {
        self.plan.clear();
        let framing = self.framing;
        let is_probe = reason == Reason::Probe;
        // A probe asks why nothing is heard, so it goes in a size that certainly arrives.
        let datagram = match open.bulk && !is_probe {
            true => self.datagram(),
            false => framing.datagram,
        };
        self.plan.datagram = datagram;
        let mut room = Room::new(framing, datagram, self.params.resend_after().is_some());
        if let Some(payload) = self.shorter(now) {
            room.shorten(payload);
            // What is longer by itself passes in pieces, if these are shorter.
            self.plan.datagram = payload.max(framing.piece).min(datagram);
        }
        let old = is_probe.then(|| now - self.rtt.smoothed());
        if reason == Reason::Bulk && !open.messages && self.is_long_fragment_next() {
            // It has a packet to itself. Messages would have to leave before it, and have no token.
            self.take_turns([Turn::Bulk], old, open.bulk, &mut room);
        } else {
            let order = [Turn::Unreliable, Turn::Messages, Turn::Bulk];
            self.take_turns(order, old, open.bulk, &mut room);
        }
        // A peer that acknowledges only what it could deliver owes a probe an answer as soon as it has
        // what the probe begins with: a copy of something later would take the answer back.
        let is_repeated = is_probe && self.probes.are_unanswered();
        if !self.plan.is_bulk && !is_repeated {
            self.add_copies(now, &mut room);
        }
        self.sort_plan();
    }

    /// The largest payload that is known to arrive in one datagram, and that leaves soon at this rate.
    pub fn datagram(&self) -> u16 {
        let known = self.datagrams.payload(|| self.soon_gone());
        known.unwrap_or(self.framing.datagram)
    }

    /// Payload that leaves within [`DATAGRAM_TIME`]. A slow sender gains little by larger datagrams: each
    /// would be late as a whole, and lost as a whole.
    pub(super) fn soon_gone(&self) -> u16 {
        let rate = self.pacer.pace().bulk_rate(&self.params).unwrap_or(0.0);
        (rate * DATAGRAM_TIME.as_secs_f64()) as u16
    }

    /// The largest payload that should leave next in one datagram, where a path takes less than the wire's own. Now and
    /// then a longer one goes all the same: routes change.
    fn shorter(&self, now: Timestamp) -> Option<u16> {
        let is_tried = self.next_number.is_multiple_of(TRIED_EVERY);
        let limit = self.datagrams.reach.limit().filter(|_| !is_tried);
        let limit = limit.or_else(|| self.waits_long(now).then_some(ANY_PATH))?;
        Some(limit.saturating_sub(self.framing.wire_overhead))
    }

    /// The oldest message of some lane went often and waits for long.
    fn waits_long(&self, now: Timestamp) -> bool {
        let mut oldest = self.lanes.outboxes().filter_map(|outbox| outbox.entry(0));
        oldest.any(|entry| TOO_LONG.has_waited(entry, now))
    }

    /// What leaves next of some lane may be a long fragment.
    fn is_long_fragment_next(&self) -> bool {
        let mut outboxes = self.lanes.outboxes();
        self.datagrams.has_long_fragments() && outboxes.any(|outbox| outbox.is_block_next(false))
    }

    /// Takes something of each lane that comes now.
    #[inline]
    fn take_turns<const N: usize>(
        &mut self,
        order: [Turn; N],
        old: Option<Timestamp>,
        bulk_open: bool,
        room: &mut Room,
    ) {
        // A lane that found no room in the last packet comes first in this one.
        let first = self.lanes.take_crowded_out();
        let turns = self.lanes.turns(&self.framing);
        if let Some(lane) = first {
            let turn = turns[usize::from(lane)];
            if order.contains(&turn) {
                self.take_lane(lane, turn, old, bulk_open, room);
            }
        }
        for turn in order {
            for (lane, its) in self.lanes.numbers().zip(&turns) {
                if *its == turn && Some(lane) != first {
                    self.take_lane(lane, turn, old, bulk_open, room);
                }
            }
        }
    }

    fn take_lane(
        &mut self,
        lane: Channel,
        turn: Turn,
        old: Option<Timestamp>,
        bulk_open: bool,
        room: &mut Room,
    ) {
        let plan = &mut self.plan;
        let before = plan.messages.len();
        let all = match self.lanes.queue_mut(lane) {
            LaneQueue::Unreliable(queue) => room.take_unreliable(plan, lane, queue),
            LaneQueue::Reliable(_) if turn == Turn::Bulk && !bulk_open => true,
            LaneQueue::Reliable(outbox) if outbox.is_block_next(old.is_some()) => {
                let is_probe = old.is_some();
                let long = self.datagrams.long_fragments(&self.params, is_probe);
                let all = room.take_fragment(plan, lane, outbox, is_probe, long);
                plan.is_bulk |= plan.fragment.is_some();
                all
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
        let (before, start) = (self.plan.messages.len(), range.start);
        let mut all = room.take_due(&mut self.plan, lane, outbox, range, is_old);
        if all && self.plan.messages.len() == before {
            // All behind it were acknowledged. An empty probe would be counted and not leave.
            all = room.take_due(&mut self.plan, lane, outbox, 0..start, is_old);
        }
        if (goes_on || !self.probes.are_unanswered())
            && let Some(last) = self.plan.messages[before..].last()
        {
            outbox.on_probed(last.id);
        }
        all
    }

    fn add_copies(&mut self, now: Timestamp, room: &mut Room) {
        let prospect = Prospect {
            in_flight: &mut self.in_flight,
            settled: self.detector.settled(),
            rtt: &self.rtt,
            heard_every: self.arrivals.every(),
            path_allows: self.pacer.pace().allows_copies(),
        };
        let Some(mut selector) = self.copier.open(now, prospect, &self.params) else {
            return;
        };
        // Without an answer to a probe nobody knows which message is missing: take turns.
        let in_turns = self.probes.are_unanswered();
        for lane in self.lanes.numbers() {
            if let Some(outbox) = self.lanes.outbox_mut(lane)
                && !outbox.is_bulk(&self.framing)
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

/// As the timer of the bulk rate: what leaves at once at most.
const DATAGRAM_TIME: Duration = Duration::from_millis(4);

/// Packets of which one tries again what the path did not take.
const TRIED_EVERY: u64 = 64;
