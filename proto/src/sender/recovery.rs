//! Loss recovery: what follows when a packet is acknowledged, is found lost, or is not heard of.

use super::in_flight::Sent;
use super::*;
use crate::time::Span;

impl Sender {
    /// The peer says it received `number`: [`Hearing::acked`].
    pub(super) fn on_acked(&mut self, now: Timestamp, number: u64) {
        if number >= self.next_number {
            return;
        }
        if self.datagrams.on_probe_acked(now, number) {
            self.widen();
            self.counters.packets_acked += 1;
            self.overtake(number);
            return;
        }
        let first = number;
        let number = self.settle_first(first);
        let Some(sent) = self.in_flight.settle(number, Fate::Acked) else {
            // Forgotten, or never worth remembering; but those before it may now be overtaken.
            self.overtake(number);
            return;
        };
        if matches!(sent.fate, Fate::Skipped | Fate::Acked) {
            return;
        }
        self.on_arrived(now, number, &sent);
        if self.overtake(number) {
            self.on_newest(now, first, &sent);
        }
        for item in self.in_flight.items(number) {
            if let Some(outbox) = self.lanes.outbox_mut(item.lane) {
                let is_news = outbox.on_acked(item.id, item.fragment);
                self.counters.messages_acked += u64::from(is_news);
            }
        }
        self.probes.on_progress(now);
    }

    /// Packet `number` is acknowledged, before all that left before it; whether it is the newest of those.
    fn overtake(&mut self, number: u64) -> bool {
        self.in_flight.overtake(number);
        self.detector.on_acked(number)
    }

    /// A packet got there, before or after it was given up.
    fn on_arrived(&mut self, now: Timestamp, number: u64, sent: &Sent) {
        self.counters.packets_acked += 1;
        if sent.has_items() {
            self.progress_at = now;
        }
        self.refusal.on_acked(sent.has_items());
        if sent.fate != Fate::Early {
            self.pacer
                .pace_mut(now)
                .on_acked(now, sent.at, usize::from(sent.wire_bytes));
        }
        if sent.large {
            self.datagrams.on_large_acked(number);
        }
        if !sent.split {
            self.datagrams.reach.on_acked(sent.wire_bytes);
        }
        if sent.fate == Fate::Lost {
            self.counters.packets_lost = self.counters.packets_lost.saturating_sub(1);
            // Of a packet that went again, it is not known which sending arrived.
            if sent.repeats == 0 {
                self.detector.on_late(now.since(sent.at), &self.rtt);
            }
        }
    }

    /// The newest packet that is acknowledged, with the number of `first`, tells how long an answer takes, unless that
    /// came sooner than any can: then it is one to the packet as it went before. While nobody knows how soon that is, it
    /// is taken for one to the packet as it went first: too long an estimate is soon corrected, too short a one is not.
    fn on_newest(&mut self, now: Timestamp, first: u64, sent: &Sent) {
        let mut left_at = sent.at;
        if sent.repeats > 0 && self.rtt.min().is_zero() {
            let Some(first) = self.in_flight.get(first) else {
                return;
            };
            left_at = first.at;
        }
        let sample = self.arrivals.sample(now.span_since(left_at));
        if sent.repeats > 0 && sample.took < Span::from(self.rtt.min()) {
            return;
        }
        if !sent.prompts {
            self.rtt.on_bound(now, sample.took);
        } else if self.rtt.on_sample(now, sample) && self.arrivals.are_acks_timely() {
            self.judge_path(now, sample);
        }
    }

    /// The peer is there from now on, and perhaps was not before: what left until now goes again at once, and as
    /// it says nothing of the path, that is as yet untried.
    pub fn start_over(&mut self, now: Timestamp) {
        for number in self.in_flight.base()..self.in_flight.end() {
            self.in_flight.disregard(number);
            self.mark_lost(number);
        }
        self.detector.begin_at(self.next_number);
        self.probes = Probes::new(now);
        self.datagrams = Datagrams::new(&self.params.extensions);
        self.pacer.start_over(now, &self.params);
    }

    /// The peer took a datagram that is longer than those of others.
    pub fn is_peer_tidegate(&self) -> bool {
        self.datagrams.is_peer_tidegate()
    }

    /// A peer that takes larger datagrams than the wire has runs tidegate, and takes more at once as well.
    fn widen(&mut self) {
        let datagram = self.datagram();
        for outbox in self.lanes.outboxes_mut() {
            outbox.widen(self.params.extensions.wide_window, datagram);
        }
    }

    fn judge_path(&mut self, now: Timestamp, sample: Sample) {
        let copies = self.copier.share();
        self.pacer
            .pace_mut(now)
            .on_rtt(now, sample, copies, &self.params);
        if self.pacer.pace().shows_queue() {
            self.copier.on_queue(now, self.rtt.smoothed());
        }
    }

