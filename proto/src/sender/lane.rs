//! The channels of a protocol, and how their messages travel.

/// One channel of the protocol, as the sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Ids, acknowledged, in order.
    Reliable {
        /// How what fits no message goes in fragments; without, it is too large.
        blocks: Option<Blocks>,
        /// Messages queued or unacknowledged, which is what the peer takes, counted from the oldest id it
        /// has not acknowledged; an id beyond would be a desync.
        window: u16,
        /// Messages in one packet.
        per_packet: u16,
    },
    /// Sent once, or dropped when newer ones need the room.
    Unreliable {
        /// Messages in one packet.
        per_packet: u16,
    },
}

/// How the blocks of a lane travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes of each fragment but the last.
    pub fragment: u16,
    /// Bytes of the largest block.
    pub bytes_max: u32,
    /// Bytes of blocks under way at once, in whole fragments, to a peer that was found to take larger
    /// datagrams; messages go beside them. To others one goes at a time, and nothing beside it.
    pub together_max: u32,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whole, in one packet.
    Inline,
    /// In fragments, a packet each.
    Block,
}
