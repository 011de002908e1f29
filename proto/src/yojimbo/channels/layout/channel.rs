//! One channel of a layout.

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
pub struct ChannelLayout {
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

impl ChannelLayout {
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

    /// The receive window once the peer has shown that it runs tidegate too (docs/wire/reliable.md,
    /// section 7).
    pub fn wide_window(&self) -> u16 {
        self.receive_window.max(WIDE_WINDOW)
    }

    /// Fragments of the largest block.
    pub fn block_fragments_max(&self) -> u32 {
        self.block_bytes_max
            .div_ceil(u32::from(self.block_fragment_size))
    }
}

/// Messages under way between two tidegates, at most.
/// A path of 100 Mbit/s has 2500 messages of 1000 bytes under way in a round trip of 200 ms, and what was
/// lost takes two; what is lost again, three.
pub const WIDE_WINDOW: u16 = 8192;
