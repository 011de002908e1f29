//! One socket's worth of peers: which session a datagram belongs to, who wakes when, whose output
//! is next. Nothing else touches a session, so the contract of [`Session`] is kept here.
//!
//! ```text
//!   datagram ──▶ known address? ──yes──▶ Session::handle_datagram ──▶ active
//!                     │ no                                             queue ──▶ poll_transmit
//!                     ▼                                                  ▲       poll_event
//!                 Acceptor: reject, deny, reply, accept ─────────────────┤
//!                     │ UnknownPeer                                      │
//!                     ▼                                                timers
//!                 did a NAT move one of ours? (Session::vouches_for)
//! ```

mod peer_table;
mod timers;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use self::peer_table::{Peer, PeerTable};
use self::timers::Timers;
use crate::session::{
    Acceptor, Channel, CloseReason, Event, Glance, Identity, Message, Reject, SendError, Session,
    Stranger, Verdict,
};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};

pub use self::peer_table::PeerId;

/// What an endpoint may do.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Peers at most, closing ones included.
    pub peers_max: usize,
    /// Whether a session follows its peer to a new address.
    pub follow: Follow,
    /// Proofs of a new address tried per second, over all peers: what a flood of datagrams from
    /// unknown addresses may cost in cryptography.
    pub follow_tries_per_sec: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            peers_max: 4096,
            follow: Follow::default(),
            follow_tries_per_sec: 1_000,
        }
    }
}

/// How far a session follows its peer when a NAT gives it another address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Not at all.
    Off,
    /// To another port of the same IP: what home routers do.
    #[default]
    Port,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Taken by this peer's session.
    Peer(PeerId),
    /// Taken by this peer's session, which moved here from another address.
    Moved(PeerId),
    /// Not taken by this peer's session.
    PeerRejected(PeerId, Reject),
    /// A new session, for this peer.
    Accepted(PeerId),
    /// A stranger's, and `reply` holds an answer.
    Replied,
    /// A stranger's. `reply` may hold a refusal that the protocol sends.
    Rejected(Reject),
}

/// One socket's peers and rules.
pub struct Endpoint {
    acceptor: Box<dyn Acceptor>,
    params: Params,
    peers: PeerTable,
    timers: Timers,
    /// Peers that may have datagrams to send. A peer is in it once; a drain costs what is active.
    active: VecDeque<PeerId>,
    events: VecDeque<(PeerId, Event)>,
    refusing: Option<Reject>,
    /// Counters of sessions that are gone.
    retired: Stats,
    survey: Survey,
    /// Awaited peers that take messages again.
    roomy: Vec<PeerId>,
    tries: Tries,
    /// Port from which on a moved peer is looked for next.
    follow_from: u16,
}

