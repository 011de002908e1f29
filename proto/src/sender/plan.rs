//! What goes into one packet: the sender fills a plan, and the session writes it to its wire.

use std::num::NonZeroU8;

use crate::session::Channel;

/// What goes into the packet that is due.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Messages by lane and id, both ascending. Ids of reliable lanes go on the wire; those of
    /// unreliable lanes are only handles for [`Sender::payload`](super::Sender::payload).
    pub messages: Vec<Planned>,
    /// A block's fragment. Its lane has no messages in this packet.
    pub fragment: Option<Fragment>,
    /// Bytes of it that are copies of what is under way.
    pub(super) copy_bytes: usize,
    /// Something of it is bulk, so it goes by the bulk rate.
    pub(super) is_bulk: bool,
    /// A payload above this is split; up to it, it is one datagram.
    pub datagram: u16,
    /// Zeros up to this payload follow what the packet carries, which is nothing; 0 in all packets but
    /// those that ask whether the path takes so much, or the peer another cipher.
    pub padded_to: u16,
    /// It asks whether the peer opens the wire's second cipher, by being under it.
    pub(super) asks_cipher: bool,
    /// A packet that left before goes again, and keeps its number on the wire: what it carries is the same to the byte.
    pub again: Option<Again>,
}

impl Plan {
    /// Nothing but an acknowledgement.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.fragment.is_none()
    }

    /// It asks whether the path takes so much, or the peer another cipher.
    pub(super) fn is_padding(&self) -> bool {
        self.padded_to > 0
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.fragment = None;
        self.copy_bytes = 0;
        self.is_bulk = false;
        self.datagram = 0;
        self.padded_to = 0;
        self.asks_cipher = false;
        self.again = None;
    }
}

/// A packet that left before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The number that it has on the wire.
    pub number: u64,
    /// Times that it left.
    pub times: NonZeroU8,
}

/// One message in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its lane.
    pub lane: Channel,
    /// Its id there.
    pub id: u16,
}

/// One piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its lane.
    pub lane: Channel,
    /// The block's message id.
    pub id: u16,
    /// Which piece.
    pub index: u16,
    /// How many pieces the block has.
    pub count: u16,
}

/// How a block is cut whose fragments are longer than the wire's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongFragment {
    /// Bytes of the block.
    pub length: u32,
    /// Bytes of each fragment but the last.
    pub size: u16,
}
