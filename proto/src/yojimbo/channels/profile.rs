//! What both sides must agree on before the first packet: channels, message types, sizes.
//!
//! The connection packet does not describe itself (docs/wire/yojimbo.md, section 1). A field's width
//! follows from the limits here, so two sides with different profiles misread each other. The
//! fingerprint and the description are for finding that out.

use std::fmt;
use std::fmt::Write as _;

use super::emit::PacketSize;
use crate::session::Channel;
use crate::yojimbo::bits::width_of;
use crate::yojimbo::reliable::Limits;

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

/// How a channel delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each message once, in order.
    ReliableOrdered,
    /// Each message at most once, as it comes.
    UnreliableUnordered,
}

/// One channel. The defaults are yojimbo's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelProfile {
    /// How it delivers.
    pub delivery: Delivery,
    /// Messages in one packet, at most.
    pub messages_per_packet_max: u16,
    /// Bytes of a block, at most.
    pub block_bytes_max: u32,
    /// Bytes of each fragment of a block but the last.
    pub block_fragment_size: u16,
    /// No blocks on this channel.
    pub disable_blocks: bool,
    /// Message ids the receiver keeps track of, from the next one to deliver. A sender that goes
    /// beyond loses the connection.
    pub receive_window: u16,
}

impl ChannelProfile {
    /// A channel with yojimbo's default sizes.
    pub const fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            messages_per_packet_max: 256,
            block_bytes_max: 256 * 1024,
            block_fragment_size: 1024,
            disable_blocks: false,
            receive_window: 1024,
        }
    }

    /// Whether messages on it have ids and are acknowledged.
    pub fn is_reliable(&self) -> bool {
        self.delivery == Delivery::ReliableOrdered
    }

    /// Fragments of the largest block.
    pub fn block_fragments_max(&self) -> u32 {
        self.block_bytes_max
            .div_ceil(u32::from(self.block_fragment_size))
    }
}

/// How the body of a message type is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A length in this range, then that many bytes, aligned.
    Bytes {
        /// Shortest.
        min: u16,
        /// Longest.
        max: u16,
    },
    /// Nothing; the block that comes with the message is the payload.
    Block,
    /// This many bits as they are, not aligned; as a payload, whole bytes with zeros on top.
    Bits(u16),
}

impl Layout {
    /// Bytes of the longest payload inside a message.
    fn longest(self) -> Option<usize> {
        match self {
            Self::Bytes { max, .. } => Some(usize::from(max)),
            Self::Block => None,
            Self::Bits(bits) => Some(usize::from(bits).div_ceil(8)),
        }
    }

    /// Whether a payload of `length` bytes has this layout, inline.
    pub fn takes(self, length: usize) -> bool {
        match self {
            Self::Bytes { min, max } => (usize::from(min)..=usize::from(max)).contains(&length),
            Self::Block => false,
            Self::Bits(bits) => length == usize::from(bits).div_ceil(8),
        }
    }
}

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

    /// How a payload of `length` bytes travels on `channel`; `None` when it cannot.
    ///
    /// The first message type that takes it inline, else, where blocks are allowed, the first block
    /// type.
    pub fn carriage(&self, channel: Channel, length: usize) -> Option<Carriage> {
        let rules = self.channel(channel)?;
        let inline = self.messages.iter().position(|layout| layout.takes(length));
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
    fn blocks(&self, channel: Channel) -> Option<(u8, usize)> {
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

    /// The whole profile in text, line by line the same on both sides if they agree.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let limits = &self.limits;
        // Writing to a String cannot fail.
        let mut line = |arguments: fmt::Arguments<'_>| {
            let written = text.write_fmt(arguments);
            debug_assert!(written.is_ok());
            text.push('\n');
        };
        line(format_args!(
            "packets: up to {} bytes, in up to {} fragments of {} bytes",
            limits.packet_bytes_max, limits.fragments_max, limits.fragment_size
        ));
        for (index, channel) in self.channels.iter().enumerate() {
            let delivery = match channel.delivery {
                Delivery::ReliableOrdered => "reliable-ordered",
                Delivery::UnreliableUnordered => "unreliable-unordered",
            };
            line(format_args!(
                "channel {index}: {delivery}, up to {} messages a packet, {}, {}",
                channel.messages_per_packet_max,
                Blocks(channel),
                Window(channel),
            ));
        }
        for (kind, layout) in self.messages.iter().enumerate() {
            line(format_args!("message {kind}: {layout}"));
        }
        text
    }

    /// A number that is the same on both sides if the profiles are: FNV-1a, 64 bits, over
    /// [`Profile::describe`].
    pub fn fingerprint(&self) -> u64 {
        self.describe()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { min, max } => write!(f, "{min} to {max} bytes"),
            Self::Block => write!(f, "a block"),
            Self::Bits(bits) => write!(f, "{bits} bits"),
        }
    }
}

