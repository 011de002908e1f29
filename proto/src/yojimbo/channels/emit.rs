//! Writing connection packets, and knowing beforehand how large they get.
//!
//! Layout: docs/wire/yojimbo.md, sections 2 to 5.

use super::profile::{Layout, Profile};
use super::wire::FragmentPlace;
use crate::session::Channel;
use crate::yojimbo::bits::{BitWriter, padding_after, sequence_relative_bits, width_of};

/// A payload in two pieces, as it lies in a ring; the second may be empty.
pub type Split<'a> = (&'a [u8], &'a [u8]);

/// Appends one connection packet to a byte vector.
///
/// Entries are written one after the other, each channel at most once, ascending. The caller keeps
/// to the profile; what cannot be written is a bug and caught in debug builds.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    profile: &'a Profile,
    bits: BitWriter<'a>,
    entries: u8,
}

impl<'a> PacketWriter<'a> {
    /// Begins behind what `out` already holds (a header, say). A packet without entries is one zero
    /// byte: it carries the acks of the header before it.
    pub fn new(profile: &'a Profile, out: &'a mut Vec<u8>) -> Self {
        let mut bits = BitWriter::new(out);
        bits.bits(0, profile.entry_count_width());
        Self {
            profile,
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
        let max = self.profile.channels()[usize::from(channel)].messages_per_packet_max;
        self.bits.int(count as i32, 1, i32::from(max));
    }

    fn entry(&mut self, channel: Channel, is_block: bool) {
        self.entries += 1;
        self.bits
            .bits(u32::from(channel), self.profile.channel_width());
        self.bits.bool(is_block);
    }

    /// The next message of the list. On an unreliable channel, a payload of a type with a block
    /// takes [`PacketWriter::inline_block`] instead.
    pub fn message(&mut self, kind: u8, payload: Split<'_>) {
        self.kind(kind);
        let length = payload.0.len() + payload.1.len();
        let layout = self.profile.messages()[usize::from(kind)];
        debug_assert!(layout.takes(length), "{length} bytes as {layout}");
        match layout {
            Layout::Bytes { min, max } => {
                self.bits.int(length as i32, i32::from(min), i32::from(max));
                self.split(payload);
            }
            Layout::Bits(width) => {
                let mut left = u32::from(width);
                for byte in payload.0.iter().chain(payload.1) {
                    let width = left.min(8);
                    self.bits.bits(u32::from(*byte) & ((1 << width) - 1), width);
                    left -= width;
                }
            }
            Layout::Block => {}
        }
    }

    /// The next message of an unreliable channel's list, with its block.
    pub fn inline_block(&mut self, channel: Channel, kind: u8, block: Split<'_>) {
        self.kind(kind);
        let max = self.profile.channels()[usize::from(channel)].block_bytes_max;
        let length = block.0.len() + block.1.len();
        self.bits.int(length as i32, 1, max as i32);
        self.split(block);
    }

    /// One piece of a block: an entry of its own, on a reliable channel without other messages.
    /// `kind` is the block's type; it is written with the first piece only.
    pub fn fragment(&mut self, place: FragmentPlace, kind: u8, data: Split<'_>) {
        self.entry(place.channel, true);
        let rules = &self.profile.channels()[usize::from(place.channel)];
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
        self.bits.bits(u32::from(kind), self.profile.kind_width());
    }

    fn split(&mut self, (head, tail): Split<'_>) {
        self.bits.bytes(head);
        self.bits.bytes(tail);
    }

    /// Completes the packet.
    pub fn finish(mut self) {
        // At most 64 entries: the number is in the first byte.
        self.bits.amend_first(self.entries);
        self.bits.finish();
    }
}

/// How many bits a packet has so far, exactly, while its sender chooses messages for it.
///
/// Ids stand in front of all bodies, so each message moves the bodies before it; that is why this is
/// a sum of two parts and not one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSize {
    /// Up to the first padding of the entry.
    lead: usize,
    /// Behind it, counted from a whole byte; `None` before any padding.
    rest: Option<usize>,
    channel: Channel,
    previous_id: Option<u16>,
}

impl PacketSize {
    /// A packet without entries.
    pub fn new(profile: &Profile) -> Self {
        Self {
            lead: profile.entry_count_width() as usize,
            rest: None,
            channel: 0,
            previous_id: None,
        }
    }

    /// With another entry, for messages on `channel`, still empty.
    #[must_use]
    pub fn with_list(self, profile: &Profile, channel: Channel) -> Self {
        let rules = &profile.channels()[usize::from(channel)];
        let count = width_of(1, i32::from(rules.messages_per_packet_max));
        let first_id = if rules.is_reliable() { 16 } else { 0 };
        Self {
            lead: self.bits() + (profile.channel_width() + 2 + count + first_id) as usize,
            rest: None,
            channel,
            previous_id: None,
        }
    }

