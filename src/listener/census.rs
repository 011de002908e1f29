//! What a listener knows of all its peers together, gathered by a walk over them.
//!
//! A look at a peer costs a few cache misses, and there may be tens of thousands of them: the walk
//! goes a part at a time, so that no turn waits for it. Few peers are counted in one go.

use std::time::Duration;

use tidegate_proto::{Now, PeerId, Timestamp};

use super::Listener;
use super::peer::Peer;
use crate::board::{PeerRow, WorstPeers};
use crate::counters::Direction;

/// One walk.
#[derive(Debug, Default)]
pub(super) struct Census {
    under_way: bool,
    began: Timestamp,
    /// When the part before this one was done.
    moved: Timestamp,
    sampling: bool,
    sampled: Timestamp,
    gathered: Timestamp,
    in_bad_mode: u64,
    backed_up: u64,
    /// Peers that were visited and whose sessions have not ended.
    open: u64,
    worst: WorstPeers,
}

impl Census {
    fn begin(&mut self, now: Timestamp) {
        *self = Self {
            under_way: true,
            began: now,
            moved: now,
            sampling: now.since(self.sampled) >= SAMPLE_INTERVAL,
            sampled: self.sampled,
            gathered: self.gathered,
            ..Self::default()
        };
    }

    fn visit_peer(&mut self, peer: &Peer) {
        self.backed_up += u64::from(peer.stream.queued() > 0);
        self.open += u64::from(!peer.phase.is_over());
    }
}

impl Listener {
    /// The next part of a walk that is under way, or a new walk.
    pub(super) fn gather(&mut self, now: Now) {
        if !self.census.under_way {
            let peers = self.endpoint.len();
            let every = if peers > MANY {
                SAMPLE_INTERVAL
            } else {
                Duration::ZERO
            };
            if now.mono.since(self.census.began) < every {
                return;
            }
            self.census.begin(now.mono);
            self.endpoint.begin_survey();
        }
        self.walk(now, STEP);
    }

    /// Everything at once.
    pub(super) fn gather_all(&mut self, now: Now) {
        self.census.begin(now.mono);
        self.endpoint.begin_survey();
        self.walk(now, usize::MAX);
    }

    /// When the walk under way goes on.
    pub(super) fn gathers_at(&self) -> Option<Timestamp> {
        let census = &self.census;
        census.under_way.then(|| census.moved + STEP_INTERVAL)
    }

    fn walk(&mut self, now: Now, slots: usize) {
        let (census, peers, counters) = (&mut self.census, &mut self.peers, &mut self.counters);
        let (memory, mut moved_past) = (&mut self.memory, Vec::new());
        let is_short = memory.is_short();
        census.moved = now.mono;
        let sessions = self.endpoint.survey(slots, |id, address, session, stats| {
            census.in_bad_mode += u64::from(stats.in_bad_mode);
            let Some(peer) = peers.get_mut(id) else {
                return;
            };
            census.visit_peer(peer);
            // Time alone may have made it lighter.
            memory.account(&mut peer.accounted, session.held(), &peer.stream);
            if is_short && memory.has_moved_past(peer) {
                moved_past.push(id);
            }
            if !census.sampling {
                return;
            }
            counters.sample_peer(stats);
            census.worst.offer(PeerRow {
                session: peer.session,
                address: if peer.dialled.is_some() {
                    peer.remote
                } else {
                    address
                },
                client_id: session.identity().client_id,
                age: now.mono.since(peer.since),
                target: peer.attempt.target(),
                inbox_bytes: session.inbox_bytes(),
                stats: *stats,
            });
        });
        if let Some(sessions) = sessions {
            self.counters.sessions = sessions;
            self.end_walk(now);
        }
        // Peers that fell silent while there was memory for all are held back with the others.
        for id in moved_past {
            self.account(id);
        }
    }

    fn end_walk(&mut self, now: Now) {
        let (census, counters) = (&mut self.census, &mut self.counters);
        census.under_way = false;
        counters.peers_in_bad_mode = census.in_bad_mode;
        counters.peers_blocked[Direction::ToBackend as usize] = census.backed_up;
        let since_last = now
            .mono
            .since(std::mem::replace(&mut census.gathered, now.mono));
        for (spent, blocked) in counters.backpressure.iter_mut().zip(counters.peers_blocked) {
            *spent += since_last * u32::try_from(blocked).unwrap_or(u32::MAX);
        }
        // Every session that began, or came from a sibling, has ended once, went to one, or is here.
        let began = counters.sessions_opened + self.handovers.arrived;
        let ended = counters.closed() + self.handovers.departed;
        let astray = began.abs_diff(ended + census.open);
        counters.invariant_violations = counters.invariant_violations.max(astray);
        if census.sampling {
            census.sampled = now.mono;
            if let Some(reporter) = &self.reporter {
                reporter.publish_peers(std::mem::take(&mut census.worst));
            }
        }
    }

    /// What is known without a walk.
    pub(super) fn count(&mut self, now: Now) {
        let counters = &mut self.counters;
        counters.peers = self.endpoint.len() as u64;
        counters.handshakes_pending = self.endpoint.handshakes_pending() as u64;
        counters.peers_blocked[Direction::ToPeer as usize] = self.endpoint.awaited() as u64;
        self.memory.tell();
        counters.queued_bytes = self.memory.by_direction();
        counters.peers_held_back = self.memory.held_back();
        if let Some(admission) = &mut self.strangers.admission {
            counters.admission = admission.counters(now.mono);
        }
        self.log_seats();
        self.log_outage(now.mono);
    }

    /// A session came behind the back of the walk.
    pub(super) fn on_came(&mut self, id: PeerId) {
        self.census.open += u64::from(self.endpoint.is_surveyed(id));
    }

    /// A session ended behind the back of the walk.
    pub(super) fn on_ended(&mut self, id: PeerId) {
        self.census.open -= u64::from(self.endpoint.is_surveyed(id)).min(self.census.open);
    }
}

/// Peers visited before the other steps of a turn get theirs: some fifty microseconds.
const STEP: usize = 128;

/// And the pause after that: 50 000 peers take half a second.
const STEP_INTERVAL: Duration = Duration::from_millis(1);

/// Above this a walk costs more than what it finds out is worth four times a second.
const MANY: usize = 4096;

/// One sample per peer and second for the distributions.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
