//! What all sessions there ever were have counted, summed up a few slots at a time: with many
//! thousands of peers, one pass over all of them would be a pause.

use std::net::SocketAddr;

use super::peer_table::PeerTable;
use super::{Endpoint, PeerId};
use crate::session::Session;
use crate::stats::Stats;

/// A walk over all peers, a part at a time.
#[derive(Default)]
pub(super) struct Survey {
    /// Counters of sessions that are gone.
    retired: Stats,
    /// Peers in slots below were visited.
    visited: usize,
    /// What those counted, and whoever was gone before the walk came by.
    sum: Stats,
}

impl Survey {
    /// Keeps what a session counted that is gone.
    pub(super) fn retire(&mut self, id: PeerId, counted: &Stats) {
        self.retired.absorb(counted);
        if !self.has_visited(id) {
            self.sum.absorb(counted);
        }
    }

    fn begin(&mut self) {
        self.visited = 0;
        self.sum = self.retired;
    }

    fn has_visited(&self, id: PeerId) -> bool {
        id.slot() < self.visited
    }

    fn walk(
        &mut self,
        peers: &PeerTable,
        slots: usize,
        mut visit: impl FnMut(PeerId, SocketAddr, &dyn Session, &Stats),
    ) -> Option<Stats> {
        let end = peers.slots().min(self.visited.saturating_add(slots));
        for (id, peer) in peers.in_slots(self.visited..end) {
            let stats = peer.session.stats();
            self.sum.absorb(&peer.counted(&stats));
            visit(id, peer.address, &*peer.session, &stats);
        }
        self.visited = end;
        (end == peers.slots()).then_some(self.sum)
    }
}

impl Endpoint {
    /// Counters of sessions that were removed.
    pub fn retired(&self) -> &Stats {
        &self.survey.retired
    }

    /// Begins a walk over all peers.
    pub fn begin_survey(&mut self) {
        self.survey.begin();
    }

    /// Visits the peers of the next `slots` slots. When that were the last ones: the counters of all
    /// sessions there ever were. However long the walk takes, no session is counted twice or left
    /// out: one that is gone before the walk comes by is counted when it goes.
    pub fn survey(
        &mut self,
        slots: usize,
        visit: impl FnMut(PeerId, SocketAddr, &dyn Session, &Stats),
    ) -> Option<Stats> {
        self.survey.walk(&self.peers, slots, visit)
    }

    /// Whether the walk under way has been at this peer.
    pub fn is_surveyed(&self, id: PeerId) -> bool {
        self.survey.has_visited(id)
    }
}
