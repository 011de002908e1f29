//! Which type and number each message had: packets say it and vector files do, and an inbox keeps neither.

use std::collections::BTreeMap;

use tidegate_proto::Channel;
use tidegate_proto::yojimbo::channels::{ConnectionPacket, Item};

/// Of all messages of the packets that one end took.
#[derive(Default)]
pub(crate) struct Labels {
    /// Types on reliable channels, by number. A block has that of its first fragment.
    reliable: BTreeMap<(Channel, u16), u8>,
    /// Number and type on unreliable ones, in the order of arrival.
    unreliable: BTreeMap<Channel, Vec<(u16, u8)>>,
}

impl Labels {
    /// A packet with this sequence was taken. The reference numbers unreliable messages by it.
    pub(crate) fn note(&mut self, sequence: u16, packet: &ConnectionPacket<'_>) {
        for item in packet.items() {
            let channel = item.channel();
            let (id, kind) = match item {
                Item::Message(message) => (message.id, Some(message.kind)),
                Item::Fragment(fragment) => (Some(fragment.place.id), fragment.kind),
            };
            match (id, kind) {
                (Some(id), Some(kind)) => drop(self.reliable.insert((channel, id), kind)),
                (None, Some(kind)) => {
                    let list = self.unreliable.entry(channel).or_default();
                    list.push((sequence, kind));
                }
                (_, None) => {}
            }
        }
    }

    /// Number and type of what was delivered on a channel after `before` others.
    pub(crate) fn of(&self, channel: Channel, before: usize) -> (u16, u8) {
        if let Some(list) = self.unreliable.get(&channel) {
            return list[before];
        }
        // In order and without gaps, from 0.
        let id = before as u16;
        (id, self.reliable[&(channel, id)])
    }
}
