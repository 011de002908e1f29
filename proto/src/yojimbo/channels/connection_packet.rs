//! The connection packet: which messages and block fragments a packet carries.
//!
//! Layout: docs/wire/yojimbo.md, sections 2 to 5; field widths follow from the [`Layout`]. A packet
//! is read to its end before anything in it is believed: [`ConnectionPacket::parse`] walks it once
//! and keeps what it found, [`ConnectionPacket::items`] tells that, and cannot fail.

use super::emit::CHECK_WORD;
use super::item::{BlockFragment, Body, FragmentPlace, Item, Message};
use super::layout::{ChannelLayout, Layout, MessageType};
use crate::session::Channel;
use crate::yojimbo::bits::{BitError, BitReader};

/// Why a packet is not of this layout. Each of them ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// Not even the number of entries. An ack alone is one zero byte, not none.
    Empty,
    /// A field that is cut off, out of range, or badly padded.
    Field(BitError),
    /// A block fragment on a channel that has no blocks, or no fragments of them.
    BlocksDisabled,
    /// The message of a block is of a type that has no block.
    NotABlock,
    /// A type with a block, as an ordinary message of a reliable channel: the block is missing.
    BlockMissing,
    /// A block inside a message on a channel that has no blocks.
    InlineBlock,
    /// A fragment that is not the last, and shorter than the others.
    ShortFragment,
    /// A fragment that ends beyond the largest block.
    BlockTooLarge,
    /// Something else where the layout has its check word.
    CheckWord,
}

impl From<BitError> for PacketError {
    fn from(error: BitError) -> Self {
        Self::Field(error)
    }
}

/// Room for the items of a packet, so that its bits are walked only once. Most packets have room in the first part;
/// eight messages of a kilobyte fill the longest datagram. It stays where it is: a packet with it inside would be four
/// hundred bytes to move.
#[derive(Debug, Default)]
pub struct Items<'a> {
    first: [Option<Item<'a>>; 8],
    /// Those behind the first part. Hundreds of empty messages fit in a packet, and to read each of them again takes
    /// longer than to allocate room for all.
    others: Vec<Item<'a>>,
}

/// A packet that was read to its end and found good.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionPacket<'a> {
    messages: u32,
    /// Channels that have something in it, by bit.
    channels: u64,
    reliable: bool,
    /// What it carries.
    first: &'a [Option<Item<'a>>],
    others: &'a [Item<'a>],
    is_misread: bool,
}

impl<'a> ConnectionPacket<'a> {
    /// Reads a whole packet; what follows its last field, or the check word behind it, is ignored.
    #[inline]
    pub fn parse(
        bytes: &'a [u8],
        layout: &'a Layout,
        items: &'a mut Items<'a>,
    ) -> Result<Self, PacketError> {
        let (mut messages, mut channels, mut reliable) = (0, 0, false);
        let mut count = 0;
        let mut walk = Walk::new(bytes, layout)?;
        let entries = walk.entries_left;
        while let Some(item) = walk.next_item()? {
            match items.first.get_mut(count) {
                Some(place) => *place = Some(item),
                None => items.others.push(item),
            }
            count += 1;
            match item {
                Item::Message(message) => {
                    messages += 1;
                    reliable |= message.id.is_some();
                }
                Item::Fragment(_) => reliable = true,
            }
            channels |= 1 << item.channel();
        }
        if layout.has_check_word()
            && walk.reader.bytes(size_of_val(&CHECK_WORD))? != CHECK_WORD.to_le_bytes()
        {
            return Err(PacketError::CheckWord);
        }
        let is_misread = match entries {
            0 => bytes[1..] == CHECK_WORD.to_le_bytes() && !layout.has_check_word(),
            _ => channels == 0 && !walk.reader.rest_is_zero(),
        };
        Ok(Self {
            messages,
            channels,
            reliable,
            first: items.first.get(..count).unwrap_or(&items.first),
            others: &items.others,
            is_misread,
        })
    }

    /// A packet with nothing but a piece of a block, which came in another way.
    pub(super) fn alone(fragment: BlockFragment<'a>, items: &'a mut Items<'a>) -> Self {
        items.first[0] = Some(Item::Fragment(fragment));
        Self {
            messages: 0,
            channels: 1 << fragment.place.channel,
            reliable: true,
            first: &items.first[..1],
            others: &[],
            is_misread: false,
        }
    }

    /// What the packet carries, in the order of the wire. Ids may be old, far ahead, or repeated.
    pub fn items(&self) -> impl Iterator<Item = Item<'a>> + use<'a, '_> {
        let first = self.first.iter().flatten();
        first.chain(self.others).copied()
    }

    /// Messages in it, fragments of blocks not counted.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether it carries nothing but the acks below it.
    pub fn is_empty(&self) -> bool {
        self.channels == 0
    }

    /// Whether all its entries are empty, and what follows them is not: nobody writes that, and so
    /// reads a packet of a sender with another number of channels. Or it has none, and a check word where
    /// the layout has no such thing.
    pub fn is_misread(&self) -> bool {
        self.is_misread
    }

    /// Whether anything in it must not be lost.
    pub fn is_reliable(&self) -> bool {
        self.reliable
    }

    /// Channels that have something in it, each once.
    pub fn channels(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.channels;
        std::iter::from_fn(move || {
            let channel = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (channel < 64).then_some(channel as usize)
        })
    }
}

