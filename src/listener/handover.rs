//! A session goes to the worker that its peer's datagrams go to.
//!
//! ```text
//!   this worker                                       another worker
//!   datagram, nobody's ──▶ ask (bounded per second) ──▶ a silent session behind that IP whose key
//!                                                        opens it?  (bounded per second as well)
//!   adopt session and stream, ◀── found ◀─────────────── deregister, take out of all tables
//!   handle the datagram
//! ```
//!
//! Nothing is sent to anybody for it, so forged datagrams amplify nothing. While a session is on its
//! way, datagrams for it are lost as on any network.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::per_second::PerSecond;
use tidegate_proto::{CloseReason, Now, PeerId, Session, Stats};

use super::orders::Whom;
use super::peer::{Peer, Phase};
use super::siblings::{Found, Letter, Lost};
use super::wakes::{Wakes, poll_token};
use super::{Listener, Turn};
use crate::udp::Route;

/// Questions to other workers, and sessions that came or went by them.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    asked: PerSecond,
    /// Siblings wrote more than was read in a turn.
    has_letters: bool,
    /// What operators ordered lately, oldest first.
    orders: VecDeque<Order>,
    pub(super) arrived: u64,
    pub(super) departed: u64,
}

/// These sessions were to end.
#[derive(Clone, Copy, Debug)]
struct Order {
    given: Now,
    whom: Whom,
    reason: CloseReason,
}

impl Listener {
    /// A datagram of nobody here: maybe it is for a session of another worker.
    pub(super) fn ask_siblings(&mut self, now: Now, route: Route, datagram: &[u8]) {
        if self.siblings.len() > 0
            && !self.stage.is_ending()
            && self.handovers.may_ask(now, self.siblings.len() as u32)
        {
            let tries = self.endpoint.tries_in_vain();
            self.siblings.ask(route, datagram, tries);
        }
    }

    /// Questions and answers of other workers.
    pub(super) fn read_letters(&mut self, turn: &mut Turn<'_>) {
        self.handovers.has_letters = false;
        for _ in 0..LETTERS_PER_TURN {
            match self.siblings.next() {
                None => return,
                Some(Letter::Lost(lost)) => self.look_for(turn, lost),
                Some(Letter::Found(found)) => self.adopt(turn, *found),
                Some(Letter::Struck(from)) => {
                    if let Some(admission) = &mut self.strangers.admission {
                        admission.on_strike_elsewhere(turn.now.mono, from);
                    }
                }
            }
        }
        // More of them come first in the next turn.
        self.handovers.has_letters = true;
    }

    fn look_for(&mut self, turn: &mut Turn<'_>, lost: Lost) {
        if self.stage.is_ending() {
            return;
        }
        let Some(id) = self
            .endpoint
            .claim(turn.now, lost.route.from, &lost.datagram)
        else {
            return;
        };
        // One that is still joining, or over, stays: its next datagrams ask again. The stream of one that plays is open.
        let is_settled = |peer: &Peer| peer.phase == Phase::Playing;
        if !self.peers.get(id).is_some_and(is_settled) {
            return;
        }
        let Some((peer, session, before)) = self.take_out(turn, id) else {
            return;
        };
        let found = Found {
            peer,
            session,
            before,
            by: lost,
        };
        // A worker that closed since it asked takes nobody; its socket is gone, ours is not.
        if let Err(found) = self.siblings.answer(found) {
            self.adopt(turn, *found);
        }
    }

    /// Takes a peer out of all tables and counts of this worker, and of its poll.
    fn take_out(
        &mut self,
        turn: &mut Turn<'_>,
        id: PeerId,
    ) -> Option<(Box<Peer>, Box<dyn Session>, Stats)> {
        self.on_ended(id);
        let mut peer = self.peers.remove(id)?;
        self.memory.on_gone(&peer.accounted);
        let (session, before) = self.endpoint.take_out(id)?;
        if let Err(error) = peer.stream.deregister(turn.registry) {
            tracing::debug!(%error, "stream was not registered");
        }
        if let Some(target) = peer.attempt.target() {
            let connections = &mut self.counters.target(target).connections;
            *connections = connections.saturating_sub(1);
        }
        self.handovers.departed += 1;
        Some((peer, session, before))
    }

