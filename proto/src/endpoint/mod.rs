//! One socket's worth of peers: which session a datagram belongs to, who wakes when, whose output
//! is next. Nothing else touches a session, so the contract of [`Session`] is kept here.
//!
//! ```text
//!   datagram ──▶ known address? ──yes──▶ Session::handle_datagram ──▶ active
//!                     │ no                         │ not its own       queue ──▶ poll_transmit
//!                     ▼                            │                     ▲       poll_event
//!                 Acceptor: reject, deny, reply, accept ─────────────────┤
//!                     │ UnknownPeer                │                     │
//!                     ▼                            ▼                   timers
//!                 did a NAT move one of ours? (Session::vouches_for)
//! ```
//!
//! Here is what its owner tells and asks it, by peer; `routing` has the left half of the picture,
//! `turns` the right one, and `follow` its last line.

mod follow;
mod handover;
mod peer_table;
mod routing;
mod survey;
mod timers;
mod tries;
mod turns;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::session::{
    Acceptor, Allowance, Channel, CloseReason, Event, Held, Identity, Message, Reject, SendError,
    Session,
};
use crate::stats::Stats;
use crate::time::Now;

pub use follow::Follow;
pub use peer_table::PeerId;
pub use routing::Handled;
pub use timers::{Scheduled, Timers};

use follow::Search;
use peer_table::PeerTable;
use survey::Survey;

/// What an endpoint may do.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Peers at most, but for those that closed and only empty themselves.
    pub peers_max: usize,
    /// Whether a session follows its peer to a new address.
    pub follow: Follow,
    /// Proofs of a new address tried in vain per second, over all peers: what a flood of datagrams from
    /// unknown addresses may cost in cryptography.
    pub follow_tries_per_sec: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            peers_max: 4096,
            follow: Follow::default(),
            // 0.5 to 0.8 us each, by the datagram's length.
            follow_tries_per_sec: 10_000,
        }
    }
}

/// One socket's peers and rules.
pub struct Endpoint {
    acceptor: Box<dyn Acceptor>,
    params: Params,
    peers: PeerTable,
    timers: Timers<PeerId>,
    /// Peers that may have datagrams to send. A peer is in it once; a drain costs what is active.
    active: VecDeque<PeerId>,
    /// Bytes that the first of them sent since it is that.
    burst: usize,
    /// Of these, those who are over, and may have goodbyes to say.
    ended: VecDeque<PeerId>,
    events: VecDeque<(PeerId, Event)>,
    /// How many peers are awaited, and not polled since they take messages again.
    awaited: usize,
    /// Those of them whose session has room now.
    roomy: Vec<PeerId>,
    refusing: Option<Reject>,
    search: Search,
    /// The datagram in hand as it came, where it may be of another peer than of the one at its address.
    doubtful: Vec<u8>,
    survey: Survey,
}

impl Endpoint {
    /// An endpoint whose strangers are judged by `acceptor`.
    pub fn new(acceptor: Box<dyn Acceptor>, params: Params) -> Self {
        Self {
            acceptor,
            params,
            peers: PeerTable::default(),
            timers: Timers::default(),
            active: VecDeque::new(),
            burst: 0,
            ended: VecDeque::new(),
            events: VecDeque::new(),
            awaited: 0,
            roomy: Vec::new(),
            refusing: None,
            search: Search::new(params.follow, params.follow_tries_per_sec),
            doubtful: Vec::new(),
            survey: Survey::default(),
        }
    }

    /// Takes no new peers from now on, for this reason; `None` takes them again.
    pub fn set_refusing(&mut self, reason: Option<Reject>) {
        self.refusing = reason;
    }

    /// Adds a session that we began ourselves.
    pub fn dial(&mut self, now: Now, to: SocketAddr, session: Box<dyn Session>) -> PeerId {
        let peer = self.peers.insert(now.mono, to, session);
        self.touch(peer);
        peer
    }

    /// Seats a peer whose backend is there.
    pub fn admit(&mut self, now: Now, id: PeerId) {
        self.with(id, |session| session.admit(now));
    }

    /// Queues a message for a peer; a peer that is gone is [`SendError::Closed`].
    pub fn send(
        &mut self,
        now: Now,
        id: PeerId,
        channel: Channel,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.with(id, |session| session.send(now, channel, payload))
            .unwrap_or(Err(SendError::Closed))
    }

