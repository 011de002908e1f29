//! Our messages on their way to the peer: queued, sent, kept for requests, forgotten.
//!
//! ```text
//!   first_id          first_id + sent          next id
//!      │  history: sent,    │  queue: not sent    │
//!      │  may be requested  │  yet                │
//! ```
//!
//! Rule: docs/wire/rudp.md, sections 3 and 5. The wire has no acknowledgement; a peer only asks for
//! what it knows to be missing. Two things stand in for one: a peer asks for its oldest gap first,
//! so everything below that arrived, and the last message is repeated a few times because nobody
//! can know that it is missing.

use std::collections::VecDeque;
use std::time::Duration;

use crate::inbox::MESSAGE_OVERHEAD;
use crate::ring;
use crate::rudp::incoming::{STORED_BYTES_MAX, WINDOW};
use crate::rudp::lead::Lead;
use crate::rudp::tail::Tail;
use crate::rudp::wire;
use crate::sequence;
use crate::time::Timestamp;

/// Requests of the peer kept for the next output; more are forgotten, the peer asks again.
const ASKED_MAX: usize = 1024;

/// A request for an id this far ahead of what we sent is a probe, not a hope.
const NEAR: u64 = 1024;

/// Messages and bytes of both kinds that may be held; see [`crate::rudp::Params`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) queue_messages: usize,
    pub(super) queue_bytes: usize,
    pub(super) history_messages: usize,
    pub(super) history_bytes: usize,
    pub(super) history_kept: Duration,
}

#[derive(Debug)]
pub(super) struct Outgoing {
    limits: Limits,
    /// Payloads of all entries, back to back.
    bytes: VecDeque<u8>,
    entries: VecDeque<Entry>,
    first_id: u64,
    /// How many entries, from the front, were sent.
    sent: usize,
    sent_bytes: usize,
    /// Ids the peer asked for, ascending.
    asked: VecDeque<u64>,
    last_expiry: Timestamp,
    /// The peer has everything below this id.
    received_below: u64,
    lead: Lead,
    tail: Tail,
    /// Messages that were let go before they were sent.
    released: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Position of the payload in the stream of all payloads ever queued.
    start: u64,
    length: u32,
    /// When it was sent, or as long as it was not, queued.
    since: Timestamp,
}

/// One record of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The message is in the history.
    Message(u64),
    /// It is not any more.
    Missing(u64),
}

impl Outgoing {
    pub(super) fn new(now: Timestamp, limits: Limits) -> Self {
        Self {
            limits,
            bytes: VecDeque::new(),
            entries: VecDeque::new(),
            first_id: 0,
            sent: 0,
            sent_bytes: 0,
            asked: VecDeque::new(),
            last_expiry: now,
            received_below: 0,
            lead: Lead::new(now),
            tail: Tail::default(),
            released: 0,
        }
    }

    pub(super) fn queue(&mut self, now: Timestamp, payload: &[u8]) {
        let start = self.entries.back().map_or(0, Entry::end);
        self.bytes.extend(payload);
        self.entries.push_back(Entry {
            start,
            length: payload.len() as u32,
            since: now,
        });
    }

    /// Whether the queue takes another message of any legal size; the last one in may go beyond its bytes.
    pub(super) fn has_room(&self) -> bool {
        self.queued() < self.limits.queue_messages && self.queued_bytes() < self.limits.queue_bytes
    }

    /// The peer asks for a message again. Resolved by our own counter, never by the peer's:
    /// the reference mixes the two up and then stays silent (docs/wire/rudp.md, section 5).
    ///
    /// A request for what was never sent, or is queued and leaves anyway, gets no answer.
    pub(super) fn on_request(&mut self, now: Timestamp, wire_id: u16) -> Requested {
        let unsent = self.unsent_id();
        let id = sequence::nearest(unsent, wire_id);
        if id >= unsent {
            if self.is_near(wire_id) {
                self.lead.on_poll();
            }
            return Requested::NeverSent;
        }
        if let Err(place) = self.asked.binary_search(&id)
            && self.asked.len() < ASKED_MAX
        {
            self.asked.insert(place, id);
        }
        if id < self.first_id && self.lead.is_bounded() && self.received_below < unsent {
            // It will not believe that a message is gone unless it knows of a later one.
            self.tail = Tail::once(now);
        }
        Requested::Sent
    }

    /// The peer asked for something, and first for this; returns how many messages it is news of that it has them.
    pub(super) fn on_oldest_gap(&mut self, now: Timestamp, wire_id: u16) -> u64 {
        self.lead.on_shown(now);
        self.oldest_gap(wire_id)
            .map_or(0, |id| self.on_received_below(id))
    }

