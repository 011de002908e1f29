//! When a packet may leave.

use super::lanes::Due;
use super::pace::HeldBy;
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
    pub(super) fn goes_by_bulk_rate(&self) -> bool {
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
    pub(super) fn is_stuck(&self, now: Timestamp) -> bool {
        let is_long_ago = |at: Timestamp| now.span_since(at) >= STUCK_AFTER;
        is_long_ago(self.progress_at) && self.waits_since().is_some_and(is_long_ago)
    }

    /// A peer that is there has answered after this time.
    pub(super) fn answer_time(&self) -> Duration {
        2 * self.rtt.smoothed() + 4 * self.rtt.variation() + ANSWER_MIN
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
        let wanted = self.params.keep_alive || self.acks.is_waited_for();
        wanted.then(|| self.last_sent + KEEP_ALIVE_AFTER)
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

/// Packets that brought nothing are acknowledged this long after anything was last sent, if there were at least two of them,
/// so that the peer's estimate of the path stays fresh. One may itself be such an acknowledgement: two ends would answer each
/// other for ever.
const KEEP_ALIVE_AFTER: Duration = Duration::from_millis(250);
