//! Whether there is enough for a packet to leave: tokens, which the rates in force bring back, and which each
//! packet takes. Messages are paid for in packets and bulk in bytes, where it has a rate of its own.

use std::mem;
use std::time::Duration;

use crate::bucket::Bucket;
use crate::time::{Span, Timestamp};

use super::arrivals::Arrivals;
use super::framing::Framing;
use super::pace::Pace;
use super::params::Params;

/// The tokens of one session, and the rates that they come back at.
#[derive(Debug)]
pub(super) struct Pacer {
    pace: Pace,
    packets: Bucket,
    bulk: Bucket,
    /// Bytes of a packet of bulk: of the last one, as a message beyond a datagram makes a large one, but no less
    /// than a datagram.
    packet_bytes: u16,
    pairing: Pairing,
}

impl Pacer {
    /// As much as may leave after a pause.
    pub(super) fn new(now: Timestamp, params: &Params, framing: &Framing) -> Self {
        Self {
            pace: Pace::new(now, params),
            packets: Bucket::new(now, params.packets.burst),
            bulk: Bucket::new(now, params.bulk.window),
            packet_bytes: framing.datagram,
            pairing: Pairing::default(),
        }
    }

    /// The path is as yet untried. How large bulk is, is known.
    pub(super) fn start_over(&mut self, now: Timestamp, params: &Params) {
        self.pace = Pace::new(now, params);
        self.packets = Bucket::new(now, params.packets.burst);
        self.bulk = Bucket::new(now, params.bulk.window);
    }

    /// The rates.
    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// The rates, to be told what may change them: after [`Pacer::refill_debts`] of this time.
    pub(super) fn pace_mut(&mut self, now: Timestamp) -> &mut Pace {
        debug_assert!(
            !self.has_debts() || self.packets.filled_at() >= now,
            "the time before a change would count at the rate after it"
        );
        &mut self.pace
    }

    /// A message was queued, which changes no rate by itself. `is_full`: there is no room for another.
    pub(super) fn on_pushed(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        self.pace.on_pushed(now, bytes, is_full);
    }

    fn has_debts(&self) -> bool {
        self.packets.tokens() < 1.0 || self.bulk.tokens() < 1.0
    }

    /// What waits for a token gets those of the time until now at the rates so far: to be called before anything
    /// changes these.
    pub(super) fn refill_debts(&mut self, now: Timestamp, arrivals: &Arrivals, params: &Params) {
        if self.has_debts() {
            self.refill(now, arrivals, params);
        }
    }

    /// Time passed, or none since this was last called.
    pub(super) fn refill(&mut self, now: Timestamp, arrivals: &Arrivals, params: &Params) {
        if self.packets.filled_at() == now {
            return;
        }
        self.pace.update(now, params);
        let rate = self.pace.packet_rate(params);
        self.packets.fill(now, rate, params.packets.burst);
        if let Some(rate) = self.bulk_rate(arrivals, params) {
            // What four milliseconds bring: a timer is not more exact than that. No more than thirty
            // packets, though, or what two milliseconds bring: what is faster than that has
            // acknowledgements to wake for, but what was not spent while others had the processor
            // would be lost.
            let at_once = (rate * 0.002).clamp(BURST_MAX, FAST_BURST_MAX);
            let limit = BURST_MIN.max((rate * 0.004).min(at_once));
            // In a pause more gathers, and is left to what ends it.
            let window = if self.pace.is_bulk_active() {
                self.bulk.tokens()
            } else {
                self.pace.bulk_window(params)
            };
            self.bulk.fill(now, rate, limit.max(window));
        }
    }

    /// Bytes a second for bulk: what the path is thought to carry, as far as acknowledgements reach. `None` when
    /// it goes by the packet rate.
    fn bulk_rate(&self, arrivals: &Arrivals, params: &Params) -> Option<f64> {
        Some(self.pace.bulk_rate(params)?.min(self.reach(arrivals)))
    }

    /// Bulk does not go by the packet rate.
    pub(super) fn has_bulk_rate(&self, params: &Params) -> bool {
        self.pace.bulk_rate(params).is_some()
    }

    /// However fast the path, no more packets may pass between two of the peer than it acknowledges. In bytes
    /// a second.
    fn reach(&self, arrivals: &Arrivals) -> f64 {
        let rhythm = arrivals.rhythm().max(HEARD_MIN).as_secs();
        arrivals.reach() * f64::from(self.packet_bytes) / rhythm
    }

    /// The reach of acknowledgements holds bulk back, and not the path's rate.
    pub(super) fn is_bulk_beyond_reach(&self, arrivals: &Arrivals, params: &Params) -> bool {
        let rate = self.pace.bulk_rate(params);
        rate.is_some_and(|rate| rate > self.reach(arrivals))
    }

    /// Packets of bulk that leave in this time.
    pub(super) fn bulk_packets(
        &self,
        span: Duration,
        arrivals: &Arrivals,
        params: &Params,
    ) -> Option<f64> {
        let rate = self.bulk_rate(arrivals, params)?;
        Some(rate * span.as_secs_f64() / f64::from(self.packet_bytes))
    }

