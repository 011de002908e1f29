//! The peer's messages: in order, at most once, and what we ask for again.
//!
//! Rule: docs/wire/rudp.md, sections 4 and 5. Everything is clamped to a window: the reference asks
//! for every id up to a far one, on every tick, and one forged datagram makes it send for ever.

use std::collections::VecDeque;
use std::time::Duration;

use crate::inbox::{Inbox, MESSAGE_OVERHEAD};
use crate::rudp::wire::{Record, Records};
use crate::sequence;
use crate::time::Timestamp;

/// How far ahead of the next message an id may lie.
pub(super) const WINDOW: u64 = 1024;

/// Messages from beyond the window, since the last that was delivered, that say the peer went on without us. One or
/// two are too easy to forge, or come late.
const AHEAD_MIN: u8 = 4;

/// Bytes kept of messages that wait for an earlier one.
pub(super) const STORED_BYTES_MAX: usize = 256 * 1024;

/// Ids asked for in one output.
const REQUESTS_MAX: usize = 64;

/// Size of a request record.
const REQUEST_BYTES: usize = 3;

#[derive(Debug)]
pub(super) struct Incoming {
    /// Id of the next message to deliver.
    next: u64,
    /// Entry i is message `next + i`, up to the highest one the peer is known to have sent.
    window: VecDeque<Place>,
    stored_bytes: usize,
    /// Since when `next` is known to be missing.
    gap_since: Timestamp,
    /// Messages from beyond the window since the last one was delivered, as far as they count.
    ahead: u8,
    /// The lowest of those.
    ahead_from: u64,
    /// All below this was sent: the peer was seen beyond it.
    sent_below: u64,
    asks: Asks,
}

#[derive(Debug)]
enum Place {
    Absent,
    /// The peer said it is gone, at this time.
    Missing(Timestamp),
    Message(Box<[u8]>),
}

/// When to ask, and what was asked.
#[derive(Debug)]
struct Asks {
    interval: Duration,
    interval_first: Duration,
    interval_max: Duration,
    /// All gaps are asked for again at this time.
    again_at: Timestamp,
    /// A gap below this id was asked for before.
    asked_below: u64,
    /// Some gap was perhaps never asked for.
    fresh: bool,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in the inbox.
    Delivered,
    /// Filed: an earlier one is missing.
    New,
    Duplicate,
    /// Too far ahead: forged, or the peer runs away from its own losses.
    Ahead,
    /// Far behind: from another incarnation of the peer.
    Behind,
    /// No room to store it; it will be asked for again.
    NoRoom,
}

/// What [`Incoming::deliver`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Messages given up because the peer forgot them.
    pub(super) skipped: u64,
    /// The next message is gone and may not be skipped.
    pub(super) is_broken: bool,
}

impl Incoming {
    /// Requests are repeated after `interval`, doubling up to `interval_max`.
    pub(super) fn new(interval: Duration, interval_max: Duration) -> Self {
        Self {
            next: 0,
            window: VecDeque::new(),
            stored_bytes: 0,
            gap_since: Timestamp::ZERO,
            ahead: 0,
            ahead_from: 0,
            sent_below: 0,
            asks: Asks {
                interval,
                interval_first: interval,
                interval_max,
                again_at: Timestamp::ZERO,
                asked_below: 0,
                fresh: false,
            },
        }
    }

    /// Bytes held behind a gap.
    pub(super) fn held(&self) -> usize {
        self.stored_bytes
    }

    /// Nothing will be taken any more: lets go of what waits for something before it.
    pub(super) fn release(&mut self) {
        (self.window, self.stored_bytes) = (VecDeque::new(), 0);
    }

    /// Id of the next message to deliver, as it is written on the wire.
    pub(super) fn next_wire_id(&self) -> u16 {
        self.next as u16
    }

