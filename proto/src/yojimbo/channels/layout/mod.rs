//! What both sides must agree on before the first packet: channels, message types, sizes.
//!
//! The connection packet does not describe itself (docs/wire/yojimbo.md, section 1). A field's width
//! follows from the limits here, so two sides with different layouts misread each other. The
//! fingerprint and the description are for finding that out.

mod channel;
mod describe;
mod error;
mod message_type;

use super::size::PacketSize;
use crate::ring::Split;
use crate::session::Channel;
use crate::yojimbo::bits::width_of;
use crate::yojimbo::reliable::Limits;

pub use channel::{ChannelLayout, Delivery, WIDE_WINDOW};
pub use error::LayoutError;
pub use message_type::MessageType;

/// Channels of a connection, at most (yojimbo's MaxChannels).
pub const CHANNELS_MAX: usize = 64;
/// Bits of the longest message of [`MessageType::Bits`].
pub const FIXED_BITS_MAX: u16 = 2048;
/// Messages of one channel in one packet, at most.
const MESSAGES_PER_PACKET_MAX: u16 = 4096;
/// Fragments of a block, at most.
const BLOCK_FRAGMENTS_MAX: u32 = 4096;
/// Ids in flight, at most: half the number circle, less what keeps old and new apart.
const RECEIVE_WINDOW_MAX: u16 = 16384;

/// How a payload travels on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// Inside a packet, as a message of this type.
    Message(u8),
    /// As a block of this type, one fragment a packet.
    Block(u8),
}

/// A layout that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    channels: Vec<ChannelLayout>,
    messages: Vec<MessageType>,
    limits: Limits,
    has_check_word: bool,
}

impl Default for Layout {
    /// The default layout: frames up to 7000 bytes on a reliable and an unreliable channel, blocks
    /// up to 256 KiB on the reliable one.
    fn default() -> Self {
        let unreliable = ChannelLayout {
            disable_blocks: true,
            ..ChannelLayout::new(Delivery::UnreliableUnordered)
        };
        Self {
            channels: vec![ChannelLayout::new(Delivery::ReliableOrdered), unreliable],
            messages: vec![MessageType::Bytes { min: 0, max: 7000 }, MessageType::Block],
            limits: Limits::default(),
            has_check_word: false,
        }
    }
}

impl Layout {
    /// A layout of one's own: `channels` by index, `messages` by type number. An error says what does not go
    /// together, and what to change.
    pub fn new(
        channels: Vec<ChannelLayout>,
        messages: Vec<MessageType>,
        limits: Limits,
    ) -> Result<Self, LayoutError> {
        Self {
            channels,
            messages,
            limits,
            has_check_word: false,
        }
        .checked()
    }

    /// This layout, with a check word behind the last field of each packet, as yojimbo before 1.2.3 has it
    /// (docs/wire/yojimbo.md, section 2).
    pub fn with_check_word(self) -> Result<Self, LayoutError> {
        Self {
            has_check_word: true,
            ..self
        }
        .checked()
    }

    fn checked(self) -> Result<Self, LayoutError> {
        self.check_limits()?;
        self.check_messages()?;
        for channel in 0..self.channels.len() {
            self.check_channel(channel as Channel)?;
        }
        Ok(self)
    }

    fn check_limits(&self) -> Result<(), LayoutError> {
        let limits = &self.limits;
        if self.channels.is_empty() || self.channels.len() > CHANNELS_MAX {
            return Err(LayoutError::Channels(self.channels.len()));
        }
        if !(1..=256).contains(&limits.fragments_max)
            || !(64..=1160).contains(&limits.fragment_size)
            || limits.fragment_above > 1160
            || !(64..=limits.fragments_max * limits.fragment_size)
                .contains(&limits.packet_bytes_max)
        {
            return Err(LayoutError::PacketSizes(*limits));
        }
        Ok(())
    }

    fn check_messages(&self) -> Result<(), LayoutError> {
        if self.messages.is_empty() || self.messages.len() > 256 {
            return Err(LayoutError::MessageTypes(self.messages.len()));
        }
        for (kind, message_type) in self.messages.iter().enumerate() {
            let possible = match *message_type {
                MessageType::Bytes { min, max } => min <= max,
                MessageType::Block => true,
                MessageType::Bits(bits) => (1..=FIXED_BITS_MAX).contains(&bits),
            };
            if !possible {
                return Err(LayoutError::Message {
                    kind,
                    message_type: *message_type,
                });
            }
        }
        Ok(())
    }