    /// See [`Lead`].
    pub(super) fn on_heartbeat(&mut self) {
        self.lead.on_heartbeat();
    }

    /// The peer was heard.
    pub(super) fn on_heard(&mut self, now: Timestamp) {
        let holds_back = self.queued() > 0 && self.is_too_far_ahead();
        self.lead.on_heard(now, holds_back);
    }

    /// Whether the peer says how far it got, and wants to hear the same of us.
    pub(super) fn peer_polls(&self) -> bool {
        self.lead.is_shown()
    }

    /// The full number of a message the peer asks for first, that is, of its oldest gap; `None`
    /// when it can be none of ours.
    fn oldest_gap(&self, wire_id: u16) -> Option<u64> {
        let id = sequence::nearest(self.unsent_id(), wire_id);
        (id <= self.unsent_id()).then_some(id)
    }

    /// Whether nothing was ever queued.
    pub(super) fn is_untouched(&self) -> bool {
        self.next_id() == 0
    }

    /// Whether an id lies just ahead of what we sent, where a peer may expect our next messages.
    pub(super) fn is_near(&self, wire_id: u16) -> bool {
        sequence::nearest(self.unsent_id(), wire_id) < self.unsent_id() + NEAR
    }

    /// The peer has everything below `id`; returns how many messages that is news for.
    fn on_received_below(&mut self, id: u64) -> u64 {
        let known = id.min(self.unsent_id());
        let news = known.saturating_sub(self.received_below);
        self.received_below += news;
        if self.received_below == self.next_id() {
            self.tail.stop();
        }
        news
    }

    /// Forgets history by the clock, as the reference does: at the end of each period what was sent before its
    /// beginning goes. So a message can be repeated for one to two periods.
    pub(super) fn expire(&mut self, now: Timestamp) {
        if now < self.last_expiry + self.limits.history_kept {
            return;
        }
        while self.sent > 0 && self.entries[0].since < self.last_expiry && !self.is_last_word() {
            self.forget_first();
        }
        self.last_expiry = now;
        if self.entries.is_empty() {
            self.bytes.shrink_to(8192);
            self.entries.shrink_to(64);
        }
    }

    /// Whether only the last message is kept that was sent, and the peer, which may be a tidegate, is not known to
    /// have it. What else it lacks is gone; this one says that it was there.
    fn is_last_word(&self) -> bool {
        self.sent == 1 && self.lead.is_bounded() && self.received_below < self.unsent_id()
    }

    /// When [`Outgoing::expire`] has something to do.
    pub(super) fn expiry_due(&self) -> Option<Timestamp> {
        (self.sent > 0).then(|| self.last_expiry + self.limits.history_kept)
    }

    /// The next answer to a request, lowest id first.
    pub(super) fn next_answer(&self) -> Option<Answer> {
        let id = *self.asked.front()?;
        Some(if id < self.first_id {
            Answer::Missing(id)
        } else {
            Answer::Message(id)
        })
    }

    pub(super) fn on_answered(&mut self) {
        self.asked.pop_front();
    }

    /// The next message that was never sent, if the history has room to keep it.
    pub(super) fn next_unsent(&self) -> Option<u64> {
        let entry = self.entries.get(self.sent)?;
        if self.is_too_far_ahead() {
            return None;
        }
        let bytes = self.sent_bytes + entry.length as usize;
        let fits = self.sent < self.limits.history_messages && bytes <= self.limits.history_bytes;
        // What the peer is known to have makes room; see `on_sent`.
        let frees = self.sent > 0 && self.first_id < self.received_below;
        (fits || frees || self.sent == 0).then(|| self.unsent_id())
    }

    /// Whether a tidegate that lacks its next message could not keep the first one that was not sent yet.
    fn is_too_far_ahead(&self) -> bool {
        let Some(entry) = self.entries.get(self.sent) else {
            return false;
        };
        let ahead = self.unsent_id() - self.received_below;
        let lacking = self.received_below.saturating_sub(self.first_id) as usize;
        let bytes = (entry.end() - self.entries[lacking].start) as usize;
        let cost = bytes + (ahead as usize + 1) * MESSAGE_OVERHEAD;
        self.lead.is_bounded() && ahead > 0 && (ahead >= WINDOW || cost > STORED_BYTES_MAX)
    }

