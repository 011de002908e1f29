//! When a packet may leave, and what its leaving changes.

use super::lanes::Due;
use super::pace::HeldBy;
use super::patience::{IN_STEP, TOO_LONG};
use super::recovery::REMEMBERED_MAX;
use super::*;
use crate::time::Span;

/// Why a packet leaves: the first of these that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Nothing was heard for a whole timeout: whatever is old goes again.
    Probe,
    /// Copies have waited for something else to leave for long enough.
    Copies,
    Bulk,
    Messages,
    /// An acknowledgement is owed, or a sign of life.
    Ack,
}

/// What may leave now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// One that is due.
    probe: bool,
    pub(super) messages: bool,
    pub(super) bulk: bool,
}

/// What a packet brings.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Something reliable for the first time.
    fresh: bool,
    /// Something that the peer lacks, so that it acknowledges soon. A path that loses much carries
    /// little but what was lost: who took the time of new messages only would be blind there.
    prompts: bool,
    /// How often that went for which others wait as nothing in step with the path's losses should; 0 without such.
    waited_for: u8,
    /// Others wait for it as if the path took nothing so long.
    waited_for_long: bool,
}

impl Sender {
    /// Whether a packet may and should leave now. If so, its content is in
    /// [`Sender::planned`] and the tokens for it are spent. An empty plan is an acknowledgement.
    pub fn poll_packet(&mut self, now: Timestamp) -> bool {
        if self.shrink_at <= now {
            self.shrink_at = now + SHRINK_EVERY;
            self.shrink();
        }
        self.pacer.refill(now, &self.arrivals, &self.params);
        let due = self.due();
        let held_by = self.bulk_held_by(due);
        self.pacer.pace_mut(now).on_bulk_held(now, held_by);
        let open = self.open(now, held_by);
        let owes = self.acks.is_due(now) || self.keep_alive_at().is_some_and(|at| at <= now);
        let may_pad = !open.probe && (owes || due.bulk && open.bulk);
        if may_pad && self.plan_padding(now) {
            return true;
        }
        if owes && self.is_stuck(now) {
            self.plan.clear();
            return true;
        }
        match self.reason(now, due, owes, open) {
            None => {
                self.plan.clear();
                return false;
            }
            Some(Reason::Ack) if !open.messages => {
                // It waits for no token, but goes alone then.
                self.plan.clear();
                return true;
            }
            Some(Reason::Probe) => {
                self.plan_probe(now, open);
                self.probes.on_probe(now, self.arrivals.last());
            }
            Some(reason) => self.plan_packet(now, reason, open),
        }
        // Whatever the reason for the packet, it carries copies as well.
        if self.is_early_probe_due(now) {
            self.copier.on_early_probe();
        }
        if self.plan.is_empty() && !owes {
            return false;
        }
        if !self.goes_by_bulk_rate() {
            self.pacer.spend_packet();
        }
        true
    }

    /// What keeps bulk from leaving faster, where some waits.
    fn bulk_held_by(&self, due: Due) -> HeldBy {
        let (pacer, arrivals) = (&self.pacer, &self.arrivals);
        if due.bulk && (self.is_bulk_unanswered() || self.asks_for_room()) {
            HeldBy::Answers
        } else if due.bulk && pacer.is_bulk_beyond_reach(arrivals, &self.params) {
            HeldBy::Reach
        } else if due.bulk_waits {
            HeldBy::Rate
        } else {
            HeldBy::Nothing
        }
    }

    /// What the tokens and the peer's answers let leave.
    fn open(&self, now: Timestamp, held_by: HeldBy) -> Open {
        let has_token = self.pacer.has_token();
        let probe = has_token && self.is_probe_due(now);
        // A probe goes although the path is full of what nobody answers: it asks why. And at any rate of bulk,
        // or what is new would take its turn, again and again (RFC 9002, section 7.5).
        let bulk = probe || held_by != HeldBy::Answers && self.pacer.has_bulk_token(&self.params);
        Open {
            probe,
            messages: has_token,
            bulk,
        }
    }

