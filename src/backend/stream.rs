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
//! close. Rule: docs/RELIABILITY.md, "Close in order".

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Duration;

use mio::{Registry, Token};
use tidegate_proto::{CloseReason, Endpoint, Now, PeerId, SendError, Timestamp};

use super::Socket;
use crate::config::UnreliablePolicy;
use crate::counters::{ClosedBy, Direction, DropReason, WorkerCounters};
use crate::framing::{FrameCodec, Framing};

/// What all streams of a listener have in common.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Frames.
    pub codec: FrameCodec,
    /// What becomes of unreliable messages that meet a queue.
    pub unreliable: UnreliablePolicy,
    /// Whether the session waits for the write before it acknowledges.
    pub acknowledge_written: bool,
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
    /// Edge-triggered readiness: true until the kernel has said otherwise.
    readable: bool,
    writable: bool,
    /// The other side has closed: the end of the stream is behind what can be read.
    hung_up: bool,
    /// Everything it wrote was read.
    ended: bool,
    /// Writing failed: what comes for the backend is lost, and counted.
    broken: bool,
    /// The session was told that the backend is gone.
    finished: bool,
    /// Messages were taken from the session since it was last told that all is written.
    unconfirmed: bool,
    /// Frames that the socket did not take; `out[..written]` left already. Empty while the backend
    /// keeps up, so that an idle peer holds no buffer.
    out: Vec<u8>,
    written: usize,
    /// Messages in `out`, to be counted as forwarded or dropped.
    waiting: Waiting,
    /// Unreliable frames behind a queue, newest last.
    late: VecDeque<Vec<u8>>,
    /// Bytes read that are not a whole frame yet, or that met a full session; `rest[..taken]` went.
    rest: Vec<u8>,
    taken: usize,
    stuck_since: Option<Timestamp>,
    ended_by: ClosedBy,
    moved: Moved,
}

/// Bytes on the socket, frames and greeting included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub received: u64,
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

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    messages: u64,
    bytes: u64,
}

/// The peer's side of a stream for the time of one call, and what the worker lends it.
pub struct Side<'a> {
    /// This turn.
    pub now: Now,
    /// Whose stream it is.
    pub id: PeerId,
    /// Where its session is.
    pub endpoint: &'a mut Endpoint,
    /// The listener's rules.
    pub rules: &'a Rules,
    /// Messages that may still be taken from an open session in this turn.
    pub messages_left: u32,
    /// What is counted.
    pub counters: &'a mut WorkerCounters,
    /// Buffers.
    pub scratch: &'a mut Scratch,
}

/// Buffers that all streams of a worker share, so that a peer owns memory only while it waits.
#[derive(Debug)]
pub struct Scratch {
    read: Vec<u8>,
    frames: Vec<u8>,
}

impl Scratch {
    /// For frames up to this size.
    pub fn new(max_frame: usize) -> Self {
        Self {
            read: vec![0; READ_BYTES + max_frame],
            frames: Vec::new(),
        }
    }

    /// Makes room for frames up to this size; never less than there was, since sessions that live
    /// may still have the old size.
    pub fn fit(&mut self, max_frame: usize) {
        let room = self.read.len().max(READ_BYTES + max_frame);
        self.read.resize(room, 0);
    }
}

/// What a pump left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pumped {
    /// There is more to read, and this peer has had its share of the turn.
    pub again: bool,
    /// There may be more to read, and the session has no room for it.
    pub blocked: bool,
}

impl Stream {
    /// A stream that begins connected: a local program's, accepted by `tidegate connect`.
    pub fn accepted(socket: Socket) -> Self {
        let mut stream = Self::default();
        stream.begin_connect(socket);
        stream.state = State::Open;
        stream
    }

    /// A connect is under way on this registered socket.
    pub fn begin_connect(&mut self, socket: Socket) {
        self.socket = Some(socket);
        self.state = State::Connecting;
        (self.readable, self.writable, self.hung_up) = (true, true, false);
    }

    /// The attempt failed; the socket goes.
    pub fn abandon_connect(&mut self) {
        self.socket = None;
        self.state = State::Idle;
    }

    /// The connect succeeded. `greeting` goes in front of everything else.
    pub fn on_connected(&mut self, greeting: &[u8]) {
        self.state = State::Open;
        self.out.extend_from_slice(greeting);
    }

