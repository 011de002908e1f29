//! Everything a yojimbo session is told when it begins. One copy for all sessions of a listener.

use std::sync::Arc;

use super::channels::{
    ChannelLayout, Delivery, LONG_FRAGMENT_HEADER_BYTES, Layout, MessageType, WIDE_BLOCK_BYTES_MAX,
    WIDE_WINDOW,
};
use super::netcode::gcm;
use super::netcode::packet::Beyond;
use super::netcode::wire::{Sizes, TAG_BYTES};
use super::reliable::HEADER_BYTES_MAX;
use crate::ip::{IPV4_UDP_HEADER_BYTES, IPV6_UDP_HEADER_BYTES};
use crate::sender::{self, Blocks, Extensions, Framing, Lane};
use crate::session::AckPolicy;

/// How sessions behave.
#[derive(Clone, Debug)]
pub struct Params {
    /// What both sides must agree on.
    pub layout: Arc<Layout>,
    /// When to send what.
    pub sender: Arc<sender::Params>,
    /// When a packet counts as received.
    pub ack: AckPolicy,
    /// Bytes that may wait to be polled, each message charged with [`crate::inbox::MESSAGE_OVERHEAD`]; with more,
    /// packets are refused.
    pub inbox_max: usize,
}

impl Default for Params {
    fn default() -> Self {
        Self::new(Layout::default(), sender::Params::default())
    }
}

impl Params {
    /// Sessions of this layout. What the layout decides is taken from it: `sender` need not repeat
    /// it.
    pub fn new(layout: Layout, mut sender: sender::Params) -> Self {
        let inline = layout
            .messages()
            .iter()
            .map(|message_type| match *message_type {
                MessageType::Bytes { max, .. } => usize::from(max),
                MessageType::Bits(bits) => usize::from(bits).div_ceil(8),
                MessageType::Block => 0,
            });
        sender.inline_max = inline.max().unwrap_or(0);
        // netcode's own keep-alives do.
        sender.keep_alive = false;
        Self {
            layout: Arc::new(layout),
            sender: Arc::new(sender),
            ack: AckPolicy::default(),
            // It rides out a backend that pauses for seconds.
            inbox_max: 256 * 1024,
        }
    }

    /// Lets packets grow up to what an IP packet of `mtu` bytes holds, where path and peer take it. With an `mtu`
    /// below 1361, or packets of less than 1279 bytes, no datagram would be longer than the standard's longest, and there
    /// is nothing to look for; nor is there with a check word, which only libraries ask for. `asks_first`: without a sign
    /// that the peer takes more than the standard. To such a peer goes the second cipher as well, where the processor
    /// makes it the faster one. For sockets that let nobody cut such datagrams in IP fragments: these would arrive as
    /// well.
    #[must_use]
    pub fn with_path_mtu(mut self, mtu: u16, asks_first: bool) -> Self {
        let packet = self.layout.limits().packet_bytes_max;
        let payload = mtu.saturating_sub(IPV6_UDP_HEADER_BYTES as u16 + DATAGRAM_OVERHEAD);
        let payload = match usize::from(payload).min(packet) {
            _ if self.layout.has_check_word() => 0,
            // Any peer takes that, and its acknowledgement would pass for that of a tidegate.
            0..PAYLOAD_BEYOND => 0,
            payload => payload,
        };
        let mut sender = sender::Params::clone(&self.sender);
        sender.extensions = Extensions {
            mtu_payload_max: payload as u16,
            mtu_asks_first: asks_first,
            second_cipher: payload > 0 && gcm::has_instructions(),
            wide_window: WIDE_WINDOW,
            long_fragment_overhead: match payload {
                0 => 0,
                _ => LONG_FRAGMENT_OVERHEAD,
            },
        };
        self.sender = Arc::new(sender);
        self
    }

    /// Sends and reads no long fragments, as older tidegates do.
    #[must_use]
    pub fn without_long_fragments(mut self) -> Self {
        let mut sender = sender::Params::clone(&self.sender);
        sender.extensions.long_fragment_overhead = 0;
        self.sender = Arc::new(sender);
        self
    }

    /// Another tidegate may send long fragments.
    pub(super) fn reads_long_fragments(&self) -> bool {
        self.sender.extensions.long_fragment_overhead > 0
    }

    /// Offers and takes the second cipher, or not, whatever the processor.
    #[must_use]
    pub fn with_second_cipher(mut self, second_cipher: bool) -> Self {
        let mut sender = sender::Params::clone(&self.sender);
        sender.extensions.second_cipher = second_cipher;
        self.sender = Arc::new(sender);
        self
    }

