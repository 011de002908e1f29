//! How likely is it that the peer still lacks a message, and what may be spent on saying it again.
//!
//! Losses are modelled as a chain of two states: a share `p` of packets is lost, and a packet right
//! after a lost one is lost with chance `q`. Both are measured. `q` near `p` is a lossy radio, `q`
//! far above it an outage now and then, where copies in neighbouring packets die together.

use std::time::Duration;

use crate::time::Timestamp;

use super::bucket::Bucket;
use super::params::Params;

/// Measured loss of the path from us to the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathLoss {
    lost: f32,
    /// Chance that the packet after a lost one is lost; meaningful once there were losses.
    again: f32,
    outcomes: u32,
    pairs: u32,
    last_was_lost: bool,
}

impl PathLoss {
    /// The final fate of the next packet in the order of sending.
    pub(super) fn on_outcome(&mut self, lost: bool) {
        let hit = f32::from(u8::from(lost));
        // Quick at first, then over about 128 packets: two seconds of a game.
        let gain = 1.0 / (self.outcomes.min(112) + 16) as f32;
        self.outcomes = self.outcomes.saturating_add(1);
        self.lost += gain * (hit - self.lost);
        if self.last_was_lost {
            let gain = 1.0 / (self.pairs.min(28) + 4) as f32;
            self.pairs = self.pairs.saturating_add(1);
            self.again += gain * (hit - self.again);
        }
        self.last_was_lost = lost;
    }

    /// Packets whose fate was counted.
    pub(super) fn outcomes(&self) -> u32 {
        self.outcomes
    }

    /// Share of packets lost.
    pub(super) fn share(&self) -> f32 {
        self.lost
    }

    /// How much of one packet's bad luck the next one shares, 0 to 1.
    pub(super) fn correlation(&self) -> f32 {
        // Few pairs say little: chance alone makes one in four losses a pair at 20 %.
        if self.lost >= 0.95 {
            return 0.0;
        }
        let again = self.again.max(self.lost).min(0.95);
        let correlation = (again - self.lost) / (1.0 - self.lost);
        if correlation < 0.15 { 0.0 } else { correlation }
    }

    /// Losses come together: what is silent now is more likely an outage than bad luck.
    pub(super) fn comes_in_outages(&self) -> bool {
        self.correlation() >= 0.3
    }

    /// Chance that a packet is lost, `gap` packets after one that was lost with chance `before`.
    pub(super) fn after(&self, before: f32, gap: u64) -> f32 {
        let fade = self.correlation().powi(gap.min(64) as i32);
        (self.lost + (before - self.lost) * fade).clamp(0.0, 1.0)
    }

    /// Chance that a packet is lost which is not acknowledged although its ack is overdue by
    /// `missed` packets of the peer, given what was believed before.
    pub(super) fn overdue(&self, before: f32, missed: u32) -> f32 {
        // The way back is taken to lose as much as the way there.
        let silent = self.lost.clamp(0.02, 0.5).powi(missed.clamp(1, 4) as i32);
        let before = before.max(0.005);
        before / (before + (1.0 - before) * silent)
    }
}

/// The purse for copies: a share of what fresh packets cost, and a trickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purse(Bucket);

impl Purse {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self(Bucket::new(now, params.redundancy_trickle / 4.0))
    }

    pub(super) fn fill(&mut self, now: Timestamp, params: &Params) {
        self.0.fill(now, params.redundancy_trickle, PURSE_MAX);
    }

    /// A packet with something new in it left, `gap` after the one before: so many bytes may go to
    /// copies, less what the trickle brought meanwhile.
    pub(super) fn on_fresh(&mut self, bytes: f64, gap: Duration, params: &Params) {
        let trickled = gap.as_secs_f64() * params.redundancy_trickle;
        self.0.add((bytes - trickled).max(0.0), PURSE_MAX);
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.0.spend(bytes as f64);
    }

    pub(super) fn affords(&self, bytes: usize) -> bool {
        self.0.tokens() >= bytes as f64
    }

    /// The least gain (chance that a copy rescues its message) worth a copy now. It rises as the
    /// purse empties, so that what is left goes to the messages that need it most.
    pub(super) fn price(&self, params: &Params) -> f32 {
        let empty = 1.0 - (self.0.tokens() / PURSE_MAX).clamp(0.0, 1.0);
        (params.copy_gain_min * (empty * PRICE_DOUBLINGS).exp2()) as f32
    }
}

/// What outages may cost beside the purse: everything unacknowledged goes with every packet, however often
/// it went, so that the first one through brings it all. Kept apart, because a purse that an outage
/// emptied would be missed afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserve(Bucket);

impl Reserve {
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Bucket::new(now, RESERVE_MAX))
    }

    pub(super) fn fill(&mut self, now: Timestamp) {
        self.0.fill(now, RESERVE_TRICKLE, RESERVE_MAX);
    }

    /// True, and spent, if there is so much.
    pub(super) fn pays(&mut self, bytes: usize) -> bool {
        let enough = self.0.tokens() >= bytes as f64;
        if enough {
            self.0.spend(bytes as f64);
        }
        enough
    }
}

/// Bytes of full packets for a fifth of a second. An address that is gone for good costs no more, and the
/// trickle.
const RESERVE_MAX: f64 = 20_000.0;

/// Bytes a second: an outage every five seconds has all of it.
const RESERVE_TRICKLE: f64 = 4_000.0;

/// Bytes the purse holds: what a second of a 60 Hz game may save up would come out as one burst,
/// so it holds no more than a few packets of copies.
const PURSE_MAX: f64 = 10_000.0;

/// An empty purse asks 2 to this power times the gain that a full one asks.
const PRICE_DOUBLINGS: f64 = 6.0;

/// Longest wait for which a copy may hope to ride on the next packet.
pub(super) const RIDE_MAX: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_without_end_costs_the_reserve_and_its_trickle() {
        let mut reserve = Reserve::new(Timestamp::ZERO);
        let mut paid = 0;
        for second in 0..=10 {
            reserve.fill(Timestamp::from_millis(1_000 * second));
            while reserve.pays(69) {
                paid += 69;
            }
        }
        let most = RESERVE_MAX + 10.0 * RESERVE_TRICKLE;
        assert!(
            (most - 700.0..=most).contains(&f64::from(paid)),
            "{paid} bytes"
        );
    }
}
