//! Towards the peer: frames are read as far as the session has room for their messages.

use std::io::{self, Read};
use std::time::Duration;

use tidegate_proto::inbox::MESSAGE_OVERHEAD;
use tidegate_proto::{Channel, CloseReason, SendError};

use super::{Failure, Pumped, Side, Stream};
use crate::counters::{Direction, DropReason};

/// What was read from the backend and did not become a message yet.
#[derive(Debug, Default)]
pub(super) struct ToPeer {
    /// Bytes that are not a whole frame yet, or that met a full session; `rest[..taken]` went.
    pub(super) rest: Vec<u8>,
    taken: usize,
    /// How many bytes of `rest` were searched for the end of a frame already.
    searched: usize,
    /// What cannot be passed on of what the backend wrote.
    pub(super) misread: Option<String>,
    /// The session was told that nothing more comes.
    finished: bool,
}

impl ToPeer {
    /// Keeps what is `left` until the next pass, in the buffer of the last one. A long frame leaves a long buffer, which
    /// the first bytes of the next frame must not hold: what is held is counted by what waits in it.
    fn keep(&mut self, mut buffer: Vec<u8>, left: &[u8]) {
        if left.is_empty() {
            return;
        }
        buffer.clear();
        if buffer.capacity() > SLACK * left.len() + READ_BYTES_LEAST {
            buffer = Vec::new();
        }
        buffer.extend_from_slice(left);
        self.rest = buffer;
    }

    /// Keeps what is behind the first bytes of a buffer, which went: where it is, unless something went.
    fn keep_behind(&mut self, mut buffer: Vec<u8>, went: usize) {
        if went == 0 {
            self.rest = buffer;
        } else {
            let left = buffer.split_off(went);
            self.keep(buffer, &left);
        }
    }

    /// Nothing more is sent: lets go of all bytes.
    pub(super) fn clear(&mut self) {
        (self.rest, self.taken, self.searched) = (Vec::new(), 0, 0);
    }
}

impl Stream {
    /// Reads frames and sends them, while the session has room.
    pub(super) fn read(&mut self, side: &mut Side<'_>) -> Pumped {
        // What was read before comes first; no system call while it meets a full session.
        let rest = std::mem::take(&mut self.to_peer.rest);
        let mut at = std::mem::take(&mut self.to_peer.taken);
        let mut forwarded = self.forward(side, &rest, &mut at);
        if forwarded == Forwarded::NoRoom {
            (self.to_peer.rest, self.to_peer.taken) = (rest, at);
            return self.blocked(side);
        }
        if at < rest.len() && !self.readiness.readable {
            // The peer was heard, and the backend was not. It may be long before it says the other half of its frame.
            self.to_peer.keep_behind(rest, at);
            return self.after_read(side, forwarded);
        }
        if rest.len() - at > LONG_REST {
            return self.read_on(side, rest, at);
        }
        let mut buffer = std::mem::take(&mut side.scratch.read);
        let mut end = rest.len() - at;
        buffer[..end].copy_from_slice(&rest[at..]);
        at = 0;
        let mut budget = READ_BYTES;
        let read_bytes = side.codec().read_bytes(READ_BYTES);
        while forwarded == Forwarded::NeedsMore && self.readiness.readable && budget > 0 {
            if at > 0 {
                buffer.copy_within(at..end, 0);
                (at, end) = (0, end - at);
            }
            // What goes beyond the room would wait here, and there may be a stream for each peer.
            let wanted = read_bytes.min(side.room_left.max(READ_BYTES_LEAST));
            let room = (end + wanted).min(buffer.len());
            let count = self.fill(&mut buffer[end..room]);
            end += count;
            budget = budget.saturating_sub(count);
            forwarded = self.forward(side, &buffer[..end], &mut at);
        }
        self.to_peer.keep(rest, &buffer[at..end]);
        side.scratch.read = buffer;
        self.after_read(side, forwarded)
    }

    /// Reads more of a long frame, behind what is here of it: a backend may write byte by byte, and the rest must not move for
    /// each of them.
    fn read_on(&mut self, side: &mut Side<'_>, mut rest: Vec<u8>, mut at: usize) -> Pumped {
        let mut buffer = std::mem::take(&mut side.scratch.read);
        let mut budget = READ_BYTES;
        let read_bytes = side.codec().read_bytes(READ_BYTES);
        let mut forwarded = Forwarded::NeedsMore;
        while forwarded == Forwarded::NeedsMore && self.readiness.readable && budget > 0 {
            let wanted = read_bytes.min(side.room_left.max(READ_BYTES_LEAST));
            let count = self.fill(&mut buffer[..wanted]);
            budget = budget.saturating_sub(count);
            rest.extend_from_slice(&buffer[..count]);
            forwarded = self.forward(side, &rest, &mut at);
        }
        side.scratch.read = buffer;
        self.to_peer.keep_behind(rest, at);
        self.after_read(side, forwarded)
    }

