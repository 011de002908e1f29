//! Time that counts against a peer: it passes only while the peer is heard.
//!
//! Whoever waits for a peer to do something, to acknowledge or to close a gap, must not count time in
//! which the peer could not be heard: the path was down, datagrams fell out of a full socket buffer,
//! or our own process stood still. A peer that says nothing at all is the timeout's business.

use std::time::Duration;

use crate::time::Timestamp;

/// A clock that each datagram of the peer moves on, by no more than a grain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    reading: Timestamp,
    heard: Timestamp,
}

impl Presence {
    /// The peer is here now.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            reading: now,
            heard: now,
        }
    }

    /// The peer was heard. Of the silence before, `grain` counts at most: what a peer that is well
    /// may be silent for.
    pub(crate) fn on_heard(&mut self, now: Timestamp, grain: Duration) {
        self.reading += now.since(self.heard).min(grain);
        self.heard = self.heard.max(now);
    }

    /// What the clock shows. Only to be compared with what it showed before.
    pub(crate) const fn now(&self) -> Timestamp {
        self.reading
    }
}

/// How long a peer that is heard has owed us something: an acknowledgement, or a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owing {
    presence: Presence,
    /// When it began to owe what it owes now.
    since: Option<Timestamp>,
    /// What the clock of its presence showed when we noticed.
    from: Timestamp,
}

impl Owing {
    /// It owes nothing.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            presence: Presence::new(now),
            since: None,
            from: now,
        }
    }

    /// The peer was heard, and has owed us something since `since`. Another time than at the last call
    /// means that it has paid in between.
    pub(crate) fn on_heard(&mut self, now: Timestamp, since: Option<Timestamp>) {
        self.presence.on_heard(now, KEEP_ALIVE_MAX);
        if since != self.since {
            self.since = since;
            self.from = self.presence.now();
        }
    }

    /// For how long it has owed that, on the clock that runs only while it is heard.
    pub(crate) fn lasted(&self) -> Duration {
        match self.since {
            Some(_) => self.presence.now().since(self.from),
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
        let mut presence = Presence::new(at(1_000));
        for millis in (1_000..=3_000).step_by(100) {
            presence.on_heard(at(millis), grain);
        }
        assert_eq!(presence.now(), at(3_000), "heard all along");
        presence.on_heard(at(60_000), grain);
        presence.on_heard(at(60_000), grain);
        assert_eq!(presence.now(), at(3_250), "a minute of silence");
        presence.on_heard(at(59_000), grain);
        presence.on_heard(at(60_001), grain);
        assert_eq!(presence.now(), at(3_251), "a clock that went back");
    }

    #[test]
    fn only_a_peer_that_is_heard_is_late() {
        let mut owing = Owing::new(at(0));
        let since = Some(at(500));
        owing.on_heard(at(600), since);
        assert_eq!(owing.lasted(), Duration::ZERO);
        owing.on_heard(at(20_600), since);
        assert_eq!(owing.lasted(), KEEP_ALIVE_MAX, "a path that was down");
        owing.on_heard(at(21_100), since);
        assert_eq!(owing.lasted(), KEEP_ALIVE_MAX + Duration::from_millis(500));
        owing.on_heard(at(21_200), Some(at(21_200)));
        assert_eq!(owing.lasted(), Duration::ZERO, "it acknowledged something");
        owing.on_heard(at(21_900), None);
        assert_eq!(owing.lasted(), Duration::ZERO);
    }
}
