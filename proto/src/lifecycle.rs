//! The life of a session whose protocol has no connection of its own (gaffer, rudp): it begins with
//! the first datagram, lasts while there are more, and ends with a goodbye or in silence.
//!
//! ```text
//!   dialing ──on_answer()──▶ open ◀──admit()── waiting
//!      │                       │                  │
//!      │ silence          finish(): until all is settled, or
//!      ▼                  it lingered; close(); silence
//!   closed ◀───────────────────┴──────────────────┘
//! ```
//!
//! yojimbo has a handshake, and a denial for who fails it, so its sessions live differently.

use std::collections::VecDeque;
use std::time::Duration;

use crate::session::{CloseReason, Event};
use crate::time::{Deadline, Timestamp, Wake};

/// Where a session is in its life, and the clocks that can end it.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    last_heard: Timestamp,
    idle_timeout: Duration,
    finishing: Option<Finishing>,
    /// How often a goodbye is said to a peer that is there, since none is acknowledged.
    goodbyes: u8,
    goodbyes_left: u8,
    events: VecDeque<Event>,
}

/// The owner has nothing more to say.
#[derive(Clone, Copy, Debug)]
struct Finishing {
    reason: CloseReason,
    /// How long it waits for what was said to arrive, once nothing more does.
    linger: Duration,
    until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// We dial; the peer has not answered.
    Dialing,
    /// The peer is real; its backend is not there yet.
    Waiting,
    Open,
    Closed,
}

impl Lifecycle {
    /// Of a session that dials its peer. `goodbyes` are said when it closes; the peer is gone after
    /// more than `idle_timeout` of silence.
    pub(crate) fn dialing(now: Timestamp, idle_timeout: Duration, goodbyes: u8) -> Self {
        Self {
            phase: Phase::Dialing,
            last_heard: now,
            idle_timeout,
            finishing: None,
            goodbyes,
            goodbyes_left: 0,
            events: VecDeque::new(),
        }
    }

    /// For a session whose peer is known to be there.
    pub(crate) fn waiting(now: Timestamp, idle_timeout: Duration, goodbyes: u8) -> Self {
        Self {
            phase: Phase::Waiting,
            events: [Event::Authenticated].into(),
            ..Self::dialing(now, idle_timeout, goodbyes)
        }
    }

    pub(crate) fn is_dialing(&self) -> bool {
        self.phase == Phase::Dialing
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether the owner may still have something to send.
    pub(crate) fn takes_messages(&self) -> bool {
        !self.is_closed() && self.finishing.is_none()
    }

    /// When the peer was last heard.
    pub(crate) fn last_heard(&self) -> Timestamp {
        self.last_heard
    }

    pub(crate) fn on_heard(&mut self, now: Timestamp) {
        self.last_heard = now;
    }

    /// The peer said something of its protocol; true if that is the answer to our dialling.
    pub(crate) fn on_answer(&mut self) -> bool {
        self.open_from(Phase::Dialing)
    }

    /// See [`crate::Session::admit`].
    pub(crate) fn admit(&mut self) {
        self.open_from(Phase::Waiting);
    }

    /// See [`crate::Session::finish`]. `is_settled`: all that was sent has arrived.
    pub(crate) fn finish(
        &mut self,
        now: Timestamp,
        reason: CloseReason,
        linger: Duration,
        is_settled: impl FnOnce() -> bool,
    ) {
        if self.takes_messages() {
            self.finishing = Some(Finishing {
                reason,
                linger,
                until: now + linger,
            });
            self.check_clocks(now, is_settled);
        }
    }

    /// Something that was said has arrived at `at`: more may.
    pub(crate) fn on_progress(&mut self, at: Timestamp) {
        if let Some(finishing) = &mut self.finishing {
            finishing.until = finishing.until.max(at + finishing.linger);
        }
    }

    /// Ends the session and says goodbye to a peer that is there.
    pub(crate) fn close(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Waiting | Phase::Open) {
            self.goodbyes_left = self.goodbyes;
        }
        self.end(reason);
    }