    fn after_read(&mut self, side: &mut Side<'_>, forwarded: Forwarded) -> Pumped {
        match forwarded {
            Forwarded::Broken(reason) => {
                self.finish(side, reason);
                self.to_peer.clear();
                // Whatever it still writes has lost its meaning.
                Pumped::default()
            }
            Forwarded::NoRoom => self.blocked(side),
            Forwarded::NeedsMore if self.ended || self.is_broken() => {
                let whole = self.to_peer.rest.is_empty() && !self.is_broken();
                let reason = if whole {
                    CloseReason::BackendClosed
                } else if self.failure == Some(Failure::TimedOut) {
                    CloseReason::BackendStalled
                } else {
                    CloseReason::BackendReset
                };
                self.finish(side, reason);
                Pumped::default()
            }
            Forwarded::NeedsMore => Pumped {
                again: self.readiness.readable,
                ..Pumped::default()
            },
        }
    }

    fn blocked(&self, side: &Side<'_>) -> Pumped {
        let more = !self.to_peer.rest.is_empty() || self.readiness.readable || self.ended;
        // The session tells when it has room again; memory does not.
        let held_back = side.endpoint.has_room(side.id);
        Pumped {
            again: false,
            blocked: more && !held_back,
            held_back: more && held_back,
            discarded: 0,
        }
    }

    /// Sends the whole frames of `bytes[*at..]`.
    fn forward(&mut self, side: &mut Side<'_>, bytes: &[u8], at: &mut usize) -> Forwarded {
        if self.to_peer.finished {
            *at = bytes.len();
            return Forwarded::NeedsMore;
        }
        let codec = side.codec();
        loop {
            if side.room_left == 0 || !side.endpoint.has_room(side.id) {
                return Forwarded::NoRoom;
            }
            let searched = std::mem::take(&mut self.to_peer.searched);
            let frame = match codec.decode_from(searched, &bytes[*at..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    self.to_peer.searched = bytes.len() - *at;
                    return Forwarded::NeedsMore;
                }
                Err(error) => {
                    self.to_peer.misread = Some(error.to_string());
                    return Forwarded::Broken(CloseReason::BackendProtocolError);
                }
            };
            let payload = &bytes[*at..][frame.payload.clone()];
            *at += frame.consumed;
            if let Err(reason) = self.send(side, frame.channel, payload) {
                return Forwarded::Broken(reason);
            }
        }
    }

    /// Sends one message, or drops it; an error is one that no session can take, and ends this one.
    fn send(
        &mut self,
        side: &mut Side<'_>,
        channel: Channel,
        payload: &[u8],
    ) -> Result<(), CloseReason> {
        let sent = side.endpoint.send(side.now, side.id, channel, payload);
        let (dropped, outcome) = match sent {
            Ok(()) => {
                let taken = payload.len() + MESSAGE_OVERHEAD;
                side.room_left = side.room_left.saturating_sub(taken);
                side.counters.on_forward(Direction::ToPeer, payload.len());
                return Ok(());
            }
            // Only an unreliable channel can be full where the reliable one has room.
            Err(SendError::Full) => (DropReason::QueueFull, Ok(())),
            Err(SendError::Closed) => (DropReason::SessionClosed, Ok(())),
            Err(SendError::TooLarge { size, max }) => {
                self.to_peer.misread = Some(format!("a frame of {size} bytes, where {max} fit"));
                (DropReason::TooLarge, Err(CloseReason::MessageTooLarge))
            }
            Err(error @ SendError::NoSuchChannel) => {
                self.to_peer.misread = Some(format!("a frame for channel {channel}: {error}"));
                return Err(CloseReason::BackendProtocolError);
            }
        };
        side.counters.on_drop(Direction::ToPeer, dropped, 1);
        outcome
    }