    /// Gives up what is lost, and counts what is final.
    pub(super) fn detect_loss(&mut self, now: Timestamp) {
        let after = self.params.resend_after();
        let mut look = self.detector.look(now, &self.in_flight, &self.rtt, after);
        while let Some(finding) = self.detector.find(&mut look, &self.in_flight) {
            match finding {
                Finding::Lost(number) => self.on_lost(now, number),
                Finding::DueAgain(number) => {
                    self.in_flight.expire(number);
                    self.mark_lost(number);
                }
            }
        }
        let detector = &mut self.detector;
        while let Some(outcome) = detector.next_outcome(now, &self.in_flight, &self.rtt) {
            self.copier.on_outcome(now, outcome);
            self.pacer.pace_mut(now).on_outcome(outcome);
        }
    }

    fn on_lost(&mut self, now: Timestamp, number: u64) {
        let Some(sent) = self.in_flight.settle(number, Fate::Lost) else {
            return;
        };
        self.counters.packets_lost += 1;
        self.arrivals.on_lost();
        let follows = self.in_flight.follows_a_loss(number);
        self.pacer
            .pace_mut(now)
            .on_lost(number, &sent, follows, &self.params);
        if sent.large {
            self.datagrams.on_large_lost(now, number);
        }
        if !sent.split && self.in_flight.is_beside_acked(number) {
            self.datagrams.reach.on_lost(sent.wire_bytes);
        }
        // A packet of several datagrams is easily lost, so it says nothing of refusal.
        if sent.has_items() && !sent.split {
            self.refusal.on_lost();
        }
        if sent.has_items() && !sent.expired {
            self.mark_lost(number);
        }
    }

    /// What a packet carried is under way in one packet less.
    pub(super) fn mark_lost(&mut self, number: u64) {
        for item in self.in_flight.items(number) {
            if let Some(outbox) = self.lanes.outbox_mut(item.lane) {
                outbox.on_lost(item.id, item.fragment);
            }
        }
    }

    /// When a probe is due, while something is under way of which nothing is heard.
    pub(super) fn probe_at(&self) -> Option<Timestamp> {
        let awaits = self.awaits_answer();
        awaits.then(|| {
            self.probes
                .due(&self.rtt, self.arrivals.last(), self.oldest_open())
        })
    }

    pub(super) fn is_probe_due(&self, now: Timestamp) -> bool {
        self.awaits_answer()
            && !self.probes.are_early(now, self.oldest_open())
            && self.probe_at().is_some_and(|at| at <= now)
    }

    fn awaits_answer(&self) -> bool {
        self.in_flight.unsettled() > 0 && self.params.resend_after().is_none()
    }

    /// When the oldest packet left that none newer overtook, and of which nothing is heard.
    fn oldest_open(&self) -> Option<Timestamp> {
        let oldest = self.in_flight.first_open();
        oldest.map(|sent| sent.at)
    }

    /// No acknowledgement of a number below this changes anything.
    pub fn remembered_from(&self) -> u64 {
        let reach = self.next_number.saturating_sub(REMEMBERED_MAX);
        match self.in_flight.front() {
            Some(_) => self.in_flight.base().max(reach),
            None => self.next_number,
        }
    }

    /// Keeps what acknowledgements may still speak of, and nothing [`REMEMBERED_MAX`] numbers back. Numbers
    /// count, not packets: what leaves while nothing is under way is not filed, and a peer that left the
    /// oldest open could otherwise have the next that is filed be preceded by any number of skipped ones.
    pub(super) fn forget(&mut self, now: Timestamp) {
        let [smoothed, ..] = self.rtt.spans();
        let recent = now - (smoothed * 3 + RECENT);
        while let Some(oldest) = self.in_flight.front() {
            let number = self.in_flight.base();
            // A packet that went again is acknowledged under its first number.
            let last = self.in_flight.last_as(number);
            let is_open = oldest.fate == Fate::Unknown || self.in_flight.is_unsettled(last);
            // Given up by the clock, and not because others were heard of: on a long path all are.
            let may_come = self.params.resend_after().is_some()
                && oldest.fate == Fate::Lost
                && number + REMEMBERED > self.detector.acked();
            let most = if is_open || may_come || !self.detector.has_counted(number) {
                REMEMBERED_MAX
            } else if oldest.at < recent {
                0
            } else {
                REMEMBERED
            };
            if self.next_number - number <= most {
                return;
            }
            if oldest.fate == Fate::Unknown {
                self.on_lost(now, number);
            }
            self.in_flight.pop();
        }
    }
}

/// What left by then, three round trips ago, is not spoken of any more.
const RECENT: Span = Span::from_millis(1_000);

/// Acknowledgements reach 32 packets back; twice that many are remembered after their fate is
/// known, so that a late one is recognised.
const REMEMBERED: u64 = 64;

/// Packets under way at most, twice as many as two tidegates have messages. Older ones count as lost.
pub(super) const REMEMBERED_MAX: u64 = 16384;
