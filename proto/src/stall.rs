//! How long a peer has stalled: the time that counts against it passes only while it is heard.
//!
//! Waiting for a peer to do something, to acknowledge or to close a gap, must not count time in which
//! the peer could not be heard: the path was down, datagrams fell out of a full socket buffer, or our
//! own process stood still. A peer that says nothing at all is a matter for the idle timeout.

use std::time::Duration;

use crate::time::{Span, Timestamp};

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
    pub(crate) fn on_heard(&mut self, now: Timestamp, grain: Span) {
        let counted = now.min(self.heard + grain);
        self.reading += counted.span_since(self.heard);
        self.heard = self.heard.max(now);
    }

    /// What the clock shows. Only to be compared with what it showed before.
    pub(crate) const fn now(&self) -> Timestamp {
        self.reading
    }
}

/// How long a peer that is heard has owed us something: an acknowledgement, or a message. Two debts are the same as long
/// as they are equal; most are known by when they began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallTimer<Debt = Timestamp> {
    clock: HeardClock,
    /// What it owes now.
    debt: Option<Debt>,
    /// What the clock showed when we noticed.
    from: Timestamp,
}

impl<Debt: PartialEq> StallTimer<Debt> {
    /// It owes nothing.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            clock: HeardClock::new(now),
            debt: None,
            from: now,
        }
    }

    /// The peer was heard, and owes this. Another debt than at the last call means that it has paid in between.
    pub(crate) fn on_heard(&mut self, now: Timestamp, debt: Option<Debt>) {
        self.clock.on_heard(now, KEEP_ALIVE_MAX);
        if debt != self.debt {
            self.debt = debt;
            self.from = self.clock.now();
        }
    }

    /// For how long it has owed that, on the clock that runs only while it is heard.
    pub(crate) fn lasted(&self) -> Span {
        match self.debt {
            Some(_) => self.clock.now().span_since(self.from),
            None => Span::ZERO,
        }
    }
}

/// How long a peer that is heard has acknowledged no messages, although some wait.
///
/// A server refuses messages while its backend reads nothing, and once that has nothing more to say: then it delivers what
/// it was told before. It gives up a backend by a clock of its own (`stall`), so who dialled it leaves that to it for
/// longer, as long as it acknowledges packets without messages: they show that it is reached. Nobody but us gives up a
/// client whose program reads nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AckStall {
    /// It dialled us.
    Client(StallTimer),
    /// We dialled it.
    Server {
        /// It owes an acknowledgement, of whatever packet.
        silent: StallTimer<(Timestamp, u64)>,
        /// It owes one of messages, or messages of its own.
        refusing: StallTimer<(Timestamp, u64)>,
    },
}

/// What a peer has done so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Packets that it acknowledged, those without messages too.
    pub(crate) acked: u64,
    /// Messages that it delivered.
    pub(crate) delivered: u64,
}

impl AckStall {
    /// A client that owes nothing.
    pub(crate) const fn of_client(now: Timestamp) -> Self {
        Self::Client(StallTimer::new(now))
    }

    /// A server that owes nothing.
    pub(crate) const fn of_server(now: Timestamp) -> Self {
        Self::Server {
            silent: StallTimer::new(now),
            refusing: StallTimer::new(now),
        }
    }

    /// The peer was heard. Messages wait, and none of them was acknowledged `since` then.
    pub(crate) fn on_heard(&mut self, now: Timestamp, since: Option<Timestamp>, done: Done) {
        match self {
            Self::Client(silent) => silent.on_heard(now, since),
            Self::Server { silent, refusing } => {
                silent.on_heard(now, since.map(|since| (since, done.acked)));
                refusing.on_heard(now, since.map(|since| (since, done.delivered)));
            }
        }
    }

    /// Whether that was so for `most`, on the clock that runs only while it is heard, or for [`REFUSALS`] times as long
    /// from a server that is there.
    pub(crate) fn is_over(&self, most: Duration) -> bool {
        let most = Span::from(most);
        match self {
            Self::Client(silent) => silent.lasted() >= most,
            Self::Server { silent, refusing } => {
                silent.lasted() >= most || refusing.lasted() >= most * REFUSALS
            }
        }
    }
}

/// A minute instead of ten seconds. Not for ever: a server with other limits may never take what it is sent.
const REFUSALS: u64 = 6;

/// The rarest keep-alives of any protocol here are this far apart.
const KEEP_ALIVE_MAX: Span = Span::from_millis(1_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn silence_counts_no_more_than_a_grain() {
        let grain = Span::from_millis(250);
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
        assert_eq!(stall.lasted(), Span::ZERO);
        stall.on_heard(at(20_600), since);
        assert_eq!(stall.lasted(), KEEP_ALIVE_MAX, "a path that was down");
        stall.on_heard(at(21_100), since);
        assert_eq!(stall.lasted(), Span::from_millis(1_500));
        stall.on_heard(at(21_200), Some(at(21_200)));
        assert_eq!(stall.lasted(), Span::ZERO, "it acknowledged something");
        stall.on_heard(at(21_900), None);
        assert_eq!(stall.lasted(), Span::ZERO);
    }

    /// After how many seconds a peer is given up that does this in each.
    fn given_up_after(is_server: bool, acks: bool, delivers: bool) -> Option<u64> {
        let mut stall = match is_server {
            true => AckStall::of_server(at(0)),
            false => AckStall::of_client(at(0)),
        };
        (0..=100).find(|second| {
            let done = Done {
                acked: u64::from(acks) * second,
                delivered: u64::from(delivers) * second,
            };
            stall.on_heard(at(second * 1_000), Some(at(0)), done);
            stall.is_over(Duration::from_secs(10))
        })
    }

    #[test]
    fn a_server_may_refuse_messages_for_longer() {
        assert_eq!(given_up_after(true, false, true), Some(10), "not reached");
        assert_eq!(given_up_after(true, true, false), Some(60), "refuses all");
        assert_eq!(
            given_up_after(true, true, true),
            None,
            "delivers what it has"
        );
        assert_eq!(given_up_after(false, true, true), Some(10), "a client");
    }
}