    /// Packets that may follow before the peer acknowledges what leaves now: what leaves between two packets of
    /// the peer, of which one may be lost.
    pub(super) fn ahead_of_acks(&self, arrivals: &Arrivals, params: &Params) -> u64 {
        let rate = self.bulk_rate(arrivals, params).unwrap_or(0.0) / f64::from(self.packet_bytes);
        (2.0 * rate * arrivals.rhythm().as_secs()).ceil() as u64
    }

    /// A packet may leave.
    pub(super) fn has_token(&self) -> bool {
        self.packets.tokens() >= 1.0
    }

    /// One may leave for the sake of its copies, and leave what is new its tokens.
    pub(super) fn has_early_token(&self, params: &Params) -> bool {
        self.packets.tokens() >= early_tokens(params)
    }

    /// Bulk may leave, as far as its rate is concerned.
    pub(super) fn has_bulk_token(&self, params: &Params) -> bool {
        let bucket = match self.has_bulk_rate(params) {
            true => &self.bulk,
            false => &self.packets,
        };
        bucket.tokens() >= 1.0
    }

    /// When there is a token for a packet.
    pub(super) fn slot(&self, params: &Params) -> Timestamp {
        self.packets.when(1.0, self.pace.packet_rate(params))
    }

    /// When there are the tokens for a packet that leaves for the sake of its copies.
    pub(super) fn early_slot(&self, params: &Params) -> Timestamp {
        let rate = self.pace.packet_rate(params);
        self.packets.when(early_tokens(params), rate)
    }

    /// When there is a token for bulk, which without a rate of its own takes the `slot` of packets.
    pub(super) fn bulk_slot(
        &self,
        slot: Timestamp,
        arrivals: &Arrivals,
        params: &Params,
    ) -> Timestamp {
        let rate = self.bulk_rate(arrivals, params);
        rate.map_or(slot, |rate| self.bulk.when(1.0, rate))
    }

    /// A packet leaves by the packet rate.
    pub(super) fn spend_packet(&mut self) {
        self.packets.spend(1.0);
    }

    /// Padding left, which is paid for as bulk and is none.
    pub(super) fn on_padding_sent(&mut self, wire_bytes: usize) {
        self.bulk.spend(wire_bytes as f64);
    }

    /// A packet of bulk left by the bulk rate.
    pub(super) fn on_bulk_sent(
        &mut self,
        now: Timestamp,
        number: u64,
        wire_bytes: usize,
        params: &Params,
        framing: &Framing,
    ) {
        self.packet_bytes = wire_bytes.clamp(framing.datagram.into(), u16::MAX.into()) as u16;
        let due = self.pairing.due(wire_bytes, self.pace.wants_pairs());
        self.bulk.spend(due as f64);
        // Probes leave whatever is owed. Those of an outage are not paid for with a silence after it: some seconds are.
        let owed_max = due as f64 + OWED_SECS * params.bulk.min;
        self.bulk.forgive_beyond(owed_max);
        self.pace.on_bulk_sent(now, number, wire_bytes, params);
    }
}

/// What is owed beside a packet is paid in so many seconds at the least rate.
const OWED_SECS: f64 = 2.0;

/// Makes packets of bulk leave two at a time: the second pays for the first.
#[derive(Clone, Copy, Debug, Default)]
struct Pairing {
    /// Bytes of a first one whose second is still to leave.
    owed: u16,
    /// Pairs since a packet that left alone.
    pairs: u8,
}

impl Pairing {
    /// Bytes to be paid for, when a packet of so many leaves.
    fn due(&mut self, bytes: usize, wants_pairs: bool) -> usize {
        let owed = usize::from(mem::take(&mut self.owed));
        if owed > 0 || !wants_pairs {
            return owed + bytes;
        }
        if self.pairs == PAIRS_IN_A_ROW {
            self.pairs = 0;
            return bytes;
        }
        self.pairs += 1;
        self.owed = bytes.min(u16::MAX.into()) as u16;
        0
    }
}

/// Then one packet leaves alone. On a path that loses every fourth, always a first one would be lost, or always a second;
/// of seven packets each has its turn, unless that is the number in which they are lost.
const PAIRS_IN_A_ROW: u8 = 3;

fn early_tokens(params: &Params) -> f64 {
    1.0 + (params.packets.burst - 1.0) / 2.0
}

/// Bytes of bulk that may leave at once, however slow it is.
const BURST_MIN: f64 = 3_000.0;

/// Bytes that leave at once at most, up to 16 MB a second.
const BURST_MAX: f64 = 32_768.0;

/// Bytes that leave at once at most, however fast the path is.
const FAST_BURST_MAX: f64 = 262_144.0;

/// No time between two packets of the peer is known better: those of one turn have one time.
const HEARD_MIN: Span = Span::from_micros(10);
