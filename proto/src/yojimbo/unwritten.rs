//! Packets that were taken and are acknowledged only once what they brought is written
//! ([`AckPolicy::Written`](crate::session::AckPolicy::Written)).

use std::collections::VecDeque;

use super::channels::{BlockFragment, ConnectionPacket, Item};
use crate::session::Channel;

/// Packets that wait for a write, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    packets: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    sequence: u16,
    /// The last message of each reliable channel in it: delivered in order, so the last one says it
    /// all. Fragments of a block count as written when they are stored, all but the one that
    /// completes it, which stands for the block: its sender is not done before that one is acknowledged.
    last: Vec<(Channel, u16)>,
}

impl Unwritten {
    /// Notes a packet that was taken. `is_in_pieces`: fragments of a block are missing still.
    pub(super) fn note(
        &mut self,
        sequence: u16,
        packet: &ConnectionPacket<'_>,
        is_in_pieces: impl Fn(Channel, u16) -> bool,
    ) {
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
        // The messages of one that is pushed out here come again, are known, and are acknowledged then.
        if self.packets.len() == PACKETS_MAX {
            self.packets.pop_front();
        }
        self.packets.push_back(Waiting { sequence, last });
    }

    /// Takes a packet of which all was delivered.
    pub(super) fn take(&mut self, is_delivered: impl Fn(Channel, u16) -> bool) -> Option<u16> {
        let ready = |packet: &Waiting| {
            packet
                .last
                .iter()
                .all(|&(channel, id)| is_delivered(channel, id))
        };
        let at = self.packets.iter().position(ready)?;
        self.packets.remove(at).map(|packet| packet.sequence)
    }
}

/// What the received window remembers.
const PACKETS_MAX: usize = 256;
