//! When to send what: the outgoing half of a session with acknowledged, ordered messages.
//!
//! ```text
//!    push ──▶ outbox (per lane) ──▶ poll_packet ──▶ planned, payload ──▶ on_sent
//!                  ▲                    ▲                                  │
//!                  │ lost               │ token, ack owed, probe           ▼
//!                  └────────────────────────────── hear ◀──────────── in flight
//! ```
//!
//! Knows nothing of any wire: packets are numbered in 64 bits by the session, which maps them to
//! the wire and back; what a message costs comes in as a [`Framing`]. Contract: after any `push`,
//! `hear` or `on_*`, the owner calls `poll_packet` until it is false (each time it is true, one packet with
//! what is [`planned`](Sender::planned) leaves and is reported with `on_sent`) and then reads
//! `poll_timeout`. The reasons behind the policy are in docs/POLICY.md.
//!
//! [`Sender`] itself is this file and seven that follow a packet: `departure` (may one leave), `compose`
//! (with what), `repeat` (or one that was lost, as it was), `padding` (or one that carries nothing, to find out what
//! arrives), `commit` (what its leaving changes), `hearing` (what the peer says of it), `recovery` (what became of it).
//! They ask the others:
//!
//! | about | ask |
//! |---|---|
//! | what waits to go | `lanes`: an `outbox/` for each that is reliable, or `unreliable` |
//! | which memory is given back | `high_water` |
//! | how fast it may go | `pace/` says the rates, `pacer` keeps to them with a `bucket` each |
//! | what is worth sending twice | `copies/` |
//! | how long a datagram may be | `datagrams/` |
//! | what went, and is it lost | `in_flight`, `detector`; `probes` when nothing is heard |
//! | what the peer sends | `arrivals`, `ack_timer`; `cadence` is its mean interval |
//! | what a listener may set | `params` |
//! | words that sessions share | `framing`, `lane`, `plan` |

mod ack_timer;
mod arrivals;
mod cadence;
mod commit;
mod compose;
mod copies;
mod datagrams;
mod departure;
mod detector;
mod framing;
mod hearing;
mod high_water;
mod in_flight;
mod lane;
mod lanes;
mod outbox;
mod pace;
mod pacer;
mod padding;
mod params;
mod patience;
mod plan;
mod probes;
mod recovery;
mod refusal;
mod repeat;
mod room;
mod unreliable;

use std::sync::Arc;
use std::time::Duration;

use crate::mode::Mode;
use crate::ring::Split;
use crate::rtt::{Rtt, Sample};
use crate::session::{Channel, SendError};
use crate::stats::Stats;
use crate::time::{Deadline, Timestamp, Wake};

pub use ack_timer::{AWAITED_MESSAGES, LARGE_PACKET_BYTES, Worth};
pub use framing::Framing;
pub use hearing::{Heard, Hearing};
pub use lane::{Blocks, Form, Lane};
pub use params::{BulkRates, Extensions, OUTBOX_FAR, PacketRates, Params, PathLimits, Profile};
pub use plan::{Again, Fragment, LongFragment, Padding, Plan, Planned};

use ack_timer::AckTimer;
use arrivals::Arrivals;
use copies::Copier;
use datagrams::Datagrams;
use detector::{Detector, Finding};
use high_water::SHRINK_EVERY;
use in_flight::{Departure, Fate, InFlight, Item};
use lanes::{LaneQueue, Lanes};
use outbox::Outbox;
use pacer::Pacer;
use probes::Probes;
use refusal::Refusal;

/// The outgoing half of one session.
#[derive(Debug)]
pub struct Sender {
    params: Arc<Params>,
    framing: Framing,

    // What is to go, and what the next packet takes of it.
    lanes: Lanes,
    plan: Plan,
    copier: Copier,
    datagrams: Datagrams,

    // When it may go.
    pacer: Pacer,
    last_sent: Timestamp,

    // What went, and what became of it.
    /// One more than the last packet sent.
    next_number: u64,
    in_flight: InFlight,
    detector: Detector,
    probes: Probes,
    /// When a packet with reliable messages was last acknowledged.
    progress_at: Timestamp,
    refusal: Refusal,

    // The peer, and the path to it.
    arrivals: Arrivals,
    acks: AckTimer,
    rtt: Rtt,

