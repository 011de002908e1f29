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

/// How long a peer that is heard has owed us the same, known by when that began: a message that is missing, say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallTimer {
    clock: HeardClock,
    /// What it owes now.
    debt: Option<Timestamp>,
    /// What the clock showed when we noticed.
    from: Timestamp,
}

impl StallTimer {
    /// It owes nothing.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            clock: HeardClock::new(now),
            debt: None,
            from: now,
        }
    }

    /// The peer was heard, and owes this. Another debt than at the last call means that it has paid in between.
    pub(crate) fn on_heard(&mut self, now: Timestamp, debt: Option<Timestamp>) {
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
/// Either end refuses messages once it has nobody to give them to, and goes on delivering what it was told before: a
/// server whose backend closed, a tunnel whose program did. A server refuses them also while its backend reads nothing,
/// and gives that up by a clock of its own (`stall`). Nobody but us gives up a client whose program reads nothing, and of
/// what players say, unreliable messages are no tail that has an end. So who is there, which acknowledgements of packets
/// without messages show, has longer: a client while it delivers reliable messages, as many as may be queued, a server in
/// any case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckStall {
    peer: Peer,
    clock: HeardClock,
    /// Since when messages wait, and none of them was acknowledged.
    since: Option<Timestamp>,
    progress: Progress,
    /// Reliable messages delivered before that.
    before: u64,
    /// What the clock showed when that began, and since then when the peer last acknowledged or delivered anything.
    waits_at: Timestamp,
    acked_at: Timestamp,
    delivered_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    /// It dialled us.
    Client,
    /// We dialled it.
    Server,
}

/// What a peer has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Packets that it acknowledged, those without messages too.
    pub(crate) acked: u64,
    /// Messages that it delivered.
    pub(crate) delivered: u64,
    /// The reliable ones of those.
    pub(crate) reliable: u64,
}

impl AckStall {
    /// A client that owes nothing.
    pub(crate) fn of_client(now: Timestamp) -> Self {
        Self::of(Peer::Client, now)
    }

    /// A server that owes nothing.
    pub(crate) fn of_server(now: Timestamp) -> Self {
        Self::of(Peer::Server, now)
    }

    fn of(peer: Peer, now: Timestamp) -> Self {
        Self {
            peer,
            clock: HeardClock::new(now),
            since: None,
            progress: Progress::default(),
            before: 0,
            waits_at: now,
            acked_at: now,
            delivered_at: now,
        }
    }

    /// The peer was heard. Messages wait, and none of them was acknowledged `since` then.
    pub(crate) fn on_heard(
        &mut self,
        now: Timestamp,
        since: Option<Timestamp>,
        progress: Progress,
    ) {
        self.clock.on_heard(now, KEEP_ALIVE_MAX);
        let now = self.clock.now();
        if since != self.since {
            self.since = since;
            self.before = progress.reliable;
            (self.waits_at, self.acked_at, self.delivered_at) = (now, now, now);
        }
        if progress.acked != self.progress.acked {
            self.acked_at = now;
        }
        let delivers = match self.peer {
            Peer::Client => progress.reliable != self.progress.reliable,
            Peer::Server => progress.delivered != self.progress.delivered,
        };
        if delivers {
            self.delivered_at = now;
        }
        self.progress = progress;
    }

    /// Whether it has owed one for too long, on the clock that runs only while it is heard: for [`STALL_TIMEOUT`], or for as
    /// long as a peer is given that shows that it is there. `queue`: how many messages it may have queued.
    pub(crate) fn is_over(&self, queue: impl FnOnce() -> u64) -> bool {
        let (now, most) = (self.clock.now(), Span::from(STALL_TIMEOUT));
        let lasts = |from, most| now.span_since(from) >= most;
        if self.since.is_none() || !lasts(self.waits_at, most) {
            return false;
        }
        let refuses = match self.peer {
            // Some were under way already. What players say has no end.
            Peer::Client => {
                lasts(self.delivered_at, most) || self.progress.reliable - self.before > 2 * queue()
            }
            Peer::Server => lasts(self.delivered_at, most * REFUSALS),
        };
        refuses || lasts(self.acked_at, most)
    }
}

/// A peer that is heard and does not do what others wait for, such as acknowledge, is given up after so long.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(10);

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
    fn given_up_after(mut stall: AckStall, each: Progress) -> Option<u64> {
        (0..=100).find(|second| {
            let progress = Progress {
                acked: each.acked * second,
                delivered: each.delivered * second,
                reliable: each.reliable * second,
            };
            stall.on_heard(at(second * 1_000), Some(at(0)), progress);
            stall.is_over(|| 1024)
        })
    }

    #[test]
    fn who_is_there_may_refuse_messages_for_longer() {
        let does = |acked, delivered, reliable| Progress {
            acked,
            delivered,
            reliable,
        };
        for (what, each, client, server) in [
            ("not reached", does(0, 1, 1), Some(10), Some(10)),
            ("says nothing", does(1, 0, 0), Some(10), Some(60)),
            ("delivers what may get lost", does(1, 1, 0), Some(10), None),
            ("delivers what it has", does(1, 1, 1), None, None),
            ("has no end", does(1, 100, 100), Some(21), None),
        ] {
            let now = at(0);
            assert_eq!(
                given_up_after(AckStall::of_client(now), each),
                client,
                "{what}"
            );
            assert_eq!(
                given_up_after(AckStall::of_server(now), each),
                server,
                "{what}"
            );
        }
    }
}