    /// The message just named by [`Outgoing::next_unsent`] left.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        let length = self.entries[self.sent].length as usize;
        while self.first_id < self.received_below
            && (self.sent >= self.limits.history_messages
                || self.sent_bytes + length > self.limits.history_bytes)
        {
            self.forget_first();
        }
        self.entries[self.sent].since = now;
        self.sent += 1;
        self.sent_bytes += length;
        self.tail = Tail::sent(now);
    }

    /// The last message, if it is time to repeat it.
    pub(super) fn tail_due(&self, now: Timestamp) -> Option<u64> {
        let due = self.tail.due()?;
        (now >= due && self.is_at_rest()).then(|| self.unsent_id() - 1)
    }

    pub(super) fn on_tail_repeated(&mut self, now: Timestamp) {
        self.tail.on_repeated(now);
    }

    /// When the last message is to be repeated.
    pub(super) fn tail_at(&self) -> Option<Timestamp> {
        self.tail.due().filter(|_| self.is_at_rest())
    }

    /// Whether nothing follows, for now, what was sent.
    fn is_at_rest(&self) -> bool {
        self.sent > 0 && (self.queued() == 0 || self.is_too_far_ahead())
    }

    /// Whether everything was sent and the peer has it, or we will never know more.
    pub(super) fn is_settled(&self) -> bool {
        self.queued() == 0
            && (self.received_below == self.next_id() || self.tail_at().is_none())
            && self.asked.is_empty()
    }

    /// Bytes the record of message `id` takes in a datagram, as the reference counts them.
    pub(super) fn record_bytes(&self, id: u64) -> usize {
        wire::RECORD_OVERHEAD + self.entry(id).length as usize
    }

    /// Appends the record of message `id`.
    pub(super) fn emit(&self, id: u64, out: &mut Vec<u8>) {
        let entry = self.entry(id);
        wire::emit_message_header(out, id as u16, entry.length as usize);
        let start = (entry.start - self.entries[0].start) as usize;
        let (first, second) = ring::slices(&self.bytes, start..start + entry.length as usize);
        out.extend_from_slice(first);
        out.extend_from_slice(second);
    }

    /// Messages not sent yet.
    pub(super) fn queued(&self) -> usize {
        self.entries.len() - self.sent
    }

    /// Bytes of both kinds, each message charged with [`MESSAGE_OVERHEAD`].
    pub(super) fn held(&self) -> usize {
        self.bytes.len() + self.entries.len() * MESSAGE_OVERHEAD
    }

    /// Nothing will be sent any more: lets go of everything.
    pub(super) fn release(&mut self) {
        self.released += self.queued();
        (self.bytes, self.entries) = (VecDeque::new(), VecDeque::new());
        (self.sent, self.sent_bytes) = (0, 0);
        self.asked = VecDeque::new();
    }

    /// Messages that were never sent, those that were let go included.
    pub(super) fn unsent(&self) -> usize {
        self.released + self.queued()
    }

    /// Bytes of the queue.
    pub(super) fn queued_bytes(&self) -> usize {
        self.bytes.len() - self.sent_bytes
    }

    /// Id of the first message that was not sent yet.
    fn unsent_id(&self) -> u64 {
        self.first_id + self.sent as u64
    }

    fn next_id(&self) -> u64 {
        self.first_id + self.entries.len() as u64
    }

    fn entry(&self, id: u64) -> &Entry {
        &self.entries[(id - self.first_id) as usize]
    }

    fn forget_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.bytes.drain(..entry.length as usize);
        self.first_id += 1;
        self.sent -= 1;
        self.sent_bytes -= entry.length as usize;
    }
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requested {
    /// A message we sent.
    Sent,
    /// Nothing we sent yet.
    NeverSent,
}

impl Entry {
    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn outgoing(history_messages: usize) -> Outgoing {
        let limits = Limits {
            queue_messages: 8,
            queue_bytes: 1000,
            history_messages,
            history_bytes: 1000,
            history_kept: Duration::from_millis(50),
        };
        Outgoing::new(at(0), limits)
    }

