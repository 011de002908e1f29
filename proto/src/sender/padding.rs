//! Packets of padding, which find out what the path and the peer take: when one leaves, and what is noted of it.

use super::*;

impl Sender {
    /// Whether a packet of padding leaves now, to find out if larger datagrams arrive: it does while so
    /// much waits that they would help, or while so much comes from a peer that may not try them before
    /// it heard one. Or to find out if such a peer knows the second cipher.
    pub(super) fn plan_padding(&mut self, now: Timestamp) -> bool {
        if !self.datagrams.are_taken() || !self.pacer.has_bulk_rate(&self.params) {
            return false;
        }
        let extensions = &self.params.extensions;
        let limit = if self.datagrams.hear_bulk(extensions) {
            // The rate of an end that only listens is not known, and the peer waits for the answer.
            u16::MAX
        } else if self.is_held_up() || self.sends_in_parts() {
            // So is the rate of blocks that go one at a time, or of packets that are lost with any of
            // their parts, and the answer ends that.
            self.soon_gone().max(ETHERNET)
        } else if self.has_backlog() {
            self.soon_gone()
        } else {
            return false;
        };
        let (patience, framing) = (self.answer_time(), &self.framing);
        let datagrams = &mut self.datagrams;
        let Some(padding) = datagrams.question(now, patience, limit, extensions, framing) else {
            return false;
        };
        self.plan.clear();
        self.plan.datagram = padding.bytes;
        self.plan.padding = Some(padding);
        true
    }

    fn has_backlog(&self) -> bool {
        let enough = BACKLOG * usize::from(self.framing.datagram);
        let mut outboxes = self.lanes.outboxes();
        outboxes.any(|outbox| outbox.fresh_bytes() > enough)
    }

    /// Messages wait for a block that goes alone.
    fn is_held_up(&self) -> bool {
        self.lanes.outboxes().any(Outbox::is_held_up)
    }

    /// Much waits, and what is next fits no datagram.
    fn sends_in_parts(&self) -> bool {
        let datagram = self.framing.datagram;
        let mut outboxes = self.lanes.outboxes();
        outboxes.any(|outbox| outbox.is_next_longer(datagram)) && self.has_backlog()
    }

    /// The planned packet left under `number`: was it padding, or one large datagram?
    pub(super) fn note_datagram(&mut self, now: Timestamp, number: u64, wire_bytes: usize) {
        if let Some(padding) = self.plan.padding {
            self.datagrams.on_padding_sent(now, number, padding);
        } else if self.plan.datagram > self.framing.datagram
            && let Some(sent) = self.in_flight.get_mut(number)
        {
            let payload = wire_bytes.saturating_sub(self.framing.wire_overhead.into());
            let large = usize::from(self.framing.datagram) + 1..=self.plan.datagram.into();
            sent.large = large.contains(&payload);
        }
    }
}

/// Bytes of a full Ethernet frame, which leave soon at any rate in use today.
const ETHERNET: u16 = 1_500;

/// Datagrams that must wait for larger ones to be worth a try.
const BACKLOG: usize = 16;