    /// Ends the session of a peer that is gone: nobody would hear a goodbye.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if !self.is_closed() {
            self.phase = Phase::Closed;
            self.events.push_back(Event::Closed(reason));
        }
    }

    /// Ends it when the peer was silent for too long, or when a session that finishes has nothing
    /// left to deliver, or no time.
    pub(crate) fn check_clocks(&mut self, now: Timestamp, is_settled: impl FnOnce() -> bool) {
        if self.is_closed() {
            return;
        }
        if now.since(self.last_heard) > self.idle_timeout {
            return self.end(if self.is_dialing() {
                CloseReason::ConnectTimeout
            } else {
                CloseReason::PeerTimeout
            });
        }
        if let Some(finishing) = self.finishing
            && (now >= finishing.until || is_settled())
        {
            self.close(finishing.reason);
        }
    }

    /// Whether a goodbye is still to be said; each true is one of them.
    pub(crate) fn poll_goodbye(&mut self) -> bool {
        let is_due = self.goodbyes_left > 0;
        self.goodbyes_left = self.goodbyes_left.saturating_sub(1);
        is_due
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Lifecycle::check_clocks`] has something to do; `None` once closed.
    pub(crate) fn poll_timeout(&self) -> Option<Deadline> {
        if self.is_closed() {
            return None;
        }
        // Silence must last longer than the timeout.
        let idle = self.last_heard + self.idle_timeout + Duration::from_nanos(1);
        let linger = self.finishing.map(|finishing| finishing.until);
        Deadline::earliest([
            Deadline::of(Some(idle), Wake::Idle),
            Deadline::of(linger, Wake::Linger),
        ])
    }

    fn open_from(&mut self, phase: Phase) -> bool {
        let opens = self.phase == phase;
        if opens {
            self.phase = Phase::Open;
            self.events.push_back(Event::Connected);
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn dialing() -> Lifecycle {
        Lifecycle::dialing(at(0), IDLE, 3)
    }

    fn waiting() -> Lifecycle {
        Lifecycle::waiting(at(0), IDLE, 3)
    }

    /// What the owner was told, and how many goodbyes the peer is.
    fn outcome(mut lifecycle: Lifecycle) -> (Vec<Event>, usize) {
        let events = std::iter::from_fn(|| lifecycle.poll_event()).collect();
        let goodbyes = std::iter::from_fn(|| lifecycle.poll_goodbye().then_some(())).count();
        (events, goodbyes)
    }

    fn lived(
        mut lifecycle: Lifecycle,
        through: impl FnOnce(&mut Lifecycle),
    ) -> (Vec<Event>, usize) {
        through(&mut lifecycle);
        outcome(lifecycle)
    }

    #[test]
    fn the_owner_is_told_once_and_the_peer_if_it_is_there() {
        use CloseReason::{ConnectTimeout, Kicked, PeerDisconnect, PeerTimeout};
        use Event::{Authenticated, Closed, Connected};
        let answered = lived(dialing(), |lifecycle| {
            assert!(lifecycle.on_answer());
            assert!(!lifecycle.on_answer());
        });
        assert_eq!(answered, (vec![Connected], 0));
        let admitted_before_an_answer = lived(dialing(), Lifecycle::admit);
        assert_eq!(admitted_before_an_answer, (vec![], 0));
        let closed_twice = lived(waiting(), |lifecycle| {
            lifecycle.admit();
            lifecycle.close(Kicked);
            lifecycle.close(PeerTimeout);
        });
        let events = vec![Authenticated, Connected, Closed(Kicked)];
        assert_eq!(closed_twice, (events, 3));
        let closed_before_its_backend_came = lived(waiting(), |lifecycle| {
            lifecycle.close(Kicked);
            lifecycle.admit();
        });
        let events = vec![Authenticated, Closed(Kicked)];
        assert_eq!(closed_before_its_backend_came, (events, 3));
        let closed_before_an_answer = lived(dialing(), |lifecycle| lifecycle.close(Kicked));
        assert_eq!(closed_before_an_answer, (vec![Closed(Kicked)], 0));
        let left = lived(waiting(), |lifecycle| lifecycle.end(PeerDisconnect));
        assert_eq!(left, (vec![Authenticated, Closed(PeerDisconnect)], 0));
        let never_answered = lived(dialing(), |lifecycle| {
            lifecycle.check_clocks(at(10_000), || true);
            assert!(!lifecycle.is_closed());
            lifecycle.check_clocks(at(10_001), || true);
        });
        assert_eq!(never_answered, (vec![Closed(ConnectTimeout)], 0));
    }

    #[test]
    fn who_finishes_waits_until_all_is_settled_or_it_lingered() {
        let reason = CloseReason::BackendClosed;
        let finish = |lifecycle: &mut Lifecycle, is_settled| {
            lifecycle.finish(at(100), reason, Duration::from_millis(500), || is_settled);
        };
        let mut at_once = waiting();
        finish(&mut at_once, true);
        assert!(at_once.is_closed());
        assert_eq!(at_once.poll_timeout(), None);

        let rows = [(599, false, false), (599, true, true), (600, false, true)];
        for (millis, is_settled, is_closed) in rows {
            let mut lifecycle = waiting();
            finish(&mut lifecycle, false);
            assert!(!lifecycle.is_closed() && !lifecycle.takes_messages());
            let linger = Deadline {
                at: at(600),
                why: Wake::Linger,
            };
            assert_eq!(lifecycle.poll_timeout(), Some(linger));
            // What was said first holds.
            lifecycle.finish(at(200), CloseReason::Drain, IDLE, || true);
            lifecycle.check_clocks(at(millis), || is_settled);
            assert_eq!(lifecycle.is_closed(), is_closed, "at {millis} ms");
            if is_closed {
                let events = vec![Event::Authenticated, Event::Closed(reason)];
                assert_eq!(outcome(lifecycle), (events, 3));
            }
        }
    }

    #[test]
    fn who_finishes_lingers_as_long_as_something_arrives() {
        let mut lifecycle = waiting();
        lifecycle.on_progress(at(50));
        lifecycle.finish(
            at(100),
            CloseReason::Drain,
            Duration::from_millis(500),
            || false,
        );
        lifecycle.on_progress(at(400));
        lifecycle.check_clocks(at(899), || false);
        assert!(!lifecycle.is_closed());
        lifecycle.check_clocks(at(900), || false);
        assert!(lifecycle.is_closed());
    }

    #[test]
    fn silence_ends_a_session_when_it_lasts_longer_than_the_timeout() {
        let mut lifecycle = waiting();
        lifecycle.admit();
        lifecycle.on_heard(at(500));
        let last = at(10_500);
        lifecycle.check_clocks(last, || true);
        assert!(!lifecycle.is_closed());
        let after = last + Duration::from_nanos(1);
        let wakes = lifecycle.poll_timeout().map(|deadline| deadline.at);
        assert_eq!(wakes, Some(after));
        lifecycle.check_clocks(after, || true);
        let events = vec![
            Event::Authenticated,
            Event::Connected,
            Event::Closed(CloseReason::PeerTimeout),
        ];
        assert_eq!(outcome(lifecycle), (events, 0));
    }
}
