//! The steps of a turn after reception: clocks, events and streams, what leaves.

use std::time::Duration;

use tidegate_proto::{CloseReason, Event, PeerId, Timestamp};

use super::peer::Phase;
use super::wakes::{Wakes, poll_token};
use super::{Listener, Side, Turn};

impl Listener {
    /// Clocks after datagrams, so that a packet that came in time counts however late we look.
    pub fn handle_timeouts(&mut self, turn: &mut Turn<'_>) {
        if self.gathers_at().is_some_and(|at| at <= turn.now.mono) {
            self.gather(turn.now);
        }
        self.shed(turn);
        if let Some(at) = self.endpoint.poll_timeout()
            && at <= turn.now.mono
        {
            let late = turn.now.mono.since(at);
            self.counters.tick_lag.record_duration(late);
            self.endpoint.handle_timeout(turn.now);
        }
        while let Some((at, id)) = self.timers.pop_due(turn.now.mono) {
            let peer = self.peers.get_mut(id);
            if !peer.is_some_and(|peer| peer.scheduled.take(at)) {
                continue;
            }
            self.handle_attempt_timeout(turn, id);
            self.with_stream(turn, id, |stream, side| stream.handle_timeout(side));
            // Its pump schedules the next one: what was decided here takes effect only there.
            self.touch(id);
        }
    }

    /// Events, and then the streams of every peer that something happened to. Moving messages makes
    /// events and events make messages move, hence more than one pass; what is left waits a turn.
    pub fn pump(&mut self, turn: &mut Turn<'_>) {
        self.unblock();
        for _ in 0..PASSES_PER_TURN {
            while let Some((id, event)) = self.endpoint.poll_event() {
                self.handle_event(turn, id, event);
            }
            if self.pending.is_empty() {
                break;
            }
            let mut pending = std::mem::take(&mut self.pending);
            for id in pending.drain(..) {
                if self.pump_peer(turn, id) {
                    self.touch(id);
                }
            }
            if self.pending.is_empty() {
                // Only to keep its memory.
                self.pending = pending;
            }
        }
    }

    /// Peers whose session has room again.
    fn unblock(&mut self) {
        while let Some(id) = self.endpoint.poll_room() {
            self.set_blocked(id, false);
            self.touch(id);
        }
    }