struct Blocks<'a>(&'a ChannelProfile);

impl fmt::Display for Blocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = self.0;
        let (max, size) = (channel.block_bytes_max, channel.block_fragment_size);
        if channel.disable_blocks {
            write!(f, "no blocks")
        } else if channel.is_reliable() {
            write!(f, "blocks up to {max} bytes in fragments of {size}")
        } else {
            write!(f, "blocks up to {max} bytes")
        }
    }
}

struct Window<'a>(&'a ChannelProfile);

impl fmt::Display for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_reliable() {
            write!(f, "receive window {}", self.0.receive_window)
        } else {
            write!(f, "no ids")
        }
    }
}

/// What is wrong with a profile, and what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// No channels, or too many.
    Channels(usize),
    /// No message types, or too many.
    MessageTypes(usize),
    /// Packet and fragment sizes that do not go together.
    PacketSizes(Limits),
    /// A message type that no message could have.
    Message {
        /// The type's number.
        kind: usize,
        /// What it says.
        layout: Layout,
    },
    /// A message that does not fit a packet.
    MessageTooLarge {
        /// The type's number.
        kind: usize,
        /// The packet it would need.
        bytes: usize,
    },
    /// Too few or too many messages in a packet.
    MessagesPerPacket(Channel),
    /// A receive window that cannot work.
    ReceiveWindow(Channel),
    /// Block sizes that do not go together.
    Blocks(Channel),
    /// A block fragment that does not fit a packet.
    BlockFragmentTooLarge(Channel),
}

impl std::error::Error for ProfileError {}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channels(count) => {
                write!(f, "{count} channels; configure 1 to {CHANNELS_MAX}")
            }
            Self::MessageTypes(count) => {
                write!(f, "{count} message types; configure 1 to 256")
            }
            Self::PacketSizes(limits) => write!(
                f,
                "packets of {} bytes in {} fragments of {} bytes, split above {}; choose fragments \
                 of 64 to 1160 bytes, at most 256 of them, a split at 1160 bytes or below, and \
                 packets of 64 bytes up to what the fragments hold",
                limits.packet_bytes_max,
                limits.fragments_max,
                limits.fragment_size,
                limits.fragment_above
            ),
            Self::Message { kind, layout } => write!(
                f,
                "message type {kind} is {layout}; give bytes a minimum that is not above the \
                 maximum, and bits a number from 1 to {FIXED_BITS_MAX}"
            ),
            Self::MessageTooLarge { kind, bytes } => write!(
                f,
                "the longest message of type {kind} needs a packet of {bytes} bytes; make packets \
                 larger or the message shorter"
            ),
            Self::MessagesPerPacket(channel) => write!(
                f,
                "channel {channel}: messages per packet must be 1 to {MESSAGES_PER_PACKET_MAX}"
            ),
            Self::ReceiveWindow(channel) => write!(
                f,
                "channel {channel}: the receive window must be a power of two up to \
                 {RECEIVE_WINDOW_MAX}"
            ),
            Self::Blocks(channel) => write!(
                f,
                "channel {channel}: a block needs at least 1 byte and fragments of at least 1 byte, \
                 at most {BLOCK_FRAGMENTS_MAX} of them; change the sizes or disable blocks"
            ),
            Self::BlockFragmentTooLarge(channel) => write!(
                f,
                "channel {channel}: a full block fragment does not fit a packet; make packets \
                 larger or the fragments smaller"
            ),
        }
    }
}
