//! How a session ends: what it waits for before, and who hears a goodbye.

use std::time::Duration;

use super::{Phase, Session};
use crate::session::{CloseReason, Event};
use crate::time::{Now, Timestamp};
use crate::yojimbo::netcode::DISCONNECT_REPEATS;

impl Session {
    /// The owner has nothing more to say: ends the session, now or once all that was said has arrived.
    pub(super) fn begin_to_finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        match self.phase {
            // What was taken is acknowledged before the goodbye, or the peer would count it as lost.
            // What is said early is lost with a goodbye that comes early.
            Phase::Open
                if self.joining.is_some()
                    || self.outgoing.sender.hurry_ack(now.mono)
                    || !self.outgoing.sender.is_drained() =>
            {
                self.phase = Phase::Finishing {
                    reason,
                    since: now.mono,
                    linger,
                };
            }
            Phase::Open | Phase::Waiting => self.end(reason),
            Phase::Finishing { .. } | Phase::Closed { .. } => {}
        }
    }

    /// What time alone decides: silence, and how long a session lingers.
    pub(super) fn overdue(&self, now: Now) -> Option<CloseReason> {
        if self.joining.is_none() && self.link.is_timed_out(now) {
            return Some(CloseReason::PeerTimeout);
        }
        match self.phase {
            Phase::Finishing { reason, .. } => {
                let until = self.lingers_until();
                until.is_some_and(|at| at <= now.mono).then_some(reason)
            }
            Phase::Waiting | Phase::Open | Phase::Closed { .. } => None,
        }
    }

    /// When a finishing session stops waiting: `linger` after it began, or was let in, or after the peer last
    /// acknowledged something, so that much data over a slow path still arrives.
    pub(super) fn lingers_until(&self) -> Option<Timestamp> {
        let Phase::Finishing { since, linger, .. } = self.phase else {
            return None;
        };
        let heard = self.outgoing.sender.waits_since().unwrap_or(since);
        Some(since.max(heard) + linger)
    }

    /// Ends the session. A peer that is gone gets no goodbye: nobody would hear it. Nor does a client that was
    /// not told yet that it is in, because its backend was gone at once: it listens to denials only.
    pub(super) fn end(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Closed { .. }) {
            return;
        }
        let is_there = !matches!(
            reason,
            CloseReason::PeerDisconnect | CloseReason::PeerTimeout
        );
        self.end_with(reason, is_there);
    }

    /// `is_there`: somebody would hear a denial, or goodbyes.
    pub(super) fn end_with(&mut self, reason: CloseReason, is_there: bool) {
        let denial = self.link.is_waiting() && is_there;
        let goodbyes = if is_there && !denial {
            DISCONNECT_REPEATS
        } else {
            0
        };
        self.phase = Phase::Closed { goodbyes, denial };
        self.seat = None;
        self.events.push_back(Event::Closed(reason));
    }

    /// The next goodbye of a session that is over.
    pub(super) fn transmit_goodbye(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Phase::Closed { goodbyes, denial } = &mut self.phase else {
            return false;
        };
        if *denial {
            *denial = false;
            return self.link.deny(out);
        }
        if *goodbyes == 0 {
            return false;
        }
        *goodbyes -= 1;
        self.link.disconnect(now, out);
        true
    }
}
