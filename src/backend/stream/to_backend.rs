//! Towards the backend: messages leave the session as fast as the socket takes their frames.

use std::collections::VecDeque;
use std::io::{self, Write};

use tidegate_proto::{AckPolicy, CloseReason, Message, Timestamp};

use super::{Failure, Side, State, Stream, StreamRules};
use crate::config::UnreliablePolicy;
use crate::counters::{Direction, DropReason, WorkerCounters};
use crate::framing::{FrameCodec, FrameError, Framing};

/// What was taken from the session and did not reach the backend yet.
#[derive(Debug, Default)]
pub(super) struct ToBackend {
    /// Frames that the socket did not take; `out[..written]` left already. Empty while the backend
    /// keeps up, so that an idle peer holds no buffer.
    pub(super) out: Vec<u8>,
    written: usize,
    /// Messages in `out`, to be counted as forwarded or dropped.
    waiting: Waiting,
    /// Unreliable frames behind a queue, newest last.
    late: VecDeque<LateFrame>,
    /// Messages were taken from the session since it was last told that all is written.
    unconfirmed: bool,
    /// Since when the socket has taken nothing of `out`.
    pub(super) stuck_since: Option<Timestamp>,
    /// Bytes that the socket took in all.
    taken_by_socket: u64,
    /// A reliable message fitted no frame: what is behind it is no part of a prefix.
    has_gap: bool,
}

impl ToBackend {
    /// Bytes of frames that wait.
    pub(super) fn queued(&self) -> usize {
        self.out.len() - self.written
    }

    /// Bytes of memory taken by what waits.
    pub(super) fn held(&self) -> usize {
        let late = self.late.iter().map(|late| late.frame.len());
        self.out.len() + late.sum::<usize>()
    }

    /// Messages that wait.
    pub(super) fn messages(&self) -> u64 {
        self.waiting.messages + self.late.len() as u64
    }

    /// Does with a message what was decided. An error when it fits no frame: then it is nowhere.
    fn take(
        &mut self,
        message: &Message<'_>,
        fate: Fate,
        codec: &FrameCodec,
        frames: &mut Vec<u8>,
        counters: &mut WorkerCounters,
    ) -> Result<(), FrameError> {
        let (channel, payload) = (message.channel, message.payload);
        match fate {
            Fate::Drop(reason) => counters.on_drop(Direction::ToBackend, reason, 1),
            Fate::Queue => {
                codec.encode(channel, payload, frames)?;
                self.waiting.add(payload.len() as u64);
            }
            Fate::Late => {
                let mut frame = Vec::new();
                codec.encode(channel, payload, &mut frame)?;
                let payload_bytes = payload.len() as u64;
                let late = LateFrame {
                    frame,
                    payload_bytes,
                };
                self.keep_late(late, counters);
            }
        }
        Ok(())
    }

    /// Keeps the frame of an unreliable message behind the queue; the oldest one makes room.
    fn keep_late(&mut self, late: LateFrame, counters: &mut WorkerCounters) {
        self.late.push_back(late);
        if self.late.len() > LATE_FRAMES {
            self.late.pop_front();
            counters.on_drop(Direction::ToBackend, DropReason::QueueFull, 1);
        }
    }

    /// Nothing more is written: lets go of all bytes.
    pub(super) fn clear(&mut self) {
        (self.out, self.written) = (Vec::new(), 0);
        self.late.clear();
    }
}

/// Messages that were encoded and not written, and the bytes of their payloads.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    messages: u64,
    bytes: u64,
}

impl Waiting {
    fn add(&mut self, payload_bytes: u64) {
        self.messages += 1;
        self.bytes += payload_bytes;
    }
}

/// The frame of one unreliable message, and the bytes of its payload.
#[derive(Debug)]
struct LateFrame {
    frame: Vec<u8>,
    payload_bytes: u64,
}

impl Stream {
    /// Takes messages from the session and writes them. Returns whether the session holds none.
    pub(super) fn deliver(&mut self, side: &mut Side<'_>) -> bool {
        let lent = self.to_backend.out.is_empty();
        let mut frames = if lent {
            std::mem::take(&mut side.scratch.frames)
        } else {
            std::mem::take(&mut self.to_backend.out)
        };
        let drained = loop {
            let drained = self.collect(side, &mut frames, !lent);
            self.write(side, &frames);
            if self.to_backend.written == frames.len() {
                self.on_all_written(side, &mut frames);
            }
            let nothing_left = drained && frames.len() == self.to_backend.written;
            if nothing_left || !self.readiness.writable || self.is_broken() {
                break drained;
            }
        };
        self.keep(side, frames, lent);
        self.await_room(side);
        drained
    }