    fn reason(&self, now: Timestamp, due: Due, owes: bool, open: Open) -> Option<Reason> {
        if open.probe {
            Some(Reason::Probe)
        } else if self.is_early_probe_due(now) {
            Some(Reason::Copies)
        } else if due.bulk && open.bulk {
            Some(Reason::Bulk)
        } else if due.messages && open.messages {
            Some(Reason::Messages)
        } else {
            owes.then_some(Reason::Ack)
        }
    }

    fn plan_packet(&mut self, now: Timestamp, reason: Reason, open: Open) {
        if !self.plan_again(reason, open) {
            self.compose(now, reason, open);
        }
    }

    fn plan_probe(&mut self, now: Timestamp, open: Open) {
        self.plan_packet(now, Reason::Probe, open);
        // All that is whole may have left lately, and fragments wait: they ask as well.
        if self.plan.is_empty() {
            self.compose(now, Reason::Bulk, open);
        }
    }

    /// Copies may leave in a packet of their own, as long as new messages keep enough tokens.
    fn is_early_probe_due(&self, now: Timestamp) -> bool {
        let at = self.copier.early_probe_at();
        at.is_some_and(|at| at <= now) && self.pacer.has_early_token(&self.params)
    }

    /// What is planned is paid for in bytes of bulk, not as one packet.
    fn goes_by_bulk_rate(&self) -> bool {
        self.plan.is_bulk && self.pacer.has_bulk_rate(&self.params)
    }

    fn shrink(&mut self) {
        self.in_flight.shrink();
        for outbox in self.lanes.outboxes_mut() {
            outbox.shrink();
        }
    }

    /// To be called before anything changes the rates, or what they are bound by.
    pub(super) fn refill_debts(&mut self, now: Timestamp) {
        self.pacer.refill_debts(now, &self.arrivals, &self.params);
    }

    /// More is under way than two round trips carry. Where nothing comes back there is no sign of a
    /// queue either, and going on would keep it full; probes ask instead.
    fn is_bulk_unanswered(&self) -> bool {
        let answer_time = self.answer_time();
        let most = self
            .pacer
            .bulk_packets(answer_time, &self.arrivals, &self.params);
        most.is_some_and(|most| {
            let under_way = f64::from(self.in_flight.unsettled());
            under_way > (most + UNANSWERED_MIN).min(UNDER_WAY_MAX)
        })
    }

    /// The peer refuses messages, and what left last asks whether it still does. The article sends too little to need
    /// that, and takes a second to know what became of a packet.
    fn asks_for_room(&self) -> bool {
        let has_article = self.params.resend_after().is_some();
        self.refusal.is_likely() && self.in_flight.unsettled() > 0 && !has_article
    }

    /// Nothing with messages was acknowledged for long. A peer whose backend reads nothing refuses those, and takes others:
    /// now and then one leaves without, and what else is owed leaves so, for else nobody could tell it from a dead path.
    fn is_stuck(&self, now: Timestamp) -> bool {
        let is_long_ago = |at: Timestamp| now.span_since(at) >= STUCK_AFTER;
        is_long_ago(self.progress_at) && self.waits_since().is_some_and(is_long_ago)
    }

    /// A peer that is there has answered after this time.
    pub(super) fn answer_time(&self) -> Duration {
        2 * self.rtt.smoothed() + 4 * self.rtt.variation() + ANSWER_MIN
    }

    /// The planned packet left under `number` (greater than any before) as `wire_bytes` bytes.
    pub fn on_sent(&mut self, now: Timestamp, number: u64, wire_bytes: usize) {
        let news = self.commit(now, number);
        let plain_bytes = wire_bytes.saturating_sub(self.plan.copy_bytes);
        self.copier.on_sent(self.plan.copy_bytes, plain_bytes);
        let has_messages = self.remember(now, number, wire_bytes, news);
        self.note_datagram(now, number, wire_bytes);
        if has_messages {
            self.on_messages_sent(now, plain_bytes, news);
        }
        self.spend_bulk(now, wire_bytes);
        self.acks.on_sent();
        self.follow_up(now, number, has_messages, news);
        self.last_sent = now;
        self.next_number = number + 1;
        self.counters.packets_sent += 1;
        self.forget(now);
    }