    pub(super) fn set_blocked(&mut self, id: PeerId, blocked: bool) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        match (std::mem::replace(&mut peer.blocked, blocked), blocked) {
            (false, true) => {
                self.blocked += 1;
                self.endpoint.await_room(id);
            }
            (true, false) => self.blocked -= 1,
            (true, true) | (false, false) => {}
        }
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
        peer.seat = None;
        let lasted = turn.now.mono.since(peer.since);
        self.counters.on_close(reason, lasted);
        peer.stream.on_session_over(turn.now.mono, &peer.rules);
        self.on_ended(id);
        self.schedule(id);
    }

    /// Returns whether the peer has more to do than it may do in one turn.
    fn pump_peer(&mut self, turn: &mut Turn<'_>, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(id) else {
            return false;
        };
        peer.queued = false;
        if peer.stream.is_connecting() {
            self.check_connect(turn, id);
        }
        let Some(peer) = self.peers.get_mut(id) else {
            return false;
        };
        // Some sessions that we dialled may speak before the far end says that they are in.
        let may_speak = peer.phase != Phase::Joining || self.endpoint.has_room(id);
        peer.paused_until = None;
        let pumped = self
            .with_stream(turn, id, |stream, side| stream.pump(side, may_speak))
            .unwrap_or_default();
        if pumped.held_back {
            self.pause(id, turn.now.mono + MEMORY_PAUSE);
        }
        self.schedule(id);
        if let Some(peer) = self.peers.get_mut(id) {
            let over = peer.phase.is_over() && peer.stream.is_closed();
            if over && !std::mem::replace(&mut peer.leaving, true) {
                self.leaving.push(id);
            }
        }
        if pumped.blocked {
            self.set_blocked(id, true);
        }
        pumped.again
    }

    /// It is looked at again then, or before.
    fn pause(&mut self, id: PeerId, until: Timestamp) {
        if let Some(peer) = self.peers.get_mut(id) {
            let sooner = peer.paused_until.map_or(until, |at| at.min(until));
            peer.paused_until = Some(sooner);
        }
    }

    pub(super) fn with_stream<R>(
        &mut self,
        turn: &mut Turn<'_>,
        id: PeerId,
        act: impl FnOnce(&mut crate::backend::Stream, &mut Side<'_>) -> R,
    ) -> Option<R> {
        if self.memory.is_short() {
            self.weigh(id);
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
            peer.paused_until = (left == 0).then(|| now + MESSAGES_PAUSE);
        }
        self.weigh(id);
        Some(outcome)
    }

    /// Everything the sessions have to say, then goodbye to those that are over.
    pub fn transmit(&mut self, turn: &mut Turn<'_>) {
        let mut whose: Option<PeerId> = None;
        self.unsent = true;
        for _ in 0..DATAGRAMS_PER_TURN {
            let start = turn.outgoing.bytes().len();
            let Some((id, to)) = self.endpoint.poll_transmit(turn.now, turn.outgoing.bytes())
            else {
                self.unsent = false;
                break;
            };
            if self.socket.is_some() {
                let from = self.peers.get_mut(id).and_then(|peer| peer.ours);
                turn.outgoing.push(to, from);
                if turn.outgoing.is_full() {
                    self.flush(turn, None);
                }
                continue;
            }
            if whose.is_some_and(|before| before != id) || turn.outgoing.is_full() {
                let datagram = turn.outgoing.bytes().split_off(start);
                self.flush(turn, whose);
                turn.outgoing.bytes().extend_from_slice(&datagram);
            }
            turn.outgoing.push(to, None);
            whose = Some(id);
        }
        self.flush(turn, whose);
        self.say_farewell(turn);
    }

    pub(super) fn flush(&mut self, turn: &mut Turn<'_>, whose: Option<PeerId>) {
        if turn.outgoing.is_empty() {
            return;
        }
        let own = whose.and_then(|id| self.peers.get_mut(id)?.socket.as_mut());
        if let Some(socket) = own.or(self.socket.as_mut()) {
            socket.send(turn.outgoing, &mut self.sent);
        }
        turn.outgoing.clear();
    }

    /// The worker ends, and waits for no stream: whose backend had not closed yet is told of now.
    pub fn leave_behind(&mut self, turn: &mut Turn<'_>) {
        self.leaving = self.ids();
        self.say_farewell(turn);
    }

    fn say_farewell(&mut self, turn: &mut Turn<'_>) {
        let leaving = std::mem::take(&mut self.leaving);
        for id in leaving {
            self.set_blocked(id, false);
            self.release_target(id);
            let target = self.target_of(id);
            let stats = self.endpoint.stats(id).unwrap_or_default();
            let identity = self.endpoint.identity(id).unwrap_or_default();
            let client_id = identity.client_id;
            self.endpoint.let_go(id);
            let Some(mut peer) = self.peers.remove(id) else {
                continue;
            };
            self.memory.on_gone(&peer.scale);
            self.capacity.on_departure();
            let target = target.as_deref();
            peer.log_end(&self.name, target, client_id, turn.now.mono, &stats);
            peer.log_causes(&self.name, target, client_id, &stats);
            if let Some(target) = peer.attempt.target() {
                let by = peer.stream.ended_by();
                self.counters.target(target).closes[by as usize] += 1;
            }
            if let Some(socket) = &mut peer.socket
                && let Err(error) = socket.deregister(turn.registry)
            {
                tracing::debug!(%error, "socket was not registered");
            }
        }
    }
}

/// How long a peer that used up its messages waits for the next ones.
const MESSAGES_PAUSE: Duration = Duration::from_millis(10);

/// How long a stream that is not read for want of memory waits, unless its peer is heard before: others
/// may have made room, and nobody tells.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);

/// Datagrams sent before the other steps get their turn; the rest is first in the next one.
const DATAGRAMS_PER_TURN: usize = 2048;

const PASSES_PER_TURN: usize = 4;
