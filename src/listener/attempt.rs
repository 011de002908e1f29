//! Connecting a peer's stream: which target, how long, how often.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::{CloseReason, PeerId, Timestamp};

use super::peer::Phase;
use super::wakes::{Wakes, poll_token};
use super::{Listener, Turn};
use crate::backend::{Pick, Pool, Socket, SocketOptions, advice, health};
use crate::config::Backoff;
use crate::counters::ConnectFailure;
use crate::proxy_protocol::{Proxied, ProxyHeader};
use crate::sizing::open_files;

/// Where a listener's streams go, and how they get there.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Shared by all workers.
    pub pool: Arc<Pool>,
    /// One connect.
    pub timeout: Duration,
    /// Connects for one session.
    pub attempts: u32,
    /// Pauses between them.
    pub backoff: Backoff,
    /// What each stream starts with.
    pub proxy: Option<ProxyHeader>,
    /// How sockets are set up.
    pub socket: SocketOptions,
}

/// One peer's way to a backend.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    chosen: Chosen,
    failures: u32,
    /// Why the last connect of its own failed. The next try may find that every target rests, which says
    /// less.
    failed: Option<ConnectFailure>,
    began: Timestamp,
    /// Until when the connect under way may take, or when the next one begins.
    wakes: Option<Timestamp>,
    /// Until when it may wait for a place in a target's queue of connects; none when it does not.
    queues_until: Option<Timestamp>,
}

/// The target that the pool chose last for a peer, and who counts the peer's stream there.
#[derive(Clone, Copy, Debug, Default)]
enum Chosen {
    #[default]
    None,
    /// Nobody: the connect failed, or the stream is gone.
    Tried(Pick),
    /// The pool.
    Connecting(Pick),
    /// The pool and our counters.
    Connected(Pick),
}

impl Chosen {
    fn pick(self) -> Option<Pick> {
        match self {
            Self::None => None,
            Self::Tried(pick) | Self::Connecting(pick) | Self::Connected(pick) => Some(pick),
        }
    }
}

impl Attempt {
    /// No stream is to be connected; instead, the far end lets us in until then.
    pub(super) fn dialled(until: Timestamp) -> Self {
        Self {
            wakes: Some(until),
            ..Self::default()
        }
    }

    /// The target tried last, or connected to: its index in the configuration.
    pub(super) fn target(&self) -> Option<usize> {
        self.chosen.pick().map(|pick| pick.target)
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.wakes
    }

    /// A target's queue of connects is full: when to try again. None once that took as long as a connect may.
    fn queue(&mut self, now: Timestamp, timeout: Duration) -> Option<Timestamp> {
        let until = *self.queues_until.get_or_insert(now + timeout);
        if now >= until {
            self.queues_until = None;
            return None;
        }
        let waited = timeout.saturating_sub(until.since(now));
        Some(now + queue_pause(waited))
    }
}

impl Listener {
    /// The peer has proved who it is: find it a backend.
    pub(super) fn open_backend(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        if self.terms.destination.is_none() {
            // A dialled peer's stream was there before the peer.
            self.endpoint.admit(turn.now, id);
            return;
        }
        self.try_connect(turn, id);
    }

    /// The attempt's clock rang: it took too long, or its pause is over.
    pub(super) fn handle_attempt_timeout(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        if peer.attempt.wakes.is_none_or(|at| at > turn.now.mono) {
            return;
        }
        peer.attempt.wakes = None;
        if self.terms.destination.is_none() {
            if peer.phase == Phase::Joining {
                self.endpoint
                    .close(turn.now, id, CloseReason::ConnectTimeout);
            }
        } else if peer.stream.is_connecting() {
            self.on_late_connect(turn, id);
        } else if !peer.stream.is_closed() {
            self.try_connect(turn, id);
        }
    }

    /// The kernel has news of a connect under way.
    pub(super) fn check_connect(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        match peer.stream.check_connect() {
            Ok(true) => self.on_backend_connected(turn, id),
            Ok(false) => {}
            Err(error) => self.on_connect_failed(turn, id, &error),
        }
    }

