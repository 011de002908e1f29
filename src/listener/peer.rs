//! What a listener knows about one peer beside its session.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tidegate_proto::{CloseReason, PeerId, Timestamp};

use super::attempt::Attempt;
use super::dial::Dialled;
use super::memory::Accounted;
use super::peer_count::Counted;
use super::polled_socket::PolledSocket;
use super::quota::Quota;
use super::run_queue::Entry;
use super::session_log::Notes;
use crate::backend::{Stream, StreamRules};
use crate::udp::Route;

/// One peer of a listener.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: PeerId,
    /// Random; the same in the log and in the PROXY header.
    pub(super) session: u64,
    pub(super) stream: Stream,
    /// The rules that were in force when it came.
    pub(super) rules: Arc<StreamRules>,
    pub(super) quota: Option<Quota>,
    /// The connect to the backend under way, or its last one.
    pub(super) attempt: Attempt,
    /// Which of our addresses the peer sends to: where replies leave from.
    pub(super) ours: Option<IpAddr>,
    /// Where it is, for people.
    pub(super) remote: SocketAddr,
    pub(super) phase: Phase,
    pub(super) notes: Notes,
    pub(super) since: Timestamp,
    /// When it is looked at next.
    pub(super) entry: Entry,
    /// What it held in memory when that was last looked at.
    pub(super) accounted: Accounted,
    /// Counts it among its listener's peers until its session is over.
    pub(super) counted: Option<Counted>,
    /// For a peer that we dialled.
    pub(super) dialled: Option<Box<Dialled>>,
}

/// How far a peer's session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// On the way in: one end has not let the other in yet.
    Joining,
    /// Messages flow both ways.
    Playing,
    /// The session has ended, for this reason; what it took for the backend may still be under way.
    Over(CloseReason),
}

impl Phase {
    pub(super) fn is_over(self) -> bool {
        self.close_reason().is_some()
    }

    pub(super) fn close_reason(self) -> Option<CloseReason> {
        match self {
            Self::Joining | Self::Playing => None,
            Self::Over(reason) => Some(reason),
        }
    }

    /// The reason as the log says it.
    pub(super) fn reason_label(self) -> &'static str {
        self.close_reason().map_or("none", CloseReason::label)
    }
}

impl Peer {
    pub(super) fn new(
        id: PeerId,
        session: u64,
        remote: SocketAddr,
        now: Timestamp,
        rules: Arc<StreamRules>,
    ) -> Self {
        Self {
            id,
            session,
            stream: Stream::default(),
            rules,
            quota: None,
            attempt: Attempt::default(),
            ours: None,
            remote,
            phase: Phase::Joining,
            notes: Notes::default(),
            since: now,
            entry: Entry::default(),
            accounted: Accounted::default(),
            counted: None,
            dialled: None,
        }
    }

    /// Whether what came from there came from elsewhere before. Whom we dialled is at the far end of a socket of its own,
    /// and `from` is our end.
    pub(super) fn has_moved_to(&self, from: SocketAddr) -> bool {
        self.dialled.is_none() && self.remote != from
    }

    /// The socket of one that we dialled.
    pub(super) fn own_socket(&mut self) -> Option<&mut PolledSocket> {
        self.dialled.as_mut().map(|dialled| &mut dialled.socket)
    }

    /// It comes from another worker's tables into ours.
    pub(super) fn settle_in(&mut self, id: PeerId, route: Route) {
        self.id = id;
        (self.remote, self.ours) = (route.from, route.to);
        self.entry.on_moved();
    }
}
