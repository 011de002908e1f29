//! Packets and how many of them got lost, until somebody makes a share of it. What is lost in an outage counts as
//! neither: nothing was asked of the path then.

use crate::time::Timestamp;

use super::outage::Run;

/// Counts packets since the last [`LossTally::restart`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossTally {
    packets: u32,
    lost: u32,
    /// The losses that may be an outage. Who counts says when they end: not everybody hears of packets in the order
    /// in which they left.
    run: Run,
}

impl LossTally {
    /// A packet, lost or not, that is part of no outage.
    pub(super) fn count(&mut self, lost: bool) {
        self.packets += 1;
        self.lost += u32::from(lost);
    }

    /// A packet that left then got lost, right after the last loss unless [`LossTally::end_run`] said otherwise.
    pub(super) fn on_lost(&mut self, sent_at: Timestamp) {
        if self.run.goes_on(sent_at) {
            self.count(true);
        } else {
            let none = self.run.take_back();
            self.packets -= none;
            self.lost -= none;
        }
    }

    /// Something between the last loss and the next one arrived.
    pub(super) fn end_run(&mut self) {
        self.run.end();
    }

    /// Counts anew. Losses in a row go on, but those that were counted so far stay counted.
    pub(super) fn restart(&mut self) {
        (self.packets, self.lost) = (0, 0);
        self.run.take_back();
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn lost(&self) -> u32 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_taken_back_from_the_present_tally_alone() {
        let mut tally = LossTally::default();
        let counted = |tally: &LossTally| (tally.packets(), tally.lost());
        tally.count(false);
        for packet in 0..4 {
            tally.on_lost(Timestamp::from_millis(packet));
        }
        assert_eq!(counted(&tally), (5, 4));
        tally.restart();
        for packet in 4..8 {
            tally.on_lost(Timestamp::from_millis(packet));
        }
        tally.count(false);
        assert_eq!(counted(&tally), (5, 4), "eight, but not over 8 ms");
        tally.on_lost(Timestamp::from_millis(8));
        assert_eq!(counted(&tally), (1, 0));
        tally.end_run();
        tally.on_lost(Timestamp::from_millis(9));
        assert_eq!(counted(&tally), (2, 1));
    }
}
