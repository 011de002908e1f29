//! How much this path loses, and how losses come together.
//!
//! Losses are modelled as a chain of two states (Gilbert's): a share `p` of packets is lost, and a
//! packet right after a lost one is lost with chance `q`. Both are measured. `q` near `p` is a lossy
//! radio, `q` far above it an outage now and then, where copies in neighbouring packets die together.

/// Measured loss of the path from us to the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sender) struct PathLoss {
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
    pub(in crate::sender) fn share(&self) -> f32 {
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
