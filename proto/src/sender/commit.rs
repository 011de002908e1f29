//! What the leaving of a packet changes.

use super::patience::{IN_STEP, TOO_LONG};
use super::*;

/// What a packet brings.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Something reliable for the first time.
    fresh: bool,
    /// Something that the peer lacks, so that it acknowledges soon. A path that loses much carries
    /// little but what was lost: who took the time of new messages only would be blind there.
    prompts: bool,
    /// How often the oldest message went, if others have waited for it as long as if it were lost in step with the path;
    /// else 0.
    waited_for: u8,
    /// Others have waited for that as long as if the path took nothing of its length.
    waited_for_long: bool,
}

impl Sender {
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
        self.spend_bulk(now, number, wire_bytes);
        self.acks.on_sent();
        self.follow_up(now, number, has_messages, news);
        self.last_sent = now;
        self.next_number = number + 1;
        self.counters.packets_sent += 1;
        self.forget(now);
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

    fn commit_fragment(&mut self, number: u64) -> bool {
        let Some(fragment) = self.plan.fragment else {
            return false;
        };
        let Some(outbox) = self.lanes.outbox_mut(fragment.lane) else {
            return false;
        };
        let is_first = outbox.get(fragment.id).is_some_and(|it| it.sends == 0);
        self.counters.messages_sent_reliable += u64::from(is_first);
        let twice = self.params.redundancy && self.pacer.pace().spares_repairs();
        let again = outbox.on_fragment_sent(fragment.id, fragment.index, number, twice);
        self.counters.messages_resent += u64::from(again);
        true
    }

    /// Remembers the planned packet until its fate is known; whether it carries reliable messages. What an idle
    /// peer's keep-alives could tell is not worth the memory, and what became of padding is no sign of
    /// the path's rate.
    fn remember(&mut self, now: Timestamp, number: u64, wire_bytes: usize, news: News) -> bool {
        let is_told = !self.plan.is_empty() || self.in_flight.unsettled() > 0;
        if self.plan.padding.is_some() || !is_told {
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

    fn spend_bulk(&mut self, now: Timestamp, number: u64, wire_bytes: usize) {
        if self.plan.padding.is_some() {
            self.pacer.on_padding_sent(wire_bytes);
        } else if self.goes_by_bulk_rate() {
            let (params, framing) = (&self.params, &self.framing);
            self.pacer
                .on_bulk_sent(now, number, wire_bytes, params, framing);
        }
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
}

/// Not 2: a path may lose every other datagram.
const BARE_EVERY: u64 = 3;
