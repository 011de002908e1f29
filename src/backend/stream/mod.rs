//! One peer's stream: frames out as messages come, messages out as frames come.
//!
//! ```text
//!   idle ──open()──▶ connecting ──connected──▶ open ──session over──▶ flushing ──all written──▶ draining ──▶ closed
//!                        │  ▲                   │                        │       shutdown(WR)     │  EOF, or
//!                 failed │  │ another target,   │ backend EOF or error:  │ stalled,               │  `linger`
//!                        ▼  │ or later          │ finish() the session   ▼ or broken              ▼
//!                      waiting                  └▶ still open for       closed                  closed
//!                        │ no attempts left        what the peer sent
//!                        ▼
//!                      close() the session: nobody is seated in front of a dead backend
//! ```
//!
//! A stream is never closed while it holds input that was not read: the kernel would answer with a
//! reset, and that destroys what is still on its way to the backend. Hence flush, shutdown, drain,
//! close. Rule: docs/RELIABILITY.md, "How sessions end".
//!
//! This file is the stream's life; `to_backend.rs` and `to_peer.rs` are what flows in it, and `side.rs` what the worker
//! lends it for a call.

mod readiness;
mod side;
mod to_backend;
mod to_peer;

use std::io;
use std::time::Duration;

use mio::{Registry, Token};
use tidegate_proto::{AckPolicy, CloseReason, Timestamp};

use readiness::Readiness;
pub use side::{Scratch, Side};
use to_backend::ToBackend;
use to_peer::ToPeer;

use super::Socket;
use crate::config::UnreliablePolicy;
use crate::counters::{ClosedBy, Direction, DropReason};
use crate::framing::FrameCodec;

/// What all streams of a listener have in common.
#[derive(Clone, Debug)]
pub struct StreamRules {
    pub codec: FrameCodec,
    /// What becomes of unreliable messages that meet a queue.
    pub unreliable: UnreliablePolicy,
    /// When the session acknowledges: it may wait for the write.
    pub ack: AckPolicy,
    /// A backend that takes nothing for this long is given up.
    pub stall: Duration,
    /// How long the backend may take to close after we have.
    pub linger: Duration,
}

/// One peer's stream.
#[derive(Debug, Default)]
pub struct Stream {
    state: State,
    socket: Option<Socket>,
    readiness: Readiness,
    /// The poll was asked not to tell of room to write, since there is some.
    room_unasked: bool,
    /// Everything that the backend wrote was read: nothing more comes from it.
    ended: bool,
    /// Reading or writing failed: what comes for the backend is lost, and counted.
    failure: Option<Failure>,
    to_backend: ToBackend,
    to_peer: ToPeer,
    ended_by: ClosedBy,
    moved: Moved,
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The backend, or something on the way to it, broke it off.
    Reset,
    /// The kernel lost patience (TCP_USER_TIMEOUT): what we wrote was not taken for `stall`.
    TimedOut,
}

impl Failure {
    /// A connection fails with this error, perhaps after it failed as `before` says.
    fn new(before: Option<Self>, error: &io::Error) -> Self {
        // Both the kernel and we watch for a backend that takes nothing; either may be first.
        if before == Some(Self::TimedOut) || error.kind() == io::ErrorKind::TimedOut {
            Self::TimedOut
        } else {
            Self::Reset
        }
    }
}

/// Bytes on the socket, frames and greeting included, and whether it came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub received: u64,
    /// The backend closed it, or it broke.
    pub ended: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not asked for yet, or between two attempts.
    #[default]
    Idle,
    Connecting,
    Open,
    Flushing {
        until: Timestamp,
    },
    Draining {
        until: Timestamp,
    },
    Closed,
}

/// What a pump left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pumped {
    /// There is more to read, and this peer has had its share of the turn.
    pub again: bool,
    /// There may be more to read, and the session has no room for it.
    pub blocked: bool,
    /// There may be more to read, and the session may not take it ([`Side::room_left`]).
    pub held_back: bool,
    /// Bytes that the backend wrote for nobody, since the session is over.
    pub discarded: usize,
}

impl Stream {
    /// A stream that begins connected: a local program's, accepted by `tidegate connect`.
    pub fn accepted(socket: Socket) -> Self {
        Self {
            socket: Some(socket),
            state: State::Open,
            readiness: Readiness::UNKNOWN,
            ..Self::default()
        }
    }