/// A walk over all peers, a part at a time.
#[derive(Default)]
struct Survey {
    /// Peers in slots below were visited.
    visited: usize,
    /// What those counted, and whoever was gone before the walk came by.
    sum: Stats,
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
            events: VecDeque::new(),
            refusing: None,
            retired: Stats::default(),
            survey: Survey::default(),
            roomy: Vec::new(),
            follow_from: 0,
            tries: Tries {
                left: params.follow_tries_per_sec,
                second: 0,
            },
        }
    }

    /// The peer at this address: its datagrams need no admission.
    pub fn find(&self, from: SocketAddr) -> Option<PeerId> {
        self.peers.find(from)
    }

    /// What can be told of a stranger's datagram for next to nothing, before it is paid for.
    pub fn glance(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<Glance, Reject> {
        self.acceptor.glance(now, from, datagram)
    }

    /// Routes one datagram. `reply` is cleared; it is not empty when something is to be sent back to
    /// `from`, and never more than [`Stranger::may_reply`] allows.
    pub fn handle_datagram(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &mut [u8],
        reply: &mut Vec<u8>,
    ) -> Handled {
        reply.clear();
        match self.peers.find(from) {
            Some(peer) => self.handle_known(now, peer, datagram),
            None => self.handle_stranger(now, from, datagram, reply),
        }
    }

    /// As [`Endpoint::handle_datagram`], for a peer that [`Endpoint::find`] has just found.
    pub fn handle_datagram_of(&mut self, now: Now, peer: PeerId, datagram: &mut [u8]) -> Handled {
        self.handle_known(now, peer, datagram)
    }

    /// Adds a session that we began ourselves.
    pub fn dial(&mut self, now: Now, to: SocketAddr, session: Box<dyn Session>) -> PeerId {
        let peer = self.peers.insert(now.mono, to, session);
        self.touch(peer);
        peer
    }

    /// Wakes everybody whose time has come.
    pub fn handle_timeout(&mut self, now: Now) {
        if self
            .acceptor
            .poll_timeout()
            .is_some_and(|deadline| deadline.at <= now.mono)
        {
            self.acceptor.handle_timeout(now);
        }
        while let Some((at, id)) = self.timers.pop_due(now.mono) {
            let Some(peer) = self.peers.get_mut(id) else {
                continue;
            };
            if peer.scheduled != at {
                continue;
            }
            peer.scheduled = Timestamp::MAX;
            if peer
                .session
                .poll_timeout()
                .is_some_and(|deadline| deadline.at <= now.mono)
            {
                peer.session.handle_timeout(now);
            }
            self.touch(id);
        }
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

    /// Whether this peer takes another message; false for a peer that is gone.
    pub fn has_room(&self, id: PeerId) -> bool {
        self.peers
            .get(id)
            .is_some_and(|peer| peer.session.has_room())
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

    /// The next thing the owner should know.
    pub fn poll_event(&mut self) -> Option<(PeerId, Event)> {
        self.events.pop_front()
    }

    /// Whether `poll_event` has something: also sending makes events.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Appends one datagram to `out` and says whose it is and where it goes. Peers take turns, a burst
    /// at a time: datagrams to one peer leave side by side, which is what segmentation offload wants.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<(PeerId, SocketAddr)> {
        while let Some(&id) = self.active.front() {
            let Some(peer) = self.peers.get_mut(id) else {
                self.active.pop_front();
                continue;
            };
            if peer.session.poll_transmit(now, out) {
                return Some((id, peer.address));
            }
            self.active.pop_front();
            peer.queued = false;
            if peer.leaving {
                self.forget(id);
            } else {
                self.settle(id);
            }
        }
        None
    }

    /// As [`Endpoint::poll_transmit`], for a peer whose acknowledgements would come too late if
    /// more datagrams were handled first; nothing when it is in no hurry.
    pub fn poll_urgent(&mut self, now: Now, id: PeerId, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let peer = self.peers.get_mut(id)?;
        (peer.session.is_urgent() && peer.session.poll_transmit(now, out)).then_some(peer.address)
    }

    /// When `handle_timeout` has something to do; "now" is never needed, since output is polled dry.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let timers = self.timers.next().map(|at| Deadline {
            at,
            why: Wake::SendSlot,
        });
        Deadline::earlier(timers, self.acceptor.poll_timeout())
    }

    /// The most peers it takes.
    pub fn peers_max(&self) -> usize {
        self.params.peers_max
    }

    /// Takes no new peers from now on, for this reason; `None` takes them again.
    pub fn set_refusing(&mut self, reason: Option<Reject>) {
        self.refusing = reason;
    }

    /// Lets go of a peer that has closed and been emptied: it is forgotten, and its counters kept,
    /// as soon as its goodbyes have left.
    pub fn remove(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.leaving = true;
            self.touch(id);
        }
    }

    /// The peer that made this datagram, which came to another endpoint of the same listener from an
    /// address that nobody has there; see [`Endpoint::take_out`].
    pub fn claim(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) -> Option<PeerId> {
        self.moved_peer(now, from, datagram)
    }

    /// Gives a peer's session away, with what it counted so far, which stays counted here.
    pub fn take_out(&mut self, id: PeerId) -> Option<(Box<dyn Session>, Stats)> {
        let session = self.remove_counted(id)?;
        let stats = session.stats();
        Some((session, stats))
    }

    /// Takes a session that another endpoint gave away; `before` is counted there.
    pub fn adopt(
        &mut self,
        now: Now,
        from: SocketAddr,
        session: Box<dyn Session>,
        before: Stats,
    ) -> PeerId {
        let id = self.peers.insert(now.mono, from, session);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.before = Some(Box::new(before));
        }
        self.touch(id);
        id
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

    /// Where a peer is.
    pub fn address(&self, id: PeerId) -> Option<SocketAddr> {
        self.peers.get(id).map(|peer| peer.address)
    }

    /// Who a peer is.
    pub fn identity(&self, id: PeerId) -> Option<Identity<'_>> {
        self.peers.get(id).map(|peer| peer.session.identity())
    }

    /// What a peer counted.
    pub fn stats(&self, id: PeerId) -> Option<Stats> {
        self.peers.get(id).map(|peer| peer.session.stats())
    }

    /// All peers, for views and samples.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, SocketAddr, &dyn Session)> {
        self.peers
            .iter()
            .map(|(id, peer)| (id, peer.address, &*peer.session))
    }

    /// Counters of sessions that were removed.
    pub fn retired(&self) -> &Stats {
        &self.retired
    }

    /// Begins a walk over all peers.
    pub fn begin_survey(&mut self) {
        self.survey = Survey {
            visited: 0,
            sum: self.retired,
        };
    }

    /// Visits the peers of the next `slots` slots. When that were the last ones: the counters of all
    /// sessions there ever were. However long the walk takes, no session is counted twice or left
    /// out: one that is gone before the walk comes by is counted when it goes.
    pub fn survey(
        &mut self,
        slots: usize,
        mut visit: impl FnMut(PeerId, SocketAddr, &dyn Session, &Stats),
    ) -> Option<Stats> {
        let Survey { visited, sum } = &mut self.survey;
        let end = self.peers.slots().min(visited.saturating_add(slots));
        for (id, peer) in self.peers.in_slots(*visited..end) {
            let stats = peer.session.stats();
            sum.absorb(&peer.counted(&stats));
            visit(id, peer.address, &*peer.session, &stats);
        }
        *visited = end;
        (end == self.peers.slots()).then_some(*sum)
    }

    /// Whether the walk under way has been at this peer.
    pub fn is_surveyed(&self, id: PeerId) -> bool {
        id.slot() < self.survey.visited
    }

    /// Have [`Endpoint::poll_room`] tell when this peer takes messages again.
    pub fn await_room(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.awaited = true;
            self.touch(id);
        }
    }

    /// A peer that was awaited and takes messages again, or is over.
    pub fn poll_room(&mut self) -> Option<PeerId> {
        self.roomy.pop()
    }

    /// Whether `poll_room` has one.
    pub fn has_room_news(&self) -> bool {
        !self.roomy.is_empty()
    }

    fn handle_known(&mut self, now: Now, id: PeerId, datagram: &mut [u8]) -> Handled {
        let Some(peer) = self.peers.get_mut(id) else {
            return Handled::Rejected(Reject::UnknownPeer);
        };
        let outcome = peer.session.handle_datagram(now, datagram);
        if outcome.is_ok() {
            peer.heard = now.mono;
        }
        self.touch(id);
        match outcome {
            Ok(()) => Handled::Peer(id),
            Err(reject) => Handled::PeerRejected(id, reject),
        }
    }

    fn handle_stranger(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &mut [u8],
        reply: &mut Vec<u8>,
    ) -> Handled {
        let offered = datagram.len();
        let stranger = Stranger {
            from,
            datagram,
            reply,
        };
        let verdict = match self.refusing {
            None => self.acceptor.handle_unknown(now, stranger),
            Some(reason) => self.acceptor.handle_refused(now, stranger, reason),
        };
        if !Stranger::may_reply(offered, reply.len()) {
            reply.clear();
        }
        match verdict {
            Verdict::Reject(reject) => {
                reply.clear();
                let unknown = reject == Reject::UnknownPeer || Some(reject) == self.refusing;
                let moved = unknown.then(|| self.handle_moved(now, from, datagram));
                moved.flatten().unwrap_or(Handled::Rejected(reject))
            }
            Verdict::Deny(reject) => Handled::Rejected(reject),
            Verdict::Reply => Handled::Replied,
            Verdict::Accept(_) if self.peers.len() >= self.params.peers_max => {
                Handled::Rejected(Reject::Full)
            }
            Verdict::Accept(session) => {
                let id = self.peers.insert(now.mono, from, session);
                self.touch(id);
                Handled::Accepted(id)
            }
        }
    }

    fn handle_moved(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8]) -> Option<Handled> {
        let id = self.moved_peer(now, from, datagram)?;
        self.peers.move_to(id, from);
        Some(match self.handle_known(now, id, datagram) {
            Handled::Peer(id) => Handled::Moved(id),
            other => other,
        })
    }

    /// The peer that sent this datagram from a new address, if one did: it must have gone silent at
    /// its old one, and the datagram must carry a proof under its key. Bounded per datagram and per
    /// second, because each try costs a decryption.
    fn moved_peer(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) -> Option<PeerId> {
        if self.params.follow == Follow::Off {
            return None;
        }
        let tries = &mut self.tries;
        // Where the last search ended: however many peers are behind one address, each is tried.
        let behind = self.peers.behind(from.ip(), self.follow_from);
        let known = behind
            .take(FOLLOW_LOOKS)
            .filter_map(|id| Some((id, self.peers.get(id)?)));
        let silent =
            known.filter(|(_, peer)| !peer.closed && now.mono.since(peer.heard) >= FOLLOW_SILENCE);
        for (id, peer) in silent.take(FOLLOW_CANDIDATES) {
            if !tries.take(now, self.params.follow_tries_per_sec) {
                return None;
            }
            if peer.session.vouches_for(datagram) {
                return Some(id);
            }
            self.follow_from = peer.address.port().wrapping_add(1);
        }
        None
    }

    fn with<R>(&mut self, id: PeerId, act: impl FnOnce(&mut dyn Session) -> R) -> Option<R> {
        let result = act(&mut *self.peers.get_mut(id)?.session);
        self.touch(id);
        Some(result)
    }

    /// A session changed: take its events now, its datagrams in turn.
    fn touch(&mut self, id: PeerId) {
        self.collect_events(id);
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        if !peer.queued {
            peer.queued = true;
            self.active.push_back(id);
        }
    }

    /// A session has no datagram left for now: what it decided meanwhile, and when it wakes.
    fn settle(&mut self, id: PeerId) {
        self.collect_events(id);
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let Peer {
            session,
            scheduled,
            awaited,
            ..
        } = peer;
        if *awaited && (session.has_room() || peer.closed) {
            *awaited = false;
            self.roomy.push(id);
        }
        if let Some(deadline) = session.poll_timeout() {
            self.timers.schedule(id, deadline.at, scheduled);
        }
    }

    fn forget(&mut self, id: PeerId) {
        self.remove_counted(id);
    }

    fn remove_counted(&mut self, id: PeerId) -> Option<Box<dyn Session>> {
        let peer = self.peers.remove(id)?;
        let stats = peer.counted(&peer.session.stats());
        self.retired.absorb(&stats);
        if !self.is_surveyed(id) {
            self.survey.sum.absorb(&stats);
        }
        Some(peer.session)
    }

    fn collect_events(&mut self, id: PeerId) {
        while let Some(event) = self
            .peers
            .get_mut(id)
            .and_then(|peer| peer.session.poll_event())
        {
            self.events.push_back((id, event));
            if matches!(event, Event::Closed(_)) {
                self.peers.release_address(id);
            }
        }
    }
}

/// The per-second budget of address proofs.
struct Tries {
    left: u32,
    second: u64,
}

impl Tries {
    fn take(&mut self, now: Now, per_sec: u32) -> bool {
        let second = now.mono.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.left) = (second, per_sec);
        }
        let granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        granted
    }
}

/// Silent peers behind one IP that are tried for one datagram; the next datagram tries the next ones.
const FOLLOW_CANDIDATES: usize = 16;

/// Peers behind one IP that are looked at for that.
const FOLLOW_LOOKS: usize = 256;

/// A peer that was heard less than this ago has not moved: one that has something to say, or to
/// acknowledge, sends more often.
const FOLLOW_SILENCE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
