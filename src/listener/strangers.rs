//! Strangers: which of their datagrams may wait, when handshakes are handled, and whose address is banned.

use std::net::SocketAddr;

use tidegate_proto::{Endpoint, Handled, Now, PeerId, Reject, StrangerClass, Timestamp};

use super::receive::Charged;
use super::refusal_log::RefusalLog;
use super::stranger_queue::StrangerQueue;
use super::{Listener, Turn};
use crate::admission::Admission;
use crate::udp::Route;

/// Those who are not let in, or not yet.
pub(super) struct Strangers {
    /// What is asked about them; `None` where only dialled peers are heard.
    pub(super) admission: Option<Admission>,
    pub(super) queue: StrangerQueue,
    pub(super) refusal_log: RefusalLog,
}

impl Strangers {
    pub(super) fn new(admission: Option<Admission>) -> Self {
        Self {
            admission,
            queue: StrangerQueue::default(),
            refusal_log: RefusalLog::default(),
        }
    }

    /// Whether a stranger's datagram is worth a place among those that wait.
    pub(super) fn judge(
        &mut self,
        endpoint: &mut Endpoint,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        let Some(admission) = &mut self.admission else {
            return Ok(());
        };
        admission.check(now.mono, from)?;
        let class = endpoint.classify(now, from, datagram)?;
        if class == StrangerClass::Early && !self.queue.takes_more_of(from) {
            return Err(Reject::Unexpected);
        }
        admission.charge(now.mono, from, class)
    }

    /// One of them was a peer of ours, behind another port.
    pub(super) fn refund_stray(&mut self, from: SocketAddr) {
        if let Some(admission) = &mut self.admission {
            admission.refund_stray(from);
        }
    }
}

impl Listener {
    /// Strangers, after everybody who plays has had their share of the turn. A handshake costs as much
    /// as a dozen packets, and a stream to the backend as much again: only so many in a turn, so that a
    /// storm of joins is not felt by those who are in.
    pub fn handle_strangers(&mut self, turn: &mut Turn<'_>) {
        if self.strangers.queue.is_empty() {
            return;
        }
        let mut queue = std::mem::take(&mut self.strangers.queue);
        let mut answers = ANSWERS_PER_TURN;
        for _ in 0..STRANGERS_PER_TURN {
            if answers == 0 {
                break;
            }
            let Some((route, datagram)) = queue.next() else {
                break;
            };
            if self.handle_stranger(turn, route, datagram) {
                answers -= 1;
            }
        }
        self.strangers.queue = queue;
        // Accepted strangers get their backend connected at once, and answers leave now.
        self.pump(turn);
        self.transmit(turn);
    }

    /// One datagram of those that waited; whether it was answered, or let its sender in.
    fn handle_stranger(&mut self, turn: &mut Turn<'_>, route: Route, datagram: &mut [u8]) -> bool {
        let charged = match self.charge_let_in(turn.now, route.from, datagram.len()) {
            Ok(charged) => charged,
            Err(reject) => {
                self.counters.on_reject(reject);
                return false;
            }
        };
        // The last one, or another worker's of this moment, may have taken the last place.
        self.open_or_shut();
        let handled = self
            .endpoint
            .handle_datagram(turn.now, route.from, datagram, turn.reply);
        let was_answered = match handled {
            Handled::Rejected(why) => {
                // A peer that is here already may move, though nobody new is taken.
                if let Reject::UnknownPeer | Reject::Full | Reject::Draining = why {
                    self.ask_siblings(turn.now, route, datagram);
                }
                false
            }
            Handled::PeerRejected(id, reject) => {
                self.refund(id, reject, charged);
                false
            }
            Handled::Peer(_) => false,
            Handled::Moved(_) => {
                self.strangers.refund_stray(route.from);
                true
            }
            Handled::Accepted(_) | Handled::Replied => true,
        };
        if !turn.reply.is_empty() {
            turn.outgoing.bytes().extend_from_slice(turn.reply);
            // Who shows a token that not everybody can make may be told of in the log, if it cannot be answered.
            if self.terms.is_open {
                turn.outgoing.push_unproven(route.from, route.to);
            } else {
                turn.outgoing.push(route.from, route.to);
            }
        }
        self.after_datagram(turn.now, turn.outgoing, route, handled);
        was_answered
    }

    /// What was said behind an answer that let its sender in: that is a stranger no more, and pays as peers do.
    fn charge_let_in(
        &mut self,
        now: Now,
        from: SocketAddr,
        length: usize,
    ) -> Result<Charged, Reject> {
        let Some(id) = self.endpoint.find(from) else {
            return Ok(Charged::NOTHING);
        };
        let charged = self.charge(now, id, length)?;
        if self.memory.is_short() {
            self.account(id);
        }
        Ok(charged)
    }

    /// A stranger is a peer now.
    pub(super) fn insert(&mut self, now: Timestamp, id: PeerId, route: Route) {
        let mut peer = self.new_peer(id, route.from, now);
        peer.ours = route.to;
        self.peers.insert(Box::new(peer));
        self.touch(id);
    }

    /// A peer from there broke the protocol: counts it here and where the kernel may send the next one.
    pub(super) fn strike(&mut self, now: Timestamp, from: SocketAddr) {
        let Some(admission) = &mut self.strangers.admission else {
            return;
        };
        if !admission.counts_strikes() {
            return;
        }
        self.siblings.tell_of_strike(from);
        if let Some(ban) = admission.on_strike(now, from) {
            tracing::warn!(
                event = "source_banned",
                reason = "strikes",
                listener = %self.name,
                peer = %from,
                range = %ban.range,
                for_s = ban.span.as_secs(),
                help = "peers from here broke the protocol more often than limits.strikes allows: newcomers from \
                        this range are refused for so long, and those who play stay; `tidegate ctl unban RANGE` \
                        lets them in. Mostly a client with another layout",
            );
        }
    }

    /// What strangers send is not logged, with one exception: a token that was made with our key and names another
    /// server. That is a mistake in the settings of this side, which the player neither sees nor can mend.
    pub(super) fn log_wrong_address(&self, reject: Reject, from: SocketAddr) {
        if reject == Reject::TokenAddress {
            tracing::warn!(
                event = "token_refused",
                reason = reject.label(),
                listener = %self.name,
                peer = %from,
                help = "a connect token made with our key names another address: public_addresses, which the \
                        line `listening` has, must list what players dial; `tidegate token inspect` shows what \
                        a token names",
            );
        }
    }
}

/// Handshake packets answered in a turn, each some 20 microseconds, and as much again for a stream.
const ANSWERS_PER_TURN: usize = 8;

/// Strangers' datagrams looked at in a turn. Most are refused for their first bytes.
const STRANGERS_PER_TURN: usize = 256;