    /// The longest message that fills one packet with this payload and no more: what a stream without
    /// messages of its own is cut into. A layout without such messages sends blocks of one fragment.
    pub fn piece_bytes(&self, payload: u16) -> usize {
        let framing = self.framing();
        let overhead = framing.packet_overhead + framing.lane_overhead + framing.message_overhead;
        let mut channels = (0..).zip(self.layout.channels());
        let reliable = channels.find(|(_, channel)| channel.is_reliable());
        let block = reliable.and_then(|(index, channel)| {
            let (_, bytes_max) = self.layout.blocks(index)?;
            Some(bytes_max.min(channel.block_fragment_size.into()))
        });
        let block = block.unwrap_or(0);
        let longest = self.sender.inline_max.max(block);
        longest.min(payload.saturating_sub(overhead).into())
    }

    /// The longest piece of a stream that the largest packets there may be carry.
    pub fn piece_bytes_max(&self) -> usize {
        let base = self.layout.limits().fragment_above as u16;
        self.piece_bytes(base.max(self.sender.extensions.mtu_payload_max))
    }

    /// What netcode packets of these sessions may be: the standard's, or what larger packets need.
    pub(super) fn beyond(&self) -> Beyond {
        Beyond::new(self.sizes(), self.sender.extensions.second_cipher)
    }

    fn sizes(&self) -> Sizes {
        Sizes::with_payload(self.sender.extensions.mtu_payload_max + HEADER_BYTES_MAX as u16)
    }

    /// The channels, as the sender sees them.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let has_blocks = |(index, channel): &(u8, &ChannelLayout)| {
            channel.is_reliable() && self.layout.blocks(*index).is_some()
        };
        let with_blocks = (0..).zip(self.layout.channels()).filter(has_blocks);
        let together_max = WIDE_BLOCK_BYTES_MAX / with_blocks.count().max(1);
        let lane = |(index, channel): (u8, &ChannelLayout)| match channel.delivery {
            Delivery::ReliableOrdered => Lane::Reliable {
                blocks: (self.layout.blocks(index)).map(|(_, bytes_max)| Blocks {
                    fragment: channel.block_fragment_size,
                    bytes_max: bytes_max as u32,
                    together_max: together_max as u32,
                }),
                window: channel.receive_window,
                per_packet: channel.messages_per_packet_max,
            },
            Delivery::UnreliableUnordered => Lane::Unreliable {
                per_packet: channel.messages_per_packet_max,
            },
        };
        (0..).zip(self.layout.channels()).map(lane).collect()
    }

    /// What messages cost on this wire.
    pub(super) fn framing(&self) -> Framing {
        let layout = &self.layout;
        let limits = layout.limits();
        let packet = limits.packet_bytes_max.min(u16::MAX.into());
        let overhead = layout.overhead();
        Framing {
            datagram: limits.fragment_above.min(packet) as u16,
            piece: limits.fragment_size.min(u16::MAX.into()) as u16,
            packet: packet as u16,
            packet_overhead: overhead.packet,
            lane_overhead: overhead.list,
            message_overhead: overhead.message,
            fragment_overhead: overhead.fragment,
            wire_overhead: WIRE_OVERHEAD as u16,
            datagram_overhead: DATAGRAM_OVERHEAD,
            again_within: ACKS_REACH,
        }
    }
}

/// Bytes under a connection packet, for byte rates: IPv4 and UDP headers, netcode's prefix with a
/// sequence of three bytes (16 million packets) and its tag, reliable's header.
pub(super) const WIRE_OVERHEAD: usize =
    IPV4_UDP_HEADER_BYTES + (1 + 3) + TAG_BYTES + HEADER_BYTES_MAX;

/// What a datagram adds to a connection packet at most: netcode's longest prefix and its tag, reliable's
/// header.
const DATAGRAM_OVERHEAD: u16 = ((1 + 8) + TAG_BYTES + HEADER_BYTES_MAX) as u16;

/// What a long fragment adds to its bytes beside the byte of any packet: its kind, and its header.
const LONG_FRAGMENT_OVERHEAD: u16 = 1 + LONG_FRAGMENT_HEADER_BYTES;

/// A header acknowledges so many numbers, the newest that the peer saw among them. (It puts packets together
/// twice as far back.)
const ACKS_REACH: u16 = 32;

/// The shortest connection packet whose datagram is always longer than the standard's longest: with netcode's shortest
/// prefix and its tag, and reliable's shortest header.
const PAYLOAD_BEYOND: usize = Sizes::STANDARD.datagram as usize + 1 - ((1 + 1) + TAG_BYTES + 4);

