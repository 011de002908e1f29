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
    /// It carries nothing else, and asks something.
    pub padding: Option<Padding>,
    /// A packet that left before goes again, and keeps its number on the wire: what it carries is the same to the byte.
    pub again: Option<Again>,
}

impl Plan {
    /// Nothing but an acknowledgement.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.fragment.is_none()
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.fragment = None;
        self.copy_bytes = 0;
        self.is_bulk = false;
        self.datagram = 0;
        self.padding = None;
        self.again = None;
    }
}

/// Zeros, to find out whether they arrive: in a datagram of this length, or under another cipher.
#[derive(Clone, Copy, Debug)]
pub struct Padding {
    /// Length of the packet's payload.
    pub bytes: u16,
    /// The packet goes under the wire's second cipher.
    pub asks_cipher: bool,
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
