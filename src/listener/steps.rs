//! The steps of a turn.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::{CloseReason, Event, Handled, Now, PeerId, Reject, Timestamp};

use super::{Listener, Side, Turn};
use crate::udp::{Outgoing, Route, UdpError};

impl Listener {
    /// Datagrams first: they carry the acknowledgements that make room for everything else, and a
    /// packet that waits in the socket must count before its session times out.
    pub fn receive(&mut self, turn: &mut Turn<'_>) {
        self.endpoint.set_refusing(self.refusal());
        self.has_letters = false;
        self.read_letters(turn);
        if self.readable {
            self.receive_shared(turn);
        }
        self.crowd.on_turn(self.readable);
        let ready = std::mem::take(&mut self.readable_peers);
        for &id in &ready {
            self.receive_own(turn, id);
        }
    }

    fn receive_shared(&mut self, turn: &mut Turn<'_>) {
        let Some(mut socket) = self.socket.take() else {
            self.readable = false;
            return;
        };
        for _ in 0..BATCHES_PER_TURN {
            match socket.receive(turn.received) {
                Ok(()) => {
                    self.counters.kernel_drops += socket.new_drops(turn.received);
                    self.handle_batch(turn, None);
                    self.readable = turn.received.may_have_left();
                }
                Err(UdpError::Blocked) => self.readable = false,
                Err(UdpError::Broken) => {
                    (self.broken, self.readable) = (true, false);
                }
                // An error that waited in the socket: it has been taken, and tells us nothing.
                Err(_) => {}
            }
            if !self.readable {
                break;
            }
        }
        self.socket = Some(socket);
    }

    fn receive_own(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let Some(mut socket) = self.peers.get_mut(id).and_then(|peer| peer.socket.take()) else {
            return;
        };
        let from = socket.local_addr();
        let mut left = true;
        for _ in 0..BATCHES_PER_TURN {
            match socket.receive(turn.received) {
                Ok(()) => {
                    self.handle_batch(turn, Some(from));
                    left = turn.received.may_have_left();
                }
                Err(UdpError::Blocked | UdpError::Broken) => left = false,
                // Nobody listens there yet, or any more: the handshake, or the timeout, will tell.
                Err(_) => {}
            }
            if !left {
                break;
            }
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.socket = Some(socket);
            peer.readable = left;
        }
        // What was urgent goes out by this very socket: the far end knows the peer by it.
        self.flush(turn, Some(id));
        if left {
            self.readable_peers.push(id);
        }
    }

    /// `dialled` is the address that stands for the peer, when the socket is its own.
    fn handle_batch(&mut self, turn: &mut Turn<'_>, dialled: Option<SocketAddr>) {
        self.counters.receive_calls += 1;
        for index in 0..turn.received.len() {
            let (route, datagrams) = turn.received.take(index);
            let route = Route {
                from: dialled.unwrap_or(route.from),
                to: route.to,
            };
            let mut known = None;
            for datagram in datagrams {
                self.counters.datagrams_received += 1;
                self.counters.datagram_bytes_received += datagram.len() as u64;
                known = self.endpoint.find(route.from);
                if let Err(reject) = self.judge(turn.now, route.from, known, datagram) {
                    self.counters.on_reject(reject);
                    continue;
                }
                match known {
                    Some(id) => {
                        let handled = self.endpoint.handle_datagram_of(turn.now, id, datagram);
                        self.after_datagram(turn.now, turn.outgoing, route, handled);
                    }
                    None if self.lobby.take_in(route, datagram) => {}
                    None => self.counters.on_reject(Reject::ListenerLimited),
                }
            }
            if let Some(id) = known {
                self.relieve(turn, id);
            }
        }
        // Replies and urgent packets of this batch leave now; a peer's own socket sends its own.
        if dialled.is_none() && turn.outgoing.is_full() {
            self.flush(turn, None);
        }
    }

    /// A turn may read megabytes from one peer, and what its inbox refuses meanwhile the peer takes for
    /// a loss. So its messages go on to the backend before that.
    fn relieve(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        if self.endpoint.inbox_bytes(id) > INBOX_BYTES_SOON {
            self.with_stream(turn, id, |stream, side| stream.relieve(side));
        }
    }

    /// What a datagram changed, and the packets that cannot wait for the end of the turn.
    fn after_datagram(
        &mut self,
        now: Now,
        outgoing: &mut Outgoing,
        route: Route,
        handled: Handled,
    ) {
        self.on_handled(now, route, handled);
        while let Some(id) = touched(handled)
            && let Some(to) = self.endpoint.poll_urgent(now, id, outgoing.bytes())
        {
            outgoing.push(to, route.to);
        }
    }

