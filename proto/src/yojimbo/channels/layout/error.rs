//! What is wrong with a layout, and what to change.

use std::fmt;

use super::{
    BLOCK_FRAGMENTS_MAX, CHANNELS_MAX, FIXED_BITS_MAX, MESSAGES_PER_PACKET_MAX, MessageType,
    RECEIVE_WINDOW_MAX,
};
use crate::session::Channel;
use crate::yojimbo::reliable::Limits;

/// What is wrong with a layout, and what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
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
        message_type: MessageType,
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

impl std::error::Error for LayoutError {}

impl fmt::Display for LayoutError {
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
            Self::Message { kind, message_type } => write!(
                f,
                "message type {kind} is {message_type}; give bytes a minimum that is not above the \
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
