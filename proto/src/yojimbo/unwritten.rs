//! Packets that were taken and are acknowledged only once what they brought is written
//! ([`AckPolicy::Written`](crate::session::AckPolicy::Written)).

use std::collections::VecDeque;

use super::channels::{BlockFragment, ConnectionPacket, Item};
use super::long_ack::NUMBERS;
use crate::session::Channel;

/// Packets that wait for a write, oldest first.
#[derive(Debug)]
pub(super) struct Unwritten {
    packets: VecDeque<Waiting>,
    packets_max: usize,
}

#[derive(Debug)]
struct Waiting {
    sequence: u16,
    /// The last message of each reliable channel in it: delivered in order, so the last one says it
    /// all. Fragments of a block count as written when they are stored, all but the one that
    /// completes it, which stands for the block: its sender is not done before that one is acknowledged.
    last: Vec<(Channel, u16)>,
}

impl Default for Unwritten {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            packets_max: PACKETS_MAX,
        }
    }
}

impl Unwritten {
    /// The peer is a tidegate, and long acknowledgements tell it of as many packets.
    pub(super) fn widen(&mut self) {
        self.packets_max = NUMBERS.into();
    }

    /// Notes a packet that was taken, unless there is nothing in it that waits for a write; says whether there
    /// is. `is_in_pieces`: fragments of a block are missing still.
    pub(super) fn note(
        &mut self,
        sequence: u16,
        packet: &ConnectionPacket<'_>,
        is_in_pieces: impl Fn(Channel, u16) -> bool,
        is_written: impl Fn(Channel, u16) -> bool,
    ) -> bool {
        let mut last: Vec<(Channel, u16)> = Vec::new();
        for item in packet.items() {
            let (channel, id) = match item {
                Item::Message(message) => match message.id {
                    Some(id) => (message.channel, id),
                    None => continue,
                },
                Item::Fragment(BlockFragment { place, .. }) => (place.channel, place.id),
            };
            if is_in_pieces(channel, id) {
                continue;
            }
            match last.last_mut() {
                Some((of, newest)) if *of == channel => *newest = id,
                _ => last.push((channel, id)),
            }
        }
        let packet = Waiting { sequence, last };
        if packet.is_all(is_written) {
            return false;
        }
        // The messages of one that is pushed out here come again, are known, and are acknowledged then.
        if self.packets.len() >= self.packets_max {
            self.packets.pop_front();
        }
        self.packets.push_back(packet);
        true
    }

    /// Takes the packets of which all was delivered.
    pub(super) fn take(
        &mut self,
        is_delivered: impl Fn(Channel, u16) -> bool,
        mut taken: impl FnMut(u16),
    ) {
        self.packets.retain(|packet| {
            let is_ready = packet.is_all(&is_delivered);
            if is_ready {
                taken(packet.sequence);
            }
            !is_ready
        });
    }
}

impl Waiting {
    fn is_all(&self, done: impl Fn(Channel, u16) -> bool) -> bool {
        self.last.iter().all(|&(channel, id)| done(channel, id))
    }
}

/// What the received window remembers.
const PACKETS_MAX: usize = 256;