    /// Strangers, after everybody who plays has had their share of the turn. A handshake costs as much
    /// as a dozen packets, and a stream to the backend as much again: only so many in a turn, so that a
    /// storm of joins is not felt by those who are in.
    pub fn welcome(&mut self, turn: &mut Turn<'_>) {
        if self.lobby.is_empty() {
            return;
        }
        let mut lobby = std::mem::take(&mut self.lobby);
        let mut answers = ANSWERS_PER_TURN;
        for _ in 0..STRANGERS_PER_TURN {
            if answers == 0 {
                break;
            }
            let Some((route, datagram)) = lobby.next() else {
                break;
            };
            let handled = self
                .endpoint
                .handle_datagram(turn.now, route.from, datagram, turn.reply);
            match handled {
                Handled::Rejected(why) => self.ask_siblings(turn.now, route, why, datagram),
                _ => answers -= 1,
            }
            if !turn.reply.is_empty() {
                turn.outgoing.bytes().extend_from_slice(turn.reply);
                turn.outgoing.push(route.from, route.to);
            }
            self.after_datagram(turn.now, turn.outgoing, route, handled);
        }
        self.lobby = lobby;
        // Those who were let in ask for a backend at once, and what was answered leaves.
        self.pump(turn);
        self.transmit(turn);
    }

    /// Whether a datagram goes on to the endpoint: peers have quotas, strangers need to be admitted.
    fn judge(
        &mut self,
        now: Now,
        from: SocketAddr,
        known: Option<PeerId>,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        self.crowd.on_datagram(known.map(PeerId::slot));
        let Some(id) = known else {
            let Some(admission) = &mut self.admission else {
                return Ok(());
            };
            admission.check(now.mono, from, datagram.len())?;
            let glance = self.endpoint.glance(now, from, datagram)?;
            return admission.charge(now.mono, from, glance);
        };
        let Some(quota) = self.peers.get_mut(id).and_then(|peer| peer.quota.as_mut()) else {
            return Ok(());
        };
        let strict = self.limits.as_ref().is_none_or(|limits| limits.strict);
        match quota.take_datagram(now.mono, datagram.len()) {
            Err(_) if !strict && !self.crowd.is_crowded() => Ok(()),
            judged => judged,
        }
    }

    pub(super) fn on_handled(&mut self, now: Now, route: Route, handled: Handled) {
        match handled {
            Handled::Accepted(id) => self.insert(now.mono, id, route),
            Handled::Moved(id) => {
                self.counters.address_moves += 1;
                if let Some(peer) = self.peers.get_mut(id) {
                    (peer.remote, peer.ours) = (route.from, route.to);
                }
                self.touch(id);
            }
            Handled::Peer(id) => self.touch(id),
            Handled::PeerRejected(id, reject) => {
                self.counters.on_reject(reject);
                // Only what was proved to be the peer's own doing may count against its address.
                if matches!(reject, Reject::ProtocolError | Reject::BadAck)
                    && let Some(admission) = &mut self.admission
                {
                    admission.on_strike(now.mono, route.from);
                }
                self.touch(id);
            }
            Handled::Rejected(reject) => {
                self.counters.on_reject(reject);
                self.explain(reject);
            }
            Handled::Replied => {}
        }
    }

    /// Silence for strangers, in the log too. This one had a token that was sealed with our key, so the
    /// mistake is on our side, and nobody would find it on the player's.
    fn explain(&self, reject: Reject) {
        if reject == Reject::TokenAddress {
            tracing::warn!(
                event = "token_refused",
                reason = reject.label(),
                listener = %self.name,
                help = "a connect token made with our key names another address: public_addresses must \
                        list what players dial",
            );
        }
    }

    fn insert(&mut self, now: Timestamp, id: PeerId, route: Route) {
        let mut peer = self.new_peer(id, route.from, now);
        peer.ours = route.to;
        self.peers.insert(peer);
        self.touch(id);
    }

