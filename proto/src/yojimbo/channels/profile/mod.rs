//! What both sides must agree on before the first packet: channels, message types, sizes.
//!
//! The connection packet does not describe itself (docs/wire/yojimbo.md, section 1). A field's width
//! follows from the limits here, so two sides with different profiles misread each other. The
//! fingerprint and the description are for finding that out.

mod channel;
mod describe;
mod error;
mod layout;

use super::emit::Split;
use super::size::PacketSize;
use crate::session::Channel;
use crate::yojimbo::bits::width_of;
use crate::yojimbo::reliable::Limits;

pub use channel::{ChannelProfile, Delivery, WIDE_WINDOW};
pub use error::ProfileError;
pub use layout::Layout;

/// Channels of a connection, at most (yojimbo's MaxChannels).
pub const CHANNELS_MAX: usize = 64;
/// Bits of the longest message of [`Layout::Bits`].
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

/// A profile that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    channels: Vec<ChannelProfile>,
    messages: Vec<Layout>,
    limits: Limits,
}

impl Default for Profile {
    /// The tidegate profile: frames up to 7000 bytes on a reliable and an unreliable channel, blocks
    /// up to 256 KiB on the reliable one.
    fn default() -> Self {
        let unreliable = ChannelProfile {
            disable_blocks: true,
            ..ChannelProfile::new(Delivery::UnreliableUnordered)
        };
        Self {
            channels: vec![ChannelProfile::new(Delivery::ReliableOrdered), unreliable],
            messages: vec![Layout::Bytes { min: 0, max: 7000 }, Layout::Block],
            limits: Limits::default(),
        }
    }
}

impl Profile {
    /// A profile of one's own: `channels` by index, `messages` by type number.
    pub fn new(
        channels: Vec<ChannelProfile>,
        messages: Vec<Layout>,
        limits: Limits,
    ) -> Result<Self, ProfileError> {
        let profile = Self {
            channels,
            messages,
            limits,
        };
        profile.check_limits()?;
        profile.check_messages()?;
        for channel in 0..profile.channels.len() {
            profile.check_channel(channel as Channel)?;
        }
        Ok(profile)
    }

    fn check_limits(&self) -> Result<(), ProfileError> {
        let limits = &self.limits;
        if self.channels.is_empty() || self.channels.len() > CHANNELS_MAX {
            return Err(ProfileError::Channels(self.channels.len()));
        }
        if !(1..=256).contains(&limits.fragments_max)
            || !(64..=1160).contains(&limits.fragment_size)
            || limits.fragment_above > 1160
            || !(64..=limits.fragments_max * limits.fragment_size)
                .contains(&limits.packet_bytes_max)
        {
            return Err(ProfileError::PacketSizes(*limits));
        }
        Ok(())
    }

    fn check_messages(&self) -> Result<(), ProfileError> {
        if self.messages.is_empty() || self.messages.len() > 256 {
            return Err(ProfileError::MessageTypes(self.messages.len()));
        }
        for (kind, layout) in self.messages.iter().enumerate() {
            let possible = match *layout {
                Layout::Bytes { min, max } => min <= max,
                Layout::Block => true,
                Layout::Bits(bits) => (1..=FIXED_BITS_MAX).contains(&bits),
            };
            if !possible {
                return Err(ProfileError::Message {
                    kind,
                    layout: *layout,
                });
            }
        }
        Ok(())
    }

    fn check_channel(&self, index: Channel) -> Result<(), ProfileError> {
        let channel = &self.channels[usize::from(index)];
        if !(1..=MESSAGES_PER_PACKET_MAX).contains(&channel.messages_per_packet_max) {
            return Err(ProfileError::MessagesPerPacket(index));
        }
        if channel.is_reliable()
            && (channel.receive_window > RECEIVE_WINDOW_MAX
                || !channel.receive_window.is_power_of_two())
        {
            return Err(ProfileError::ReceiveWindow(index));
        }
        if !channel.disable_blocks {
            if channel.block_bytes_max == 0
                || channel.block_fragment_size == 0
                || channel.block_fragments_max() > BLOCK_FRAGMENTS_MAX
            {
                return Err(ProfileError::Blocks(index));
            }
            let fragment = usize::from(channel.block_fragment_size);
            let bits = self.fragment_bits_max(index, fragment);
            if channel.is_reliable() && bits > self.limits.packet_bytes_max * 8 {
                return Err(ProfileError::BlockFragmentTooLarge(index));
            }
        }
        for (kind, layout) in self.messages.iter().enumerate() {
            let Some(longest) = layout.longest() else {
                continue;
            };
            let alone = PacketSize::new(self).with_list(self, index);
            let bytes = alone.with_message(self, 0, kind as u8, longest).bytes();
            if bytes > self.limits.packet_bytes_max {
                return Err(ProfileError::MessageTooLarge { kind, bytes });
            }
        }
        Ok(())
    }

    /// Every channel, by index.
    pub fn channels(&self) -> &[ChannelProfile] {
        &self.channels
    }

    /// A channel that exists.
    pub fn channel(&self, index: Channel) -> Option<&ChannelProfile> {
        self.channels.get(usize::from(index))
    }

    /// Every message type, by number.
    pub fn messages(&self) -> &[Layout] {
        &self.messages
    }

    /// The sizes of the packets underneath.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How a payload travels on `channel`; `None` when it cannot.
    ///
    /// The first message type that takes it inline, else, where blocks are allowed, the first block
    /// type.
    pub fn carriage(&self, channel: Channel, payload: Split<'_>) -> Option<Carriage> {
        let rules = self.channel(channel)?;
        let length = payload.0.len() + payload.1.len();
        let inline = (self.messages.iter()).position(|layout| layout.takes(payload));
        if let Some(kind) = inline {
            return Some(Carriage::Message(kind as u8));
        }
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
        let inline = self.messages.iter().filter_map(|layout| layout.longest());
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
        let kind = self.messages.iter().position(|l| *l == Layout::Block)? as u8;
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