    /// Remembers the planned packet until its fate is known; whether it carries reliable messages. What an idle
    /// peer's keep-alives could tell is not worth the memory, and what became of padding is no sign of
    /// the path's rate.
    fn remember(&mut self, now: Timestamp, number: u64, wire_bytes: usize, news: News) -> bool {
        let is_told = !self.plan.is_empty() || self.in_flight.unsettled() > 0;
        if self.plan.is_padding() || !is_told {
            return false;
        }
        let departure = Departure {
            at: now,
            wire_bytes,
            prompts: news.prompts,
            with_copies: self.copier.are_dense(),
            split: wire_bytes > usize::from(self.plan.datagram + self.framing.wire_overhead),
            whole: self.is_all_reliable(),
            again: self.plan.again.map(|again| again.number),
        };
        let messages = self.plan.messages.iter();
        let reliable = messages.filter(|planned| self.lanes.is_reliable(planned.lane));
        let items = reliable.map(|planned| Item {
            lane: planned.lane,
            fragment: 0,
            id: planned.id,
        });
        let fragment = self.plan.fragment.map(|fragment| Item {
            lane: fragment.lane,
            fragment: fragment.index,
            id: fragment.id,
        });
        self.in_flight
            .push(number, departure, items.chain(fragment))
    }

    /// All that is planned will wait to be acknowledged, and is known by its id if it comes twice: some peers
    /// hand a packet of fragments up once more when it is sent again (docs/wire/reliable.md, section 5).
    fn is_all_reliable(&self) -> bool {
        let mut messages = self.plan.messages.iter();
        messages.all(|planned| self.lanes.is_reliable(planned.lane))
    }

    /// Sets the timers that a packet with messages needs, and pays copies their budget for what is new.
    fn on_messages_sent(&mut self, now: Timestamp, plain_bytes: usize, news: News) {
        if let Some(after) = self.params.resend_after() {
            self.detector.look_by(now + after);
        }
        self.probes.on_messages_sent(now);
        if news.waited_for_long {
            self.datagrams.reach.forget();
        }
        if news.fresh {
            let payload_bytes = plain_bytes.saturating_sub(self.framing.wire_overhead.into());
            self.copier
                .on_fresh(now, plain_bytes, payload_bytes, &self.rtt, &self.params);
        }
        self.copier.arm_early_probe(now, &self.params);
    }

    fn spend_bulk(&mut self, now: Timestamp, wire_bytes: usize) {
        if self.plan.is_padding() {
            self.pacer.on_padding_sent(wire_bytes);
        } else if self.goes_by_bulk_rate() {
            let (params, framing) = (&self.params, &self.framing);
            self.pacer.on_bulk_sent(now, wire_bytes, params, framing);
        }
    }

    /// Marks what is planned as sent.
    fn commit(&mut self, now: Timestamp, number: u64) -> News {
        let mut news = self.commit_messages(now, number);
        if self.commit_fragment(number) {
            (news.fresh, news.prompts) = (true, true);
        }
        news
    }

    fn commit_messages(&mut self, now: Timestamp, number: u64) -> News {
        let mut news = News::default();
        for planned in &self.plan.messages {
            match self.lanes.queue_mut(planned.lane) {
                LaneQueue::Reliable(outbox) => {
                    let Some(entry) = outbox.get(planned.id) else {
                        continue;
                    };
                    match (entry.sends, entry.in_flight) {
                        (0, _) => {
                            news.fresh = true;
                            self.counters.messages_sent_reliable += 1;
                        }
                        (_, 0) => {
                            news.prompts = true;
                            self.counters.messages_resent += 1;
                        }
                        _ => self.counters.messages_repeated += 1,
                    }
                    if planned.id == outbox.base() {
                        if IN_STEP.has_waited(entry, now) {
                            news.waited_for = news.waited_for.max(entry.sends);
                        }
                        news.waited_for_long |= TOO_LONG.has_waited(entry, now);
                    }
                    outbox.on_sent(planned.id, number);
                }
                LaneQueue::Unreliable(queue) => {
                    queue.pop();
                    news.prompts = true;
                    self.counters.messages_sent_unreliable += 1;
                }
            }
        }
        news.prompts |= news.fresh;
        news
    }