    /// Clocks after datagrams, so that a packet that came in time counts however late we look.
    pub fn handle_timeouts(&mut self, turn: &mut Turn<'_>) {
        if self.gathers_at().is_some_and(|at| at <= turn.now.mono) {
            self.gather(turn.now);
        }
        if let Some(deadline) = self.endpoint.poll_timeout()
            && deadline.at <= turn.now.mono
        {
            let late = turn.now.mono.since(deadline.at);
            self.counters.tick_lag.record_duration(late);
            self.endpoint.handle_timeout(turn.now);
        }
        while let Some(&Reverse((at, id))) = self.deadlines.peek()
            && at <= turn.now.mono
        {
            self.deadlines.pop();
            match self.peers.get_mut(id) {
                Some(peer) if peer.scheduled == at => peer.scheduled = Timestamp::MAX,
                Some(_) | None => continue,
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
                    peer.connected = true;
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
        peer.closed = Some(reason);
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
        let connected = peer.connected;
        peer.paused_until = None;
        let pumped = self
            .with_stream(turn, id, |stream, side| stream.pump(side, connected))
            .unwrap_or_default();
        self.schedule(id);
        if let Some(peer) = self.peers.get_mut(id) {
            let over = peer.closed.is_some() && peer.stream.is_closed();
            if over && !std::mem::replace(&mut peer.leaving, true) {
                self.leaving.push(id);
            }
        }
        if pumped.blocked {
            self.set_blocked(id, true);
        }
        pumped.again
    }

    fn with_stream<R>(
        &mut self,
        turn: &mut Turn<'_>,
        id: PeerId,
        act: impl FnOnce(&mut crate::backend::Stream, &mut Side<'_>) -> R,
    ) -> Option<R> {
        let peer = self.peers.get_mut(id)?;
        let now = turn.now.mono;
        let allowed = peer.quota.as_mut().map(|quota| quota.messages(now));
        let mut side = Side {
            now: turn.now,
            id,
            endpoint: &mut self.endpoint,
            rules: &peer.rules,
            messages_left: allowed.unwrap_or(u32::MAX),
            counters: &mut self.counters,
            scratch: turn.scratch,
        };
        let outcome = act(&mut peer.stream, &mut side);
        let left = side.messages_left;
        let moved = peer.stream.take_moved();
        if let Some(target) = peer.attempt.target {
            let target = &mut self.counters.targets[target];
            target.bytes_sent += moved.sent;
            target.bytes_received += moved.received;
        }
        if let (Some(allowed), Some(quota)) = (allowed, &mut peer.quota) {
            quota.take_messages(allowed - left);
            peer.paused_until = (left == 0).then(|| now + MESSAGES_PAUSE);
        }
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

    fn flush(&mut self, turn: &mut Turn<'_>, whose: Option<PeerId>) {
        if turn.outgoing.is_empty() {
            return;
        }
        let own = whose.and_then(|id| self.peers.get_mut(id)?.socket.as_mut());
        if let Some(socket) = own.or(self.socket.as_mut()) {
            socket.send(turn.outgoing, &mut self.sent);
        }
        turn.outgoing.clear();
    }

    fn say_farewell(&mut self, turn: &mut Turn<'_>) {
        let leaving = std::mem::take(&mut self.leaving);
        for id in leaving {
            self.set_blocked(id, false);
            self.release_target(id);
            let target = self.target_of(id);
            let stats = self.endpoint.stats(id).unwrap_or_default();
            let identity = self.endpoint.identity(id).unwrap_or_default();
            let proved = identity.client_id.is_some();
            self.endpoint.remove(id);
            let Some(mut peer) = self.peers.remove(id) else {
                continue;
            };
            self.capacity.on_departure();
            peer.log_end(&self.name, target.as_deref(), turn.now.mono, &stats);
            // Elsewhere anybody can write nonsense in a peer's name.
            if proved && peer.closed == Some(CloseReason::ProtocolViolation) {
                peer.log_misfit(&self.name, &stats);
            }
            if let Some(target) = peer.attempt.target {
                let by = peer.stream.ended_by();
                self.counters.targets[target].closes[by as usize] += 1;
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

fn touched(handled: Handled) -> Option<PeerId> {
    match handled {
        Handled::Peer(id)
        | Handled::Moved(id)
        | Handled::PeerRejected(id, _)
        | Handled::Accepted(id) => Some(id),
        Handled::Replied | Handled::Rejected(_) => None,
    }
}

/// Batches received before the other steps get their turn: 8 of up to 32 buffers.
const BATCHES_PER_TURN: usize = 8;

/// With the next buffer, 64 KiB at most, still far below what an inbox refuses by default.
const INBOX_BYTES_SOON: usize = 32 * 1024;

/// Handshake packets answered in a turn, each some 20 microseconds, and as much again for a stream.
const ANSWERS_PER_TURN: usize = 8;

/// Strangers' datagrams looked at in a turn. Most are refused for their first bytes.
const STRANGERS_PER_TURN: usize = 256;

/// Datagrams sent before the other steps get their turn; the rest is first in the next one.
const DATAGRAMS_PER_TURN: usize = 2048;

const PASSES_PER_TURN: usize = 4;