    fn check_channel(&self, index: Channel) -> Result<(), LayoutError> {
        let channel = &self.channels[usize::from(index)];
        if !(1..=MESSAGES_PER_PACKET_MAX).contains(&channel.messages_per_packet_max) {
            return Err(LayoutError::MessagesPerPacket(index));
        }
        if channel.is_reliable()
            && (channel.receive_window > RECEIVE_WINDOW_MAX
                || !channel.receive_window.is_power_of_two())
        {
            return Err(LayoutError::ReceiveWindow(index));
        }
        if !channel.disable_blocks {
            if channel.block_bytes_max == 0
                || channel.block_fragment_size == 0
                || channel.block_fragments_max() > BLOCK_FRAGMENTS_MAX
            {
                return Err(LayoutError::Blocks(index));
            }
            let fragment = usize::from(channel.block_fragment_size);
            let bits = self.fragment_bits_max(index, fragment);
            let room = self.limits.packet_bytes_max - self.check_word_bytes();
            if channel.is_reliable() && bits > room * 8 {
                return Err(LayoutError::BlockFragmentTooLarge(index));
            }
        }
        for (kind, message_type) in self.messages.iter().enumerate() {
            let Some(longest) = message_type.longest() else {
                continue;
            };
            let alone = PacketSize::new(self).with_list(self, index);
            let bytes = alone.with_message(self, 0, kind as u8, longest).bytes();
            if bytes > self.limits.packet_bytes_max {
                return Err(LayoutError::MessageTooLarge { kind, bytes });
            }
        }
        Ok(())
    }

    /// Every channel, by index.
    pub fn channels(&self) -> &[ChannelLayout] {
        &self.channels
    }

    /// A channel; `None` if there is none of this index.
    pub fn channel(&self, index: Channel) -> Option<&ChannelLayout> {
        self.channels.get(usize::from(index))
    }

    /// Every message type, by number.
    pub fn messages(&self) -> &[MessageType] {
        &self.messages
    }

    /// The sizes of the packets underneath.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a check word is behind the last field of each packet.
    pub fn has_check_word(&self) -> bool {
        self.has_check_word
    }

    /// Bytes behind the last field of each packet, which begin at a whole byte.
    pub(super) fn check_word_bytes(&self) -> usize {
        match self.has_check_word {
            true => size_of::<u32>(),
            false => 0,
        }
    }

    /// How a payload travels on `channel`; `None` when it cannot.
    ///
    /// The first message type that takes it inline, else, where blocks are allowed, the first block
    /// type.
    pub fn carriage(&self, channel: Channel, payload: Split<'_>) -> Option<Carriage> {
        let rules = self.channel(channel)?;
        let inline = (self.messages.iter()).position(|message_type| message_type.takes(payload));
        match inline {
            Some(kind) => Some(Carriage::Message(kind as u8)),
            None => self.carriage_as_block(channel, rules, payload.0.len() + payload.1.len()),
        }
    }

    /// What no message type takes goes as a block, if at all.
    #[cold]
    fn carriage_as_block(
        &self,
        channel: Channel,
        rules: &ChannelLayout,
        length: usize,
    ) -> Option<Carriage> {
        let (block, max) = self.blocks(channel)?;
        if !(1..=max).contains(&length) {
            None
        } else if rules.is_reliable() {
            Some(Carriage::Block(block))
        } else {
            Some(Carriage::Message(block))
        }
    }

    /// The longest payload that `channel` takes, inline or as a block; `None` without such a channel.
    pub fn payload_bytes_max(&self, channel: Channel) -> Option<usize> {
        self.channel(channel)?;
        let inline = self
            .messages
            .iter()
            .filter_map(|message_type| message_type.longest());
        let block = self.blocks(channel).map(|(_, max)| max);
        inline.chain(block).max()
    }

    /// The type of a channel's blocks, and the size of the largest: on a reliable channel they
    /// travel in fragments, on an unreliable one inside a packet.
    pub(in crate::yojimbo) fn blocks(&self, channel: Channel) -> Option<(u8, usize)> {
        let rules = self.channel(channel)?;
        if rules.disable_blocks {
            return None;
        }
        let kind = self
            .messages
            .iter()
            .position(|l| *l == MessageType::Block)? as u8;
        let mut max = rules.block_bytes_max as usize;
        if !rules.is_reliable() {
            let around = PacketSize::new(self)
                .with_list(self, channel)
                .with_message(self, 0, kind, 0);
            max = max.min(self.limits.packet_bytes_max.saturating_sub(around.bytes()));
        }
        Some((kind, max))
    }

    /// Width of the number of entries that begins a packet.
    pub(super) fn entry_count_width(&self) -> u32 {
        width_of(0, self.channels.len() as i32)
    }

    /// Width of a channel's index.
    pub(super) fn channel_width(&self) -> u32 {
        width_of(0, self.channels.len() as i32 - 1)
    }

    /// Width of a message's type.
    pub(super) fn kind_width(&self) -> u32 {
        width_of(0, self.messages.len() as i32 - 1)
    }

    /// Bits of a packet with nothing but one fragment of `length` bytes, whichever it is.
    pub(super) fn fragment_bits_max(&self, channel: Channel, length: usize) -> usize {
        let rules = &self.channels[usize::from(channel)];
        let last = rules.block_fragments_max() as i32;
        let fields = self.entry_count_width()
            + self.channel_width()
            + 1
            + 16
            + width_of(1, last)
            + width_of(0, last - 1)
            + width_of(1, i32::from(rules.block_fragment_size))
            + self.kind_width();
        fields as usize + 7 + length * 8
    }
}