    /// Now and then one more packet has to follow: where the peer refuses messages, one without any; where losses come in
    /// turn, any, or what goes again in step with them would be lost each time.
    fn follow_up(&mut self, now: Timestamp, number: u64, has_messages: bool, news: News) {
        let asks = has_messages && self.is_stuck(now) && number.is_multiple_of(BARE_EVERY);
        if self.probes.take_out_of_step() || asks {
            self.acks.owe(now);
        }
        if news.waited_for > 0 && self.is_in_step(news.waited_for) && !self.goes_by_bulk_rate() {
            self.fall_out_of_step(now, number);
        }
    }

    /// What was lost goes again with the next packet as well; where nobody said so, and only a probe asks, any packet leaves
    /// between.
    fn fall_out_of_step(&mut self, now: Timestamp, number: u64) {
        self.in_flight.expire(number);
        self.mark_lost(number);
        if !self.lanes.outboxes().any(Outbox::has_lost) {
            self.acks.owe(now);
        }
    }

    /// Whether the oldest message, which went so often, may be in step with the path: one that loses every fourth packet
    /// loses it for ever, if it goes again each time that three later ones were acknowledged. The article's times are no
    /// losses until an answer had time to come.
    fn is_in_step(&self, times: u8) -> bool {
        let blind = self.params.resend_after().map_or(0, |after| {
            self.rtt.smoothed().as_millis() / after.as_millis().max(1)
        });
        u128::from(times) >= u128::from(IN_STEP.times) + blind
    }

    /// The oldest message of some lane went often and waits for long.
    pub(super) fn waits_long(&self, now: Timestamp) -> bool {
        let mut oldest = self.lanes.outboxes().filter_map(|outbox| outbox.entry(0));
        oldest.any(|entry| TOO_LONG.has_waited(entry, now))
    }

    fn commit_fragment(&mut self, number: u64) -> bool {
        let Some(fragment) = self.plan.fragment else {
            return false;
        };
        let Some(outbox) = self.lanes.outbox_mut(fragment.lane) else {
            return false;
        };
        let is_first = outbox.get(fragment.id).is_some_and(|it| it.sends == 0);
        self.counters.messages_sent_reliable += u64::from(is_first);
        let again = outbox.on_fragment_sent(fragment.id, fragment.index, number);
        self.counters.messages_resent += u64::from(again);
        true
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let (pacer, params) = (&self.pacer, &self.params);
        let slot = pacer.slot(params);
        let probe = self.probe_at().map(|at| at.max(slot));
        let early_probe = self.copier.early_probe_at();
        let early_probe = early_probe.map(|at| at.max(pacer.early_slot(params)));
        let due = self.due();
        let messages = due.messages.then_some(slot);
        let bulk_goes = due.bulk && self.bulk_held_by(due) != HeldBy::Answers;
        let bulk = bulk_goes.then(|| pacer.bulk_slot(slot, &self.arrivals, params));
        Deadline::earliest([
            Deadline::of(self.keep_alive_at(), Wake::KeepAlive),
            Deadline::of(self.acks.due(), Wake::Ack),
            Deadline::of(self.detector.look_at(), Wake::Resend),
            Deadline::of(probe, Wake::Resend),
            Deadline::of(early_probe, Wake::Resend),
            Deadline::of(messages, Wake::SendSlot),
            Deadline::of(bulk, Wake::SendSlot),
        ])
    }

    fn keep_alive_at(&self) -> Option<Timestamp> {
        let wanted = self.params.keep_alive.always || self.acks.is_waited_for();
        wanted.then(|| self.last_sent + self.params.keep_alive.interval)
    }

    fn due(&self) -> Due {
        self.lanes.due(&self.framing, self.outbox_min())
    }
}

/// Packets of bulk that need no answer: what peers hold back, and what leaves at once.
const UNANSWERED_MIN: f64 = 16.0;

/// Bulk that could be forgotten before its answer comes would be sent for ever: nobody would hear what became
/// of it. A quarter is left to messages.
const UNDER_WAY_MAX: f64 = REMEMBERED_MAX as f64 * 0.75;

/// Time that a peer is given for an answer, besides the round trips.
const ANSWER_MIN: Duration = Duration::from_millis(100);

/// Longer than most paths are away, and a third of what a peer has that takes nothing.
const STUCK_AFTER: Span = Span::from_millis(3_000);

/// Not 2: a path may lose every other datagram.
const BARE_EVERY: u64 = 3;
