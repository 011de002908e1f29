//! The peer's messages: in order, at most once. `asks` says what is asked for again, and when; `ahead` what a peer
//! means that goes on without us.
//!
//! Rule: docs/wire/rudp.md, sections 4 and 5. Everything is clamped to a window: the reference asks
//! for every id up to a far one, on every tick, and one forged datagram makes it send for ever.

mod ahead;
mod asks;
mod settled;

use std::collections::VecDeque;
use std::time::Duration;

use crate::inbox::{Inbox, MESSAGE_OVERHEAD};
use crate::rudp::wire::{Record, Records};
use crate::sequence;
use crate::time::Timestamp;

use ahead::Ahead;
use asks::Asks;
use settled::Settled;

/// How far ahead of the next message an id may lie, once many wait: what a reference peer says meanwhile it says once, and
/// all of it would have to be asked for. As many as are kept if they are empty.
const WINDOW: usize = STORED_BYTES_MAX / MESSAGE_OVERHEAD;

/// And before that: places take memory, and a single datagram could claim all of them.
const WINDOW_AT_FIRST: usize = 1024;

/// However little memory there is. So many places an empty window keeps.
const WINDOW_LEAST: usize = 64;

/// So many wait where a peer says much and loses much.
const MANY: usize = 256;

/// A window longer than this gets all of its places at once: to grow in steps takes the room of the old and the new.
const SHORT: usize = 512;

/// How far behind the next message a late one of this incarnation may lie.
const LATE: u64 = 1024;

/// Bytes kept of messages that wait for an earlier one.
pub(super) const STORED_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Incoming {
    /// Number of the next message to deliver; its low 16 bits are its id.
    next: u64,
    /// Entry i is message `next + i`, up to the highest one the peer is known to have sent.
    window: VecDeque<Place>,
    /// Bytes of the messages that wait in it, with [`MESSAGE_OVERHEAD`] each, and how many they are.
    stored_bytes: usize,
    stored: usize,
    /// Since when `next` is known to be missing.
    gap_since: Timestamp,
    ahead: Ahead,
    asks: Asks,
    settled: Settled,
}

#[derive(Debug)]
enum Place {
    Absent,
    /// The peer said it is gone, at this time.
    Missing(Timestamp),
    Message(Box<[u8]>),
}

