//! What became of the packets that left: acknowledged, lost by gap, lost by time, or silent.

use super::*;

impl Sender {
    /// The peer says it received `number`; nothing happens if it said so before, or if no such packet
    /// was sent. Call [`Sender::on_ack_end`] after the last one.
    pub fn on_acked(&mut self, now: Timestamp, number: u64) {
        if number >= self.next_number {
            return;
        }
        if self.datagrams.on_probe_acked(now, number) {
            self.widen();
            self.counters.packets_acked += 1;
            self.largest_acked = self.largest_acked.max(Some(number));
            return;
        }
        let Some(sent) = self.in_flight.settle(number, Fate::Acked) else {
            // Forgotten, or never worth remembering; but those before it may now be overtaken.
            self.largest_acked = self.largest_acked.max(Some(number));
            return;
        };
        if matches!(sent.fate, Fate::Skipped | Fate::Acked) {
            return;
        }
        self.counters.packets_acked += 1;
        if sent.has_items() {
            self.progress_at = now;
        }
        self.pace.on_acked(now, usize::from(sent.wire_bytes));
        if sent.large {
            self.datagrams.on_large_acked(number);
        }
        if sent.fate == Fate::Lost {
            self.on_spurious(now);
        }
        if self.largest_acked.is_none_or(|largest| number > largest) {
            self.largest_acked = Some(number);
            // The peer's packet before this one did not know of it: it cannot have been there much
            // earlier. True of all that is acknowledged together, and most is said by the oldest.
            let took = now.since(sent.at);
            let least = took.saturating_sub(Duration::from_micros(self.heard_after.into()));
            self.least = self
                .least
                .max(u32::try_from(least.as_micros()).unwrap_or(u32::MAX));
            let least = Duration::from_micros(self.least.into());
            let sample = Sample { took, least };
            if !sent.fresh {
                self.rtt.on_bound(now, sample.took);
            } else if self.rtt.on_sample(now, sample) && self.heard_in_order {
                self.judge_path(now, sample);
            }
        }
        for item in self.in_flight.items(number) {
            if let Some(Queue::Reliable(outbox)) = self.lanes.get_mut(usize::from(item.lane)) {
                let is_news = outbox.on_acked(item.id, item.fragment);
                self.counters.messages_acked += u64::from(is_news);
            }
        }
        self.probes = 0;
        self.probe_from = now;
    }

    /// Who takes larger datagrams than the wire has is of our make, and takes more at once as well.
    fn widen(&mut self) {
        for queue in &mut self.lanes {
            if let Queue::Reliable(outbox) = queue {
                outbox.widen(self.params.wide_window);
            }
        }
    }

    fn judge_path(&mut self, now: Timestamp, sample: Sample) {
        let copies = if !self.copies_are_allowed() {
            Copies::Withdrawn
        } else if self.copy_load > 0.2 {
            Copies::Many
        } else {
            Copies::Few
        };
        let before = self.pace.mode();
        self.pace.on_rtt(now, sample, copies, &self.params);
        if copies == Copies::Many
            && before == Mode::Good
            && self.pace.mode() == Mode::Bad
            && let Some(governor) = &mut self.governor
        {
            governor.withdraw(now);
        }
    }

    /// All acknowledgements of one received packet were reported: finds what was lost.
    pub fn on_ack_end(&mut self, now: Timestamp) {
        self.detect_loss(now);
        for queue in &mut self.lanes {
            if let Queue::Reliable(outbox) = queue {
                outbox.release();
            }
        }
        self.forget(now);
    }

    /// Gives up packets that newer ones overtook: three newer acknowledged, or one and a while.
    pub(super) fn detect_loss(&mut self, now: Timestamp) {
        if let Some(after) = self.params.resend_after {
            self.expire(now, after);
            return;
        }
        self.loss_at = None;
        let Some(largest) = self.largest_acked else {
            return;
        };
        let patience = self.rtt.smoothed() + self.rtt.variation().max(self.rtt.smoothed() / 8);
        // A path that reorders is given more time, and the count of newer packets is not trusted.
        let patience = patience + self.rtt.variation() * self.reordering.into();
        let mut settled = true;
        for number in self.settled.max(self.in_flight.base())..largest {
            let Some(sent) = self.in_flight.get_mut(number) else {
                break;
            };
            if sent.fate == Fate::Unknown {
                let late = sent.at + patience;
                let overtaken = self.reordering == 0 && number + GAP <= largest;
                if overtaken || late <= now {
                    self.on_lost(now, number);
                } else {
                    settled = false;
                    self.loss_at = earlier(self.loss_at, late);
                }
            }
            if settled {
                self.settled = number + 1;
            }
        }
        self.count_outcomes(now);
    }

    /// The article's way: messages are due again some time after they were sent, acknowledgements or
    /// not (docs/wire/gaffer.md, section 5), and a packet is lost after a second (section 3).
    fn expire(&mut self, now: Timestamp, after: Duration) {
        self.loss_at = None;
        let mut settled = true;
        for number in self.settled.max(self.in_flight.base())..self.in_flight.end() {
            let Some(sent) = self.in_flight.get_mut(number) else {
                break;
            };
            let at = sent.at;
            if sent.fate == Fate::Unknown {
                if at + ARTICLE_LOST <= now {
                    self.on_lost(now, number);
                } else {
                    settled = false;
                    let again = at + after;
                    if !sent.expired && again <= now {
                        sent.expired = true;
                        self.give_back_items(number);
                    }
                    let next = if again > now {
                        again
                    } else {
                        at + ARTICLE_LOST
                    };
                    self.loss_at = earlier(self.loss_at, next);
                }
            }
            if settled {
                self.settled = number + 1;
            }
        }
        self.count_outcomes(now);
    }

