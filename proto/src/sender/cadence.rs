//! The mean time between events of one kind: our packets with something new, the peer's packets.

use std::time::Duration;

use crate::time::{Span, Timestamp};

/// A smoothed interval (gain 1/8).
#[derive(Clone, Copy, Debug)]
pub(super) struct Cadence {
    last: Timestamp,
    every_us: u32,
    /// Longer pauses count as this long: a pause is not a rhythm.
    longest_us: u32,
}

impl Cadence {
    /// Taken for `every` until measured.
    pub(super) fn new(now: Timestamp, every: Duration, longest: Duration) -> Self {
        Self {
            last: now,
            every_us: every.as_micros() as u32,
            longest_us: longest.as_micros() as u32,
        }
    }

    /// It happened again; returns how long after the last time.
    pub(super) fn on_event(&mut self, now: Timestamp) -> Span {
        let gap = now.span_since(self.last);
        let gap = gap.min(Span::from_micros(self.longest_us));
        self.last = now;
        self.every_us = (7 * self.every_us + gap.as_micros()) / 8;
        gap
    }

    /// When it last happened.
    pub(super) fn last(&self) -> Timestamp {
        self.last
    }

    pub(super) fn every(&self) -> Duration {
        Duration::from_micros(u64::from(self.every_us))
    }
}