    /// With another message in the list: type and payload length. `id` matters on reliable channels
    /// only.
    #[must_use]
    pub fn with_message(mut self, profile: &Profile, id: u16, kind: u8, length: usize) -> Self {
        let rules = &profile.channels()[usize::from(self.channel)];
        if rules.is_reliable() {
            if let Some(previous) = self.previous_id {
                self.lead += sequence_relative_bits(previous, id);
            }
            self.previous_id = Some(id);
        }
        self.add(profile.kind_width() as usize);
        match profile.messages()[usize::from(kind)] {
            Layout::Bytes { min, max } => {
                self.add(width_of(i32::from(min), i32::from(max)) as usize);
                self.add_bytes(length);
            }
            Layout::Bits(width) => self.add(usize::from(width)),
            Layout::Block => {
                self.add(width_of(1, rules.block_bytes_max as i32) as usize);
                self.add_bytes(length);
            }
        }
        self
    }

    /// With another entry: a piece of a block, `length` bytes.
    #[must_use]
    pub fn with_fragment(mut self, profile: &Profile, place: FragmentPlace, length: usize) -> Self {
        let rules = &profile.channels()[usize::from(place.channel)];
        self.add((profile.channel_width() + 1 + 16) as usize);
        self.add(width_of(1, rules.block_fragments_max() as i32) as usize);
        self.add(width_of(0, i32::from(place.count) - 1) as usize);
        self.add(width_of(1, i32::from(rules.block_fragment_size)) as usize);
        self.add_bytes(length);
        if place.index == 0 {
            self.add(profile.kind_width() as usize);
        }
        self
    }

    /// Bits of the packet.
    pub fn bits(&self) -> usize {
        match self.rest {
            None => self.lead,
            Some(rest) => self.lead + padding_after(self.lead) + rest,
        }
    }

    /// Bytes of the packet.
    pub fn bytes(&self) -> usize {
        self.bits().div_ceil(8)
    }

    fn add(&mut self, bits: usize) {
        *self.rest.as_mut().unwrap_or(&mut self.lead) += bits;
    }

    fn add_bytes(&mut self, length: usize) {
        self.rest = match self.rest {
            None => Some(length * 8),
            Some(rest) => Some(rest + padding_after(rest) + length * 8),
        };
    }
}

/// What a packet's contents cost beside their payload: upper bounds in bytes, for a sender that
/// does not count bits. [`PacketSize`] is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// Once a packet.
    pub packet: u16,
    /// For each channel that has messages in it.
    pub list: u16,
    /// For each message. Ids lie inside the receive window.
    pub message: u16,
    /// For a piece of a block, its entry included.
    pub fragment: u16,
}

impl Profile {
    /// The bounds for this profile.
    pub fn overhead(&self) -> Overhead {
        let bytes = |bits: u32| bits.div_ceil(8) as u16;
        let channels = self.channels();
        let list = |c: &super::ChannelProfile| {
            let first_id = if c.is_reliable() { 16 } else { 0 };
            self.channel_width() + 2 + width_of(1, i32::from(c.messages_per_packet_max)) + first_id
        };
        let relative_id = channels
            .iter()
            .filter(|c| c.is_reliable())
            .flat_map(|c| [2, 7, 24, 281, c.receive_window].map(|d| d.min(c.receive_window)))
            .map(|distance| sequence_relative_bits(0, distance) as u32);
        let length = |layout: &Layout| match *layout {
            Layout::Bytes { min, max } => width_of(i32::from(min), i32::from(max)) + 7,
            // The last byte of the payload may hold fewer bits, never more.
            Layout::Bits(_) => 0,
            Layout::Block => {
                let largest = channels.iter().map(|c| c.block_bytes_max).max();
                width_of(1, largest.unwrap_or(1) as i32) + 7
            }
        };
        let fragments = (0..)
            .zip(channels)
            .filter(|(_, c)| c.is_reliable() && !c.disable_blocks);
        Overhead {
            packet: bytes(self.entry_count_width()),
            list: bytes(channels.iter().map(list).max().unwrap_or(0)),
            message: bytes(
                self.kind_width()
                    + relative_id.max().unwrap_or(0)
                    + self.messages().iter().map(length).max().unwrap_or(0),
            ),
            fragment: fragments
                .map(|(channel, _)| bytes(self.fragment_bits_max(channel, 0) as u32))
                .max()
                .unwrap_or(0),
        }
    }
}
