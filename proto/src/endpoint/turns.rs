//! Whose turn it is: who wakes when, whose output is next, and what the owner is told. The contract
//! of [`Session`] is kept here: whatever changed a session ends in [`Endpoint::touch`].

use std::net::SocketAddr;

use super::peer_table::Peer;
use super::{Endpoint, PeerId};
use crate::session::{Event, Session};
use crate::time::{Now, Timestamp};

impl Endpoint {
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
            if !peer.scheduled.take(at) {
                continue;
            }
            if peer.queued {
                peer.wakes_at = wakes_of(&*peer.session);
            }
            if peer.wakes_at <= now.mono {
                peer.session.handle_timeout(now);
                self.touch(id);
            } else if !peer.queued {
                // What it waited for has moved, and nothing else happened to it.
                self.timers.schedule(id, peer.wakes_at, &mut peer.scheduled);
            }
        }
    }

    /// When `handle_timeout` has something to do; "now" is never needed, since output is polled dry.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let strangers = self.acceptor.poll_timeout().map(|deadline| deadline.at);
        self.timers.next().into_iter().chain(strangers).min()
    }

    /// Appends one datagram to `out` and says whose it is and where it goes: of those who play, and then of those who are
    /// over.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<(PeerId, SocketAddr)> {
        let playing = self.poll_playing(now, out);
        playing.or_else(|| self.poll_goodbye(now, out))
    }

    /// As [`Endpoint::poll_transmit`], of those who play. Peers take turns, a burst of 64 KiB at a time: datagrams to one peer
    /// leave side by side, which is what segmentation offload wants, and nobody waits for all that another has to say.
    pub fn poll_playing(&mut self, now: Now, out: &mut Vec<u8>) -> Option<(PeerId, SocketAddr)> {
        let start = out.len();
        while let Some(&id) = self.active.front() {
            if let Some(peer) = self.peers.get_mut(id) {
                if peer.closed || peer.leaving {
                    self.ended.push_back(id);
                } else if peer.session.poll_transmit(now, out) {
                    let address = peer.address;
                    self.count_burst(out.len() - start);
                    return Some((id, address));
                } else {
                    peer.queued = false;
                    self.settle(id);
                }
            }
            self.active.pop_front();
            self.burst = 0;
        }
        None
    }

    /// The first of those who play sent so many bytes more: after a burst the next one has its turn.
    fn count_burst(&mut self, bytes: usize) {
        self.burst += bytes;
        if self.burst >= BURST_BYTES {
            self.burst = 0;
            self.active.rotate_left(1);
        }
    }

    /// As [`Endpoint::poll_transmit`], of those who are over. When thousands end at once, nobody else needs to wait for
    /// their goodbyes.
    pub fn poll_goodbye(&mut self, now: Now, out: &mut Vec<u8>) -> Option<(PeerId, SocketAddr)> {
        while let Some(&id) = self.ended.front() {
            if let Some(peer) = self.peers.get_mut(id) {
                if peer.session.poll_transmit(now, out) {
                    return Some((id, peer.address));
                }
                peer.queued = false;
                if peer.leaving {
                    self.retire(id);
                } else {
                    self.settle(id);
                }
            }
            self.ended.pop_front();
        }
        None
    }

    /// Appends one datagram of this peer to `out` and says where it goes, if its acknowledgements would come too late
    /// once more datagrams were handled first; nothing when it is in no hurry.
    pub fn poll_urgent(&mut self, now: Now, id: PeerId, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let peer = self.peers.get_mut(id)?;
        (peer.session.is_urgent() && peer.session.poll_transmit(now, out)).then_some(peer.address)
    }

    /// The next thing the owner should know.
    pub fn poll_event(&mut self) -> Option<(PeerId, Event)> {
        self.events.pop_front()
    }

    /// Whether `poll_event` has something: also sending makes events.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Have [`Endpoint::poll_room`] tell when this peer takes messages again. Until then it is awaited, however often
    /// this is asked.
    pub fn await_room(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id)
            && !std::mem::replace(&mut peer.awaited, true)
        {
            self.awaited += 1;
            self.touch(id);
        }
    }

    /// A peer that was awaited and takes messages again, or is over.
    pub fn poll_room(&mut self) -> Option<PeerId> {
        let id = self.roomy.pop()?;
        self.awaited -= 1;
        Some(id)
    }

    /// How many peers are awaited.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// Whether `poll_room` has one.
    pub fn has_room_news(&self) -> bool {
        !self.roomy.is_empty()
    }

    /// A session changed: take its events now, its datagrams in turn.
    pub(super) fn touch(&mut self, id: PeerId) {
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
            wakes_at,
            awaited,
            ..
        } = peer;
        if *awaited && (session.has_room() || peer.closed) {
            *awaited = false;
            self.roomy.push(id);
        }
        *wakes_at = wakes_of(&**session);
        self.timers.schedule(id, *wakes_at, scheduled);
    }

    fn collect_events(&mut self, id: PeerId) {
        while let Some(event) = self
            .peers
            .get_mut(id)
            .and_then(|peer| peer.session.poll_event())
        {
            self.on_event(id, event);
        }
    }

    /// A session told something. Cold: hardly a datagram brings an event, and each is asked for one.
    #[cold]
    fn on_event(&mut self, id: PeerId, event: Event) {
        self.events.push_back((id, event));
        if matches!(event, Event::Closed(_)) {
            self.peers.release_address(id);
            if let Some(peer) = self.peers.get_mut(id) {
                peer.session.release();
            }
        }
    }

    /// Takes a session out of the table; what it counted here stays counted.
    pub(super) fn retire(&mut self, id: PeerId) -> Option<Box<dyn Session>> {
        let peer = self.peers.remove(id)?;
        self.awaited -= usize::from(peer.awaited);
        self.survey.retire(id, &peer.counted(&peer.session.stats()));
        Some(peer.session)
    }
}

/// What the kernel takes as one segmented send.
const BURST_BYTES: usize = 64 * 1024;

/// When a session wants to be woken; never, once it closed.
fn wakes_of(session: &dyn Session) -> Timestamp {
    let deadline = session.poll_timeout();
    deadline.map_or(Timestamp::MAX, |deadline| deadline.at)
}