    /// Counts fates once they are final: a packet found lost may still turn out to be late.
    fn count_outcomes(&mut self, now: Timestamp) {
        let rtt = &self.rtt;
        let sure = rtt.smoothed() * 3 / 2 + 4 * rtt.variation() + Duration::from_millis(20);
        self.counted = self.counted.max(self.in_flight.base());
        while self.counted < self.settled {
            let Some(sent) = self.in_flight.get(self.counted) else {
                return;
            };
            let lost = sent.fate != Fate::Acked;
            if lost && now.since(sent.at) < sure {
                return;
            }
            if sent.fate != Fate::Skipped {
                let (sent_at, thick) = (sent.at, sent.thick);
                self.loss.on_outcome(lost);
                self.pace.on_outcome(lost);
                let grouping = self.loss.correlation();
                if self.governor.is_none() && lost {
                    let governor = Governor::new(now, self.loss.outcomes());
                    self.governor = Some(Box::new(governor));
                }
                if let Some(governor) = &mut self.governor {
                    governor.on_outcome(now, sent_at, lost, thick, grouping);
                }
            }
            self.counted += 1;
        }
    }

    /// A packet found lost was acknowledged after all: it was overtaken.
    fn on_spurious(&mut self, now: Timestamp) {
        if now.since(self.reordered_at) > self.rtt.smoothed() {
            self.reordering = (self.reordering + 1).min(4);
            self.reordered_at = now;
        }
        self.counters.packets_lost = self.counters.packets_lost.saturating_sub(1);
    }

    fn on_lost(&mut self, now: Timestamp, number: u64) {
        let Some(sent) = self.in_flight.settle(number, Fate::Lost) else {
            return;
        };
        self.counters.packets_lost += 1;
        self.pace.on_lost();
        if sent.large {
            self.datagrams.on_large_lost(now, number);
        }
        if sent.has_items() && !sent.expired {
            self.give_back_items(number);
        }
    }

    /// What a packet carried is under way in one packet less.
    fn give_back_items(&mut self, number: u64) {
        for item in self.in_flight.items(number) {
            if let Some(Queue::Reliable(outbox)) = self.lanes.get_mut(usize::from(item.lane)) {
                outbox.on_lost(item.id, item.fragment);
            }
        }
    }

    /// Nothing was heard of the last packet with messages for this long: ask again. While packets go
    /// on leaving, the oldest of them that none newer overtook is given twice as long. Each probe
    /// without an answer waits longer, but a peer that is heard meanwhile is no dead path: it holds
    /// its acknowledgements back until something that it misses arrives.
    pub(super) fn probe_at(&self) -> Option<Timestamp> {
        if self.in_flight.unsettled() == 0 || self.params.resend_after.is_some() {
            return None;
        }
        let rtt = &self.rtt;
        let wait = rtt.smoothed() + (4 * rtt.variation()).max(Duration::from_millis(10));
        // A storm that is over leaves an estimate that only a sample can mend, and a sender that waits
        // for it takes none.
        let wait = wait.min(8 * rtt.min() + PROBE_WAIT_MAX);
        // Its late acknowledgements make the round trip look long: the least of them says more.
        let (longest, patience) = if self.heard.last() > self.probed_at && rtt.is_known() {
            (2, 4 * rtt.min() + Duration::from_millis(200))
        } else {
            (6, Duration::MAX)
        };
        let backed_off = wait + wait / 2 * self.probes.min(longest).into();
        let wait = backed_off.min(wait.max(PROBE_EVERY_MAX));
        let next = self.largest_acked.map_or(0, |largest| largest + 1);
        let oldest = self.in_flight.first_open(next).map(|sent| sent.at);
        let oldest = oldest.map(|at| at.max(self.probed_at) + (2 * wait).min(patience));
        let last = self.probe_from + wait;
        Some(oldest.map_or(last, |oldest| oldest.min(last)))
    }

    /// Keeps what acknowledgements may still speak of, and no more than [`REMEMBERED_MAX`].
    pub(super) fn forget(&mut self, now: Timestamp) {
        let recent = 3 * self.rtt.smoothed() + Duration::from_secs(1);
        while let Some(oldest) = self.in_flight.front() {
            let number = self.in_flight.base();
            let is_open = oldest.fate == Fate::Unknown;
            let most = if is_open || number >= self.counted {
                REMEMBERED_MAX
            } else if now.since(oldest.at) > recent {
                0
            } else {
                REMEMBERED
            };
            if self.in_flight.len() <= most {
                return;
            }
            if is_open {
                self.on_lost(now, number);
            }
            self.in_flight.pop();
        }
    }
}

fn earlier(a: Option<Timestamp>, b: Timestamp) -> Option<Timestamp> {
    Some(a.map_or(b, |a| a.min(b)))
}

/// The first probe waits no longer than this and some of the shortest round trips: peers that wait for
/// a gap to close do so for ten seconds, and each probe may be lost.
const PROBE_WAIT_MAX: Duration = Duration::from_millis(500);

/// Nor are probes further apart than this for want of an answer: a packet a second disturbs no path.
const PROBE_EVERY_MAX: Duration = Duration::from_secs(1);

/// The article gives a packet up after this long; later acknowledgements are the exception.
const ARTICLE_LOST: Duration = Duration::from_secs(1);

/// A packet is lost when one this much newer was acknowledged.
const GAP: u64 = 3;

/// Acknowledgements reach 32 packets back; twice that many are remembered after their fate is
/// known, so that a late one is recognised.
const REMEMBERED: usize = 64;

/// Packets under way at most, twice as many as two tidegates have messages. Older ones count as lost.
const REMEMBERED_MAX: usize = 8192;
