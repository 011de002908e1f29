//! How long a peer has stalled: the time that counts against it passes only while it is heard.
//!
//! Waiting for a peer to do something, to acknowledge or to close a gap, must not count time in which
//! the peer could not be heard: the path was down, datagrams fell out of a full socket buffer, or our
//! own process stood still. A peer that says nothing at all is a matter for the idle timeout.

use std::time::Duration;

use crate::time::Timestamp;

/// A clock that each datagram from the peer moves on, by no more than a grain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeardClock {
    reading: Timestamp,
    heard: Timestamp,
}

impl HeardClock {
    /// The peer is here now.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            reading: now,
            heard: now,
        }
    }

    /// The peer was heard. Of the silence before, at most `grain` counts: as long as a healthy peer may
    /// be silent.
    pub(crate) fn on_heard(&mut self, now: Timestamp, grain: Duration) {
        let counted = now.min(self.heard + grain);
        self.reading += counted.span_since(self.heard);
        self.heard = self.heard.max(now);
    }

    /// What the clock shows. Only to be compared with what it showed before.
    pub(crate) const fn now(&self) -> Timestamp {
        self.reading
    }
}

/// How long a peer that is heard has owed us something: an acknowledgement, or a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallTimer {
    clock: HeardClock,
    /// When it began to owe what it owes now.
    since: Option<Timestamp>,
    /// What the clock showed when we noticed.
    from: Timestamp,
}

impl StallTimer {
    /// It owes nothing.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            clock: HeardClock::new(now),
            since: None,
            from: now,
        }
    }

    /// The peer was heard, and has owed us something since `since`. A time other than
    /// at the last call means that it has paid in between.
    pub(crate) fn on_heard(&mut self, now: Timestamp, since: Option<Timestamp>) {
        self.clock.on_heard(now, KEEP_ALIVE_MAX);
        if since != self.since {
            self.since = since;
            self.from = self.clock.now();
        }
    }

    /// For how long it has owed that, on the clock that runs only while it is heard.
    pub(crate) fn lasted(&self) -> Duration {
        match self.since {
            Some(_) => self.clock.now().since(self.from),
            None => Duration::ZERO,
        }
    }
}

/// The rarest keep-alives of any protocol here are this far apart.
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn silence_counts_no_more_than_a_grain() {
        let grain = Duration::from_millis(250);
        let mut clock = HeardClock::new(at(1_000));
        for millis in (1_000..=3_000).step_by(100) {
            clock.on_heard(at(millis), grain);
        }
        assert_eq!(clock.now(), at(3_000), "heard all along");
        clock.on_heard(at(60_000), grain);
        clock.on_heard(at(60_000), grain);
        assert_eq!(clock.now(), at(3_250), "a minute of silence");
        clock.on_heard(at(59_000), grain);
        clock.on_heard(at(60_001), grain);
        assert_eq!(clock.now(), at(3_251), "a clock that went back");
    }

    #[test]
    fn only_a_peer_that_is_heard_is_late() {
        let mut stall = StallTimer::new(at(0));
        let since = Some(at(500));
        stall.on_heard(at(600), since);
        assert_eq!(stall.lasted(), Duration::ZERO);
        stall.on_heard(at(20_600), since);
        assert_eq!(stall.lasted(), KEEP_ALIVE_MAX, "a path that was down");
        stall.on_heard(at(21_100), since);
        assert_eq!(stall.lasted(), KEEP_ALIVE_MAX + Duration::from_millis(500));
        stall.on_heard(at(21_200), Some(at(21_200)));
        assert_eq!(stall.lasted(), Duration::ZERO, "it acknowledged something");
        stall.on_heard(at(21_900), None);
        assert_eq!(stall.lasted(), Duration::ZERO);
    }
}
