//! What channels and messages some game could have, and what they carry.

use std::ops::RangeInclusive;

use super::pick;
use crate::session::Channel;
use crate::sim::{Random, Traffic};
use crate::tests::seeds::plan::coin;
use crate::yojimbo::channels::{Carriage, ChannelLayout, Delivery, Layout, MessageType};
use crate::yojimbo::reliable::Limits;

/// Longest message that is said.
const LENGTH_MAX: usize = 30_000;

/// A layout whose reliable channels have some length of messages in common. With the library on the other side
/// (`is_stock`), a reliable channel and an unreliable one.
pub(super) fn draw(random: &mut Random, is_stock: bool) -> Layout {
    loop {
        let count = if is_stock {
            2
        } else {
            pick(random, [1, 2, 3, 6])
        };
        let channels = (0..count)
            .map(|index| channel(random, index, is_stock))
            .collect();
        let messages = messages(random, is_stock);
        let layout = Layout::new(channels, messages, limits(random));
        let says_something = |layout: &Layout| !lengths(layout, &reliable(layout)).is_empty();
        if let Some(layout) = layout.ok().filter(says_something) {
            return layout;
        }
    }
}

fn limits(random: &mut Random) -> Limits {
    // With smaller ones, what may leave at once is more datagrams than the world lets pass.
    let fragment_size = pick(random, [200, 500, 1_024, 1_160]);
    let packet_bytes_max = pick(random, [1_024, 2_000, 4_000, 8_192, 16_384]);
    Limits {
        packet_bytes_max,
        fragment_size,
        fragments_max: packet_bytes_max.div_ceil(fragment_size),
        fragment_above: pick(random, [64, 300, 1_024, 1_152]),
    }
}

fn channel(random: &mut Random, index: usize, is_stock: bool) -> ChannelLayout {
    let is_reliable = index == 0 || (!is_stock && random.happens(0.7));
    let delivery = if is_reliable {
        Delivery::ReliableOrdered
    } else {
        Delivery::UnreliableUnordered
    };
    ChannelLayout {
        delivery,
        messages_per_packet_max: pick(random, [1, 2, 3, 8, 256]),
        block_bytes_max: pick(random, [1, 1_000, 5_000, 30_000, 256 * 1_024]),
        block_fragment_size: pick(random, [64, 256, 1_024, 1_100, 3_000]),
        disable_blocks: coin(random),
        receive_window: pick(random, [1, 2, 8, 64, 1_024, 16_384]),
    }
}

fn messages(random: &mut Random, is_stock: bool) -> Vec<MessageType> {
    let mut messages: Vec<_> = (0..1 + random.below(3)).map(|_| message(random)).collect();
    if is_stock {
        // The model has no blocks, and its unreliable messages must fit.
        messages.retain(|kind| *kind != MessageType::Block);
        messages.push(MessageType::Bytes { min: 0, max: 900 });
    }
    messages
}

fn message(random: &mut Random) -> MessageType {
    match random.below(4) {
        0 => MessageType::Block,
        1 => MessageType::Bits(pick(random, [1, 7, 12, 64, 500])),
        2 => MessageType::Bytes {
            min: 0,
            max: pick(random, [4, 72, 500, 1_000, 3_000, 7_000]),
        },
        _ => {
            let min = pick(random, [1, 20, 600, 1_200]);
            let max = min + pick(random, [0, 60, 2_000]);
            MessageType::Bytes { min, max }
        }
    }
}

/// Its reliable channels.
pub(super) fn reliable(layout: &Layout) -> Vec<Channel> {
    let channels = (0..).zip(layout.channels());
    let reliable = channels.filter(|(_, channel)| channel.is_reliable());
    reliable.map(|(index, _)| index).collect()
}

/// Its first unreliable channel.
pub(super) fn unreliable(layout: &Layout) -> Option<Channel> {
    let mut channels = (0..).zip(layout.channels());
    let unreliable = channels.find(|(_, channel)| !channel.is_reliable());
    unreliable.map(|(index, _)| index)
}

/// Runs of lengths that all of these channels take, whatever the bytes.
pub(super) fn lengths(layout: &Layout, channels: &[Channel]) -> Vec<RangeInclusive<usize>> {
    let is_taken = |length| {
        let mut channels = channels.iter();
        channels.all(|channel| carriage(layout, *channel, length).is_some())
    };
    let (mut runs, mut begins) = (Vec::new(), None);
    for length in 0..=LENGTH_MAX {
        let takes = length < LENGTH_MAX && is_taken(length);
        match begins {
            None if takes => begins = Some(length),
            Some(first) if !takes => {
                runs.push(first..=length - 1);
                begins = None;
            }
            _ => {}
        }
    }
    runs
}

/// Bytes of one packet's share of such a message: a block goes in a packet for each fragment.
pub(super) fn piece(layout: &Layout, channel: Channel, length: usize) -> usize {
    match carriage(layout, channel, length) {
        Some(Carriage::Block(_)) => {
            let rules = &layout.channels()[usize::from(channel)];
            rules.block_fragment_size.into()
        }
        _ => 1_024,
    }
}

/// Whether each packet with a reliable message of this is one datagram.
pub(super) fn fits_a_datagram(layout: &Layout, said: &Traffic) -> bool {
    let (longest, overhead) = (*said.sizes.end(), layout.overhead());
    let fits = |channel: &Channel| {
        let bytes = match carriage(layout, *channel, longest) {
            Some(Carriage::Block(_)) => {
                usize::from(overhead.fragment) + longest.min(piece(layout, *channel, longest))
            }
            _ => usize::from(overhead.list + overhead.message) + longest,
        };
        usize::from(overhead.packet) + bytes <= layout.limits().fragment_above
    };
    said.reliable.iter().all(fits)
}

fn carriage(layout: &Layout, channel: Channel, length: usize) -> Option<Carriage> {
    layout.carriage(channel, (&ONES[..length], &[]))
}

/// The bytes that messages of bits are hardest put to.
static ONES: [u8; LENGTH_MAX] = [0xff; LENGTH_MAX];
