//! Writing connection packets.
//!
//! Layout: docs/wire/yojimbo.md, sections 2 to 5.

use super::item::FragmentPlace;
use super::layout::{Layout, MessageType};
use crate::ring::Split;
use crate::session::Channel;
use crate::yojimbo::bits::BitWriter;

/// Behind the last field of each packet, where the layout has it: what a reader finds there only if it has
/// read all before as it was written.
pub(super) const CHECK_WORD: u32 = 0x1234_5678;

/// Appends one connection packet to a byte vector.
///
/// Entries are written one after the other, each channel at most once, ascending. The caller keeps
/// to the layout; what cannot be written is a bug and caught in debug builds.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    layout: &'a Layout,
    bits: BitWriter<'a>,
    entries: u8,
}

impl<'a> PacketWriter<'a> {
    /// Begins behind what `out` already holds (a header, say). A packet without entries is one zero
    /// byte: it carries the acks of the header before it.
    pub fn new(layout: &'a Layout, out: &'a mut Vec<u8>) -> Self {
        let mut bits = BitWriter::new(out);
        bits.bits(0, layout.entry_count_width());
        Self {
            layout,
            bits,
            entries: 0,
        }
    }

    /// Begins a list of messages on a reliable channel; as many calls of
    /// [`PacketWriter::message`] follow as there are ids. At least one, ascending.
    pub fn reliable(&mut self, channel: Channel, mut ids: impl ExactSizeIterator<Item = u16>) {
        self.list(channel, ids.len());
        let Some(mut previous) = ids.next() else {
            return;
        };
        self.bits.bits(u32::from(previous), 16);
        for id in ids {
            self.bits.sequence_relative(previous, id);
            previous = id;
        }
    }

    /// Begins a list of messages on an unreliable channel; `count` calls of
    /// [`PacketWriter::message`] follow. At least one.
    pub fn unreliable(&mut self, channel: Channel, count: usize) {
        self.list(channel, count);
    }

    fn list(&mut self, channel: Channel, count: usize) {
        self.entry(channel, false);
        self.bits.bool(true);
        let max = self.layout.channels()[usize::from(channel)].messages_per_packet_max;
        self.bits.int(count as i32, 1, i32::from(max));
    }

    fn entry(&mut self, channel: Channel, is_block: bool) {
        self.entries += 1;
        self.bits
            .bits(u32::from(channel), self.layout.channel_width());
        self.bits.bool(is_block);
    }

    /// The next message of the list. On an unreliable channel, a payload of a type with a block
    /// takes [`PacketWriter::inline_block`] instead.
    pub fn message(&mut self, kind: u8, payload: Split<'_>) {
        self.kind(kind);
        let length = payload.0.len() + payload.1.len();
        let message_type = self.layout.messages()[usize::from(kind)];
        debug_assert!(
            message_type.takes(payload),
            "{length} bytes as {message_type}"
        );
        match message_type {
            MessageType::Bytes { min, max } => {
                self.bits.int(length as i32, i32::from(min), i32::from(max));
                self.split(payload);
            }
            MessageType::Bits(width) => {
                let mut left = u32::from(width);
                for byte in payload.0.iter().chain(payload.1) {
                    let width = left.min(8);
                    self.bits.bits(u32::from(*byte) & ((1 << width) - 1), width);
                    left -= width;
                }
            }
            MessageType::Block => {}
        }
    }

    /// The next message of an unreliable channel's list, with its block.
    pub fn inline_block(&mut self, channel: Channel, kind: u8, block: Split<'_>) {
        self.kind(kind);
        let max = self.layout.channels()[usize::from(channel)].block_bytes_max;
        let length = block.0.len() + block.1.len();
        self.bits.int(length as i32, 1, max as i32);
        self.split(block);
    }

    /// One piece of a block: an entry of its own, on a reliable channel without other messages.
    /// `kind` is the block's type; it is written with the first piece only.
    pub fn fragment(&mut self, place: FragmentPlace, kind: u8, data: Split<'_>) {
        self.entry(place.channel, true);
        let rules = &self.layout.channels()[usize::from(place.channel)];
        let bits = &mut self.bits;
        bits.bits(u32::from(place.id), 16);
        bits.int(
            i32::from(place.count),
            1,
            rules.block_fragments_max() as i32,
        );
        bits.int(i32::from(place.index), 0, i32::from(place.count) - 1);
        let length = data.0.len() + data.1.len();
        bits.int(length as i32, 1, i32::from(rules.block_fragment_size));
        self.split(data);
        if place.index == 0 {
            self.kind(kind);
        }
    }

    fn kind(&mut self, kind: u8) {
        self.bits.bits(u32::from(kind), self.layout.kind_width());
    }

    fn split(&mut self, (head, tail): Split<'_>) {
        self.bits.bytes(head);
        // A ring seldom wraps within a message.
        if !tail.is_empty() {
            self.bits.bytes(tail);
        }
    }

    /// Completes the packet.
    pub fn finish(mut self) {
        // At most 64 entries: the number is in the first byte.
        self.bits.amend_first(self.entries);
        if self.layout.has_check_word() {
            self.bits.bytes(&CHECK_WORD.to_le_bytes());
        }
        self.bits.finish();
    }
}
