// A connection packet (proto/src/yojimbo/channels/connection_packet.rs) under any bytes and several
// layouts: what parses can be written from its items and then holds the same; and its size was known
// beforehand.

use tidegate_proto::yojimbo::channels::{
    ChannelLayout, ConnectionPacket, Delivery, Item, Items, MessageType, PacketSize, PacketWriter, Layout,
};
use tidegate_proto::yojimbo::reliable::Limits;

fn layout(choice: u8) -> Layout {
    let reliable = ChannelLayout::new(Delivery::ReliableOrdered);
    let unreliable = ChannelLayout::new(Delivery::UnreliableUnordered);
    let small = ChannelLayout {
        messages_per_packet_max: 1,
        block_bytes_max: 1000,
        block_fragment_size: 300,
        receive_window: 16,
        ..reliable
    };
    let custom = match choice % 4 {
        0 => Ok(Layout::default()),
        1 => Layout::new(
            vec![small],
            vec![
                MessageType::Block,
                MessageType::Bits(13),
                MessageType::Bytes { min: 4, max: 4 },
            ],
            Limits::default(),
        ),
        2 => Layout::new(
            vec![unreliable, small, reliable],
            vec![MessageType::Bits(1), MessageType::Block, MessageType::Bits(2048)],
            Limits::default(),
        ),
        _ => Layout::new(vec![reliable; 64], vec![MessageType::Bits(8)], Limits::default()),
    };
    let with_word = |layout: Layout| match choice {
        0..128 => Ok(layout),
        128.. => layout.with_check_word(),
    };
    custom
        .and_then(with_word)
        .expect("the layouts above are fine")
}

pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let layout = layout(choice);
    let mut room = Items::default();
    let Ok(packet) = ConnectionPacket::parse(bytes, &layout, &mut room) else {
        return;
    };
    let items: Vec<Item<'_>> = packet.items().collect();
    let messages = items.iter().filter(|i| matches!(i, Item::Message(_)));
    assert_eq!(packet.messages() as usize, messages.count());
    assert_eq!(packet.is_empty(), items.is_empty());
    if !is_writable(&layout, &items) {
        return;
    }
    let (written, size) = write(&layout, &items);
    assert_eq!(written.len(), size);
    let mut room = Items::default();
    let again = ConnectionPacket::parse(&written, &layout, &mut room);
    let again = again.expect("what we write, we read");
    let again: Vec<Item<'_>> = again.items().collect();
    assert_eq!(again.len(), items.len());
    let (mut one, mut other) = (None, None);
    for (before, after) in items.iter().zip(&again) {
        match (before, after) {
            (Item::Message(a), Item::Message(b)) => {
                assert_eq!((a.channel, a.id, a.kind), (b.channel, b.id, b.kind));
                assert_eq!(a.body.read(&mut one), b.body.read(&mut other));
            }
            (Item::Fragment(a), Item::Fragment(b)) => assert_eq!(a, b),
            _ => panic!("{before:?} became {after:?}"),
        }
    }
}

/// Each channel once and ascending, no id twice in a row: readers take more than writers make.
fn is_writable(layout: &Layout, items: &[Item<'_>]) -> bool {
    let place = |item: &Item<'_>| match item {
        Item::Message(message) => (message.channel, false, message.id),
        Item::Fragment(fragment) => (fragment.place.channel, true, None),
    };
    let ascends = items.windows(2).all(|pair| {
        let (a, b) = (place(&pair[0]), place(&pair[1]));
        a.0 < b.0 || (a.0 == b.0 && !a.1 && !b.1 && (a.2.is_none() || a.2 != b.2))
    });
    let mut lists = items.chunk_by(|a, b| place(a).0 == place(b).0);
    ascends
        && lists.all(|list| {
            let rules = &layout.channels()[usize::from(place(&list[0]).0)];
            list.len() <= usize::from(rules.messages_per_packet_max)
        })
}

fn write(layout: &Layout, items: &[Item<'_>]) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let mut scratch = None;
    let mut writer = PacketWriter::new(layout, &mut out);
    let mut size = PacketSize::new(layout);
    let lists = items.chunk_by(|a, b| match (a, b) {
        (Item::Message(a), Item::Message(b)) => a.channel == b.channel,
        _ => false,
    });
    for list in lists {
        match list[0] {
            Item::Fragment(fragment) => {
                let kind = fragment.kind.unwrap_or(0);
                writer.fragment(fragment.place, kind, (fragment.data, &[]));
                size = size.with_fragment(layout, fragment.place, fragment.data.len());
            }
            Item::Message(first) => {
                let ids: Vec<u16> = list
                    .iter()
                    .filter_map(|item| match item {
                        Item::Message(message) => message.id,
                        Item::Fragment(_) => None,
                    })
                    .collect();
                match first.id {
                    Some(_) => writer.reliable(first.channel, ids.into_iter()),
                    None => writer.unreliable(first.channel, list.len()),
                }
                size = size.with_list(layout, first.channel);
            }
        }
        for item in list {
            let Item::Message(message) = item else {
                continue;
            };
            let body = message.body.read(&mut scratch);
            match layout.messages()[usize::from(message.kind)] {
                MessageType::Block => writer.inline_block(message.channel, message.kind, (body, &[])),
                MessageType::Bytes { .. } | MessageType::Bits(_) => writer.message(message.kind, (body, &[])),
            }
            size = size.with_message(layout, message.id.unwrap_or(0), message.kind, body.len());
        }
    }
    writer.finish();
    (out, size.bytes())
}

pub fn seeds() -> Vec<Vec<u8>> {
    let hex = [
        // Nothing; one frame; two; one on each channel; a block of one byte; the wider layouts.
        "0000",
        "0011000040020013bc80488210234972",
        "00314000a001005c6ffa06008c2965",
        "00120000c00000aabbcc0500c00040d96f",
        "00154001002cbabb5906",
        "0009000090006f20901f90ecd5f26ddf01",
        "0103aabbccddeeff00112233",
        "0213aabbccddeeff00112233445566778899",
        "0381aabbccddeeff00112233445566778899",
    ];
    hex.iter()
        .map(|text| {
            (0..text.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
                .collect()
        })
        .collect()
}