    /// One read; 0 when there is nothing now, or nothing ever again.
    fn fill(&mut self, buffer: &mut [u8]) -> usize {
        let Some(socket) = &mut self.socket else {
            self.readiness.readable = false;
            return 0;
        };
        match socket.read(buffer) {
            Ok(0) => {
                (self.ended, self.readiness.readable) = (true, false);
                0
            }
            Ok(count) => {
                // A short read empties the socket, unless the end is behind it.
                self.readiness.readable = count == buffer.len() || self.readiness.hung_up;
                self.moved.received += count as u64;
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readiness.readable = false;
                0
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => {
                tracing::debug!(%error, "backend broke the connection");
                self.failure = Some(Failure::new(self.failure, &error));
                (self.ended, self.readiness.readable) = (true, false);
                0
            }
        }
    }

    /// Nothing more comes from the backend: the session delivers what it has, then says why.
    fn finish(&mut self, side: &mut Side<'_>, reason: CloseReason) {
        if !self.to_peer.finished {
            self.to_peer.finished = true;
            self.moved.ended = matches!(
                reason,
                CloseReason::BackendClosed | CloseReason::BackendReset
            );
            side.endpoint
                .finish(side.now, side.id, reason, FINISH_LINGER);
        }
    }

    /// Reads and drops, so that closing does not destroy what the backend has not read yet.
    pub(super) fn discard(&mut self, side: &mut Side<'_>) -> Pumped {
        let mut buffer = std::mem::take(&mut side.scratch.read);
        let rest = std::mem::take(&mut self.to_peer.rest);
        let mut at = std::mem::take(&mut self.to_peer.taken);
        self.to_peer.searched = 0;
        let mut discarded = 0;
        let mut end = rest.len() - at;
        buffer[..end].copy_from_slice(&rest[at..]);
        at = 0;
        loop {
            at += self.count_dropped(side, &buffer[at..end]);
            buffer.copy_within(at..end, 0);
            (at, end) = (0, end - at);
            if !self.readiness.readable || discarded >= READ_BYTES {
                break;
            }
            let room = (end + READ_BYTES).min(buffer.len());
            let count = self.fill(&mut buffer[end..room]);
            end += count;
            discarded += count;
        }
        self.to_peer.keep(rest, &buffer[..end]);
        side.scratch.read = buffer;
        Pumped {
            again: self.readiness.readable,
            discarded,
            ..Pumped::default()
        }
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

/// The size of one read, and how much is read from one peer's backend before others get their turn. Few large reads
/// are better than many small ones: after each read, TCP sends the writer a window update, which costs more than
/// the call itself. What is read and the session cannot take is little in comparison.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// One read of a stream whose session has hardly room. A few small frames; a large one takes several.
const READ_BYTES_LEAST: usize = 2 * 1024;

/// What is copied for each read, and no more. Most frames are shorter, and so are read in one piece.
const LONG_REST: usize = 8 * 1024;

/// A buffer may be so much longer than what waits in it.
const SLACK: usize = 4;

/// How long a session may take to deliver what a backend wrote before it closed.
const FINISH_LINGER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// A backend that always has part of a frame under way never lets go of the buffer.
    #[test]
    fn a_few_bytes_hold_no_buffer_of_a_long_frame() {
        let mut to_peer = ToPeer::default();
        let long = vec![7; 256 * 1024];
        for left in [&long[..], b"abc", &long[..3_000], b"", &long[..], b"abc"] {
            let buffer = std::mem::take(&mut to_peer.rest);
            to_peer.keep(buffer, left);
            assert_eq!(to_peer.rest, left);
            assert_eq!(to_peer.rest.capacity() == 0, left.is_empty());
            let counted = SLACK * to_peer.rest.len() + READ_BYTES_LEAST;
            assert!(
                to_peer.rest.capacity() <= counted,
                "{} for {}",
                to_peer.rest.capacity(),
                left.len()
            );
        }
    }

    /// One read may bring the end of a long frame and the beginning of the next.
    #[test]
    fn what_is_behind_a_long_frame_waits() {
        let mut to_peer = ToPeer::default();
        let long = vec![7; 20_000];
        to_peer.keep_behind([&long[..], b"next"].concat(), long.len());
        assert_eq!(to_peer.rest, b"next");
        to_peer.keep_behind(long.clone(), 0);
        assert_eq!(to_peer.rest, long, "nothing went");
    }

    /// Frames of a game: the same buffer, again and again.
    #[test]
    fn short_frames_keep_their_buffer() {
        let mut to_peer = ToPeer::default();
        to_peer.keep(Vec::new(), &[7; 600]);
        let place = to_peer.rest.as_ptr();
        for left in [1, 599, 30, 600] {
            let buffer = std::mem::take(&mut to_peer.rest);
            to_peer.keep(buffer, &vec![7; left]);
            assert_eq!(to_peer.rest.as_ptr(), place);
        }
    }
}
