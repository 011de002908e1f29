//! The third step of a turn: what sessions report, and the streams of every peer that something happened to.

use std::time::Duration;

use tidegate_proto::{CloseReason, Event, PeerId};

use super::peer::Phase;
use super::wakes::{Wakes, poll_token};
use super::{Listener, Pumped, Side, Turn};

impl Listener {
    /// Events, and then the streams of every peer that something happened to. Moving messages makes
    /// events and events make messages move, hence more than one pass; what is left waits a turn.
    pub fn pump(&mut self, turn: &mut Turn<'_>) {
        // Peers whose session has room again.
        while let Some(id) = self.endpoint.poll_room() {
            self.touch(id);
        }
        for _ in 0..PASSES_PER_TURN {
            while let Some((id, event)) = self.endpoint.poll_event() {
                self.handle_event(turn, id, event);
            }
            if self.run_queue.pending.is_empty() {
                break;
            }
            let mut pending = std::mem::take(&mut self.run_queue.pending);
            for id in pending.drain(..) {
                if self.has_ended(id) {
                    self.run_queue.parting.push_back(id);
                } else if self.pump_peer(turn, id).again {
                    self.touch(id);
                }
            }
            if self.run_queue.pending.is_empty() {
                // Only to keep its memory.
                self.run_queue.pending = pending;
            }
        }
        self.part(turn);
    }

    /// The streams of sessions that are over, behind those who play and a few at a time: to end one takes some system
    /// calls, and thousands may end at once. Their backends may go on writing as fast as we read.
    fn part(&mut self, turn: &mut Turn<'_>) {
        let most = self.stage.partings(PARTINGS_PER_TURN);
        let mut bytes_left = self.stage.partings(DISCARDED_PER_TURN);
        for _ in 0..most.min(self.run_queue.parting.len()) {
            if bytes_left == 0 {
                break;
            }
            if let Some(id) = self.run_queue.parting.pop_front() {
                let pumped = self.pump_peer(turn, id);
                bytes_left = bytes_left.saturating_sub(pumped.discarded);
                if pumped.again {
                    self.touch(id);
                }
            }
        }
    }

    fn has_ended(&self, id: PeerId) -> bool {
        (self.peers.get(id)).is_some_and(|peer| peer.phase.is_over())
    }

    fn handle_event(&mut self, turn: &mut Turn<'_>, id: PeerId, event: Event) {
        match event {
            Event::Authenticated if self.is_banned(turn.now, id) => {
                self.endpoint.close(turn.now, id, CloseReason::Banned);
            }
            Event::Authenticated => self.open_backend(turn, id),
            Event::Connected => {
                self.counters.handshakes_accepted += 1;
                let target = self.target_of(id);
                let identity = self.endpoint.identity(id).unwrap_or_default();
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.phase = Phase::Playing;
                    peer.notes.is_seated = true;
                    let (ip, takes_token) = (peer.remote.ip(), !self.terms.is_open);
                    peer.notes.is_one_of_many = self.arrivals.note(turn.now.mono, ip, takes_token);
                    let took = turn.now.mono.since(peer.since);
                    self.counters.handshake_duration.record_duration(took);
                    peer.log_start(&self.name, target.as_deref(), identity);
                }
            }
            Event::Closed(reason) => self.on_session_closed(turn, id, reason),
        }
        self.touch(id);
    }

    fn on_session_closed(&mut self, turn: &mut Turn<'_>, id: PeerId, reason: CloseReason) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        peer.phase = Phase::Over(reason);
        peer.counted = None;
        let lasted = turn.now.mono.since(peer.since);
        self.counters.on_close(reason, lasted);
        self.arrivals.on_end(turn.now.mono, reason, lasted);
        peer.stream.on_session_over(turn.now.mono, &peer.rules);
        self.on_ended(id);
        self.schedule(id);
    }

    fn pump_peer(&mut self, turn: &mut Turn<'_>, id: PeerId) -> Pumped {
        let Some(peer) = self.peers.get_mut(id) else {
            return Pumped::default();
        };
        peer.entry.begin();
        if peer.stream.is_connecting() {
            self.check_connect(turn, id);
        }
        let Some(peer) = self.peers.get_mut(id) else {
            return Pumped::default();
        };
        // Some sessions that we dialled may speak before the far end says that they are in.
        let may_speak = peer.phase != Phase::Joining || self.endpoint.has_room(id);
        let pumped = self
            .with_stream(turn, id, |stream, side| stream.pump(side, may_speak))
            .unwrap_or_default();
        if let Some(peer) = self.peers.get_mut(id) {
            if pumped.held_back {
                peer.entry.pause(turn.now.mono + MEMORY_PAUSE);
            }
            if peer.phase.is_over() && peer.stream.is_closed() {
                self.run_queue.finish(id, &mut peer.entry);
            }
        }
        self.schedule(id);
        if pumped.blocked {
            self.endpoint.await_room(id);
        }
        pumped
    }

    pub(super) fn with_stream<R>(
        &mut self,
        turn: &mut Turn<'_>,
        id: PeerId,
        act: impl FnOnce(&mut crate::backend::Stream, &mut Side<'_>) -> R,
    ) -> Option<R> {
        if self.memory.is_short() {
            self.account(id);
        }
        let peer = self.peers.get_mut(id)?;
        let now = turn.now.mono;
        let allowed = peer.quota.as_mut().map(|quota| quota.messages(now));
        let mut side = Side {
            now: turn.now,
            id,
            registry: turn.registry,
            token: poll_token(self.index, Wakes::Stream(id.slot())),
            endpoint: &mut self.endpoint,
            rules: &peer.rules,
            messages_left: allowed.unwrap_or(u32::MAX),
            room_left: self.memory.room_for(peer),
            counters: &mut self.counters,
            scratch: turn.scratch,
        };
        let outcome = act(&mut peer.stream, &mut side);
        let left = side.messages_left;
        let moved = peer.stream.take_moved();
        if let Some(target) = peer.attempt.target() {
            let target = self.counters.target(target);
            target.bytes_sent += moved.sent;
            target.bytes_received += moved.received;
        }
        if let (Some(allowed), Some(quota)) = (allowed, &mut peer.quota) {
            quota.take_messages(allowed - left);
            peer.entry.go_on();
            if left == 0 {
                peer.entry.pause(now + MESSAGES_PAUSE);
            }
        }
        if moved.ended {
            self.tell_of_end(id);
        }
        self.account(id);
        Some(outcome)
    }
}

/// How long a peer that used up its messages waits for the next ones.
const MESSAGES_PAUSE: Duration = Duration::from_millis(10);

/// How long a stream that is not read for want of memory waits, unless its peer is heard before: others
/// may have made room, and nobody tells.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);

const PASSES_PER_TURN: usize = 4;

/// Streams of sessions that are over which are looked at before the other steps get their turn, each some ten microseconds.
const PARTINGS_PER_TURN: usize = 64;

/// Bytes read for nobody before the other steps get their turn: a millisecond's, in frames of one byte.
const DISCARDED_PER_TURN: usize = 256 * 1024;