    /// Has the poll tell of room to write while there is none, and not while there is some.
    fn await_room(&mut self, side: &Side<'_>) {
        let has_room = self.readiness.writable;
        if self.room_unasked == has_room {
            return;
        }
        let Some(socket) = &mut self.socket else {
            return;
        };
        match socket.ask_for_room(side.registry, side.token, !has_room) {
            Ok(()) => self.room_unasked = has_room,
            // It is tried again with the next message, or when the stream's patience ends.
            Err(error) => tracing::debug!(%error, "the poll tells of a stream what it told before"),
        }
    }

    /// Encodes messages until the queue is long enough; true when the session holds no more.
    /// `backlogged`: the socket has refused bytes before.
    fn collect(&mut self, side: &mut Side<'_>, frames: &mut Vec<u8>, backlogged: bool) -> bool {
        while frames.len() - self.to_backend.written < QUEUE_BYTES {
            // What a closed session accepted is owed to the backend whatever the limits say.
            if side.messages_left == 0 && self.state == State::Open {
                return true;
            }
            let Some(message) = side.endpoint.poll_message(side.id) else {
                return true;
            };
            if message.payload.len() < SHORT {
                side.messages_left = side.messages_left.saturating_sub(1);
            }
            self.to_backend.unconfirmed = true;
            let fate = self.fate(side.rules, &message, backlogged);
            let codec = &side.rules.codec;
            let taken = self
                .to_backend
                .take(&message, fate, codec, frames, side.counters);
            if let Err(error) = taken {
                tracing::debug!(%error, "message does not fit a frame");
                side.counters
                    .on_drop(Direction::ToBackend, DropReason::TooLarge, 1);
                self.to_backend.has_gap |= message.reliable;
                side.endpoint
                    .close(side.now, side.id, CloseReason::MessageTooLarge);
            }
        }
        false
    }

    fn fate(&self, rules: &StreamRules, message: &Message<'_>, backlogged: bool) -> Fate {
        if !message.reliable && rules.codec.framing() == Framing::Raw {
            // Without frames it would be read as part of what the reliable channel says.
            return Fate::Drop(DropReason::TooLarge);
        }
        if self.is_broken() || self.to_backend.has_gap {
            return Fate::Drop(DropReason::SessionClosed);
        }
        if message.reliable || !backlogged {
            return Fate::Queue;
        }
        match rules.unreliable {
            UnreliablePolicy::DropNewest => Fate::Drop(DropReason::QueueFull),
            UnreliablePolicy::DropOldest => Fate::Late,
            UnreliablePolicy::Refuse => Fate::Queue,
        }
    }

