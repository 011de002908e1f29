//! How large connection packets get, known before they are written.
//!
//! Layout: docs/wire/yojimbo.md, sections 2 to 5.

use super::item::FragmentPlace;
use super::layout::{ChannelLayout, Layout, MessageType};
use crate::session::Channel;
use crate::yojimbo::bits::{padding_after, sequence_relative_bits, width_of};

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
    /// Bytes behind the last field.
    check_word: usize,
    channel: Channel,
    previous_id: Option<u16>,
}

impl PacketSize {
    /// A packet without entries.
    pub fn new(layout: &Layout) -> Self {
        Self {
            lead: layout.entry_count_width() as usize,
            rest: None,
            check_word: layout.check_word_bytes(),
            channel: 0,
            previous_id: None,
        }
    }

    /// With another entry, for messages on `channel`, still empty.
    #[must_use]
    pub fn with_list(self, layout: &Layout, channel: Channel) -> Self {
        let rules = &layout.channels()[usize::from(channel)];
        let count = width_of(1, i32::from(rules.messages_per_packet_max));
        let first_id = if rules.is_reliable() { 16 } else { 0 };
        Self {
            lead: self.bits() + (layout.channel_width() + 2 + count + first_id) as usize,
            rest: None,
            channel,
            previous_id: None,
            ..self
        }
    }

    /// With another message in the list: type and payload length. `id` matters on reliable channels
    /// only.
    #[must_use]
    pub fn with_message(mut self, layout: &Layout, id: u16, kind: u8, length: usize) -> Self {
        let rules = &layout.channels()[usize::from(self.channel)];
        if rules.is_reliable() {
            if let Some(previous) = self.previous_id {
                self.lead += sequence_relative_bits(previous, id);
            }
            self.previous_id = Some(id);
        }
        self.add(layout.kind_width() as usize);
        match layout.messages()[usize::from(kind)] {
            MessageType::Bytes { min, max } => {
                self.add(width_of(i32::from(min), i32::from(max)) as usize);
                self.add_bytes(length);
            }
            MessageType::Bits(width) => self.add(usize::from(width)),
            MessageType::Block => {
                self.add(width_of(1, rules.block_bytes_max as i32) as usize);
                self.add_bytes(length);
            }
        }
        self
    }

    /// With another entry: a piece of a block, `length` bytes.
    #[must_use]
    pub fn with_fragment(mut self, layout: &Layout, place: FragmentPlace, length: usize) -> Self {
        let rules = &layout.channels()[usize::from(place.channel)];
        self.add((layout.channel_width() + 1 + 16) as usize);
        self.add(width_of(1, rules.block_fragments_max() as i32) as usize);
        self.add(width_of(0, i32::from(place.count) - 1) as usize);
        self.add(width_of(1, i32::from(rules.block_fragment_size)) as usize);
        self.add_bytes(length);
        if place.index == 0 {
            self.add(layout.kind_width() as usize);
        }
        self
    }

    /// Bits of the packet up to its last field.
    pub fn bits(&self) -> usize {
        match self.rest {
            None => self.lead,
            Some(rest) => self.lead + padding_after(self.lead) + rest,
        }
    }

    /// Bytes of the packet.
    pub fn bytes(&self) -> usize {
        self.bits().div_ceil(8) + self.check_word
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

impl Layout {
    /// The bounds for this layout.
    pub fn overhead(&self) -> Overhead {
        let bytes = |bits: u32| bits.div_ceil(8) as u16;
        let channels = self.channels();
        let list = |c: &ChannelLayout| {
            let first_id = if c.is_reliable() { 16 } else { 0 };
            self.channel_width() + 2 + width_of(1, i32::from(c.messages_per_packet_max)) + first_id
        };
        let relative_id = channels
            .iter()
            .filter(|c| c.is_reliable())
            .flat_map(|c| [2, 7, 24, 281, u16::MAX].map(|d| d.min(c.wide_window())))
            .map(|distance| sequence_relative_bits(0, distance) as u32);
        let length = |message_type: &MessageType| match *message_type {
            MessageType::Bytes { min, max } => width_of(i32::from(min), i32::from(max)) + 7,
            // The last byte of the payload may hold fewer bits, never more.
            MessageType::Bits(_) => 0,
            MessageType::Block => {
                let largest = channels.iter().map(|c| c.block_bytes_max).max();
                width_of(1, largest.unwrap_or(1) as i32) + 7
            }
        };
        let fragments = (0..)
            .zip(channels)
            .filter(|(_, c)| c.is_reliable() && !c.disable_blocks);
        Overhead {
            packet: bytes(self.entry_count_width()) + self.check_word_bytes() as u16,
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
