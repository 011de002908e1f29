//! When to send what: the outgoing half of a session with acknowledged, ordered messages.
//!
//! ```text
//!    push ──▶ outbox (per lane) ──▶ poll_packet ──▶ planned, payload ──▶ on_sent
//!                  ▲                    ▲                                  │
//!                  │ lost: again        │ token, ack owed, probe           ▼
//!                  └─────────────── on_ack_end ◀── on_acked ◀──────── in flight
//! ```
//!
//! Knows nothing of any wire: packets are numbered in 64 bits by the session, which maps them to
//! the wire and back; what a message costs comes in as a [`Framing`]. Contract: after any `push` or
//! `on_*`, the owner calls `poll_packet` until it is false (each time it is true, one packet with
//! what is [`planned`](Sender::planned) leaves and is reported with `on_sent`) and then reads
//! `poll_timeout`. The reasons behind the policy are in docs/POLICY.md.

mod ack_timer;
mod block;
mod bucket;
mod in_flight;
mod outbox;
mod params;
mod unreliable;

use std::sync::Arc;
use std::time::Duration;

use crate::rtt::Rtt;
use crate::session::{Channel, SendError};
use crate::stats::Stats;
use crate::time::{Deadline, Timestamp, Wake};

pub use ack_timer::Received;
pub use params::{Framing, Lane, Params, Profile};

use ack_timer::AckTimer;
use block::Block;
use bucket::Bucket;
use in_flight::{Fate, InFlight, Item};
use outbox::Outbox;
use unreliable::Fleeting;

/// The outgoing half of one session.
#[derive(Debug)]
pub struct Sender {
    params: Arc<Params>,
    framing: Framing,
    lanes: Vec<Queue>,
    in_flight: InFlight,
    plan: Plan,
    tokens: Bucket,
    acks: AckTimer,
    rtt: Rtt,
    /// Newest own packet the peer acknowledged.
    largest_acked: Option<u64>,
    /// No packet below this can still be found lost.
    settled: u64,
    /// When the next packet turns old enough to be given up.
    loss_at: Option<Timestamp>,
    last_sent: Timestamp,
    /// Last packet with messages sent, or last progress of acknowledgements.
    probe_from: Timestamp,
    probes: u32,
    /// Packets with messages whose fate is unknown.
    unsettled: u32,
    counters: Counters,
}

#[derive(Debug)]
enum Queue {
    Reliable { outbox: Outbox, blocks: bool },
    Unreliable(Fleeting),
}

/// What goes into the packet that is due.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Messages by lane and id, both ascending. Ids of reliable lanes go on the wire; those of
    /// unreliable lanes are only handles for [`Sender::payload`].
    pub messages: Vec<Planned>,
    /// A block's fragment. Its lane has no messages in this packet.
    pub fragment: Option<Fragment>,
}

/// One message in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its lane.
    pub lane: Channel,
    /// Its id there.
    pub id: u16,
}

/// One piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its lane.
    pub lane: Channel,
    /// The block's message id.
    pub id: u16,
    /// Which piece.
    pub index: u16,
    /// Of how many.
    pub count: u16,
}

/// What an acknowledgement was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    /// The packet had not been acknowledged before.
    News,
    /// It had.
    Repeat,
    /// Such a packet was never sent, or so long ago that nobody remembers.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    packets_sent: u64,
    packets_acked: u64,
    packets_lost: u64,
    messages_sent_reliable: u64,
    messages_sent_unreliable: u64,
    messages_resent: u64,
    messages_repeated: u64,
    messages_acked: u64,
    message_bytes_sent: u64,
    unreliable_dropped: u64,
}

impl Sender {
    /// Nothing queued, nothing sent. At most 64 lanes.
    pub fn new(now: Timestamp, params: Arc<Params>, framing: Framing, lanes: &[Lane]) -> Self {
        let queue = |lane: &Lane| match *lane {
            Lane::Reliable { blocks } => Queue::Reliable {
                outbox: Outbox::default(),
                blocks,
            },
            Lane::Unreliable => Queue::Unreliable(Fleeting::default()),
        };
        Self {
            tokens: Bucket::new(now, params.burst),
            framing,
            lanes: lanes.iter().take(64).map(queue).collect(),
            in_flight: InFlight::default(),
            plan: Plan::default(),
            acks: AckTimer::default(),
            rtt: Rtt::new(now),
            largest_acked: None,
            settled: 0,
            loss_at: None,
            last_sent: now,
            probe_from: now,
            probes: 0,
            unsettled: 0,
            counters: Counters::default(),
            params,
        }
    }