    /// The stream is gone: its target has one less.
    pub(super) fn release_target(&mut self, id: PeerId) {
        let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination)
        else {
            return;
        };
        let chosen = &mut peer.attempt.chosen;
        let (Chosen::Connecting(pick) | Chosen::Connected(pick)) = *chosen else {
            return;
        };
        if let Chosen::Connected(_) = std::mem::replace(chosen, Chosen::Tried(pick)) {
            let counters = self.counters.target(pick.target);
            counters.connections = counters.connections.saturating_sub(1);
        }
        destination.pool.on_closed(pick);
    }

    /// The name of a peer's target, as configured.
    pub(super) fn target_of(&self, id: PeerId) -> Option<String> {
        let target = self.peers.get(id)?.attempt.target()?;
        let pool = &self.terms.destination.as_ref()?.pool;
        Some(pool.target(target).to_string())
    }

    /// The backend ended the stream: where it ends many, somebody looks whether it is there.
    pub(super) fn tell_of_end(&self, id: PeerId) {
        let chosen = self.peers.get(id).map(|peer| peer.attempt.chosen);
        if let (Some(Chosen::Connected(pick)), Some(destination)) =
            (chosen, &self.terms.destination)
        {
            destination.pool.on_ended(pick);
        }
    }

    fn try_connect(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let client_id = self.endpoint.identity(id).and_then(|whom| whom.client_id);
        let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination)
        else {
            return;
        };
        let (now, attempt) = (turn.now.mono, &mut peer.attempt);
        let picked = destination.pool.pick(now, client_id, attempt.chosen.pick());
        let Some((pick, address)) = picked else {
            attempt.chosen = Chosen::None;
            let why = attempt.failed.unwrap_or(ConnectFailure::Other);
            return self.try_later(turn, id, why);
        };
        (attempt.chosen, attempt.began) = (Chosen::Connecting(pick), now);
        let Some(address) = address else {
            return self.on_connect_failed(turn, id, &health::no_address());
        };
        let token = poll_token(self.index, Wakes::Stream(id.slot()));
        let connect = Socket::connect(&address, destination.socket)
            .and_then(|mut socket| socket.register(turn.registry, token).map(|()| socket));
        match connect {
            Ok(socket) => {
                attempt.wakes = Some(now + destination.timeout);
                peer.stream.begin_connect(socket);
                self.schedule(id);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.queue(turn, id, pick),
            Err(error) if open_files::are_used_up(&error) => self.on_no_descriptor(turn, id, pick),
            Err(error) => self.on_connect_failed(turn, id, &error),
        }
    }

    /// A Unix socket whose queue is full says so at once, where TCP would try again by itself: a server that is
    /// slow to accept is there all the same.
    fn queue(&mut self, turn: &mut Turn<'_>, id: PeerId, pick: Pick) {
        let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination)
        else {
            return;
        };
        let Some(again) = peer.attempt.queue(turn.now.mono, destination.timeout) else {
            return self.on_late_connect(turn, id);
        };
        destination.pool.on_closed(pick);
        (peer.attempt.chosen, peer.attempt.wakes) = (Chosen::Tried(pick), Some(again));
        self.schedule(id);
    }

    /// Not the target's doing, and trying elsewhere takes a descriptor as well.
    fn on_no_descriptor(&mut self, turn: &mut Turn<'_>, id: PeerId, pick: Pick) {
        if let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination) {
            destination.pool.on_closed(pick);
            peer.attempt.chosen = Chosen::None;
        }
        self.seats.on_unopened();
        self.endpoint.close(turn.now, id, CloseReason::Overload);
    }

    fn on_backend_connected(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let Some(greeting) = self.greeting(id) else {
            return;
        };
        let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination)
        else {
            return;
        };
        (peer.attempt.wakes, peer.attempt.queues_until) = (None, None);
        peer.stream.on_connected(&greeting);
        if let Chosen::Connecting(pick) = peer.attempt.chosen {
            peer.attempt.chosen = Chosen::Connected(pick);
            if let Some(turned) = destination.pool.on_connected(pick) {
                advice::log_turned(&turned, None);
            }
            let counters = self.counters.target(pick.target);
            counters.connects += 1;
            counters.connections += 1;
            let took = turn.now.mono.since(peer.attempt.began);
            counters.connect_duration.record_duration(took);
        }
        self.endpoint.admit(turn.now, id);
        self.touch(id);
    }

    /// What a stream begins with: who its peer is, for a backend that is told. None once there is no such peer.
    fn greeting(&self, id: PeerId) -> Option<Vec<u8>> {
        let (peer, whom) = (self.peers.get(id)?, self.endpoint.identity(id)?);
        let mut greeting = Vec::new();
        let Some(header) = &self.terms.destination.as_ref()?.proxy else {
            return Some(greeting);
        };
        let shared = self.socket.as_ref();
        let mut ours = shared.map_or(peer.remote, |shared| shared.socket.local_addr());
        if let Some(ip) = peer.ours {
            ours.set_ip(ip);
        }
        let proxied = Proxied {
            source: peer.remote,
            destination: ours,
            session: peer.session,
            listener: &self.name,
            protocol: self.protocol,
            client_id: whom.client_id,
            user_data: whom.user_data,
        };
        header.emit(&proxied, &mut greeting);
        Some(greeting)
    }

    fn on_late_connect(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let timeout = self.terms.destination.as_ref().map(|it| it.timeout);
        let error = health::no_answer(timeout.unwrap_or_default());
        self.on_connect_failed(turn, id, &error);
    }

    fn on_connect_failed(&mut self, turn: &mut Turn<'_>, id: PeerId, error: &io::Error) {
        let why = ConnectFailure::of(error);
        let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination)
        else {
            return;
        };
        peer.stream.abandon_connect();
        if let Chosen::Connecting(pick) = peer.attempt.chosen {
            peer.attempt.chosen = Chosen::Tried(pick);
            self.counters.target(pick.target).connect_failures[why as usize] += 1;
            match destination.pool.on_failed(turn.now.mono, pick) {
                Some(turned) => advice::log_turned(&turned, Some(error)),
                None => advice::warn_of_connect(&destination.pool, pick, why.label(), error),
            }
        }
        self.try_later(turn, id, why);
    }

    /// An attempt is over: another one, or the end.
    fn try_later(&mut self, turn: &mut Turn<'_>, id: PeerId, why: ConnectFailure) {
        let (Some(peer), Some(destination)) = (self.peers.get_mut(id), &self.terms.destination)
        else {
            return;
        };
        let attempt = &mut peer.attempt;
        attempt.failures += 1;
        attempt.failed = Some(why);
        if attempt.failures < destination.attempts {
            let tried_all = attempt.failures as usize >= destination.pool.choices();
            let pause = if tried_all {
                pause(destination.backoff, attempt.failures, peer.session)
            } else {
                Duration::ZERO
            };
            attempt.wakes = Some(turn.now.mono + pause);
            self.schedule(id);
            return;
        }
        let reason = match why {
            ConnectFailure::Refused => CloseReason::BackendRefused,
            ConnectFailure::Timeout => CloseReason::BackendConnectTimeout,
            ConnectFailure::NotFound
            | ConnectFailure::Unreachable
            | ConnectFailure::Denied
            | ConnectFailure::Dns
            | ConnectFailure::NoPort
            | ConnectFailure::Other => CloseReason::BackendUnreachable,
        };
        tracing::debug!(
            event = "no_backend",
            listener = %self.name,
            peer = %peer.remote,
            session = format_args!("{:016x}", peer.session),
            reason = reason.label(),
        );
        self.endpoint.close(turn.now, id, reason);
    }
}

/// How long a target's full queue is given to move: the longer it did not, the longer, since thousands may wait for it,
/// and each try takes four system calls of a loop that others share.
fn queue_pause(waited: Duration) -> Duration {
    (waited / 2).clamp(Duration::from_millis(5), Duration::from_millis(100))
}

/// Doubles from the first to the longest, and spreads peers that failed together over half of it.
fn pause(backoff: Backoff, failures: u32, session: u64) -> Duration {
    let doubled = backoff.first * 2u32.saturating_pow(failures.saturating_sub(1).min(16));
    let longest = doubled.min(backoff.most);
    let share = (session >> 32) as f64 / f64::from(u32::MAX);
    longest.mul_f64(0.5 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Players whom one crash ends come back to the game server at different times, and none of them much later.
    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        let backoff = Backoff {
            first: Duration::from_millis(100),
            most: Duration::from_secs(1),
        };
        let pauses = |session| {
            let pause = |failures| pause(backoff, failures, session).as_millis();
            [1, 2, 3, 4, 5, 99].map(pause)
        };
        assert_eq!(pauses(0), [50, 100, 200, 400, 500, 500]);
        assert_eq!(pauses(u64::MAX), [100, 200, 400, 800, 1_000, 1_000]);
    }
}