    /// Takes a message: into the inbox when it is the next one and nothing waits behind it, else it
    /// is filed. Delivery of what was filed is a step of its own, so that a real message in the same
    /// datagram beats a *missing* for it.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        wire_id: u16,
        payload: &[u8],
        inbox: &mut Inbox,
    ) -> Taken {
        let id = sequence::nearest(self.next, wire_id);
        if id < self.next {
            return if self.next - id > WINDOW {
                Taken::Behind
            } else {
                Taken::Duplicate
            };
        }
        if id - self.next >= WINDOW {
            self.on_ahead(now, id);
            return Taken::Ahead;
        }
        if id == self.next && self.window.is_empty() {
            inbox.push(0, true, payload);
            self.next += 1;
            self.ahead = 0;
            return Taken::Delivered;
        }
        let index = (id - self.next) as usize;
        if matches!(self.window.get(index), Some(Place::Message(_))) {
            return Taken::Duplicate;
        }
        let cost = payload.len() + MESSAGE_OVERHEAD;
        // The next message always has room: it is what frees the others.
        if index > 0 && self.stored_bytes + cost > inbox.ahead_max(STORED_BYTES_MAX) {
            self.reach(now, index);
            return Taken::NoRoom;
        }
        // A new gap, or a filled one, which moves the limit on requests along.
        self.asks.fresh |= index != self.window.len();
        self.reach(now, index);
        self.window[index] = Place::Message(payload.into());
        self.stored_bytes += cost;
        Taken::New
    }

    /// A message arrived and was not taken, so it is known to exist and will be asked for.
    pub(super) fn on_refused(&mut self, now: Timestamp, wire_id: u16) {
        let ahead = sequence::nearest(self.next, wire_id).checked_sub(self.next);
        if let Some(ahead) = ahead.filter(|ahead| *ahead < WINDOW) {
            self.reach(now, ahead as usize);
            self.asks.fresh = true;
        }
    }

    /// The peer is beyond the window, so that everything up to there was sent. Without this, one that does not have
    /// the next message any more would be heard for ever and believed never.
    fn on_ahead(&mut self, now: Timestamp, id: u64) {
        self.ahead_from = match self.ahead {
            0 => id,
            _ => self.ahead_from.min(id),
        };
        self.ahead = (self.ahead + 1).min(AHEAD_MIN);
        if self.ahead == AHEAD_MIN {
            self.sent_below = self.sent_below.max(self.ahead_from);
            self.reach_what_was_sent(now);
        }
    }

    /// As far as the window goes. What comes after that becomes a gap when the window gets there.
    fn reach_what_was_sent(&mut self, now: Timestamp) {
        let sent = self.sent_below.saturating_sub(self.next).min(WINDOW) as usize;
        if sent > self.window.len() {
            self.reach(now, sent - 1);
            self.asks.fresh = true;
        }
    }

    fn reach(&mut self, now: Timestamp, index: usize) {
        if self.window.is_empty() {
            self.gap_since = now;
        }
        if index >= self.window.len() {
            self.window.resize_with(index + 1, || Place::Absent);
        }
    }

    /// The peer says a message is gone. Believed only below what is known to have been sent: the
    /// reference says so of messages it has not sent yet (docs/wire/rudp.md, section 5).
    pub(super) fn on_missing(&mut self, now: Timestamp, wire_id: u16) {
        let id = sequence::nearest(self.next, wire_id);
        let Some(index) = id.checked_sub(self.next) else {
            return;
        };
        if let Ok(index) = usize::try_from(index)
            && let Some(place @ Place::Absent) = self.window.get_mut(index)
        {
            *place = Place::Missing(now);
        }
    }

    /// Moves what is next into the inbox. A message that is gone stays open for `grace`, in which
    /// it may still arrive; then it is skipped, or breaks the stream.
    pub(super) fn deliver(
        &mut self,
        now: Timestamp,
        grace: Duration,
        may_skip: bool,
        inbox: &mut Inbox,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        loop {
            match self.window.front() {
                Some(Place::Message(payload)) => {
                    inbox.push(0, true, payload);
                    delivered.messages += 1;
                    delivered.bytes += payload.len() as u64;
                    self.stored_bytes -= payload.len() + MESSAGE_OVERHEAD;
                }
                Some(Place::Missing(since)) if now >= *since + grace => {
                    if !may_skip {
                        delivered.is_broken = true;
                        break;
                    }
                    delivered.skipped += 1;
                }
                Some(Place::Missing(_) | Place::Absent) | None => break,
            }
            self.window.pop_front();
            self.next += 1;
        }
        if delivered.messages + delivered.skipped > 0 {
            self.gap_since = now;
            self.ahead = 0;
            self.asks.interval = self.asks.interval_first;
            self.reach_what_was_sent(now);
            if self.window.is_empty() {
                self.asks.fresh = false;
                self.window.shrink_to(64);
            }
        }
        delivered
    }

    /// Whether nothing is missing that the peer sent so far: there are messages and no gap, or it
    /// says, in these records, that it has not sent the first one.
    pub(super) fn has_all_from_the_start(&self, mut records: Records<'_>) -> bool {
        let first = Record::Missing(0);
        self.window.is_empty() && (self.next > 0 || records.any(|record| record == first))
    }

    /// Whether requests are due.
    pub(super) fn asks_at(&self) -> Option<Timestamp> {
        if self.window.is_empty() {
            None
        } else if self.asks.fresh {
            Some(Timestamp::ZERO)
        } else {
            Some(self.asks.again_at)
        }
    }

    /// Writes the ids to ask for now, lowest first, beginning with the very next message: its
    /// sender may conclude that we have everything below. Never more than go into one datagram.
    pub(super) fn ask(&mut self, now: Timestamp, datagram_room: usize, ids: &mut Vec<u16>) {
        if self.asks_at().is_none_or(|due| now < due) {
            return;
        }
        let all = now >= self.asks.again_at;
        let from = if all {
            self.next
        } else {
            self.asks.asked_below
        };
        let mut gaps = 0;
        let mut news = false;
        for (id, place) in (self.next..).zip(&self.window) {
            if matches!(place, Place::Message(_)) {
                continue;
            }
            gaps += 1;
            if id == self.next || id >= from {
                ids.push(id as u16);
                news |= id >= self.asks.asked_below;
                self.asks.asked_below = self.asks.asked_below.max(id + 1);
            }
            if gaps == REQUESTS_MAX.min(datagram_room / REQUEST_BYTES) {
                break;
            }
        }
        self.asks.fresh = false;
        if all {
            self.asks.again_at = now + self.asks.interval;
            self.asks.interval = (self.asks.interval * 2).min(self.asks.interval_max);
        } else if !news {
            // Only the next message, and it was asked for already: leave it to the timer.
            ids.clear();
        }
    }

    /// The wait between two rounds of requests starts over: the peer was told nothing for a while.
    pub(super) fn ask_soon(&mut self, now: Timestamp) {
        self.asks.again_at = now;
        self.asks.interval = self.asks.interval_first;
        self.gap_since = now;
    }

    /// Since when a gap is open.
    pub(super) fn gap_since(&self) -> Option<Timestamp> {
        (!self.window.is_empty()).then_some(self.gap_since)
    }

    /// When the next message, which the peer says is gone, counts as gone.
    pub(super) fn grace_ends_at(&self, grace: Duration) -> Option<Timestamp> {
        match self.window.front() {
            Some(Place::Missing(since)) => Some(*since + grace),
            Some(Place::Absent | Place::Message(_)) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn incoming() -> (Incoming, Inbox) {
        (
            Incoming::new(Duration::from_millis(100), Duration::from_millis(800)),
            Inbox::new(1 << 20),
        )
    }

    fn asked(incoming: &mut Incoming, millis: u64) -> Vec<u16> {
        let mut ids = Vec::new();
        incoming.ask(at(millis), 512, &mut ids);
        ids
    }

    #[test]
    fn gaps_are_asked_for_at_once_then_ever_more_rarely() {
        let (mut incoming, mut inbox) = incoming();
        assert_eq!(incoming.take(at(0), 3, b"d", &mut inbox), Taken::New);
        let rounds: Vec<_> = (0..3000)
            .filter(|millis| !asked(&mut incoming, *millis).is_empty())
            .collect();
        assert_eq!(rounds, [0, 100, 300, 700, 1500, 2300]);
    }

    #[test]
    fn a_new_gap_is_asked_for_with_the_oldest_one() {
        let (mut incoming, mut inbox) = incoming();
        incoming.take(at(0), 2, b"", &mut inbox);
        assert_eq!(asked(&mut incoming, 0), [0, 1]);
        incoming.take(at(10), 4, b"", &mut inbox);
        assert_eq!(asked(&mut incoming, 10), [0, 3]);
        incoming.take(at(20), 1, b"", &mut inbox);
        assert_eq!(asked(&mut incoming, 20), [], "nothing new is missing");
        incoming.take(at(30), 0, b"", &mut inbox);
        let delivered = incoming.deliver(at(30), Duration::ZERO, false, &mut inbox);
        assert_eq!(delivered.messages, 3);
        assert_eq!(asked(&mut incoming, 30), []);
        assert_eq!(asked(&mut incoming, 100), [3]);
    }

    #[test]
    fn a_far_id_costs_one_small_output_not_a_storm() {
        let (mut incoming, mut inbox) = incoming();
        assert_eq!(incoming.take(at(0), 1024, b"x", &mut inbox), Taken::Ahead);
        assert_eq!(incoming.take(at(0), 40_000, b"x", &mut inbox), Taken::Ahead);
        assert_eq!(incoming.take(at(0), 1023, b"x", &mut inbox), Taken::New);
        assert_eq!(asked(&mut incoming, 0).len(), 64);
        let total: usize = (1..1000).map(|t| asked(&mut incoming, t).len()).sum();
        assert_eq!(total, 3 * 64, "at 100, 300 and 700 ms");
    }

    #[test]
    fn a_peer_that_ran_ahead_left_a_gap() {
        let (mut incoming, mut inbox) = incoming();
        for id in [2000, 2001, 2002] {
            assert_eq!(incoming.take(at(0), id, b"x", &mut inbox), Taken::Ahead);
        }
        assert_eq!(incoming.gap_since(), None);
        assert_eq!(incoming.take(at(5), 2002, b"x", &mut inbox), Taken::Ahead);
        assert_eq!(incoming.gap_since(), Some(at(5)));
        assert_eq!(asked(&mut incoming, 5).len(), 64);
        incoming.on_missing(at(6), 0);
        let delivered = incoming.deliver(at(6), Duration::ZERO, false, &mut inbox);
        assert!(delivered.is_broken, "it is believed");
    }

    /// However far that was, and though nothing more is heard from there.
    #[test]
    fn what_a_peer_ran_ahead_by_is_not_forgotten() {
        let (mut incoming, mut inbox) = incoming();
        for id in [3_000, 2_999, 2_998, 2_997] {
            assert_eq!(incoming.take(at(0), id, b"x", &mut inbox), Taken::Ahead);
        }
        for id in 0..2_996 {
            assert_eq!(incoming.take(at(5), id, b"", &mut inbox), Taken::New);
            incoming.deliver(at(5), Duration::ZERO, false, &mut inbox);
        }
        assert_eq!(asked(&mut incoming, 600), [2_996]);
        incoming.on_missing(at(600), 2_996);
        let delivered = incoming.deliver(at(600), Duration::ZERO, false, &mut inbox);
        assert!(delivered.is_broken, "it is believed");
    }

    #[test]
    fn missing_counts_only_below_the_highest_message_and_loses_to_the_real_one() {
        let (mut incoming, mut inbox) = incoming();
        incoming.on_missing(at(0), 0);
        incoming.take(at(0), 1, b"b", &mut inbox);
        assert_eq!(
            incoming.grace_ends_at(Duration::ZERO),
            None,
            "it was not believed"
        );
        incoming.on_missing(at(0), 0);
        let grace = Duration::from_millis(50);
        let waiting = incoming.deliver(at(49), grace, true, &mut inbox);
        assert_eq!(waiting, Delivered::default());
        incoming.take(at(49), 0, b"a", &mut inbox);
        let delivered = incoming.deliver(at(60), grace, true, &mut inbox);
        assert_eq!((delivered.messages, delivered.skipped), (2, 0));

        incoming.take(at(60), 3, b"d", &mut inbox);
        incoming.on_missing(at(60), 2);
        assert!(
            incoming
                .deliver(at(110), grace, false, &mut inbox)
                .is_broken
        );
        let skipped = incoming.deliver(at(110), grace, true, &mut inbox);
        assert_eq!((skipped.messages, skipped.skipped), (1, 1));
    }

    #[test]
    fn duplicates_and_other_lives_are_told_apart() {
        let (mut incoming, mut inbox) = incoming();
        for id in 0..3000u16 {
            assert_eq!(incoming.take(at(0), id, b"", &mut inbox), Taken::Delivered);
        }
        assert_eq!(
            incoming.take(at(0), 2990, b"", &mut inbox),
            Taken::Duplicate
        );
        assert_eq!(incoming.take(at(0), 3, b"", &mut inbox), Taken::Behind);
    }

    #[test]
    fn stored_bytes_are_bounded_and_the_next_message_always_fits() {
        let (mut incoming, mut inbox) = incoming();
        let payload = vec![0; 1400];
        let stored = (1..1000u16)
            .filter(|id| incoming.take(at(0), *id, &payload, &mut inbox) == Taken::New)
            .count();
        assert!(stored * 1400 < STORED_BYTES_MAX && stored > 170, "{stored}");
        assert_eq!(incoming.take(at(0), 0, &payload, &mut inbox), Taken::New);
        incoming.deliver(at(0), Duration::ZERO, false, &mut inbox);
        assert_eq!(incoming.stored_bytes, 0);
    }
}
