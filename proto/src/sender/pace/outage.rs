//! Outages: spells in which nothing of bulk arrives. They say nothing about how much the path carries.

use std::time::Duration;

use crate::time::Timestamp;

/// Packets lost one after the other, with none between them that arrived.
///
/// A path that runs over still carries all it can, so that some arrive: when for a while none did, the path
/// was away, and will carry what it carried before. That is no rule for packets of several datagrams: at a
/// rate a little too high, each of them loses one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// When the first of them was sent.
    since: Timestamp,
    packets: u32,
    /// How many of them were taken for losses like others.
    counted: u32,
}

impl Run {
    /// A packet sent then was lost, right after the last one. True if it is a loss like others; false in
    /// an outage: then [`Run::take_back`] says how many were counted before that was known.
    pub(super) fn goes_on(&mut self, sent_at: Timestamp) -> bool {
        if self.packets == 0 {
            self.since = sent_at;
        }
        self.packets += 1;
        let is_loss = self.packets < OUTAGE_OF || sent_at.since(self.since) < OUTAGE;
        self.counted += u32::from(is_loss);
        is_loss
    }

    /// Something between arrived.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Losses of this run that were counted and are none.
    pub(super) fn take_back(&mut self) -> u32 {
        std::mem::take(&mut self.counted)
    }
}

/// So many packets in a row, sent over so long, were lost in an outage. A queue that is full, however short
/// it is, takes another packet before that: what is sent at once, which it may not take, is what four
/// milliseconds bring.
const OUTAGE_OF: u32 = 8;
const OUTAGE: Duration = Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses that are counted of so many in a row, a millisecond apart each `every`.
    fn counted(packets: u64, every_ms: u64) -> u64 {
        let mut run = Run::default();
        let mut counted = 0;
        for packet in 0..packets {
            match run.goes_on(Timestamp::from_millis(packet * every_ms)) {
                true => counted += 1,
                false => counted -= u64::from(run.take_back()),
            }
        }
        counted
    }

    #[test]
    fn what_nothing_survives_for_a_while_is_no_loss() {
        assert_eq!(
            counted(100, 0),
            100,
            "what left at once, into a short queue"
        );
        assert_eq!(counted(7, 100), 7, "bad luck of a slow sender");
        assert_eq!(counted(9, 1), 0);
        assert_eq!(counted(8, 100), 0);
        assert_eq!(counted(500, 1), 0);
    }
}
