//! Sessions that go from one endpoint of a listener to another.

use std::net::SocketAddr;

use super::{Endpoint, PeerId};
use crate::session::Session;
use crate::stats::Stats;
use crate::time::Now;

impl Endpoint {
    /// The peer that made this datagram, which came to another endpoint of the same listener from an
    /// address that nobody has there; see [`Endpoint::take_out`].
    pub fn claim(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) -> Option<PeerId> {
        self.search
            .moved_peer(now, &self.peers, from.ip(), datagram, None)
    }

    /// How many sessions were tried in vain for the datagram that was just handled: whoever asks another endpoint for it
    /// gives them back when its peer is found there.
    pub fn tries_in_vain(&self) -> u32 {
        self.search.tries_in_vain()
    }

    /// A datagram for which so many were tried was of a peer of another endpoint.
    pub fn give_back_tries(&mut self, tries: u32) {
        self.search.give_back(tries);
    }

    /// Gives a peer's session away, with what it counted so far, which stays counted here; `None` if it is gone.
    pub fn take_out(&mut self, id: PeerId) -> Option<(Box<dyn Session>, Stats)> {
        let session = self.retire(id)?;
        let stats = session.stats();
        Some((session, stats))
    }

    /// Puts the peer at `address`, if it is silent, to where one was that comes here with a proof; says which.
    pub fn make_way(
        &mut self,
        now: Now,
        address: SocketAddr,
        was_at: SocketAddr,
    ) -> Option<PeerId> {
        let id = self.peers.find(address)?;
        let peer = self.peers.get(id)?;
        self.search.doubts(now, peer).then(|| {
            self.peers.put(id, was_at);
            id
        })
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
}