    /// A connect is under way on this registered socket. The poll will tell when it is over.
    pub fn begin_connect(&mut self, socket: Socket) {
        self.socket = Some(socket);
        self.state = State::Connecting;
        self.readiness = Readiness::default();
        self.room_unasked = false;
    }

    /// The attempt failed; the socket goes.
    pub fn abandon_connect(&mut self) {
        self.socket = None;
        self.state = State::Idle;
    }

    /// The connect succeeded. `greeting` goes in front of everything else.
    pub fn on_connected(&mut self, greeting: &[u8]) {
        self.state = State::Open;
        self.to_backend.out.extend_from_slice(greeting);
    }

    /// Another poll tells about it from now on.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.readiness.forget();
        self.room_unasked = false;
        match &mut self.socket {
            Some(socket) => socket.register(registry, token),
            None => Ok(()),
        }
    }

    /// This poll tells about it no more.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.socket {
            Some(socket) => socket.deregister(registry),
            None => Ok(()),
        }
    }

    /// The kernel reports a change.
    pub fn on_ready(&mut self, event: &mio::event::Event) {
        self.readiness.on_event(event);
    }

    /// Whether a connect is under way.
    pub fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    /// Whether the connect under way has succeeded; an error when it has failed.
    pub fn check_connect(&self) -> io::Result<bool> {
        match &self.socket {
            Some(socket) if self.readiness.hung_up => socket.connected(),
            // Over TCP, one that can be written may have met itself.
            Some(socket @ Socket::Tcp(_)) if self.readiness.writable => socket.connected(),
            Some(Socket::Unix(_)) if self.readiness.writable => Ok(true),
            Some(_) | None => Ok(false),
        }
    }

    /// Whether nothing is left to do: not even a socket.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Who ended the stream: the backend, when it did before the session was over.
    pub fn ended_by(&self) -> ClosedBy {
        self.ended_by
    }

    /// What happened on the socket since this was last asked.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Bytes that wait for the backend here.
    pub fn queued(&self) -> usize {
        self.to_backend.queued()
    }

    /// Bytes of memory taken by what waits for the backend here.
    pub fn held_for_backend(&self) -> usize {
        self.to_backend.held()
    }

    /// Bytes of memory taken by what waits for the peer here.
    pub fn held_for_peer(&self) -> usize {
        self.to_peer.rest.len()
    }

    fn is_broken(&self) -> bool {
        self.failure.is_some()
    }

    /// The session is over: what it accepted is still written, then the stream closes in order.
    pub fn on_session_over(&mut self, now: Timestamp, rules: &StreamRules) {
        self.ended_by = match (self.is_broken(), self.ended) {
            (true, _) => ClosedBy::Error,
            (false, true) => ClosedBy::Backend,
            (false, false) => ClosedBy::Tidegate,
        };
        self.state = match self.state {
            State::Idle | State::Connecting | State::Closed => State::Closed,
            // A backend that is stuck already gets no second patience.
            State::Open => State::Flushing {
                until: self.to_backend.stuck_since.unwrap_or(now) + rules.stall,
            },
            closing @ (State::Flushing { .. } | State::Draining { .. }) => closing,
        };
        if self.state == State::Closed {
            self.socket = None;
        }
    }

    /// When [`Stream::handle_timeout`] has something to do.
    pub fn poll_timeout(&self, rules: &StreamRules) -> Option<Timestamp> {
        match self.state {
            State::Idle | State::Connecting | State::Closed => None,
            State::Open => self.to_backend.stuck_since.map(|since| since + rules.stall),
            State::Flushing { until } | State::Draining { until } => Some(until),
        }
    }

    /// Patience may be over.
    pub fn handle_timeout(&mut self, side: &mut Side<'_>) {
        if self
            .poll_timeout(side.rules)
            .is_none_or(|at| at > side.now.mono)
        {
            return;
        }
        match self.state {
            State::Open => {
                if self.retry(side) <= side.now.mono {
                    side.endpoint
                        .close(side.now, side.id, CloseReason::BackendStalled);
                }
            }
            State::Flushing { .. } => {
                let has_until = self.retry(side);
                match &mut self.state {
                    State::Flushing { until } if has_until > side.now.mono => *until = has_until,
                    State::Flushing { .. } => self.give_up(side, DropReason::SessionClosed),
                    _ => {}
                }
            }
            State::Draining { .. } => self.close(),
            State::Idle | State::Connecting | State::Closed => {}
        }
    }

    /// Writes whatever the socket takes, and says until when the backend has to read more. The kernel reports room only
    /// once a third of its buffer is free (of a Unix socket three quarters), which a slow reader may not achieve in time;
    /// but a write takes what room there is. Over TCP that still comes in steps, of up to 128 KiB.
    fn retry(&mut self, side: &mut Side<'_>) -> Timestamp {
        self.readiness.writable = true;
        self.pump(side, false);
        let since = self.to_backend.stuck_since;
        since.unwrap_or(side.now.mono) + side.rules.stall
    }

    /// Moves what can be moved towards the backend, in the middle of a turn.
    pub fn relieve(&mut self, side: &mut Side<'_>) {
        if self.state == State::Open && self.readiness.writable {
            self.deliver(side);
        }
    }

    /// Moves what can be moved, both ways. `may_speak` says that the peer may be sent messages.
    pub fn pump(&mut self, side: &mut Side<'_>, may_speak: bool) -> Pumped {
        match self.state {
            State::Idle | State::Connecting | State::Closed => Pumped::default(),
            State::Open => {
                self.deliver(side);
                if may_speak {
                    self.read(side)
                } else {
                    Pumped::default()
                }
            }
            State::Flushing { .. } => {
                let drained = self.deliver(side);
                // A backend that echoes would otherwise wait for us to read, and we for it.
                let pumped = self.discard(side);
                if drained && self.queued() == 0 {
                    self.say_goodbye(side);
                }
                pumped
            }
            State::Draining { .. } => {
                let pumped = self.discard(side);
                if self.ended {
                    self.close();
                }
                pumped
            }
        }
    }

    fn say_goodbye(&mut self, side: &mut Side<'_>) {
        let shut = match &self.socket {
            Some(socket) if !self.is_broken() => socket.shutdown_write(),
            Some(_) | None => Ok(()),
        };
        if self.ended || self.is_broken() || shut.is_err() {
            self.close();
        } else {
            self.state = State::Draining {
                until: side.now.mono + side.rules.linger,
            };
            // The end may be there already, read or reported.
            self.readiness.readable = true;
        }
    }

    /// Why the backend cannot be understood, if that ended the session.
    pub fn misread(&self) -> Option<&str> {
        self.to_peer.misread.as_deref()
    }

    /// Until when it may flush what a session that is over accepted; `None` when it does not.
    pub fn flushes_until(&self) -> Option<Timestamp> {
        match self.state {
            State::Flushing { until } => Some(until),
            State::Idle
            | State::Connecting
            | State::Open
            | State::Draining { .. }
            | State::Closed => None,
        }
    }

    /// Closes, and counts what the backend did not take.
    pub fn give_up(&mut self, side: &mut Side<'_>, reason: DropReason) {
        let mut lost = self.to_backend.messages();
        while side.endpoint.poll_message(side.id).is_some() {
            lost += 1;
        }
        side.counters.on_drop(Direction::ToBackend, reason, lost);
        self.close();
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.socket = None;
        self.to_backend.clear();
        self.to_peer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::SocketOptions;
    use super::*;

    /// Its poll reports it as any other: ready, and not hung up.
    #[test]
    fn a_stream_that_met_itself_is_not_connected() {
        let (domain, kind) = (socket2::Domain::IPV4, socket2::Type::STREAM);
        let itself = socket2::Socket::new(domain, kind, None).unwrap();
        let anywhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        itself.bind(&anywhere.into()).unwrap();
        itself.connect(&itself.local_addr().unwrap()).unwrap();
        let options = SocketOptions {
            nodelay: true,
            keepalive: None,
            user_timeout: Duration::from_secs(1),
        };
        let mut socket = Socket::adopt_tcp(itself.into(), options).unwrap();

        let mut poll = mio::Poll::new().unwrap();
        socket.register(poll.registry(), Token(0)).unwrap();
        let mut stream = Stream::default();
        stream.begin_connect(socket);
        let mut events = mio::Events::with_capacity(1);
        poll.poll(&mut events, Some(Duration::from_secs(5)))
            .unwrap();
        stream.on_ready(events.iter().next().unwrap());
        let refused = stream.check_connect().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