    /// Another poll tells about it from now on: until it does, anything may be possible.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        (self.readable, self.writable) = (true, true);
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
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
        self.hung_up |= event.is_read_closed() || event.is_error();
    }

    /// Whether a connect is under way.
    pub fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    /// Whether the connect under way has succeeded; an error when it has failed.
    pub fn check_connect(&self) -> io::Result<bool> {
        match &self.socket {
            Some(socket) => socket.connected(),
            None => Ok(false),
        }
    }

    /// Whether there is a connection.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether nothing is left to do: not even a socket.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Who ended the stream: the backend, when it did before the session was over.
    pub fn ended_by(&self) -> ClosedBy {
        self.ended_by
    }

    /// Bytes that went through the socket since this was last asked.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Bytes that wait for the backend here.
    pub fn queued(&self) -> usize {
        self.out.len() - self.written
    }

    /// The session is over: what it accepted is still written, then the stream closes in order.
    pub fn on_session_over(&mut self, now: Timestamp, rules: &Rules) {
        self.ended_by = match (self.broken, self.ended) {
            (true, _) => ClosedBy::Error,
            (false, true) => ClosedBy::Backend,
            (false, false) => ClosedBy::Tidegate,
        };
        self.state = match self.state {
            State::Idle | State::Connecting | State::Closed => State::Closed,
            // A backend that is stuck already gets no second patience.
            State::Open => State::Flushing {
                until: self.stuck_since.unwrap_or(now) + rules.stall,
            },
            closing @ (State::Flushing { .. } | State::Draining { .. }) => closing,
        };
        if self.state == State::Closed {
            self.socket = None;
        }
    }

    /// When [`Stream::handle_timeout`] has something to do.
    pub fn poll_timeout(&self, rules: &Rules) -> Option<Timestamp> {
        match self.state {
            State::Idle | State::Connecting | State::Closed => None,
            State::Open => self.stuck_since.map(|since| since + rules.stall),
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
            State::Open => side
                .endpoint
                .close(side.now, side.id, CloseReason::BackendStalled),
            State::Flushing { .. } => self.give_up(side),
            State::Draining { .. } => self.close(),
            State::Idle | State::Connecting | State::Closed => {}
        }
    }

    /// Moves what can be moved, both ways. `connected` says that the peer may be sent messages.
    pub fn pump(&mut self, side: &mut Side<'_>, connected: bool) -> Pumped {
        match self.state {
            State::Idle | State::Connecting | State::Closed => Pumped::default(),
            State::Open => {
                self.deliver(side);
                if connected {
                    self.read(side)
                } else {
                    Pumped::default()
                }
            }
            State::Flushing { .. } => {
                let drained = self.deliver(side);
                // A backend that echoes would otherwise wait for us to read, and we for it.
                let again = self.discard(side);
                if drained && self.queued() == 0 {
                    self.say_goodbye(side);
                }
                Pumped {
                    again,
                    blocked: false,
                }
            }
            State::Draining { .. } => {
                let again = self.discard(side);
                if self.ended {
                    self.close();
                }
                Pumped {
                    again,
                    blocked: false,
                }
            }
        }
    }

    /// Takes messages from the session and writes them. Returns whether the session holds none.
    fn deliver(&mut self, side: &mut Side<'_>) -> bool {
        let lent = self.out.is_empty();
        let mut frames = if lent {
            std::mem::take(&mut side.scratch.frames)
        } else {
            std::mem::take(&mut self.out)
        };
        let drained = loop {
            let drained = self.collect(side, &mut frames, !lent);
            self.write(side, &frames);
            if self.written == frames.len() {
                self.on_all_written(side, &mut frames);
            }
            let nothing_left = drained && frames.len() == self.written;
            if nothing_left || !self.writable || self.broken {
                break drained;
            }
        };
        self.keep(side, frames, lent);
        drained
    }

    /// Encodes messages until the queue is long enough; true when the session holds no more.
    /// `backlogged`: the socket has refused bytes before.
    fn collect(&mut self, side: &mut Side<'_>, frames: &mut Vec<u8>, backlogged: bool) -> bool {
        while frames.len() - self.written < QUEUE_BYTES {
            // What a closed session accepted is owed to the backend whatever the limits say.
            if side.messages_left == 0 && self.state == State::Open {
                return true;
            }
            let Some(message) = side.endpoint.poll_message(side.id) else {
                return true;
            };
            side.messages_left = side.messages_left.saturating_sub(1);
            if !message.reliable && side.rules.codec.framing() == Framing::Raw {
                // Without frames it would be read as part of what the reliable channel says.
                side.counters
                    .on_drop(Direction::ToBackend, DropReason::TooLarge, 1);
                continue;
            }
            if self.broken {
                side.counters
                    .on_drop(Direction::ToBackend, DropReason::SessionClosed, 1);
                continue;
            }
            let (channel, size) = (message.channel, message.payload.len());
            let late = backlogged && !message.reliable;
            let encoded = match side.rules.unreliable {
                UnreliablePolicy::DropNewest if late => {
                    side.counters
                        .on_drop(Direction::ToBackend, DropReason::QueueFull, 1);
                    continue;
                }
                UnreliablePolicy::DropOldest if late => {
                    let mut frame = Vec::new();
                    let encoded = side
                        .rules
                        .codec
                        .encode(channel, message.payload, &mut frame);
                    self.late.push_back(frame);
                    if self.late.len() > LATE_FRAMES {
                        self.late.pop_front();
                        side.counters
                            .on_drop(Direction::ToBackend, DropReason::QueueFull, 1);
                    }
                    encoded.map(|()| 0)
                }
                UnreliablePolicy::DropNewest
                | UnreliablePolicy::DropOldest
                | UnreliablePolicy::Refuse => side
                    .rules
                    .codec
                    .encode(channel, message.payload, frames)
                    .map(|()| 1),
            };
            self.unconfirmed = true;
            match encoded {
                Ok(queued) => {
                    self.waiting.messages += queued;
                    self.waiting.bytes += queued * size as u64;
                }
                Err(error) => {
                    tracing::debug!(%error, "message does not fit a frame");
                    side.counters
                        .on_drop(Direction::ToBackend, DropReason::TooLarge, 1);
                    side.endpoint
                        .close(side.now, side.id, CloseReason::MessageTooLarge);
                }
            }
        }
        false
    }

    fn write(&mut self, side: &Side<'_>, frames: &[u8]) {
        let before = self.written;
        let Some(socket) = &mut self.socket else {
            return;
        };
        while self.written < frames.len() && self.writable && !self.broken {
            let left = &frames[self.written..];
            match socket.write(left) {
                Ok(count) => {
                    // A short write means that the buffer is full: the kernel will say when not.
                    self.writable = count == left.len();
                    self.written += count;
                    self.moved.sent += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "backend takes no more");
                    self.broken = true;
                    // What it wrote before it went is still to be read, up to the error.
                    self.readable = true;
                }
            }
        }
        if self.written == frames.len() {
            self.stuck_since = None;
        } else if self.written > before || self.stuck_since.is_none() {
            self.stuck_since = Some(side.now.mono);
        }
    }

    fn on_all_written(&mut self, side: &mut Side<'_>, frames: &mut Vec<u8>) {
        frames.clear();
        self.written = 0;
        let done = std::mem::take(&mut self.waiting);
        side.counters.messages_forwarded[Direction::ToBackend as usize] += done.messages;
        side.counters.message_bytes_forwarded[Direction::ToBackend as usize] += done.bytes;
        for frame in self.late.drain(..) {
            frames.extend_from_slice(&frame);
            self.waiting.messages += 1;
        }
        if self.unconfirmed && frames.is_empty() && side.rules.acknowledge_written {
            self.unconfirmed = false;
            side.endpoint.confirm_written(side.now, side.id);
        }
    }

    /// The shared buffer goes back; a peer keeps a buffer of its own only while bytes wait in it.
    fn keep(&mut self, side: &mut Side<'_>, mut frames: Vec<u8>, lent: bool) {
        if self.broken {
            side.counters.on_drop(
                Direction::ToBackend,
                DropReason::SessionClosed,
                self.waiting.messages + self.late.len() as u64,
            );
            (self.waiting, self.written) = (Waiting::default(), 0);
            self.stuck_since = None;
            self.late.clear();
            frames.clear();
        }
        if frames.len() > self.written && !lent {
            if self.written > frames.len() / 2 {
                frames.drain(..self.written);
                self.written = 0;
            }
            self.out = frames;
            return;
        }
        if frames.len() > self.written {
            self.out = frames[self.written..].to_vec();
        }
        self.written = 0;
        if lent {
            frames.clear();
            side.scratch.frames = frames;
        }
    }

    /// Reads frames and sends them, while the session has room.
    fn read(&mut self, side: &mut Side<'_>) -> Pumped {
        // What was read before comes first; no system call while it meets a full session.
        let mut rest = std::mem::take(&mut self.rest);
        let mut at = std::mem::take(&mut self.taken);
        let mut forwarded = self.forward(side, &rest, &mut at);
        if forwarded == Forwarded::NoRoom {
            (self.rest, self.taken) = (rest, at);
            return self.blocked();
        }
        let mut buffer = std::mem::take(&mut side.scratch.read);
        let mut end = rest.len() - at;
        buffer[..end].copy_from_slice(&rest[at..]);
        rest.clear();
        at = 0;
        let mut budget = READ_BUDGET;
        while forwarded == Forwarded::NeedsMore && self.readable && budget > 0 {
            if at > 0 {
                buffer.copy_within(at..end, 0);
                (at, end) = (0, end - at);
            }
            let room = (end + READ_BYTES).min(buffer.len());
            let count = self.fill(&mut buffer[end..room]);
            end += count;
            budget = budget.saturating_sub(count);
            forwarded = self.forward(side, &buffer[..end], &mut at);
        }
        if end > at {
            rest.extend_from_slice(&buffer[at..end]);
            self.rest = rest;
        }
        side.scratch.read = buffer;
        self.after_read(side, forwarded)
    }

    fn after_read(&mut self, side: &mut Side<'_>, forwarded: Forwarded) -> Pumped {
        match forwarded {
            Forwarded::Broken(reason) => {
                self.finish(side, reason);
                (self.rest, self.taken) = (Vec::new(), 0);
                // Whatever it still writes has lost its meaning.
                Pumped::default()
            }
            Forwarded::NoRoom => self.blocked(),
            Forwarded::NeedsMore if self.ended || self.broken => {
                let whole = self.rest.is_empty() && !self.broken;
                let reason = if whole {
                    CloseReason::BackendClosed
                } else {
                    CloseReason::BackendReset
                };
                self.finish(side, reason);
                Pumped::default()
            }
            Forwarded::NeedsMore => Pumped {
                again: self.readable,
                blocked: false,
            },
        }
    }

    fn blocked(&self) -> Pumped {
        let more = !self.rest.is_empty() || self.readable || self.ended;
        Pumped {
            again: false,
            blocked: more,
        }
    }

    /// Sends the whole frames of `bytes[*at..]`.
    fn forward(&mut self, side: &mut Side<'_>, bytes: &[u8], at: &mut usize) -> Forwarded {
        if self.finished {
            *at = bytes.len();
            return Forwarded::NeedsMore;
        }
        loop {
            if !side.endpoint.has_room(side.id) {
                return Forwarded::NoRoom;
            }
            let frame = match side.rules.codec.decode(&bytes[*at..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Forwarded::NeedsMore,
                Err(error) => {
                    tracing::debug!(%error, "backend wrote what is not a frame");
                    return Forwarded::Broken(CloseReason::BackendProtocolError);
                }
            };
            let payload = &bytes[*at..][frame.payload.clone()];
            *at += frame.consumed;
            let sent = side
                .endpoint
                .send(side.now, side.id, frame.channel, payload);
            let dropped = match sent {
                Ok(()) => {
                    side.counters.on_forward(Direction::ToPeer, payload.len());
                    continue;
                }
                // Only an unreliable channel can be full where the reliable one has room.
                Err(SendError::Full) => DropReason::QueueFull,
                Err(SendError::Closed) => DropReason::SessionClosed,
                Err(SendError::TooLarge { .. }) => DropReason::TooLarge,
                Err(SendError::NoSuchChannel) => {
                    return Forwarded::Broken(CloseReason::BackendProtocolError);
                }
            };
            side.counters.on_drop(Direction::ToPeer, dropped, 1);
            if dropped == DropReason::TooLarge {
                return Forwarded::Broken(CloseReason::MessageTooLarge);
            }
        }
    }

    /// One read; 0 when there is nothing now, or nothing ever again.
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        let Some(socket) = &mut self.socket else {
            self.readable = false;
            return 0;
        };
        match socket.read(buffer) {
            Ok(0) => {
                (self.ended, self.readable) = (true, false);
                0
            }
            Ok(count) => {
                // A short read empties the socket, unless the end is behind it.
                self.readable = count == buffer.len() || self.hung_up;
                self.moved.received += count as u64;
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                0
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => {
                tracing::debug!(%error, "backend broke the connection");
                (self.ended, self.broken, self.readable) = (true, true, false);
                0
            }
        }
    }

    /// Nothing more comes from the backend: the session delivers what it has, then says why.
    fn finish(&mut self, side: &mut Side<'_>, reason: CloseReason) {
        if !self.finished {
            self.finished = true;
            side.endpoint
                .finish(side.now, side.id, reason, FINISH_LINGER);
        }
    }

    /// Reads and drops, so that closing does not destroy what the backend has not read yet. Returns
    /// whether there is more.
    fn discard(&mut self, side: &mut Side<'_>) -> bool {
        let mut buffer = std::mem::take(&mut side.scratch.read);
        let mut rest = std::mem::take(&mut self.rest);
        let mut at = std::mem::take(&mut self.taken);
        let mut budget = READ_BUDGET;
        let mut end = rest.len() - at;
        buffer[..end].copy_from_slice(&rest[at..]);
        at = 0;
        loop {
            at += self.count_dropped(side, &buffer[at..end]);
            buffer.copy_within(at..end, 0);
            (at, end) = (0, end - at);
            if !self.readable || budget == 0 {
                break;
            }
            let room = (end + READ_BYTES).min(buffer.len());
            let count = self.fill(&mut buffer[end..room]);
            end += count;
            budget = budget.saturating_sub(count);
        }
        rest.clear();
        rest.extend_from_slice(&buffer[..end]);
        if end > 0 {
            self.rest = rest;
        }
        side.scratch.read = buffer;
        self.readable
    }

    /// Counts the frames in bytes that go nowhere; bytes that are no frames count for nothing.
    fn count_dropped(&mut self, side: &mut Side<'_>, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            match side.rules.codec.decode(&bytes[at..]) {
                Ok(Some(frame)) => {
                    at += frame.consumed;
                    side.counters
                        .on_drop(Direction::ToPeer, DropReason::SessionClosed, 1);
                }
                Ok(None) => return at,
                Err(_) => return bytes.len(),
            }
        }
    }

    fn say_goodbye(&mut self, side: &mut Side<'_>) {
        let shut = match &self.socket {
            Some(socket) if !self.broken => socket.shutdown_write(),
            Some(_) | None => Ok(()),
        };
        if self.ended || self.broken || shut.is_err() {
            self.close();
        } else {
            self.state = State::Draining {
                until: side.now.mono + side.rules.linger,
            };
            // The end may be there already, read or reported.
            self.readable = true;
        }
    }

    fn give_up(&mut self, side: &mut Side<'_>) {
        let mut lost = self.waiting.messages + self.late.len() as u64;
        while side.endpoint.poll_message(side.id).is_some() {
            lost += 1;
        }
        side.counters
            .on_drop(Direction::ToBackend, DropReason::SessionClosed, lost);
        self.close();
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.socket = None;
        self.out = Vec::new();
        self.rest = Vec::new();
        (self.written, self.taken) = (0, 0);
        self.late.clear();
    }
}

/// Why a pass over bytes from the backend stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forwarded {
    /// No whole frame is left.
    NeedsMore,
    /// The session takes no more.
    NoRoom,
    /// These bytes end the session.
    Broken(CloseReason),
}

/// Frames wait here at most, beyond which messages stay in the session's inbox, which then stops
/// acknowledging. One frame may pass the mark.
const QUEUE_BYTES: usize = 64 * 1024;

/// Unreliable frames kept for a backend that is behind: more would only be older.
const LATE_FRAMES: usize = 32;

/// One read. Small enough that what a full session leaves over is not much.
const READ_BYTES: usize = 16 * 1024;

/// Bytes that one peer's backend may write per turn before others get theirs.
const READ_BUDGET: usize = 64 * 1024;

/// How long a session may take to deliver what a backend wrote before it closed.
const FINISH_LINGER: Duration = Duration::from_secs(5);