    /// Delivers what was sent to a peer, then closes it; see [`Session::finish`].
    pub fn finish(&mut self, now: Now, id: PeerId, reason: CloseReason, linger: Duration) {
        self.with(id, |session| session.finish(now, reason, linger));
    }

    /// Closes a peer.
    pub fn close(&mut self, now: Now, id: PeerId, reason: CloseReason) {
        self.with(id, |session| session.close(now, reason));
    }

    /// Everything polled from this peer was written to where it goes.
    pub fn confirm_written(&mut self, now: Now, id: PeerId) {
        self.with(id, |session| session.confirm_written(now));
    }

    /// Lets go of a peer that has closed and been emptied: it is forgotten, and its counters kept,
    /// as soon as its goodbyes have left.
    pub fn let_go(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.leaving = true;
            self.touch(id);
        }
    }

    /// Whether this peer waits for its turn, and may have datagrams to send.
    pub fn is_in_turn(&self, id: PeerId) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.queued)
    }

    /// Whether this peer takes another message; false for a peer that is gone.
    pub fn has_room(&self, id: PeerId) -> bool {
        self.peers
            .get(id)
            .is_some_and(|peer| peer.session.has_room())
    }

    /// See [`Session::piece_bytes`].
    pub fn piece_bytes(&self, id: PeerId) -> usize {
        let peer = self.peers.get(id);
        peer.map_or(usize::MAX, |peer| peer.session.piece_bytes())
    }

    /// The next message from this peer; see [`Session::poll_message`].
    pub fn poll_message(&mut self, id: PeerId) -> Option<Message<'_>> {
        self.peers.get_mut(id)?.session.poll_message()
    }

    /// Bytes of messages that this peer's session holds for us.
    pub fn inbox_bytes(&self, id: PeerId) -> usize {
        self.peers
            .get(id)
            .map_or(0, |peer| peer.session.inbox_bytes())
    }

    /// [`Session::held`], nothing when there is no such peer.
    pub fn held(&self, id: PeerId) -> Held {
        let peer = self.peers.get(id);
        peer.map_or_else(Held::default, |peer| peer.session.held())
    }

    /// [`Session::take_surcharge`], nothing when there is no such peer.
    pub fn take_surcharge(&mut self, id: PeerId) -> usize {
        let peer = self.peers.get_mut(id);
        peer.map_or(0, |peer| peer.session.take_surcharge())
    }

    /// [`Session::set_allowance`].
    pub fn set_allowance(&mut self, id: PeerId, allowance: Allowance) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.session.set_allowance(allowance);
        }
    }

    /// The most peers it takes.
    pub fn peers_max(&self) -> usize {
        self.params.peers_max
    }

    /// Changes the limit for newcomers. Peers that are here stay.
    pub fn set_peers_max(&mut self, peers_max: usize) {
        self.params.peers_max = peers_max;
    }

    /// Peers, closing ones included.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether there is no peer.
    pub fn is_empty(&self) -> bool {
        self.peers.len() == 0
    }

    /// Handshakes under way.
    pub fn handshakes_pending(&self) -> usize {
        self.acceptor.pending()
    }

    /// Where a peer is; `None` once it is gone.
    pub fn address(&self, id: PeerId) -> Option<SocketAddr> {
        self.peers.get(id).map(|peer| peer.address)
    }

    /// Who a peer is; `None` once it is gone.
    pub fn identity(&self, id: PeerId) -> Option<Identity<'_>> {
        self.peers.get(id).map(|peer| peer.session.identity())
    }

    /// What a peer counted so far; `None` once it is gone.
    pub fn stats(&self, id: PeerId) -> Option<Stats> {
        self.peers.get(id).map(|peer| peer.session.stats())
    }

    /// All peers, for views and samples.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, SocketAddr, &dyn Session)> {
        self.peers
            .iter()
            .map(|(id, peer)| (id, peer.address, &*peer.session))
    }

    fn with<R>(&mut self, id: PeerId, act: impl FnOnce(&mut dyn Session) -> R) -> Option<R> {
        let result = act(&mut *self.peers.get_mut(id)?.session);
        self.touch(id);
        Some(result)
    }
}

#[cfg(test)]
mod tests;
