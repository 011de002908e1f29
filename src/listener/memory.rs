//! What the queues of our peers hold, and what they may.
//!
//! A peer is accounted for whenever something moved for it: the difference goes into our sum, and from there,
//! some kilobytes at a time, to what all workers share. So the sum is exact at every moment, and
//! nobody has to visit all peers for it. Once memory is short (`capacity.rs` says when), each
//! accounting also says what the peer's queues may grow to: its session refuses packets beyond that, and
//! its stream is not read.

use std::sync::Arc;

use tidegate_proto::{Allowance, Held, PeerId, Timestamp};

use super::Listener;
use super::peer::Peer;
use crate::backend::Stream;
use crate::capacity::{Capacity, Queued};
use crate::counters::Direction;

/// The memory of all peers of this listener on this worker.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) capacity: Arc<Capacity>,
    all: Queued,
    /// What of it `capacity` knows.
    told: Queued,
    /// Peers whose sessions have an allowance.
    limited: usize,
    /// How many peers have a queue that may not grow.
    held_back: u64,
    /// When peers may next be closed for what they hold.
    pub(super) sheds_at: Timestamp,
}

/// What was last accounted for one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accounted {
    /// Bytes that its session and its stream hold together.
    held: Held,
    /// Its session has an allowance.
    is_limited: bool,
    is_held_back: bool,
}

impl Accounted {
    pub(super) fn queued(&self) -> Queued {
        let Held {
            inbox,
            ahead,
            pieces,
            outbox,
        } = self.held;
        Queued::of_session([(inbox + ahead) as u64, outbox as u64], pieces as u64)
    }

    /// Whether one of its queues may not grow.
    pub(super) fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Bytes of the largest queue of those that go this way.
    fn largest_queue(&self, direction: Direction) -> usize {
        match direction {
            Direction::ToBackend => self.held.inbox.max(self.held.ahead),
            Direction::ToPeer => self.held.outbox,
        }
    }
}

impl Memory {
    pub(super) fn new(capacity: Arc<Capacity>) -> Self {
        Self {
            capacity,
            all: Queued::default(),
            told: Queued::default(),
            limited: 0,
            held_back: 0,
            sheds_at: Timestamp::ZERO,
        }
    }

    /// In all queues here.
    pub(super) fn queued(&self) -> Queued {
        self.all
    }

    /// Bytes in all queues here by direction: for the backend, and for the peers.
    pub(super) fn by_direction(&self) -> [u64; Direction::ALL.len()] {
        let [to_backend, to_peer] = self.all.messages;
        [to_backend + self.all.pieces, to_peer]
    }

    /// Peers with a queue that may not grow.
    pub(super) fn held_back(&self) -> u64 {
        self.held_back
    }

    /// Whether peers are to be accounted for before they are given anything.
    pub(super) fn is_short(&self) -> bool {
        let is_limited = |direction| self.share(direction).is_some();
        self.limited > 0
            || self.share_of_pieces().is_some()
            || Direction::ALL.into_iter().any(is_limited)
    }

    /// What one queue may hold, if that is limited now. Never 0: a peer that holds nothing may always have
    /// one packet, or message.
    fn share(&self, direction: Direction) -> Option<usize> {
        let [all, told] = [self.all, self.told].map(|it| it.messages[direction as usize]);
        let share = self.capacity.share(direction, all.wrapping_sub(told));
        share.map(|share| in_memory(share.max(1)))
    }

    /// What messages under way in pieces may come to in one session, if that is limited now.
    fn share_of_pieces(&self) -> Option<usize> {
        let untold = self.all.pieces.wrapping_sub(self.told.pieces);
        self.capacity.share_of_pieces(untold).map(in_memory)
    }

    /// Bytes that may be added to what this peer's session holds for it.
    pub(super) fn room_for(&self, peer: &Peer) -> usize {
        // What was read and went no further is not in its own way.
        let held = peer.accounted.held.outbox - peer.stream.held_for_peer();
        let share = self.share(Direction::ToPeer);
        share.map_or(usize::MAX, |share| share.saturating_sub(held))
    }

