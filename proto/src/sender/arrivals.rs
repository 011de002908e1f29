//! What is heard of the peer: how often, and what its acknowledgements prove of the round trip.

use std::time::Duration;

use crate::rtt::Sample;
use crate::time::{Span, Timestamp};

use super::cadence::Cadence;

/// The peer's packets, up to the one that is being handled.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Mean time between them.
    cadence: Cadence,
    /// Mean time between them while they come, in microseconds: an outage takes nothing from the rhythm after it.
    rhythm_us: u32,
    /// How long before this one the last arrived that spoke of our newest, in microseconds.
    after_us: u32,
    /// What the acks of this one prove the round trip to be at least, in microseconds.
    least_us: u32,
    /// Nothing is missing right before this one, so its acks are not late.
    in_order: bool,
    /// It acknowledged older ones of ours than the one before it, and did not speak of the newest.
    of_older: bool,
    /// It told at length what arrived.
    is_long: bool,
    /// How many packets in a row, up to this one, came right behind a missing one while nothing of ours was lost.
    behind_gaps: u8,
}

impl Arrivals {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            cadence: Cadence::new(
                now,
                Duration::from_micros(EVERY_US.into()),
                Duration::from_micros(LONGEST_US.into()),
            ),
            rhythm_us: EVERY_US,
            after_us: 0,
            least_us: 0,
            in_order: true,
            of_older: false,
            is_long: false,
            behind_gaps: 0,
        }
    }

    /// A packet is being handled; `in_order`: none is missing right before it; `is_of_older`: it acknowledges
    /// older ones of ours than the one before; `waits_since`: when the oldest left that none acknowledged.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        in_order: bool,
        is_of_older: bool,
        waits_since: impl FnOnce() -> Option<Timestamp>,
    ) {
        let last = self.last();
        let after = now.span_since(last).as_micros();
        let so_far = if self.of_older { self.after_us } else { 0 };
        self.after_us = after.saturating_add(so_far);
        self.of_older = is_of_older;
        self.cadence.on_event(now);
        // A peer that has nothing to answer may say nothing.
        if after < LONGEST_US || waits_since().is_some_and(|since| since <= last) {
            let longest = 8 * self.rhythm_us + PAUSE_US;
            let gap = after.min(LONGEST_US).min(longest);
            self.rhythm_us = (7 * self.rhythm_us + gap) / 8;
        }
        self.in_order = in_order;
        self.behind_gaps = match in_order {
            true => 0,
            false => self.behind_gaps.saturating_add(1),
        };
        self.is_long = false;
        self.least_us = 0;
    }

    /// The packet being handled is the first to acknowledge one of ours, the newest so far, that left
    /// so long ago.
    pub(super) fn sample(&mut self, took: Span) -> Sample {
        // The peer's packet before this one did not know of ours: it cannot have been there much
        // earlier. True of all that is acknowledged together, and most is said by the oldest.
        let least = took - Span::from_micros(self.after_us);
        self.least_us = self.least_us.max(least.as_micros());
        let least = Span::from_micros(self.least_us);
        Sample { took, least }
    }

    /// One of ours was found lost.
    pub(super) fn on_lost(&mut self) {
        self.behind_gaps = 0;
    }

    /// The acks of the packet being handled are not late, or no later than all are: a path may lose every second packet
    /// of the peer, and only of the peer. Where ours get lost as well, that says more than how late an answer is.
    pub(super) fn are_acks_timely(&self) -> bool {
        self.in_order || self.behind_gaps >= ALWAYS_BEHIND_GAPS
    }

    /// The packet being handled has a long acknowledgement.
    pub(super) fn on_long_ack(&mut self) {
        self.is_long = true;
    }

    /// How many of our packets may pass until the next of the peer, so that it acknowledges all: three
    /// quarters of what one reaches, as some of those get lost.
    pub(super) fn reach(&self) -> f64 {
        if self.is_long { LONG_REACH } else { REACH }
    }

    /// When the last packet arrived.
    pub(super) fn last(&self) -> Timestamp {
        self.cadence.last()
    }

    /// Mean time between packets.
    pub(super) fn every(&self) -> Duration {
        self.cadence.every()
    }

    /// Mean time between packets while they come.
    pub(super) fn rhythm(&self) -> Span {
        Span::from_micros(self.rhythm_us)
    }
}

/// Taken for the time between packets until that is measured.
const EVERY_US: u32 = 50_000;

/// After so many behind gaps, none is expected that is not: where a packet in ten is lost, as many are one in a hundred
/// million.
const ALWAYS_BEHIND_GAPS: u8 = 8;

/// How many packets an acknowledgement is relied on to reach: of the 32 in a header, and of the 4096 in a long one.
const REACH: f64 = 24.0;
const LONG_REACH: f64 = 3072.0;

/// Longer pauses count as this long.
const LONGEST_US: u32 = 200_000;

/// A time between packets that is longer than eight times the usual and this is a pause.
const PAUSE_US: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// A second between packets, while packets of ours wait since then.
    fn rhythm(waits_since: Option<Timestamp>) -> Span {
        let mut arrivals = Arrivals::new(at(0));
        for millis in (10..1_000).step_by(10) {
            arrivals.on_packet(at(millis), true, false, || None);
        }
        for secs in 2..50 {
            arrivals.on_packet(at(1_000 * secs), true, false, || waits_since);
        }
        arrivals.rhythm()
    }

    #[test]
    fn a_silence_is_a_rhythm_while_something_waits() {
        let [tick, longest] = [11, 180].map(Span::from_millis);
        assert!(rhythm(None) < tick);
        assert!(rhythm(Some(at(60_000))) < tick, "it left at the end");
        assert!(rhythm(Some(at(500))) > longest);
    }
}
