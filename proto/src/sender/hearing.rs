//! Reads the acknowledgements of one packet of the peer.

use std::ops::Range;

use super::*;

/// A packet of the peer.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// None is missing right before it, so its acknowledgements are not late.
    pub in_order: bool,
    /// They are of older packets than those of the one before.
    pub is_of_older: bool,
}

/// Takes the acknowledgements of a packet of the peer.
#[derive(Debug)]
pub struct Hearing<'a> {
    sender: &'a mut Sender,
    now: Timestamp,
}

impl Sender {
    /// A datagram of the peer with so much payload is being handled; `is_large`: not every path takes it.
    pub fn on_datagram_heard(&mut self, now: Timestamp, payload: usize, is_large: bool) {
        if now.since(self.arrivals.last()) > BULK_PAUSE_MAX {
            self.datagrams.on_pause();
        }
        let is_full = payload > 7 * usize::from(self.framing.datagram) / 8;
        self.datagrams.on_heard(is_full, is_large);
    }

    /// A packet of the peer is being handled; `tell` says what it acknowledges. What that shows to be lost is
    /// found at the end.
    pub fn hear<T>(
        &mut self,
        now: Timestamp,
        heard: Heard,
        tell: impl FnOnce(&mut Hearing<'_>) -> T,
    ) -> T {
        self.refill_debts(now);
        let Heard {
            in_order,
            is_of_older,
        } = heard;
        let oldest = || self.in_flight.first_open().map(|sent| sent.at);
        self.arrivals.on_packet(now, in_order, is_of_older, oldest);
        let told = tell(&mut Hearing { sender: self, now });
        self.detect_loss(now);
        for outbox in self.lanes.outboxes_mut() {
            outbox.release();
        }
        self.forget(now);
        told
    }
}

impl Hearing<'_> {
    /// The peer says it received `number`; nothing happens if it said so before, or if no such packet was sent.
    /// False if that went under the number of an earlier one: its own was never on the wire.
    pub fn acked(&mut self, number: u64) -> bool {
        let is_own = !self.sender.went_as_another(number);
        if is_own {
            self.sender.on_acked(self.now, number);
        }
        is_own
    }

    /// The peer says it received all of these, which no header reaches any more: numbers from
    /// [`Hearing::remembered_from`] on, below the next. What was taken for lost is there after all. False if
    /// one of them was never on the wire.
    pub fn long_acked(&mut self, mut received: impl Iterator<Item = Range<u64>>) -> bool {
        self.sender.arrivals.on_long_ack();
        received.all(|run| {
            run.into_iter().all(|number| {
                let sent = self.sender.in_flight.get(number);
                let (fate, repeats) =
                    sent.map_or((Fate::Acked, 0), |sent| (sent.fate, sent.repeats));
                if repeats == 0 && fate != Fate::Acked {
                    self.sender.on_acked(self.now, number);
                }
                repeats == 0
            })
        })
    }

    /// No acknowledgement of a number below this changes anything.
    pub fn remembered_from(&self) -> u64 {
        self.sender.remembered_from()
    }

    /// The peer says that it reads long fragments.
    pub fn reads_long_fragments(&mut self) {
        self.sender.datagrams.on_long_fragments_read();
    }

    /// The peer took a datagram that is longer than those of others.
    pub fn is_peer_tidegate(&self) -> bool {
        self.sender.is_peer_tidegate()
    }
}

/// A peer that sends bulk pauses no longer than this: a game does, between two frames.
const BULK_PAUSE_MAX: Duration = Duration::from_millis(15);