    fn send_all(outgoing: &mut Outgoing, now: Timestamp) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some(id) = outgoing.next_unsent() {
            outgoing.on_sent(now);
            ids.push(id);
        }
        ids
    }

    #[test]
    fn payloads_come_out_whole_wherever_the_ring_wraps() {
        let mut outgoing = outgoing(100);
        for round in 0u64..500 {
            let payload = vec![round as u8; (round * 37 % 90) as usize];
            outgoing.queue(at(round * 20), &payload);
            let id = outgoing.next_unsent().expect("the history has room");
            outgoing.on_sent(at(round * 20));
            let mut out = Vec::new();
            outgoing.emit(id, &mut out);
            let sent = wire::Record::Message {
                id: id as u16,
                payload: &payload,
            };
            assert_eq!(wire::parse(&out).unwrap().collect::<Vec<_>>(), [sent]);
            outgoing.expire(at(round * 20));
        }
        assert!(outgoing.entries.len() < 10, "history is forgotten by time");
    }

    #[test]
    fn requests_are_answered_once_in_order_and_only_for_what_was_sent() {
        let mut outgoing = outgoing(100);
        for _ in 0..4 {
            outgoing.queue(at(0), b"x");
        }
        assert_eq!(
            outgoing.on_request(at(0), 0),
            Requested::NeverSent,
            "queued only"
        );
        assert_eq!(send_all(&mut outgoing, at(0)), [0, 1, 2, 3]);
        for id in [3, 1, 3] {
            assert_eq!(outgoing.on_request(at(0), id), Requested::Sent);
        }
        assert_eq!(outgoing.on_request(at(0), 4), Requested::NeverSent);
        assert_eq!(outgoing.on_request(at(0), 65535), Requested::NeverSent);
        let mut answers = Vec::new();
        while let Some(answer) = outgoing.next_answer() {
            answers.push(answer);
            outgoing.on_answered();
        }
        assert_eq!(answers, [Answer::Message(1), Answer::Message(3)]);
        outgoing.expire(at(60));
        outgoing.expire(at(120));
        outgoing.on_request(at(0), 1);
        assert_eq!(outgoing.next_answer(), Some(Answer::Missing(1)));
    }

    #[test]
    fn a_full_history_holds_back_until_the_peer_is_known_to_have_it() {
        let mut outgoing = outgoing(3);
        for _ in 0..6 {
            outgoing.queue(at(0), b"x");
        }
        assert_eq!(send_all(&mut outgoing, at(0)), [0, 1, 2]);
        assert_eq!(outgoing.on_received_below(2), 2);
        assert_eq!(send_all(&mut outgoing, at(0)), [3, 4]);
        assert_eq!(outgoing.on_received_below(1), 0, "old news");
        assert_eq!(
            outgoing.on_received_below(99),
            3,
            "never more than was sent"
        );
    }

    /// A C peer that misses nothing requests nothing, so nobody says what it has.
    #[test]
    fn nothing_waits_for_who_never_requests_anything() {
        let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
        outgoing.on_heartbeat();
        for millis in 0..60_000 {
            outgoing.expire(at(millis));
            for _ in 0..(millis % 2 + 1) {
                outgoing.queue(at(millis), &[0; 200]);
            }
            send_all(&mut outgoing, at(millis));
            assert_eq!(outgoing.queued(), 0, "after {millis} ms");
        }
        assert!(outgoing.entries.len() > 8_192, "a lower limit would do");
    }

    /// A tidegate has no room for more than a window behind what it lacks. Who never asks keeps what it gets.
    #[test]
    fn a_peer_that_shows_what_it_has_is_not_left_behind() {
        for (size, most) in [(0, WINDOW as usize), (400, STORED_BYTES_MAX / 464)] {
            let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
            for _ in 0..5_000 {
                outgoing.queue(at(0), &vec![0; size]);
            }
            assert_eq!(send_all(&mut outgoing, at(0)).len(), most, "{size} bytes");
            assert_eq!(outgoing.on_oldest_gap(at(10), 100), 100);
            assert_eq!(send_all(&mut outgoing, at(10)).len(), 100, "{size} bytes");
            for millis in (10..=3_500).step_by(10) {
                assert_eq!(send_all(&mut outgoing, at(millis)), [], "at {millis} ms");
                outgoing.on_oldest_gap(at(millis), 100);
                outgoing.on_heard(at(millis));
            }
            for millis in (3_500..=6_500).step_by(10) {
                outgoing.on_heard(at(millis));
            }
            assert!(
                !send_all(&mut outgoing, at(6_500)).is_empty(),
                "it never asks"
            );
        }
    }

    /// Whether or not it ever showed what it has: one that was always behind did not.
    #[test]
    fn who_asks_for_what_is_gone_gets_the_last_message_with_the_answer() {
        let mut outgoing = outgoing(100);
        for _ in 0..3 {
            outgoing.queue(at(0), b"x");
        }
        send_all(&mut outgoing, at(0));
        for millis in [60, 120, 180] {
            outgoing.expire(at(millis));
        }
        outgoing.on_request(at(200), 0);
        assert_eq!(outgoing.next_answer(), Some(Answer::Missing(0)));
        assert_eq!(outgoing.tail_due(at(200)), Some(2));
    }

    #[test]
    fn the_last_message_is_repeated_a_few_times() {
        let mut outgoing = outgoing(3);
        outgoing.queue(at(0), b"x");
        send_all(&mut outgoing, at(0));
        let mut repeats = Vec::new();
        for millis in 0..10_000 {
            if outgoing.tail_due(at(millis)).is_some() {
                repeats.push(millis);
                outgoing.on_tail_repeated(at(millis));
            }
        }
        assert_eq!(repeats, [100, 300, 700, 1500, 3100]);
        assert!(outgoing.is_settled());
    }
}