#[cfg(test)]
mod tests {
    use super::super::outgoing::Outgoing;
    use super::super::reliable::Limits;
    use super::*;
    use crate::time::{Now, Timestamp};

    /// Datagrams that one message of so many bytes takes.
    fn datagrams(params: &Params, bytes: usize) -> usize {
        datagrams_on(params, 0, bytes)
    }

    fn datagrams_on(params: &Params, channel: u8, bytes: usize) -> usize {
        let now = Now {
            mono: Timestamp::ZERO,
            unix_secs: 0,
        };
        let mut outgoing = Outgoing::new(now, params, 1);
        outgoing
            .push(now, &params.layout, channel, &vec![7; bytes])
            .unwrap();
        let mut count = 0;
        while outgoing.poll(now, || (0, 0)) {
            outgoing.write(&params.layout, None, &mut Vec::new());
            outgoing.on_written(now);
            count += 1;
        }
        count
    }

    #[test]
    fn payloads_beyond_the_standard_follow_from_the_mtu() {
        let payload = |mtu| {
            let params = Params::default().with_path_mtu(mtu, false);
            (params.sender.extensions.mtu_payload_max, params.sizes())
        };
        for none in [0, 576, 1_280, 1_360] {
            assert_eq!(payload(none), (0, Sizes::STANDARD));
        }
        assert_eq!(payload(1_361).0, 1_279);
        assert_eq!(payload(1_500), (1_418, Sizes::with_payload(1_427)));
        let largest = Sizes {
            payload: 8_201,
            datagram: 8_226,
        };
        assert_eq!(payload(9_000), (8_192, largest));
        assert_eq!(payload(u16::MAX), (8_192, largest));
    }

    #[test]
    fn a_piece_fills_one_datagram() {
        let params = Params::default();
        let piece = params.piece_bytes_max();
        assert!(piece > 1_100, "{piece} of 1152 bytes");
        assert_eq!(datagrams(&params, piece), 1);
        assert_eq!(datagrams(&params, 1_153), 2, "no datagram holds it");
    }

    /// The least and the most that a layout may say of its packets.
    #[test]
    fn messages_travel_in_packets_of_any_length() {
        for (packet_bytes_max, longest, count) in [(1_024, 900, 1), (65_536, 60_000, 59)] {
            let limits = Limits {
                packet_bytes_max,
                fragments_max: packet_bytes_max / 1_024,
                ..Limits::default()
            };
            let channel = ChannelLayout {
                disable_blocks: true,
                ..Layout::default().channels()[0]
            };
            let message = MessageType::Bytes {
                min: 0,
                max: longest,
            };
            let layout = Layout::new(vec![channel], vec![message], limits).unwrap();
            let params = Params::new(layout, sender::Params::default());
            assert_eq!(datagrams(&params, longest.into()), count);
            assert!(usize::from(params.framing().datagram) <= packet_bytes_max);
        }
    }

    /// Each channel has sizes of its own, and the client was compiled with them.
    #[test]
    fn blocks_travel_as_their_channel_says() {
        let reliable = |block_fragment_size| ChannelLayout {
            block_fragment_size,
            ..ChannelLayout::new(Delivery::ReliableOrdered)
        };
        let unreliable = ChannelLayout::new(Delivery::UnreliableUnordered);
        let channels = vec![reliable(1_024), reliable(600), unreliable];
        let messages = vec![MessageType::Bits(128), MessageType::Block];
        let layout = Layout::new(channels, messages, Limits::default()).unwrap();
        let params = Params::new(layout, sender::Params::default());
        assert_eq!(datagrams_on(&params, 0, 1_800), 2, "of 1024 and 776 bytes");
        assert_eq!(datagrams_on(&params, 1, 1_800), 3, "of 600 bytes each");
        assert_eq!(datagrams_on(&params, 2, 1_000), 1, "inside one packet");
    }

    #[test]
    fn a_piece_is_a_message_that_the_layout_has() {
        let with = |disable_blocks, messages: Vec<MessageType>| {
            let channel = ChannelLayout {
                disable_blocks,
                ..Layout::default().channels()[0]
            };
            let layout = Layout::new(vec![channel], messages, Limits::default()).unwrap();
            Params::new(layout, sender::Params::default())
        };
        let short = MessageType::Bytes { min: 0, max: 200 };
        assert_eq!(with(true, vec![short]).piece_bytes_max(), 200);
        let blocks = with(false, vec![short, MessageType::Block]);
        assert_eq!(blocks.piece_bytes_max(), 1_024, "one fragment");
        assert_eq!(datagrams(&blocks, 1_024), 1);
    }
}