const PLACE_BYTES: usize = size_of::<Place>();

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
    /// Far behind, or delivered long ago: from another incarnation of the peer.
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
            stored: 0,
            gap_since: Timestamp::ZERO,
            ahead: Ahead::default(),
            asks: Asks::new(interval, interval_max),
            settled: Settled::default(),
        }
    }

    /// An answer takes so long.
    pub(super) fn on_answer_time(&mut self, answer_time: Duration) {
        self.settled.on_answer_time(answer_time);
    }

    /// Bytes held behind a gap: messages, and the places of those that did not come. The few that any window keeps
    /// are the session's own.
    pub(super) fn held(&self) -> usize {
        let own = self.stored.max(WINDOW_LEAST);
        self.stored_bytes + self.window.capacity().saturating_sub(own) * PLACE_BYTES
    }

    /// Nothing will be taken any more: lets go of what waits for something before it.
    pub(super) fn release(&mut self) {
        (self.window, self.stored_bytes, self.stored) = (VecDeque::new(), 0, 0);
    }

    /// Number of the next message to deliver; its low 16 bits are its id.
    pub(super) fn next_id(&self) -> u64 {
        self.next
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
            return if self.next - id > LATE || self.settled.contains(id) {
                Taken::Behind
            } else {
                Taken::Duplicate
            };
        }
        if id - self.next >= self.window_max(inbox) as u64 {
            self.ahead.on_message(id);
            self.reach_what_was_sent(now, inbox);
            return Taken::Ahead;
        }
        if id == self.next && self.window.is_empty() {
            inbox.push(0, true, payload);
            self.next += 1;
            self.ahead.on_delivered();
            return Taken::Delivered;
        }
        self.file(now, (id - self.next) as usize, payload, inbox)
    }

    /// Keeps a message until those before it are there.
    fn file(&mut self, now: Timestamp, index: usize, payload: &[u8], inbox: &Inbox) -> Taken {
        if matches!(self.window.get(index), Some(Place::Message(_))) {
            return Taken::Duplicate;
        }
        let cost = payload.len() + MESSAGE_OVERHEAD;
        // The next message always has room: it is what frees the others.
        if index > 0 && self.stored_bytes + cost > inbox.ahead_max(STORED_BYTES_MAX) {
            self.reach(now, index, inbox);
            return Taken::NoRoom;
        }
        if index != self.window.len() {
            // A new gap, or a filled one, which moves the limit on requests along.
            self.asks.on_gap();
        }
        self.reach(now, index, inbox);
        self.window[index] = Place::Message(payload.into());
        self.stored_bytes += cost;
        self.stored += 1;
        Taken::New
    }

    /// Whether a message may come yet, and did not.
    pub(super) fn lacks(&self, wire_id: u16, inbox: &Inbox) -> bool {
        let ahead = sequence::nearest(self.next, wire_id).checked_sub(self.next);
        ahead.is_some_and(|ahead| {
            let place = self.window.get(ahead as usize);
            ahead < self.window_max(inbox) as u64 && !matches!(place, Some(Place::Message(_)))
        })
    }

    /// A message arrived and was not taken, so it is known to exist and will be asked for.
    pub(super) fn on_refused(&mut self, now: Timestamp, wire_id: u16, inbox: &Inbox) {
        let ahead = sequence::nearest(self.next, wire_id).checked_sub(self.next);
        if let Some(ahead) = ahead.filter(|ahead| *ahead < self.window_max(inbox) as u64) {
            self.reach(now, ahead as usize, inbox);
            self.asks.on_gap();
        }
    }

    /// How many places the window may have now. What they take is held like messages, and where memory is short no more
    /// of it than of those.
    fn window_max(&self, inbox: &Inbox) -> usize {
        let most = match self.stored >= MANY {
            true => WINDOW,
            false => WINDOW_AT_FIRST,
        };
        let allowed = inbox.ahead_max(STORED_BYTES_MAX) / PLACE_BYTES;
        most.min(allowed.max(WINDOW_LEAST)).max(self.window.len())
    }

    /// As far as the window goes. What comes after that becomes a gap when the window gets there.
    fn reach_what_was_sent(&mut self, now: Timestamp, inbox: &Inbox) {
        let sent = self
            .ahead
            .sent_below()
            .saturating_sub(self.next)
            .min(self.window_max(inbox) as u64) as usize;
        if sent > self.window.len() {
            self.reach(now, sent - 1, inbox);
            self.asks.on_gap();
        }
    }

    fn reach(&mut self, now: Timestamp, index: usize, inbox: &Inbox) {
        if self.window.is_empty() {
            self.gap_since = now;
        }
        if index >= self.window.len() {
            if index >= SHORT {
                let rest = self.window_max(inbox) - self.window.len();
                self.window.reserve_exact(rest);
            }
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

    /// Whether a message comes after all that the peer is known to have sent.
    pub(super) fn is_unknown(&self, wire_id: u16) -> bool {
        sequence::nearest(self.next, wire_id) >= self.unknown_id()
    }

    /// Id of the first message that is not known to exist, as it is written on the wire.
    pub(super) fn unknown_wire_id(&self) -> u16 {
        self.unknown_id() as u16
    }

    fn unknown_id(&self) -> u64 {
        self.next + self.window.len() as u64
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
                    self.stored -= 1;
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
            self.on_progress(now, inbox);
        }
        self.settled.on_time(now, self.next);
        delivered
    }

    fn on_progress(&mut self, now: Timestamp, inbox: &Inbox) {
        self.gap_since = now;
        self.ahead.on_delivered();
        self.asks.on_progress();
        self.reach_what_was_sent(now, inbox);
        if self.window.is_empty() {
            self.window.shrink_to(WINDOW_LEAST);
        }
    }

    /// Whether nothing is missing that the peer sent so far: there are messages and no gap, or it
    /// says, in these records, that it has not sent the first one.
    pub(super) fn has_all_from_the_start(&self, mut records: Records<'_>) -> bool {
        let first = Record::Missing(0);
        self.window.is_empty() && (self.next > 0 || records.any(|record| record == first))
    }

    /// Whether requests are due.
    pub(super) fn asks_at(&self) -> Option<Timestamp> {
        (!self.window.is_empty()).then(|| self.asks.due())
    }

    /// Writes the ids to ask for now, lowest first, beginning with the very next message: its
    /// sender may conclude that we have everything below. Never more than go into one datagram.
    ///
    /// Who asked `answer_time` ago and has no answer has lost it, or the question; zero while that is not known.
    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        answer_time: Duration,
        datagram_room: usize,
        ids: &mut Vec<u16>,
    ) {
        if self.asks_at().is_none_or(|due| now < due) {
            return;
        }
        let gaps = (self.next..)
            .zip(&self.window)
            .filter(|(_, place)| !matches!(place, Place::Message(_)))
            .map(|(id, _)| id);
        let most = self.ids_max(datagram_room);
        self.asks.ask(now, answer_time, self.next, gaps, most, ids);
    }

    /// How many ids to ask for in one output that has so much room.
    pub(super) fn ids_max(&self, datagram_room: usize) -> usize {
        asks::ids_max(datagram_room, self.stored_bytes / self.stored.max(1))
    }

    /// The wait between two rounds of requests starts over: the peer was told nothing for a while.
    pub(super) fn ask_soon(&mut self, now: Timestamp) {
        self.asks.hurry(now);
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
mod tests;
