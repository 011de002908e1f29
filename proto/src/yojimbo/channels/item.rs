//! What a connection packet carries: messages, and pieces of blocks.

use super::layout::FIXED_BITS_MAX;
use crate::reassembly::Reassembly;
use crate::session::Channel;
use crate::yojimbo::bits::BitReader;

/// One thing a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A message.
    Message(Message<'a>),
    /// A piece of a block.
    Fragment(BlockFragment<'a>),
}

impl Item<'_> {
    /// The channel it is on.
    pub const fn channel(&self) -> Channel {
        match self {
            Self::Message(message) => message.channel,
            Self::Fragment(fragment) => fragment.place.channel,
        }
    }
}

/// A message in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its channel.
    pub channel: Channel,
    /// Its number on a reliable channel. Unreliable ones have none.
    pub id: Option<u16>,
    /// Its type.
    pub kind: u8,
    /// What it says.
    pub body: Body<'a>,
}

/// Where a piece of a block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentPlace {
    /// The block's channel, a reliable one.
    pub channel: Channel,
    /// The block's message id.
    pub id: u16,
    /// Pieces of the block.
    pub count: u16,
    /// Which piece.
    pub index: u16,
}

/// A piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFragment<'a> {
    /// Where it belongs.
    pub place: FragmentPlace,
    /// The block's message type, with the first piece only.
    pub kind: Option<u8>,
    /// Bytes of each piece of the block but the last.
    pub size: u16,
    /// Bytes of the block, at most.
    pub whole_max: u32,
    /// Its bytes.
    pub data: &'a [u8],
}

impl BlockFragment<'_> {
    /// What puts together the block that it is the first of to come.
    pub(super) fn reassembly(&self) -> Reassembly {
        let (count, size) = (self.place.count, self.size.into());
        Reassembly::of_length(count, size, self.whole_max as usize)
    }

    /// It is cut from a block as the others of this one are.
    pub(super) fn is_of(&self, block: &Reassembly) -> bool {
        (block.count(), block.size()) == (self.place.count, self.size.into())
            && block.whole_max() == self.whole_max as usize
    }
}

/// A message's payload, where it lies in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Whole bytes.
    Bytes(&'a [u8]),
    /// Bits that begin anywhere.
    Bits {
        /// The packet.
        packet: &'a [u8],
        /// The first bit.
        at: usize,
        /// How many.
        width: u16,
    },
}

/// Room for the payload of a [`MessageType::Bits`](super::layout::MessageType::Bits) message: none until one is read.
pub type BodyScratch = Option<[u8; BODY_SCRATCH]>;

/// Bytes of the longest of them.
const BODY_SCRATCH: usize = FIXED_BITS_MAX as usize / 8;

impl<'a> Body<'a> {
    /// Bytes of the payload.
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Bits { width, .. } => width.div_ceil(8) as usize,
        }
    }

    /// Whether the payload has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload; bits are put into `scratch` as whole bytes.
    #[inline]
    pub fn read<'s>(self, scratch: &'s mut BodyScratch) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Bits { packet, at, width } => read_bits(packet, at, width, scratch),
        }
    }
}

fn read_bits<'s>(packet: &[u8], at: usize, width: u16, scratch: &'s mut BodyScratch) -> &'s [u8] {
    let mut reader = BitReader::new(packet);
    let mut left = u32::from(width);
    let read = reader.skip(at);
    debug_assert!(read.is_ok(), "the packet was walked before");
    let room = scratch.get_or_insert([0; BODY_SCRATCH]);
    let payload = &mut room[..usize::from(width.div_ceil(8))];
    for byte in &mut *payload {
        *byte = reader.bits(left.min(8)).unwrap_or(0) as u8;
        left = left.saturating_sub(8);
    }
    payload
}
