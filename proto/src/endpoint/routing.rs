//! Which session a datagram belongs to, and what becomes of one that belongs to none.

use std::net::SocketAddr;

use super::follow::is_anothers;
use super::{Endpoint, PeerId};
use crate::session::{Reject, Stranger, StrangerClass, Verdict};
use crate::time::Now;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Taken by this peer's session.
    Peer(PeerId),
    /// Taken by this peer's session, which moved here from another address. A silent peer that was here is now where that
    /// one was.
    Moved(PeerId),
    /// Not taken by this peer's session, which may have moved here all the same.
    PeerRejected(PeerId, Reject),
    /// A new session, for this peer.
    Accepted(PeerId),
    /// A stranger's, and `reply` holds an answer.
    Replied,
    /// A stranger's. `reply` may hold a refusal that the protocol sends.
    Rejected(Reject),
}

impl Endpoint {
    /// The peer at this address: its datagrams need no admission.
    pub fn find(&self, from: SocketAddr) -> Option<PeerId> {
        self.peers.find(from)
    }

    /// What can be told of a stranger's datagram for next to nothing, before it is paid for.
    pub fn classify(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        self.acceptor.classify(now, from, datagram)
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
            Some(peer) => self.handle_datagram_of(now, peer, datagram),
            None => self.handle_stranger(now, from, datagram, reply),
        }
    }

    /// Gives one datagram to the peer that [`Endpoint::find`] has just found. It may be another's, see
    /// [`Endpoint::may_be_elsewhere`].
    pub fn handle_datagram_of(&mut self, now: Now, id: PeerId, datagram: &mut [u8]) -> Handled {
        match self.peers.get(id) {
            Some(peer) if self.search.doubts(now, peer) => {
                self.handle_doubtful(now, id, peer.address, datagram)
            }
            Some(_) | None => self.give(now, id, datagram),
        }
    }

    /// A datagram from the address of a silent peer: its own, or that of one that moved here.
    fn handle_doubtful(
        &mut self,
        now: Now,
        id: PeerId,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Handled {
        // To open a datagram destroys what does not open.
        self.doubtful.clear();
        self.doubtful.extend_from_slice(datagram);
        match self.give(now, id, datagram) {
            Handled::PeerRejected(id, reject) if is_anothers(reject) => {
                datagram.copy_from_slice(&self.doubtful);
                let moved = self.handle_moved(now, from, datagram, Some(id));
                moved.unwrap_or(Handled::PeerRejected(id, reject))
            }
            handled => handled,
        }
    }

    /// Whether a datagram that this peer's session has just refused for this may be of a peer that another endpoint of the
    /// same listener has. Then it is as it came.
    pub fn may_be_elsewhere(&self, now: Now, id: PeerId, reject: Reject) -> bool {
        let peer = self.peers.get(id);
        is_anothers(reject) && peer.is_some_and(|peer| self.search.doubts(now, peer))
    }

    fn give(&mut self, now: Now, id: PeerId, datagram: &mut [u8]) -> Handled {
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
                let moved = unknown.then(|| self.handle_moved(now, from, datagram, None));
                moved.flatten().unwrap_or(Handled::Rejected(reject))
            }
            Verdict::Deny(reject) => Handled::Rejected(reject),
            Verdict::Reply => Handled::Replied,
            Verdict::Accept(_) if self.peers.open() >= self.params.peers_max => {
                Handled::Rejected(Reject::Full)
            }
            Verdict::Accept(session) => {
                let id = self.peers.insert(now.mono, from, session);
                self.touch(id);
                Handled::Accepted(id)
            }
        }
    }

    fn handle_moved(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &mut [u8],
        refused_by: Option<PeerId>,
    ) -> Option<Handled> {
        let id = self
            .search
            .moved_peer(now, &self.peers, from.ip(), datagram, refused_by)?;
        self.peers.move_to(id, from);
        Some(match self.give(now, id, datagram) {
            Handled::Peer(id) => Handled::Moved(id),
            handled => handled,
        })
    }
}