    fn adopt(&mut self, turn: &mut Turn<'_>, found: Found) {
        let Found {
            mut peer,
            session,
            before,
            by,
        } = found;
        let Lost {
            route,
            mut datagram,
            tries,
            ..
        } = by;
        let now = turn.now;
        let was_at = peer.remote;
        if let Some(silent) = self.endpoint.make_way(now, route.from, was_at) {
            self.on_put(silent);
        }
        let is_taken = self.endpoint.find(route.from).is_some();
        let id = self.endpoint.adopt(now, route.from, session, before);
        peer.settle_in(id, route);
        let token = poll_token(self.index, Wakes::Stream(id.slot()));
        let registered = peer.stream.register(turn.registry, token);
        if let Some(target) = peer.attempt.target() {
            self.counters.target(target).connections += 1;
        }
        self.handovers.arrived += 1;
        self.strangers.refund_stray(route.from);
        self.endpoint.give_back_tries(tries);
        self.memory.on_came(&peer.accounted);
        self.peers.insert(peer);
        self.on_came(id);
        self.touch(id);
        if let Err(error) = registered {
            tracing::warn!(event = "handover_failed", listener = %self.name, %error);
            self.endpoint.close(now, id, CloseReason::Overload);
        } else if is_taken {
            self.endpoint.close(now, id, CloseReason::Replaced);
        } else if self.stage.is_ending() {
            self.endpoint.close(now, id, CloseReason::Drain);
        } else if let Some(reason) = self.missed_order(now, id, was_at) {
            self.endpoint.close(now, id, reason);
        } else {
            self.on_moved(id, route);
            let handled = self.endpoint.handle_datagram_of(now, id, &mut datagram);
            self.on_handled(now, route, handled);
        }
    }

    /// Why a peer that came from another worker, where it was `was_at`, should have ended: all of them were told so while
    /// it was with none.
    fn missed_order(&self, now: Now, id: PeerId, was_at: SocketAddr) -> Option<CloseReason> {
        let peer = self.peers.get(id)?;
        let is_meant = |order: &&Order| {
            let Order { given, whom, .. } = **order;
            let is_recent = now.mono.since(given.mono) < LETTER_LASTS;
            let knows_by_address = matches!(whom, Whom::Address(address) if address == was_at);
            is_recent && peer.since <= given.mono && (knows_by_address || self.is_meant(whom, peer))
        };
        self.handovers
            .orders
            .iter()
            .find(is_meant)
            .map(|order| order.reason)
    }
}

impl Handovers {
    /// Whether letters wait that nobody will announce again.
    pub(super) fn has_letters(&self) -> bool {
        self.has_letters
    }

    /// All peers that are meant end, here and at the other workers.
    pub(super) fn on_order(&mut self, now: Now, whom: Whom, reason: CloseReason) {
        if self.orders.len() == ORDERS_MAX {
            self.orders.pop_front();
        }
        self.orders.push_back(Order {
            given: now,
            whom,
            reason,
        });
    }

    /// Each question goes to all `others`, and they ask as well.
    fn may_ask(&mut self, now: Now, others: u32) -> bool {
        let max = (QUESTIONS_PER_SEC / others.max(1)).max(1);
        self.asked.take(now.mono, max)
    }
}

/// Questions that reach one worker. What a flood of datagrams from unknown addresses may cost it: for
/// each a lookup, and a decryption where a session behind the same IP is silent.
const QUESTIONS_PER_SEC: u32 = 1_000;

const LETTERS_PER_TURN: usize = 64;

/// A peer is on its way for no longer than this, however busy its next worker is.
const LETTER_LASTS: Duration = Duration::from_secs(10);

/// Orders that are remembered. More in [`LETTER_LASTS`] come from a script, which finds what is left.
const ORDERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A script that kicks one by one for ever takes no memory, and the last that it kicked are those who may be on their way.
    #[test]
    fn the_last_orders_are_remembered() {
        let mut handovers = Handovers::default();
        for session in 0..1_000 {
            handovers.on_order(Now::default(), Whom::Session(session), CloseReason::Kicked);
        }
        let sessions = handovers.orders.iter().map(|order| match order.whom {
            Whom::Session(session) => session,
            whom => panic!("{whom} was not kicked"),
        });
        let last = (1_000 - ORDERS_MAX as u64)..1_000;
        assert!(sessions.eq(last), "{:?}", handovers.orders);
    }

    /// Each question goes to all others, and all of them ask.
    #[test]
    fn no_worker_is_asked_more_often_than_it_can_look() {
        let asked = |others| {
            let mut handovers = Handovers::default();
            let granted = (0..2_000).filter(|_| handovers.may_ask(Now::default(), others));
            granted.count()
        };
        assert_eq!([1, 4, 5_000].map(asked), [1_000, 250, 1]);
    }
}