    /// When memory that is not used any more goes back.
    shrink_at: Timestamp,
    counters: Counters,
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
        Self {
            framing,
            lanes: Lanes::new(lanes),
            plan: Plan::default(),
            copier: Copier::new(now),
            datagrams: Datagrams::new(&params.extensions),
            pacer: Pacer::new(now, &params, &framing),
            last_sent: now,
            next_number: 0,
            in_flight: InFlight::default(),
            detector: Detector::new(),
            probes: Probes::new(now),
            progress_at: now,
            refusal: Refusal::default(),
            arrivals: Arrivals::new(now),
            acks: AckTimer::new(),
            rtt: Rtt::new(now),
            shrink_at: now,
            counters: Counters::default(),
            params,
        }
    }

    /// Queues a message: above [`Params::inline_max`] as a block, where the lane has them. Nothing is
    /// queued when an error is returned.
    pub fn push(&mut self, now: Timestamp, lane: Channel, payload: &[u8]) -> Result<(), SendError> {
        let form = if payload.len() <= self.params.inline_max {
            Form::Inline
        } else {
            Form::Block
        };
        self.push_as(now, lane, payload, form)
    }

    /// Queues a message in this form. A message that no packet holds becomes a block where the lane
    /// has them. So does one that no datagram holds, once the peer is known to take blocks together: a
    /// packet in parts is lost with any of them and goes again with all, a block's fragments one by one.
    /// Nothing is queued when an error is returned.
    pub fn push_as(
        &mut self,
        now: Timestamp,
        lane: Channel,
        payload: &[u8],
        form: Form,
    ) -> Result<(), SendError> {
        if !self.lanes.has(lane) {
            return Err(SendError::NoSuchChannel);
        }
        let size = payload.len();
        let is_block = form == Form::Block || size > self.framing.message_max();
        let max = self.longest(lane, is_block);
        if size > max {
            return Err(SendError::TooLarge { size, max });
        }
        if self.is_full(lane) {
            return Err(SendError::Full);
        }
        let datagram = self.datagram();
        match self.lanes.queue_mut(lane) {
            LaneQueue::Reliable(outbox) => outbox.push(now, payload, is_block, datagram),
            LaneQueue::Unreliable(queue) => {
                self.counters.unreliable_dropped += queue.push(payload);
            }
        }
        self.counters.message_bytes_sent += size as u64;
        // The others are never bulk, and may be dropped.
        if self.lanes.is_reliable(lane) {
            let is_full = self.is_full(lane);
            self.pacer.on_pushed(now, size, is_full);
        }
        if self.pacer.pace().is_next_tick(now) {
            self.refill_debts(now);
            self.pacer.pace_mut(now).on_tick(now, &self.params);
        }
        Ok(())
    }

    /// Bytes of the longest message of this lane, as a block or in one packet.
    fn longest(&self, lane: Channel, is_block: bool) -> usize {
        let inline = self.framing.message_max();
        if !is_block {
            return inline;
        }
        let block = self.lanes.outbox(lane).and_then(Outbox::block_max);
        block.unwrap_or(inline.min(self.params.inline_max))
    }

    /// Whether every reliable lane would take another message of any legal size.
    pub fn has_room(&self) -> bool {
        self.lanes.outboxes().all(|outbox| self.fits(outbox))
    }

    /// Whether this lane takes no other message. An unreliable one lets go of an older one for it.
    fn is_full(&self, lane: Channel) -> bool {
        let outbox = self.lanes.outbox(lane);
        outbox.is_some_and(|outbox| !self.fits(outbox))
    }

    /// Whether there is room for another message.
    fn fits(&self, outbox: &Outbox) -> bool {
        // Most often it is far from full, and then nobody need ask how long the path is.
        outbox.has_room(self.outbox_min()) || outbox.has_room(self.outbox_max())
    }

    /// Bytes that may wait on a lane whatever the path. Where the room grows with the path, a short one needs less, and
    /// what is queued, sent and freed again within a processor's cache costs less.
    fn outbox_min(&self) -> usize {
        let most = self.params.outbox_bytes_max;
        match self.datagrams.is_peer_tidegate() {
            true => most / 2,
            false => most,
        }
    }

    /// Bytes that may wait on a lane. A path that is long and fast has more under way than most queues are
    /// meant to hold, and must not run dry while what was lost comes again.
    fn outbox_max(&self) -> usize {
        let most = self.params.outbox_bytes_max;
        if !self.datagrams.is_peer_tidegate() {
            return most;
        }
        let rate = self.pacer.pace().bulk_rate(&self.params).unwrap_or(0.0);
        let under_way = rate * self.rtt.min().as_secs_f64();
        ((UNDER_WAY * under_way) as usize).clamp(self.outbox_min(), OUTBOX_FAR * most)
    }

    /// Bytes of all messages, each charged with what one costs beside them.
    pub fn held(&self) -> usize {
        self.lanes.held()
    }

    /// Nothing will be sent any more: lets go of all messages. How many were not acknowledged is
    /// still known.
    pub fn release(&mut self) {
        self.lanes.release_all();
    }

    /// What the packet that `poll_packet` announced carries.
    pub fn planned(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of a planned message, in two pieces where the queue's ring wraps.
    pub fn payload(&self, message: Planned) -> Split<'_> {
        self.lanes.payload(message).unwrap_or_default()
    }

    /// Bytes of a planned fragment.
    pub fn fragment_payload(&self, fragment: Fragment) -> Split<'_> {
        self.lanes.fragment(fragment).unwrap_or_default()
    }

    /// How the block is cut of which this is planned, if its fragments are longer than the wire's own.
    pub fn long_fragment(&self, fragment: Fragment) -> Option<LongFragment> {
        self.lanes.outbox(fragment.lane)?.long_fragment(fragment.id)
    }

    /// We read long fragments, and say so to a tidegate.
    pub fn reads_long_fragments(&self) -> bool {
        self.params.extensions.long_fragment_overhead > 0
    }

    /// The peer reads them.
    pub fn are_long_fragments_read(&self) -> bool {
        self.datagrams.are_long_fragments_read()
    }

    /// Whether what is planned leaves under the wire's second cipher: the peer opens it, or is asked.
    pub fn uses_second_cipher(&self) -> bool {
        let is_question = self.plan.padding.is_some_and(|padding| padding.asks_cipher);
        is_question || self.datagrams.is_second_cipher_taken()
    }

    /// A packet from the peer was accepted: what it brought, and whether it is the one right after
    /// the newest before it.
    pub fn on_received(&mut self, now: Timestamp, worth: Worth, in_order: bool) {
        self.acks.on_received(now, worth, in_order);
    }

    /// So many packets arrived since ours last left that the next one should leave before more are read.
    pub fn is_ack_urgent(&self) -> bool {
        self.acks.is_urgent()
    }

    /// Lets an acknowledgement that is owed leave now: nothing will follow. True if one is owed.
    pub fn hurry_ack(&mut self, now: Timestamp) -> bool {
        self.acks.hurry(now)
    }

    /// A deadline passed. Poll for packets afterwards.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.detector.look_at().is_some_and(|at| at <= now) {
            self.refill_debts(now);
            self.detect_loss(now);
        }
    }

    /// Everything pushed was acknowledged, or sent if unreliable.
    pub fn is_drained(&self) -> bool {
        self.lanes.are_empty()
    }

    /// Since when reliable messages wait without any of them being acknowledged; `None` when none
    /// does. Acknowledgements of packets that carried nothing reliable are no progress: a peer that
    /// takes nothing still sends those.
    pub fn waits_since(&self) -> Option<Timestamp> {
        let oldest = self.oldest_unacked_since()?;
        Some(oldest.max(self.progress_at))
    }

    /// Packets that were acknowledged, whatever they carried.
    pub fn packets_acked(&self) -> u64 {
        self.counters.packets_acked
    }

    /// Since when the oldest message without acknowledgement waits.
    fn oldest_unacked_since(&self) -> Option<Timestamp> {
        let outboxes = self.lanes.outboxes();
        outboxes.filter_map(Outbox::oldest_pushed_at).min()
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
        let pace = self.pacer.pace();
        let [good, bad] = pace.changes();
        stats.mode_to_good = u64::from(good);
        stats.mode_to_bad = u64::from(bad);
        stats.in_bad_mode = pace.mode() == Mode::Bad;
        stats.loss = self.copier.loss().share();
        stats.rtt_latest = self.rtt.latest();
        let known = |span| {
            if self.rtt.is_known() {
                span
            } else {
                Duration::ZERO
            }
        };
        stats.rtt_min = self.rtt.min();
        // The article's begins at zero.
        let article = pace.article_rtt().map(|rtt| rtt.max(stats.rtt_min));
        stats.rtt = known(article.unwrap_or(self.rtt.path()));
        stats.rtt_variation = known(self.rtt.variation());
        stats.datagram_bytes = self.datagram() + self.framing.datagram_overhead;
        stats.second_cipher = self.datagrams.is_second_cipher_taken();
        let (mut messages, mut bytes) = (0, 0);
        for outbox in self.lanes.outboxes() {
            messages += outbox.unacked();
            bytes += outbox.held_bytes();
        }
        stats.outbox_messages = messages as u32;
        stats.outbox_bytes = bytes as u32;
    }
}

/// Round trips until a message that was lost twice has arrived, and what waited behind it may go.
const UNDER_WAY: f64 = 3.0;

#[cfg(test)]
mod tests;
