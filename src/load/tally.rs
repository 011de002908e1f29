//! What clients counted. Tallies of several threads add up.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use tidegate_proto::{CloseReason, Stats};

/// Messages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Taken by the session.
    pub sent: u64,
    /// Came back as they were.
    pub back: u64,
    /// Did not come back.
    pub missing: u64,
    /// Came back after a later one.
    pub out_of_order: u64,
    /// Came back more than once.
    pub duplicated: u64,
}

impl Messages {
    fn absorb(&mut self, other: &Self) {
        self.sent += other.sent;
        self.back += other.back;
        self.missing += other.missing;
        self.out_of_order += other.out_of_order;
        self.duplicated += other.duplicated;
    }
}

/// Everything that is counted.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Clients that are in.
    pub connected: u64,
    /// Clients whose sessions are in bad mode.
    pub in_bad_mode: u64,
    /// Clients that got in at any time.
    pub ever_connected: u64,
    /// Clients that never got in, by reason.
    pub refused: BTreeMap<CloseReason, u64>,
    /// Clients that got in and were put out before their time, by reason.
    pub ended: BTreeMap<CloseReason, u64>,
    /// Dials after the first of a client, because it was denied or had no answer.
    pub redials: u64,
    /// Messages due by the timetable.
    pub due: u64,
    pub reliable: Messages,
    pub unreliable: Messages,
    /// What came back damaged, or was never sent by this client in this run.
    pub wrong: u64,
    /// What came back although nothing was expected to.
    pub unasked: u64,
    pub datagrams_sent: u64,
    pub datagrams_received: u64,
    /// Datagrams that the kernel dropped because this process was late.
    pub overrun: u64,
    /// What sessions counted.
    pub stats: Stats,
    /// Microseconds from the first dial to being in.
    pub handshake: Histogram<u64>,
    /// Microseconds from the time a message was due to its return.
    pub round_trip: Histogram<u64>,
    /// Microseconds from the time a message was due to the time it was handed to a session with room.
    pub lateness: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            connected: 0,
            in_bad_mode: 0,
            ever_connected: 0,
            refused: BTreeMap::new(),
            ended: BTreeMap::new(),
            redials: 0,
            due: 0,
            reliable: Messages::default(),
            unreliable: Messages::default(),
            wrong: 0,
            unasked: 0,
            datagrams_sent: 0,
            datagrams_received: 0,
            overrun: 0,
            stats: Stats::default(),
            handshake: histogram(),
            round_trip: histogram(),
            lateness: histogram(),
        }
    }
}

impl Tally {
    /// Adds another one's counts.
    pub fn absorb(&mut self, other: &Self) {
        self.connected += other.connected;
        self.in_bad_mode += other.in_bad_mode;
        self.ever_connected += other.ever_connected;
        for (reason, count) in &other.refused {
            *self.refused.entry(*reason).or_default() += count;
        }
        for (reason, count) in &other.ended {
            *self.ended.entry(*reason).or_default() += count;
        }
        self.redials += other.redials;
        self.due += other.due;
        self.reliable.absorb(&other.reliable);
        self.unreliable.absorb(&other.unreliable);
        self.wrong += other.wrong;
        self.unasked += other.unasked;
        self.datagrams_sent += other.datagrams_sent;
        self.datagrams_received += other.datagrams_received;
        self.overrun += other.overrun;
        self.stats.absorb(&other.stats);
        // All histograms have the same bounds.
        self.handshake.add(&other.handshake).ok();
        self.round_trip.add(&other.round_trip).ok();
        self.lateness.add(&other.lateness).ok();
    }

    /// Clients that will not get in any more, or are out again.
    pub fn failed(&self) -> u64 {
        self.refused.values().chain(self.ended.values()).sum()
    }

    /// Messages that were due and never sent: the server took no more.
    pub fn unsent(&self) -> u64 {
        self.due - self.reliable.sent - self.unreliable.sent
    }

    /// What came back as it should not: damaged, in the wrong place, or once more.
    pub fn harmed(&self) -> u64 {
        let duplicated = self.reliable.duplicated + self.unreliable.duplicated;
        self.wrong + self.reliable.out_of_order + duplicated
    }

    /// Whether any message came back as it should not, or did not although it should.
    pub fn is_content_good(&self) -> bool {
        self.reliable.missing + self.harmed() == 0
    }
}

/// One microsecond to one minute, three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}

/// For a histogram.
pub(super) fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}
