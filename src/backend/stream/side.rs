//! What the worker lends a stream for the time of one call: its peer's session, and buffers.

use mio::{Registry, Token};
use tidegate_proto::{Endpoint, Now, PeerId};

use super::StreamRules;
use super::to_peer::READ_BYTES;
use crate::counters::WorkerCounters;
use crate::framing::{FrameCodec, Framing};

/// The peer's side of a stream for the time of one call, and what the worker lends it.
pub struct Side<'a> {
    /// This turn.
    pub now: Now,
    /// Whose stream it is.
    pub id: PeerId,
    /// What its socket is registered with.
    pub registry: &'a Registry,
    /// What the poll calls its socket.
    pub token: Token,
    /// Where its session is.
    pub endpoint: &'a mut Endpoint,
    /// Those that were in force when the peer came.
    pub rules: &'a StreamRules,
    /// Messages that may still be taken from an open session in this turn.
    pub messages_left: u32,
    /// Bytes that may still be put into it. With 0 the stream is not read.
    pub room_left: usize,
    /// What is counted.
    pub counters: &'a mut WorkerCounters,
    /// Buffers.
    pub scratch: &'a mut Scratch,
}

impl Side<'_> {
    /// How the stream is cut into messages now.
    pub(super) fn codec(&self) -> FrameCodec {
        let codec = self.rules.codec;
        match codec.framing() {
            Framing::Raw => codec.cut_to(self.endpoint.piece_bytes(self.id)),
            // Frames are what they are, and each read would ask.
            _ => codec,
        }
    }
}

/// Buffers that all streams of a worker share, so that a peer owns memory only while it waits.
#[derive(Debug)]
pub struct Scratch {
    pub(super) read: Vec<u8>,
    pub(super) frames: Vec<u8>,
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
