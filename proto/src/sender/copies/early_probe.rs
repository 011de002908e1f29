//! When copies leave by themselves, because nothing else is about to leave: an early tail probe.

use std::time::Duration;

use crate::time::Timestamp;

/// Timer of the next one. It waits longer with each, until something new leaves.
#[derive(Debug)]
pub(super) struct EarlyProbe {
    /// [`Timestamp::MAX`] when none is to leave.
    at: Timestamp,
    /// How many left since the last packet with something new.
    sent: u8,
}

impl EarlyProbe {
    /// None is to leave.
    pub(super) fn new() -> Self {
        Self {
            at: Timestamp::MAX,
            sent: 0,
        }
    }

    /// A packet with messages left. `first` is the wait for the first probe; a packet with something new leaves every
    /// `fresh_every`.
    pub(super) fn arm(&mut self, now: Timestamp, first: Duration, fresh_every: Duration) {
        let mut wait = first * (1 << self.sent.min(DOUBLINGS_MAX));
        if fresh_every < RIDE_MAX {
            // The next packet is near: let the copy ride on it.
            wait = wait.max(fresh_every * 3 / 2);
        }
        self.at = now + wait;
    }

    /// As long as the path seems to be silent altogether. Whoever speaks first when it is over ends the wait.
    pub(super) fn arm_in_outage(&mut self, now: Timestamp, fresh_every: Duration) {
        self.at = now + fresh_every / 2;
    }

    /// Copies are not wanted.
    pub(super) fn disarm(&mut self) {
        self.at = Timestamp::MAX;
    }

    /// When it leaves.
    pub(super) fn at(&self) -> Option<Timestamp> {
        (self.at < Timestamp::MAX).then_some(self.at)
    }

    /// It left, or there was nothing for it to carry.
    pub(super) fn on_sent(&mut self) {
        self.at = Timestamp::MAX;
        self.sent = self.sent.saturating_add(1);
    }

    /// A packet with something new left.
    pub(super) fn on_fresh(&mut self) {
        self.sent = 0;
    }
}

/// Longest wait for which a copy may hope to ride on the next packet.
const RIDE_MAX: Duration = Duration::from_millis(40);

/// The wait doubles so often.
const DOUBLINGS_MAX: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn wait(probe: &mut EarlyProbe, fresh_every: u64) -> Option<Timestamp> {
        probe.arm(at(0), FIRST, Duration::from_millis(fresh_every));
        probe.at()
    }

    #[test]
    fn each_waits_twice_as_long_until_something_new_leaves() {
        let mut probe = EarlyProbe::new();
        assert_eq!(probe.at(), None);
        for millis in [10, 20, 40, 80, 160, 320, 640, 640, 640] {
            assert_eq!(wait(&mut probe, 1_000), Some(at(millis)));
            probe.on_sent();
            assert_eq!(probe.at(), None, "it left");
        }
        probe.on_fresh();
        assert_eq!(wait(&mut probe, 1_000), Some(at(10)));
        probe.disarm();
        assert_eq!(probe.at(), None);
    }

    #[test]
    fn a_copy_rides_on_the_next_packet_if_that_is_near() {
        let mut probe = EarlyProbe::new();
        for (fresh_every, millis) in [(4, 10), (16, 24), (38, 57), (40, 10)] {
            assert_eq!(wait(&mut probe, fresh_every), Some(at(millis)));
        }
    }

    #[test]
    fn in_an_outage_it_leaves_halfway_between_two_packets() {
        let mut probe = EarlyProbe::new();
        probe.on_sent();
        probe.arm_in_outage(at(0), Duration::from_millis(16));
        assert_eq!(probe.at(), Some(at(8)));
    }
}