    /// Queues a message. Nothing is queued when an error is returned.
    pub fn push(&mut self, now: Timestamp, lane: Channel, payload: &[u8]) -> Result<(), SendError> {
        let params = &self.params;
        let queue = self
            .lanes
            .get_mut(usize::from(lane))
            .ok_or(SendError::NoSuchChannel)?;
        let max = match queue {
            Queue::Reliable { blocks: true, .. } => params.block_max,
            Queue::Reliable { .. } | Queue::Unreliable(_) => params.inline_max,
        };
        if payload.len() > max {
            let size = payload.len();
            return Err(SendError::TooLarge { size, max });
        }
        match queue {
            Queue::Reliable { outbox, .. } => {
                let bytes = outbox.held_bytes() + payload.len();
                if outbox.len() >= params.outbox_messages_max || bytes > params.outbox_bytes_max {
                    return Err(SendError::Full);
                }
                outbox.push(now, payload, payload.len() > params.inline_max);
            }
            Queue::Unreliable(queue) => {
                let (messages, bytes) =
                    (params.unreliable_messages_max, params.unreliable_bytes_max);
                self.counters.unreliable_dropped += queue.push(payload, messages, bytes);
            }
        }
        self.counters.message_bytes_sent += payload.len() as u64;
        Ok(())
    }

    /// Whether every reliable lane would take another message of any legal size.
    pub fn has_room(&self) -> bool {
        self.lanes.iter().all(|queue| match queue {
            Queue::Reliable { outbox, blocks } => {
                let largest = if *blocks {
                    self.params.block_max
                } else {
                    self.params.inline_max
                };
                outbox.len() < self.params.outbox_messages_max
                    && outbox.held_bytes() + largest <= self.params.outbox_bytes_max
            }
            Queue::Unreliable(_) => true,
        })
    }

    /// Whether a packet may and should leave now; if so, what is in it stands in
    /// [`Sender::planned`] and the tokens for it are spent. An empty plan is an acknowledgement.
    pub fn poll_packet(&mut self, now: Timestamp) -> bool {
        self.tokens
            .fill(now, self.params.good_rate, self.params.burst);
        let due = self.has_due();
        let probe = self.probe_at().is_some_and(|at| at <= now);
        let acks = self.acks.is_due(now) || now >= self.last_sent + self.params.keep_alive;
        let token = self.tokens.tokens() >= 1.0;
        if !acks && !(token && (due || probe)) {
            return false;
        }
        self.plan.messages.clear();
        self.plan.fragment = None;
        if token {
            self.tokens.spend(1.0);
            self.compose(probe);
            if probe {
                self.probes += 1;
                self.probe_from = now;
            }
        }
        true
    }

