//! An unreliable lane: a short queue in which the oldest makes room for the newest.

use std::collections::VecDeque;

use crate::ring::{self, Split};

/// Messages that wait for their one packet.
#[derive(Debug)]
pub(super) struct UnreliableQueue {
    /// Messages in one packet, at most.
    per_packet: u16,
    /// Id of `lengths[0]`; ids exist only between a plan and its packet.
    base: u16,
    lengths: VecDeque<u32>,
    bytes: VecDeque<u8>,
}

impl UnreliableQueue {
    /// Nothing waits.
    pub(super) fn new(per_packet: u16) -> Self {
        Self {
            per_packet,
            base: 0,
            lengths: VecDeque::new(),
            bytes: VecDeque::new(),
        }
    }

    /// Messages in one packet, at most.
    pub(super) fn per_packet(&self) -> u16 {
        self.per_packet
    }

    /// Adds a message; returns how many older ones were dropped for it.
    pub(super) fn push(&mut self, payload: &[u8]) -> u64 {
        let mut dropped = 0;
        while !self.lengths.is_empty()
            && (self.lengths.len() >= MESSAGES_MAX || self.bytes.len() + payload.len() > BYTES_MAX)
        {
            self.pop();
            dropped += 1;
        }
        self.lengths.push_back(payload.len() as u32);
        self.bytes.extend(payload);
        dropped
    }

    /// Payload bytes, and how many messages.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.bytes.len(), self.lengths.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    pub(super) fn base(&self) -> u16 {
        self.base
    }

    pub(super) fn length(&self, index: usize) -> Option<usize> {
        self.lengths.get(index).map(|length| *length as usize)
    }

    pub(super) fn payload(&self, id: u16) -> Option<Split<'_>> {
        let index = usize::from(id.wrapping_sub(self.base));
        let length = self.length(index)?;
        let from: usize = self.lengths.iter().take(index).map(|l| *l as usize).sum();
        Some(ring::slices(&self.bytes, from..from + length))
    }

    /// The oldest went out, or is dropped.
    pub(super) fn pop(&mut self) {
        let Some(length) = self.lengths.pop_front() else {
            return;
        };
        self.bytes.drain(..length as usize);
        self.base = self.base.wrapping_add(1);
        if self.lengths.is_empty() {
            if self.bytes.capacity() > 4096 {
                self.bytes = VecDeque::new();
            }
            if self.lengths.capacity() > 32 {
                self.lengths = VecDeque::new();
            }
        }
    }
}

/// Messages that wait, and their bytes: the oldest makes room for a new one.
const MESSAGES_MAX: usize = 64;
const BYTES_MAX: usize = 64 * 1024;