    fn write(&mut self, side: &Side<'_>, frames: &[u8]) {
        let before = self.to_backend.written;
        let Some(socket) = &mut self.socket else {
            return;
        };
        while self.to_backend.written < frames.len()
            && self.readiness.writable
            && self.failure.is_none()
        {
            let left = &frames[self.to_backend.written..];
            match socket.write(left) {
                Ok(count) => {
                    // A short write means that the buffer is full: the kernel will say when not.
                    self.readiness.writable = count == left.len();
                    self.to_backend.written += count;
                    self.moved.sent += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readiness.writable = false
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "backend takes no more");
                    self.failure = Some(Failure::new(self.failure, &error));
                    // What it wrote before it went is still to be read, up to the error.
                    self.readiness.readable = true;
                }
            }
        }
        self.widen((self.to_backend.written - before) as u64);
        if self.to_backend.written == frames.len() {
            self.to_backend.stuck_since = None;
        } else if self.to_backend.written > before || self.to_backend.stuck_since.is_none() {
            self.to_backend.stuck_since = Some(side.now.mono);
        }
    }

    /// The kernel holds little for a backend, which may not read, until that has read for a while.
    fn widen(&mut self, took: u64) {
        let before = self.to_backend.taken_by_socket;
        let after = before + took;
        self.to_backend.taken_by_socket = after;
        if before < WIDE_AFTER
            && after >= WIDE_AFTER
            && let Some(socket) = &self.socket
            && let Err(error) = socket.widen()
        {
            tracing::debug!(%error, "the buffer towards a backend stays as it is");
        }
    }

    fn on_all_written(&mut self, side: &mut Side<'_>, frames: &mut Vec<u8>) {
        frames.clear();
        self.to_backend.written = 0;
        let done = std::mem::take(&mut self.to_backend.waiting);
        side.counters.messages_forwarded[Direction::ToBackend as usize] += done.messages;
        side.counters.message_bytes_forwarded[Direction::ToBackend as usize] += done.bytes;
        for late in self.to_backend.late.drain(..) {
            frames.extend_from_slice(&late.frame);
            self.to_backend.waiting.add(late.payload_bytes);
        }
        let is_awaited = side.rules.ack == AckPolicy::Strict;
        if self.to_backend.unconfirmed && frames.is_empty() && is_awaited {
            self.to_backend.unconfirmed = false;
            side.endpoint.confirm_written(side.now, side.id);
        }
    }

    /// The shared buffer goes back; a peer keeps a buffer of its own only while bytes wait in it.
    fn keep(&mut self, side: &mut Side<'_>, mut frames: Vec<u8>, lent: bool) {
        let is_broken = self.is_broken();
        let queue = &mut self.to_backend;
        if is_broken {
            side.counters.on_drop(
                Direction::ToBackend,
                DropReason::SessionClosed,
                queue.messages(),
            );
            (queue.waiting, queue.written) = (Waiting::default(), 0);
            queue.stuck_since = None;
            queue.late.clear();
            frames.clear();
        }
        if frames.len() > queue.written && !lent {
            if queue.written > frames.len() / 2 {
                frames.drain(..queue.written);
                queue.written = 0;
            }
            queue.out = frames;
            return;
        }
        if frames.len() > queue.written {
            queue.out = frames[queue.written..].to_vec();
        }
        queue.written = 0;
        if lent {
            frames.clear();
            side.scratch.frames = frames;
        }
    }
}

/// What becomes of a message from the session.
enum Fate {
    /// It goes behind what was queued before.
    Queue,
    /// It waits beside the queue, and is the first to be dropped.
    Late,
    Drop(DropReason),
}

/// Frames wait here at most, beyond which messages stay in the session's inbox, which then stops
/// acknowledging. One frame may pass the mark.
const QUEUE_BYTES: usize = 64 * 1024;

/// Unreliable frames kept for a backend that is behind: more would only be older.
const LATE_FRAMES: usize = 32;

/// A packet brings 256 messages without a byte in them; what is as long as this is paid for by its
/// bytes.
const SHORT: usize = 64;

/// Bytes after which a backend has shown that it reads: half an hour of a busy player's.
const WIDE_AFTER: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use socket2::SockRef;

    use super::super::super::{Socket, SocketOptions};
    use super::*;

    /// One that reads nothing gets little, however long it is there; and what it gets later stays as it is.
    #[test]
    fn the_buffer_towards_a_backend_is_widened_once_it_has_read_much() {
        let (socket, _backend) = std::os::unix::net::UnixStream::pair().unwrap();
        let options = SocketOptions {
            nodelay: true,
            keepalive: None,
            user_timeout: Duration::from_secs(1),
        };
        let seen = socket.try_clone().unwrap();
        let granted = || SockRef::from(&seen).send_buffer_size().unwrap();
        let mut stream = Stream::accepted(Socket::adopt_unix(socket, options).unwrap());
        let narrow = granted();
        stream.widen(WIDE_AFTER / 2);
        stream.widen(WIDE_AFTER / 2 - 1);
        assert_eq!(granted(), narrow);
        stream.widen(1);
        assert!(granted() > narrow, "{} of {narrow}", granted());
        SockRef::from(&seen)
            .set_send_buffer_size(narrow / 2)
            .unwrap();
        stream.widen(WIDE_AFTER);
        assert_eq!(granted(), narrow, "asked for once");
    }

    /// Frames beside the queue take memory like those in it, and their messages are lost with the others.
    #[test]
    fn late_frames_count_until_they_are_let_go() {
        let mut queue = ToBackend {
            out: vec![7; 100],
            ..ToBackend::default()
        };
        queue.waiting.add(90);
        let mut counters = WorkerCounters::new(1);
        for _ in 0..=LATE_FRAMES {
            let late = LateFrame {
                frame: vec![7; 10],
                payload_bytes: 8,
            };
            queue.keep_late(late, &mut counters);
        }
        let all = (100 + 10 * LATE_FRAMES, 1 + LATE_FRAMES as u64);
        assert_eq!((queue.held(), queue.messages()), all);
        queue.clear();
        assert_eq!(queue.held(), 0);
    }
}
