//! Packets of several datagrams that go again under their numbers.
//!
//! Such a packet is lost with any of its datagrams, and the peer keeps those that came. Under another number
//! it needs all of them once more; under its own, only those that are missing (docs/wire/reliable.md,
//! section 5). Here it is another packet all the same, with a number that the wire does not see, so that its
//! time, its fate and its round trip are like those of others.

use std::num::NonZeroU8;

use super::departure::{Open, Reason};
use super::in_flight::Sent;
use super::*;

impl Sender {
    /// Plans a packet that was lost once more, if it is the first thing due and may go again as it was.
    pub(super) fn plan_again(&mut self, reason: Reason, open: Open) -> bool {
        // Most often nothing is lost, which one look tells.
        if reason != Reason::Probe && !self.lanes.outboxes().any(Outbox::has_lost) {
            return false;
        }
        let mut lanes = self.lanes.numbers();
        let Some((last, is_bulk)) = lanes.find_map(|lane| self.find_again(lane, reason, open))
        else {
            return false;
        };
        self.plan.clear();
        // It is cut as it was, also where one datagram would hold it.
        self.plan.datagram = self.framing.piece.min(self.framing.datagram);
        self.plan.is_bulk = is_bulk;
        self.plan.again = self.in_flight.get(last).map(|sent| Again {
            number: self.in_flight.first_of(last),
            times: NonZeroU8::MIN.saturating_add(sent.repeats),
        });
        let items = self.in_flight.items(last);
        let messages = items.map(|Item { lane, id, .. }| Planned { lane, id });
        self.plan.messages.extend(messages);
        true
    }

    /// The packet that may go again for what is due first in this lane; and whether it is bulk.
    fn find_again(&self, lane: Channel, reason: Reason, open: Open) -> Option<(u64, bool)> {
        let outbox = self.lanes.outbox(lane)?;
        let last = self.last_carrier(outbox, reason)?;
        let is_bulk = outbox.is_bulk(&self.framing);
        let is_open = if is_bulk { open.bulk } else { open.messages };
        if !is_open {
            return None;
        }
        self.may_go_again(lane, outbox, last)
            .then_some((last, is_bulk))
    }

    /// The packet that last carried what is due first here, if that left before. Where nothing is heard that is
    /// the oldest, whether it is lost or not.
    fn last_carrier(&self, outbox: &Outbox, reason: Reason) -> Option<u64> {
        let is_probe = reason == Reason::Probe;
        let index = if is_probe { 0 } else { outbox.first_due() };
        if index >= outbox.started() {
            return None;
        }
        let last = outbox.entry(index)?.last_packet()?;
        let sent = self.in_flight.get(last)?;
        (is_probe || sent.fate == Fate::Lost).then_some(last)
    }

    /// All that packet `last` carried is of this lane and was not acknowledged, nor sent since; and the peer
    /// still puts it together and will acknowledge it.
    fn may_go_again(&self, lane: Channel, outbox: &Outbox, last: u64) -> bool {
        let first = self.in_flight.first_of(last);
        let of_several = |sent: &Sent| sent.split && sent.whole && sent.repeats < REPEATS_MAX;
        self.in_flight.get(last).is_some_and(of_several)
            && self.next_number + self.ahead_of_acks() - first <= self.framing.again_within.into()
            && self.in_flight.get(first).is_some()
            && self.in_flight.items(last).all(|item| {
                let entry = outbox.get(item.id).filter(|_| item.lane == lane);
                entry.is_some_and(|entry| {
                    !entry.is_block() && !entry.acked && entry.last_packet() == Some(last)
                })
            })
    }

    /// Packets that leave before the peer can acknowledge what leaves now: what the rate allows, and no more than there are.
    fn ahead_of_acks(&self) -> u64 {
        let ahead = self.pacer.ahead_of_acks(&self.arrivals, &self.params);
        ahead.min(self.lanes.packets_max())
    }

    /// Whether the packet went under the number of an earlier one, so that its own was never on the wire.
    pub(crate) fn went_as_another(&self, number: u64) -> bool {
        let sent = self.in_flight.get(number);
        sent.is_some_and(|sent| sent.repeats > 0)
    }

    /// The peer has what went under `first`: which packet that was the last time. Those before, of which
    /// nothing was known, count as there.
    pub(super) fn settle_first(&mut self, first: u64) -> u64 {
        let last = self.in_flight.last_as(first);
        for number in first..last {
            if self.in_flight.first_of(number) == first && self.in_flight.is_unsettled(number) {
                self.in_flight.settle(number, Fate::Acked);
            }
        }
        last
    }
}

/// Times that a packet goes again: of seven datagrams all have come by then, where three in ten get lost. If
/// it is not acknowledged, something else is amiss.
const REPEATS_MAX: u8 = 6;