/// A walk over a packet's fields.
struct Walk<'a> {
    layout: &'a Layout,
    reader: BitReader<'a>,
    entries_left: i32,
    list: MessageList<'a>,
}

/// The messages of the entry the walk is in. Ids stand in front of all bodies, so they have a
/// reader of their own.
struct MessageList<'a> {
    channel: Channel,
    left: i32,
    /// The id of the next message, on a reliable channel.
    next_id: Option<u16>,
    ids: BitReader<'a>,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], layout: &'a Layout) -> Result<Self, PacketError> {
        if bytes.is_empty() {
            return Err(PacketError::Empty);
        }
        let mut reader = BitReader::new(bytes);
        let entries_left = reader.int(0, layout.channels().len() as i32)?;
        Ok(Self {
            layout,
            reader,
            entries_left,
            list: MessageList {
                channel: 0,
                left: 0,
                next_id: None,
                ids: reader,
            },
        })
    }

    #[inline]
    fn next_item(&mut self) -> Result<Option<Item<'a>>, PacketError> {
        if self.list.left == 0 && self.entries_left == 0 {
            return Ok(None);
        }
        self.read_item()
    }

    fn read_item(&mut self) -> Result<Option<Item<'a>>, PacketError> {
        loop {
            if self.list.left > 0 {
                return self.message().map(|message| Some(Item::Message(message)));
            }
            if self.entries_left == 0 {
                return Ok(None);
            }
            self.entries_left -= 1;
            let last = self.layout.channels().len() - 1;
            let channel = self.reader.int(0, last as i32)? as Channel;
            let rules = &self.layout.channels()[usize::from(channel)];
            if self.reader.bool()? {
                return self
                    .fragment(channel, rules)
                    .map(|f| Some(Item::Fragment(f)));
            }
            if self.reader.bool()? {
                self.message_list(channel, rules)?;
            }
        }
    }

    fn message_list(&mut self, channel: Channel, rules: &ChannelLayout) -> Result<(), PacketError> {
        let reader = &mut self.reader;
        let count = reader.int(1, i32::from(rules.messages_per_packet_max))?;
        let mut next_id = None;
        if rules.is_reliable() {
            next_id = Some(reader.bits(16)? as u16);
        }
        self.list = MessageList {
            channel,
            left: count,
            next_id,
            ids: *reader,
        };
        if let Some(mut id) = next_id {
            for _ in 1..count {
                id = reader.sequence_relative(id)?;
            }
        }
        Ok(())
    }

    fn message(&mut self) -> Result<Message<'a>, PacketError> {
        let kind = self.kind()?;
        let list = &mut self.list;
        let id = list.next_id;
        list.left -= 1;
        if let Some(id) = id
            && list.left > 0
        {
            list.next_id = Some(list.ids.sequence_relative(id)?);
        }
        let channel = list.channel;
        let rules = &self.layout.channels()[usize::from(channel)];
        let reader = &mut self.reader;
        let body = match self.layout.messages()[usize::from(kind)] {
            MessageType::Bytes { min, max } => {
                let length = reader.int(i32::from(min), i32::from(max))?;
                Body::Bytes(reader.bytes(length as usize)?)
            }
            MessageType::Bits(width) => {
                let at = reader.position();
                reader.skip(usize::from(width))?;
                let packet = reader.packet();
                Body::Bits { packet, at, width }
            }
            MessageType::Block if rules.is_reliable() => return Err(PacketError::BlockMissing),
            MessageType::Block if rules.disable_blocks => return Err(PacketError::InlineBlock),
            MessageType::Block => {
                let length = reader.int(1, rules.block_bytes_max as i32)?;
                Body::Bytes(reader.bytes(length as usize)?)
            }
        };
        Ok(Message {
            channel,
            id,
            kind,
            body,
        })
    }

    fn fragment(
        &mut self,
        channel: Channel,
        rules: &ChannelLayout,
    ) -> Result<BlockFragment<'a>, PacketError> {
        if rules.disable_blocks || !rules.is_reliable() {
            return Err(PacketError::BlocksDisabled);
        }
        let reader = &mut self.reader;
        let size = rules.block_fragment_size;
        let id = reader.bits(16)? as u16;
        let count = reader.int(1, rules.block_fragments_max() as i32)? as u16;
        let index = reader.int(0, i32::from(count) - 1)? as u16;
        let length = reader.int(1, i32::from(size))? as usize;
        let data = reader.bytes(length)?;
        if index + 1 < count && length < usize::from(size) {
            return Err(PacketError::ShortFragment);
        }
        if usize::from(index) * usize::from(size) + length > rules.block_bytes_max as usize {
            return Err(PacketError::BlockTooLarge);
        }
        let kind = match index {
            0 => Some(self.kind()?),
            _ => None,
        };
        if kind.is_some_and(|kind| self.layout.messages()[usize::from(kind)] != MessageType::Block)
        {
            return Err(PacketError::NotABlock);
        }
        Ok(BlockFragment {
            place: FragmentPlace {
                channel,
                id,
                count,
                index,
            },
            kind,
            size,
            whole_max: u32::from(count) * u32::from(size),
            data,
        })
    }

    fn kind(&mut self) -> Result<u8, PacketError> {
        let last = self.layout.messages().len() - 1;
        Ok(self.reader.int(0, last as i32)? as u8)
    }
}