    /// What the packet that `poll_packet` announced carries.
    pub fn planned(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of a planned message, in two pieces where the queue's ring wraps.
    pub fn payload(&self, message: Planned) -> (&[u8], &[u8]) {
        let payload = match self.lanes.get(usize::from(message.lane)) {
            Some(Queue::Reliable { outbox, .. }) => outbox.payload(message.id),
            Some(Queue::Unreliable(queue)) => queue.payload(message.id),
            None => None,
        };
        payload.unwrap_or_default()
    }

    /// Bytes of a planned fragment.
    pub fn fragment_payload(&self, fragment: Fragment) -> (&[u8], &[u8]) {
        let Some(Queue::Reliable { outbox, .. }) = self.lanes.get(usize::from(fragment.lane))
        else {
            return Default::default();
        };
        let Some(entry) = outbox.get(fragment.id) else {
            return Default::default();
        };
        let size = usize::from(self.framing.fragment);
        let from = usize::from(fragment.index) * size;
        let length = (entry.length as usize).saturating_sub(from).min(size);
        outbox.piece(entry, from, length)
    }

    /// The planned packet left under `number` (greater than any before) as `wire_bytes` bytes.
    pub fn on_sent(&mut self, now: Timestamp, number: u64, _wire_bytes: usize) {
        let mut fresh = self.plan.fragment.is_some();
        for planned in &self.plan.messages {
            match &mut self.lanes[usize::from(planned.lane)] {
                Queue::Reliable { outbox, .. } => {
                    let Some(entry) = outbox.get(planned.id) else {
                        continue;
                    };
                    match (entry.sends, entry.in_flight) {
                        (0, _) => {
                            fresh = true;
                            self.counters.messages_sent_reliable += 1;
                        }
                        (_, 0) => self.counters.messages_resent += 1,
                        _ => self.counters.messages_repeated += 1,
                    }
                    outbox.on_sent(planned.id, number);
                }
                Queue::Unreliable(queue) => {
                    queue.pop();
                    self.counters.messages_sent_unreliable += 1;
                }
            }
        }
        if let Some(fragment) = self.plan.fragment
            && let Queue::Reliable { outbox, .. } = &mut self.lanes[usize::from(fragment.lane)]
        {
            if outbox
                .get(fragment.id)
                .is_some_and(|entry| entry.sends == 0)
            {
                self.counters.messages_sent_reliable += 1;
            }
            outbox.on_sent(fragment.id, number);
            if let Some(block) = &mut outbox.block {
                block.on_sent(fragment.index);
            }
        }
        let lanes = &self.lanes;
        let messages =
            self.plan.messages.iter().filter(|planned| {
                matches!(lanes[usize::from(planned.lane)], Queue::Reliable { .. })
            });
        let items = messages.map(|planned| Item {
            lane: planned.lane,
            fragment: 0,
            id: planned.id,
        });
        let fragment = self.plan.fragment.map(|fragment| Item {
            lane: fragment.lane,
            fragment: fragment.index as u8,
            id: fragment.id,
        });
        self.in_flight
            .push(number, now, fresh, items.chain(fragment));
        if self
            .in_flight
            .get(number)
            .is_some_and(|sent| sent.has_items())
        {
            self.unsettled += 1;
            self.probe_from = now;
        }
        self.acks.on_sent();
        self.last_sent = now;
        self.counters.packets_sent += 1;
        self.forget();
    }

    /// The peer says it received `number`. Call [`Sender::on_ack_end`] after the last one.
    pub fn on_acked(&mut self, now: Timestamp, number: u64) -> Acked {
        let Some(sent) = self.in_flight.get_mut(number) else {
            return Acked::Unknown;
        };
        let was = sent.fate;
        match was {
            Fate::Skipped => return Acked::Unknown,
            Fate::Acked => return Acked::Repeat,
            Fate::Unknown | Fate::Lost => sent.fate = Fate::Acked,
        }
        let sent = *sent;
        self.counters.packets_acked += 1;
        if was == Fate::Unknown && sent.has_items() {
            self.unsettled -= 1;
        }
        if self.largest_acked.is_none_or(|largest| number > largest) {
            self.largest_acked = Some(number);
            if sent.fresh {
                self.rtt.on_sample(now, now.since(sent.at));
            }
        }
        for item in self.in_flight.items(number) {
            let Some(Queue::Reliable { outbox, .. }) = self.lanes.get_mut(usize::from(item.lane))
            else {
                continue;
            };
            if outbox.front_block().is_some_and(|(id, _)| id == item.id)
                && let Some(block) = &mut outbox.block
                && !block.on_acked(u16::from(item.fragment))
            {
                continue;
            }
            self.counters.messages_acked += u64::from(outbox.on_acked(item.id));
        }
        self.probes = 0;
        self.probe_from = now;
        Acked::News
    }

    /// All acknowledgements of one received packet were reported: finds what was lost.
    pub fn on_ack_end(&mut self, now: Timestamp) {
        self.detect_loss(now);
        for queue in &mut self.lanes {
            if let Queue::Reliable { outbox, .. } = queue {
                outbox.release();
            }
        }
        self.forget();
    }

    /// A packet from the peer was accepted: when does it need an acknowledgement.
    pub fn on_received(&mut self, now: Timestamp, what: Received, in_order: bool) {
        self.acks.on_received(now, what, in_order, &self.params);
    }

    /// So many packets came without one going back that the next should leave before more are read.
    pub fn is_ack_urgent(&self) -> bool {
        self.acks.is_urgent()
    }

    /// A deadline passed. Poll for packets afterwards.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.loss_at.is_some_and(|at| at <= now) {
            self.detect_loss(now);
        }
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let at = |at, why| Some(Deadline { at, why });
        let mut first = at(self.last_sent + self.params.keep_alive, Wake::KeepAlive);
        if let Some(due) = self.acks.due() {
            first = Deadline::earlier(first, at(due, Wake::Ack));
        }
        if let Some(loss) = self.loss_at {
            first = Deadline::earlier(first, at(loss, Wake::Resend));
        }
        let slot = self.tokens.when(1.0, self.params.good_rate);
        if let Some(probe) = self.probe_at() {
            first = Deadline::earlier(first, at(probe.max(slot), Wake::Resend));
        }
        if self.has_due() {
            first = Deadline::earlier(first, at(slot, Wake::SendSlot));
        }
        first
    }

    /// Everything pushed was acknowledged, or sent if unreliable.
    pub fn is_drained(&self) -> bool {
        self.lanes.iter().all(|queue| match queue {
            Queue::Reliable { outbox, .. } => outbox.is_empty(),
            Queue::Unreliable(queue) => queue.is_empty(),
        })
    }

    /// Since when the oldest message without acknowledgement waits.
    pub fn oldest_unacked_since(&self) -> Option<Timestamp> {
        let oldest = self.lanes.iter().filter_map(|queue| match queue {
            Queue::Reliable { outbox, .. } => outbox.oldest_pushed_at(),
            Queue::Unreliable(_) => None,
        });
        oldest.min()
    }

    /// Writes what the sender knows into a session's statistics.
    pub fn fill_stats(&self, stats: &mut Stats) {
        let counted = &self.counters;
        stats.packets_sent = counted.packets_sent;
        stats.packets_acked = counted.packets_acked;
        stats.packets_lost = counted.packets_lost;
        stats.messages_sent_reliable = counted.messages_sent_reliable;
        stats.messages_sent_unreliable = counted.messages_sent_unreliable;
        stats.messages_resent = counted.messages_resent;
        stats.messages_repeated = counted.messages_repeated;
        stats.messages_acked = counted.messages_acked;
        stats.message_bytes_sent = counted.message_bytes_sent;
        stats.unreliable_dropped = counted.unreliable_dropped;
        stats.rtt_latest = self.rtt.latest();
        stats.rtt = if self.rtt.is_known() {
            self.rtt.smoothed()
        } else {
            Duration::ZERO
        };
        stats.rtt_min = self.rtt.min();
        stats.rtt_variation = if self.rtt.is_known() {
            self.rtt.variation()
        } else {
            Duration::ZERO
        };
        let (mut messages, mut bytes) = (0, 0);
        for queue in &self.lanes {
            if let Queue::Reliable { outbox, .. } = queue {
                messages += outbox.len();
                bytes += outbox.held_bytes();
            }
        }
        stats.outbox_messages = messages as u32;
        stats.outbox_bytes = bytes as u32;
    }

    /// Something must go: never sent, or lost.
    fn has_due(&self) -> bool {
        self.lanes.iter().any(|queue| match queue {
            Queue::Reliable { outbox, .. } => match &outbox.block {
                Some(block) if outbox.front_block().is_some() => block.is_due(),
                _ => outbox.has_fresh() || outbox.has_lost(),
            },
            Queue::Unreliable(queue) => !queue.is_empty(),
        })
    }

    /// Nothing was heard of the last packets with messages for this long: ask again.
    fn probe_at(&self) -> Option<Timestamp> {
        if self.unsettled == 0 {
            return None;
        }
        let rtt = &self.rtt;
        let wait = rtt.smoothed() + (4 * rtt.variation()).max(Duration::from_millis(10));
        Some(self.probe_from + wait + wait / 2 * self.probes.min(6))
    }

    fn compose(&mut self, probe: bool) {
        let mut room = usize::from(self.framing.datagram - self.framing.packet_overhead);
        let framing = self.framing;
        for (lane, queue) in self.lanes.iter_mut().enumerate() {
            let lane = lane as Channel;
            match queue {
                Queue::Reliable { outbox, .. } => {
                    if let Some((id, length)) = outbox.front_block() {
                        compose_fragment(
                            &mut self.plan,
                            &framing,
                            &mut room,
                            lane,
                            outbox,
                            (id, length),
                            probe,
                        );
                        continue;
                    }
                    let mut head = usize::from(framing.lane_overhead);
                    let mut count = 0;
                    for index in 0..outbox.sendable() {
                        let Some(entry) = outbox.entry(index) else {
                            break;
                        };
                        if !(entry.is_due() || probe && !entry.acked) {
                            continue;
                        }
                        let need =
                            head + usize::from(framing.message_overhead) + entry.length as usize;
                        if need > room {
                            let alone = self.plan.messages.is_empty()
                                && need <= usize::from(framing.packet);
                            if !alone {
                                break;
                            }
                        }
                        room = room.saturating_sub(need);
                        head = 0;
                        let id = outbox.base().wrapping_add(index as u16);
                        self.plan.messages.push(Planned { lane, id });
                        count += 1;
                        if count == framing.messages_max || room == 0 {
                            break;
                        }
                    }
                }
                Queue::Unreliable(queue) => {
                    let mut head = usize::from(framing.lane_overhead);
                    for index in 0..usize::from(framing.messages_max) {
                        let Some(length) = queue.length(index) else {
                            break;
                        };
                        let need = head + usize::from(framing.message_overhead) + length;
                        let alone = self.plan.messages.is_empty() && self.plan.fragment.is_none();
                        if need > room && !(alone && need <= usize::from(framing.packet)) {
                            break;
                        }
                        room = room.saturating_sub(need);
                        head = 0;
                        let id = queue.base().wrapping_add(index as u16);
                        self.plan.messages.push(Planned { lane, id });
                    }
                }
            }
        }
    }

    /// Gives up packets that newer ones overtook: three newer acknowledged, or one and a while.
    fn detect_loss(&mut self, now: Timestamp) {
        self.loss_at = None;
        let Some(largest) = self.largest_acked else {
            return;
        };
        let patience = self.rtt.smoothed() + self.rtt.variation().max(self.rtt.smoothed() / 8);
        let mut settled = true;
        for number in self.settled.max(self.in_flight.base())..largest {
            let Some(sent) = self.in_flight.get_mut(number) else {
                break;
            };
            if sent.fate == Fate::Unknown {
                let late = sent.at + patience;
                if number + 3 <= largest || late <= now {
                    sent.fate = Fate::Lost;
                    let had_items = sent.has_items();
                    self.on_lost(number, had_items);
                } else {
                    settled = false;
                    self.loss_at = Some(self.loss_at.map_or(late, |at| at.min(late)));
                }
            }
            if settled {
                self.settled = number + 1;
            }
        }
    }

    fn on_lost(&mut self, number: u64, had_items: bool) {
        self.counters.packets_lost += 1;
        if !had_items {
            return;
        }
        self.unsettled -= 1;
        for item in self.in_flight.items(number) {
            if let Some(Queue::Reliable { outbox, .. }) = self.lanes.get_mut(usize::from(item.lane))
            {
                if outbox.front_block().is_some_and(|(id, _)| id == item.id)
                    && let Some(block) = &mut outbox.block
                {
                    block.on_lost(u16::from(item.fragment));
                }
                outbox.on_lost(item.id);
            }
        }
    }

    /// Keeps what acknowledgements may still speak of, and no more than [`REMEMBERED_MAX`].
    fn forget(&mut self) {
        while self.in_flight.len() > REMEMBERED_MAX
            || (self.in_flight.len() > REMEMBERED
                && self
                    .in_flight
                    .front()
                    .is_some_and(|sent| sent.fate != Fate::Unknown))
        {
            let number = self.in_flight.base();
            if let Some(sent) = self.in_flight.get_mut(number)
                && sent.fate == Fate::Unknown
            {
                sent.fate = Fate::Lost;
                let had_items = sent.has_items();
                self.on_lost(number, had_items);
            }
            self.in_flight.pop();
        }
    }
}

fn compose_fragment(
    plan: &mut Plan,
    framing: &Framing,
    room: &mut usize,
    lane: Channel,
    outbox: &mut Outbox,
    (id, length): (u16, u32),
    probe: bool,
) {
    if plan.fragment.is_some() {
        return;
    }
    let count = length.div_ceil(u32::from(framing.fragment)) as u16;
    let block = outbox
        .block
        .get_or_insert_with(|| Box::new(Block::new(count)));
    if probe && !block.is_due() {
        block.probe();
    }
    let Some(index) = block.next_due() else {
        return;
    };
    let size = (length as usize - usize::from(index) * usize::from(framing.fragment))
        .min(usize::from(framing.fragment));
    let need = usize::from(framing.fragment_overhead) + size;
    if need <= *room {
        *room -= need;
        plan.fragment = Some(Fragment {
            lane,
            id,
            index,
            count,
        });
    }
}

/// Acknowledgements reach 32 packets back; twice that many are remembered after their fate is
/// known, so that a late one is recognised.
const REMEMBERED: usize = 64;

/// Packets under way at most: a second at 4000 packets. Older ones count as lost.
const REMEMBERED_MAX: usize = 4096;

#[cfg(test)]
mod tests;