    /// A peer holds something else now.
    pub(super) fn account(&mut self, accounted: &mut Accounted, session: Held, stream: &Stream) {
        let held = Held {
            inbox: session.inbox + stream.held_for_backend(),
            outbox: session.outbox + stream.held_for_peer(),
            ..session
        };
        if held == accounted.held {
            return;
        }
        self.all.subtract(accounted.queued());
        accounted.held = held;
        self.all.add(accounted.queued());
        if self.all.abs_diff(self.told) >= UNTOLD_MAX {
            self.tell();
        }
    }

    /// A peer came, with all it holds.
    pub(super) fn on_came(&mut self, accounted: &Accounted) {
        self.all.add(accounted.queued());
        self.limited += usize::from(accounted.is_limited);
        self.held_back += u64::from(accounted.is_held_back);
    }

    /// A peer is gone, with all it held.
    pub(super) fn on_gone(&mut self, accounted: &Accounted) {
        self.all.subtract(accounted.queued());
        self.limited -= usize::from(accounted.is_limited);
        self.held_back -= u64::from(accounted.is_held_back);
    }

    /// The others know all of it.
    pub(super) fn tell(&mut self) {
        let told = std::mem::replace(&mut self.told, self.all);
        if self.all != told {
            self.capacity.on_queued(told, self.all);
        }
    }

    /// What its session may hold, while that is less than its own limits allow.
    fn limit(&self, peer: &Peer) -> Option<Allowance> {
        let (messages, pieces) = (self.share(Direction::ToBackend), self.share_of_pieces());
        if peer.phase.is_over() || messages.is_none() && pieces.is_none() {
            return None;
        }
        let [messages, pieces] = [messages, pieces].map(|share| share.unwrap_or(usize::MAX));
        Some(Allowance {
            inbox: messages.saturating_sub(peer.stream.held_for_backend()),
            ahead: messages,
            pieces,
        })
    }

    /// Whether it has a queue that holds all of its share.
    fn is_held_back(&self, peer: &Peer) -> bool {
        let is_full = |direction| {
            let share = self.share(direction);
            share.is_some_and(|share| peer.accounted.largest_queue(direction) >= share)
        };
        !peer.phase.is_over() && Direction::ALL.into_iter().any(is_full)
    }

    /// Whether the shares have moved past it since it was last told, while nothing happened to it.
    pub(super) fn has_moved_past(&self, peer: &Peer) -> bool {
        let Accounted {
            is_limited,
            is_held_back,
            ..
        } = peer.accounted;
        (self.limit(peer).is_some(), self.is_held_back(peer)) != (is_limited, is_held_back)
    }

    /// What its session may hold from now on; `None` while it has no limit but its own, and had none.
    fn allowance(&mut self, peer: &mut Peer) -> Option<Allowance> {
        let limit = self.limit(peer);
        let is_held_back = self.is_held_back(peer);
        let accounted = &mut peer.accounted;
        let was_limited = std::mem::replace(&mut accounted.is_limited, limit.is_some());
        let was_held_back = std::mem::replace(&mut accounted.is_held_back, is_held_back);
        self.limited += usize::from(accounted.is_limited);
        self.limited -= usize::from(was_limited);
        self.held_back += u64::from(accounted.is_held_back);
        self.held_back -= u64::from(was_held_back);
        limit.or_else(|| was_limited.then_some(Allowance::UNLIMITED))
    }
}

impl Listener {
    /// Something moved for this peer.
    pub(super) fn account(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let held = self.endpoint.held(id);
        self.memory.account(&mut peer.accounted, held, &peer.stream);
        if let Some(allowance) = self.memory.allowance(peer) {
            self.endpoint.set_allowance(id, allowance);
        }
    }
}

fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// What the others do not know may be this much, for each worker and listener.
const UNTOLD_MAX: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_proto::{AckPolicy, CloseReason, Endpoint, Now, endpoint, rudp};

    use super::super::peer::Phase;
    use super::*;
    use crate::backend::StreamRules;
    use crate::config::UnreliablePolicy;
    use crate::framing::{FrameCodec, Framing};
    use crate::protocol::RejectAll;

    const QUEUE_MEMORY: u64 = 1 << 20;

    fn workers() -> [Memory; 2] {
        let capacity = Arc::new(Capacity::new(2, QUEUE_MEMORY));
        [(); 2].map(|()| Memory::new(capacity.clone()))
    }

    fn peer() -> Peer {
        let (now, at) = (Now::default(), ([127, 0, 0, 1], 1).into());
        let session = Box::new(rudp::Session::dial(now, rudp::Params::default()));
        let mut endpoint = Endpoint::new(Box::new(RejectAll), endpoint::Params::default());
        let rules = StreamRules {
            codec: FrameCodec::new(Framing::U16Be, false, false, 1_024),
            unreliable: UnreliablePolicy::Refuse,
            ack: AckPolicy::Queued,
            stall: Duration::from_secs(1),
            linger: Duration::from_secs(1),
        };
        let id = endpoint.dial(now, at, session);
        Peer::new(id, 1, at, now.mono, rules.into())
    }

    /// A peer's session, which holds so much now, is told this.
    fn hold(memory: &mut Memory, peer: &mut Peer, held: Held) -> Option<Allowance> {
        memory.account(&mut peer.accounted, held, &peer.stream);
        memory.allowance(peer)
    }

    /// What a worker has not told the others counts for itself.
    #[test]
    fn pieces_are_limited_from_an_eighth_of_the_memory_on() {
        let [mut memory, _] = workers();
        let pieces = |bytes: u64| Held {
            pieces: bytes as usize,
            ..Held::default()
        };
        let (eighth, mut peer) = (QUEUE_MEMORY / 8, peer());
        assert_eq!(hold(&mut memory, &mut peer, pieces(eighth - 1)), None);
        assert!(!memory.is_short());
        let allowance = hold(&mut memory, &mut peer, pieces(eighth)).unwrap();
        assert!(memory.is_short());
        assert_eq!(allowance.pieces as u64, eighth / 8, "of what is left");
        assert_eq!([allowance.inbox, allowance.ahead], [usize::MAX; 2]);
        memory.account(&mut peer.accounted, Held::default(), &peer.stream);
        assert!(memory.is_short(), "it has not been told yet");
        assert_eq!(memory.allowance(&mut peer), Some(Allowance::UNLIMITED));
        assert_eq!(hold(&mut memory, &mut peer, pieces(1)), None);
        assert!(!memory.is_short());
    }

    /// Else the worker that it left would count it for ever, and the other would take from its count what was never in it.
    #[test]
    fn a_peer_that_moves_takes_its_limits_along() {
        let [mut here, mut there] = workers();
        let mut peer = peer();
        let (quarter, ahead) = (QUEUE_MEMORY / 4, 1_000);
        let held = Held {
            inbox: quarter as usize,
            ahead,
            ..Held::default()
        };
        hold(&mut here, &mut peer, held).unwrap();
        assert_eq!(here.queued().messages, [quarter + ahead as u64, 0]);
        assert_eq!((here.limited, here.held_back()), (1, 1));
        here.on_gone(&peer.accounted);
        assert_eq!((here.limited, here.held_back()), (0, 0));
        assert_eq!(here.queued(), Queued::default());
        there.on_came(&peer.accounted);
        assert_eq!((there.limited, there.held_back()), (1, 1));
        here.tell();
        there.tell();
        let all = there.capacity.queued();
        assert_eq!(all, peer.accounted.queued(), "known once");
        peer.phase = Phase::Over(CloseReason::PeerDisconnect);
        assert_eq!(there.allowance(&mut peer), Some(Allowance::UNLIMITED));
        assert_eq!(
            (there.limited, there.held_back()),
            (0, 0),
            "it takes no more"
        );
    }
}
