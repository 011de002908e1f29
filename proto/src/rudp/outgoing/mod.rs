//! Our messages on their way to the peer: which may be sent, which the peer asks for, which it has. They are kept in
//! a `store`; `repeats` says when one goes again that is asked for, `budget` what that may cost, `lead` whether the peer
//! shows what it has, `tail` when the last one is repeated.
//!
//! Rule: docs/wire/rudp.md, sections 3 and 5. The wire has no acknowledgement; a peer only asks for
//! what it knows to be missing. Two things stand in for one: a peer asks for its oldest gap first,
//! so everything below that arrived, and the last message is repeated a few times because nobody
//! can know that it is missing.

mod budget;
mod lead;
mod repeats;
mod store;
mod tail;

use std::collections::VecDeque;
use std::time::Duration;

use crate::inbox::MESSAGE_OVERHEAD;
use crate::rudp::incoming::STORED_BYTES_MAX;
use crate::rudp::wire;
use crate::sequence;
use crate::time::Timestamp;

use budget::Budget;
use lead::Lead;
use store::Store;
use tail::Tail;

/// Requests of the peer kept for the next output; more are forgotten, the peer asks again.
const ASKED_MAX: usize = 1024;

/// Messages sent ahead of what a tidegate is known to have: a quarter of what it keeps if they are empty. What is further
/// ahead may as well wait here.
pub(super) const LEAD_MAX: u64 = 1024;

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
    store: Store,
    /// Ids the peer asked for, ascending.
    asked: VecDeque<u64>,
    answers: Budget,
    copies: Budget,
    last_expiry: Timestamp,
    /// The peer has everything below this id.
    received_below: u64,
    lead: Lead,
    tail: Tail,
    /// Messages that were let go before they were sent.
    released: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requested {
    /// A message we sent.
    Sent,
    /// Nothing we sent yet.
    NeverSent,
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
            store: Store::default(),
            asked: VecDeque::new(),
            answers: Budget::for_answers(now),
            copies: Budget::for_copies(now),
            last_expiry: now,
            received_below: 0,
            lead: Lead::new(now),
            tail: Tail::default(),
            released: 0,
        }
    }

    pub(super) fn queue(&mut self, payload: &[u8]) {
        self.store.queue(payload);
    }

    /// Whether the queue takes another message of any legal size; the last one in may go beyond its bytes.
    pub(super) fn has_room(&self) -> bool {
        self.store.queued() < self.limits.queue_messages
            && self.store.queued_bytes() < self.limits.queue_bytes
    }

    /// The peer asks for a message again. Resolved by our own counter, never by the peer's:
    /// the reference mixes the two up and then stays silent (docs/wire/rudp.md, section 5).
    ///
    /// A request for what was never sent, or is queued and leaves anyway, gets no answer; nor does one that
    /// comes too soon behind many others, or that there is nothing left to pay for with.
    ///
    /// It takes `answer_time` until an answer changes what the peer asks for; zero while that is not known.
    pub(super) fn on_request(
        &mut self,
        now: Timestamp,
        wire_id: u16,
        answer_time: Duration,
    ) -> Requested {
        let unsent = self.store.unsent_id();
        let id = sequence::nearest(unsent, wire_id);
        if id >= unsent {
            if self.is_near(wire_id) {
                self.lead.on_poll();
            }
            return Requested::NeverSent;
        }
        if self.store.repeats(id).is_none_or(|it| it.is_due(now))
            && let Err(place) = self.asked.binary_search(&id)
            && self.asked.len() < ASKED_MAX
            && self.pays(now, id, answer_time)
        {
            self.asked.insert(place, id);
        }
        if id < self.store.first_id() && self.lead.is_bounded() && self.received_below < unsent {
            // It will not believe that a message is gone unless it knows of a later one.
            self.tail = Tail::once(now);
        }
        Requested::Sent
    }

    /// Whether there is something left to pay for an answer with, and for a copy if it may be no more than that.
    fn pays(&mut self, now: Timestamp, id: u64, answer_time: Duration) -> bool {
        let bytes = self.answer_bytes(id);
        let repeats = self.store.repeats(id);
        let may_be_copy = repeats.is_some_and(|it| it.is_under_way(now, answer_time));
        (!may_be_copy || self.copies.pay(now, bytes)) && self.answers.pay(now, bytes)
    }

    /// The peer asked for something, and first for this; returns how many messages it is news of that it has them.
    pub(super) fn on_oldest_gap(&mut self, now: Timestamp, wire_id: u16) -> u64 {
        self.lead.on_shown(now);
        self.oldest_gap(wire_id)
            .map_or(0, |id| self.on_received_below(id))
    }

    /// The peer said that it has no message that nobody said yet, which this question was for.
    pub(super) fn on_pong(&mut self, asked: u16) {
        self.lead.on_pong();
        self.tail.on_answer(asked);
    }

    /// See [`Lead`].
    pub(super) fn on_reference(&mut self) {
        self.lead.on_reference();
    }

    /// The peer was heard.
    pub(super) fn on_heard(&mut self, now: Timestamp) {
        let holds_back = self.is_too_far_ahead();
        self.lead.on_heard(now, holds_back);
    }

    /// Whether the peer says how far it got, and wants to hear the same of us.
    pub(super) fn peer_polls(&self) -> bool {
        self.lead.is_shown()
    }

    /// Whether the peer is taken for one that answers each question, whether there is such a message or not.
    pub(super) fn peer_answers(&self) -> bool {
        !self.lead.is_bounded()
    }

    /// The full number of a message the peer asks for first, that is, of its oldest gap; `None`
    /// when it can be none of ours.
    fn oldest_gap(&self, wire_id: u16) -> Option<u64> {
        let unsent = self.store.unsent_id();
        let id = sequence::nearest(unsent, wire_id);
        (id <= unsent).then_some(id)
    }

    /// Id of the first message that was not sent yet.
    pub(super) fn unsent_id(&self) -> u64 {
        self.store.unsent_id()
    }

    /// Whether nothing was ever queued.
    pub(super) fn is_untouched(&self) -> bool {
        self.store.next_id() == 0
    }

    /// Whether an id lies just ahead of what we sent, where a peer may expect our next messages.
    fn is_near(&self, wire_id: u16) -> bool {
        let unsent = self.store.unsent_id();
        sequence::nearest(unsent, wire_id) < unsent + NEAR
    }

    /// The peer has everything below `id`; returns how many messages that is news for.
    fn on_received_below(&mut self, id: u64) -> u64 {
        let known = id.min(self.store.unsent_id());
        let news = known.saturating_sub(self.received_below);
        self.received_below += news;
        if self.received_below == self.store.next_id() {
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
        while let Some(sent_at) = self.store.first_sent_at()
            && sent_at < self.last_expiry
            && !self.is_last_word()
        {
            self.store.forget_first();
        }
        self.last_expiry = now;
        self.store.shrink();
    }

    /// Whether only the last message is kept that was sent, and the peer, which may run tidegate, is not known to
    /// have it. What else it lacks is gone; this one says that it was there.
    fn is_last_word(&self) -> bool {
        self.store.sent() == 1
            && self.lead.is_bounded()
            && self.received_below < self.store.unsent_id()
    }

    /// When [`Outgoing::expire`] has something to do.
    pub(super) fn expiry_due(&self) -> Option<Timestamp> {
        (self.store.sent() > 0).then(|| self.last_expiry + self.limits.history_kept)
    }

    /// The next answer to a request, lowest id first.
    pub(super) fn next_answer(&self) -> Option<Answer> {
        let id = *self.asked.front()?;
        Some(if id < self.store.first_id() {
            Answer::Missing(id)
        } else {
            Answer::Message(id)
        })
    }

    /// The answer just named by [`Outgoing::next_answer`] left.
    pub(super) fn on_answered(&mut self, now: Timestamp) {
        if let Some(id) = self.asked.pop_front()
            && let Some(repeats) = self.store.repeats_mut(id)
        {
            repeats.on_repeated(now);
        }
    }

    /// The next message that was never sent, if the history has room to keep it.
    pub(super) fn next_unsent(&self) -> Option<u64> {
        if self.store.queued() == 0 || self.is_too_far_ahead() {
            return None;
        }
        let has_place = self.store.sent() == 0 || self.history_takes_next() || self.history_frees();
        has_place.then(|| self.store.unsent_id())
    }

    /// Whether the history may keep the next message beside what it has.
    fn history_takes_next(&self) -> bool {
        let bytes = self.store.sent_bytes() + self.store.length(self.store.unsent_id());
        self.store.sent() < self.limits.history_messages && bytes <= self.limits.history_bytes
    }

    /// Whether the first message of the history makes room when it is needed: the peer is known to have it.
    fn history_frees(&self) -> bool {
        self.store.sent() > 0 && self.store.first_id() < self.received_below
    }

    /// Whether a tidegate that lacks its next message could not keep the first one that was not sent yet.
    fn is_too_far_ahead(&self) -> bool {
        if self.store.queued() == 0 || !self.lead.is_bounded() {
            return false;
        }
        let unsent = self.store.unsent_id();
        let ahead = unsent - self.received_below;
        let lacking = self.received_below.max(self.store.first_id());
        let bytes = self.store.length_of_all(lacking..=unsent);
        let cost = bytes + (ahead as usize + 1) * MESSAGE_OVERHEAD;
        ahead > 0 && (ahead >= LEAD_MAX || cost > STORED_BYTES_MAX)
    }

    /// The message just named by [`Outgoing::next_unsent`] left.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        while self.history_frees() && !self.history_takes_next() {
            self.store.forget_first();
        }
        let bytes = self.record_bytes(self.store.unsent_id());
        self.answers.on_sent(now, bytes);
        self.copies.on_sent(now, bytes);
        self.store.on_sent(now);
        self.tail = Tail::sent(now);
    }

    /// The last message, which is to be repeated.
    pub(super) fn tail(&self) -> u64 {
        self.store.unsent_id() - 1
    }

    /// See [`Tail::on_repeated`].
    pub(super) fn on_tail_repeated(&mut self, now: Timestamp, asked: Option<u16>) {
        self.tail.on_repeated(now, asked);
    }

    /// When the last message is to be repeated.
    pub(super) fn tail_at(&self) -> Option<Timestamp> {
        self.tail.due().filter(|_| self.is_at_rest())
    }

    /// Whether nothing follows, for now, what was sent.
    fn is_at_rest(&self) -> bool {
        self.store.sent() > 0 && (self.queued() == 0 || self.is_too_far_ahead())
    }

    /// Whether everything was sent and the peer has it, or we will never know more.
    pub(super) fn is_settled(&self, now: Timestamp) -> bool {
        let is_over = !self.is_at_rest() || self.tail.is_over(now);
        self.queued() == 0
            && (self.received_below == self.store.next_id() || is_over)
            && self.asked.is_empty()
    }

    /// Bytes the record of message `id` takes in a datagram, as the reference counts them.
    pub(super) fn record_bytes(&self, id: u64) -> usize {
        wire::RECORD_OVERHEAD + self.store.length(id)
    }

    /// Bytes of the record of a message that is kept. That one is gone takes as much as to ask for it.
    fn answer_bytes(&self, id: u64) -> usize {
        if id < self.store.first_id() {
            0
        } else {
            self.record_bytes(id)
        }
    }

    /// Appends the record of message `id`.
    pub(super) fn emit(&self, id: u64, out: &mut Vec<u8>) {
        self.store.emit(id, out);
    }

    /// Messages not sent yet.
    pub(super) fn queued(&self) -> usize {
        self.store.queued()
    }

    /// Bytes of the messages not sent yet.
    pub(super) fn queued_bytes(&self) -> usize {
        self.store.queued_bytes()
    }

    /// Messages that were never sent, those that were let go included.
    pub(super) fn unsent(&self) -> usize {
        self.released + self.queued()
    }

    /// Bytes of all messages, each charged with [`MESSAGE_OVERHEAD`].
    pub(super) fn held(&self) -> usize {
        self.store.held()
    }

    /// Nothing will be sent any more: lets go of everything.
    pub(super) fn release(&mut self) {
        self.released += self.queued();
        self.store.release();
        self.asked = VecDeque::new();
    }
}

#[cfg(test)]
mod tests;
