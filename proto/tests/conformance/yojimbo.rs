//! yojimbo_*.json: connection packets of the default layout, written, read, and received.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidegate_proto::inbox::Inbox;
use tidegate_proto::yojimbo::channels::{
    ConnectionPacket, FragmentPlace, Item, Items, Layout, Objection, PacketError, PacketSize,
    PacketWriter, Receiver,
};
use tidegate_proto::{Channel, Stats, Timestamp};

use crate::compare::{assert_bytes, assert_same, hex};
use crate::labels::Labels;
use crate::vectors::{bytes, each_case, int, is_accepted, items};

fn entries(case: &Value) -> &[Value] {
    case["entries"].as_array().expect("an array")
}

fn is_fragment(entry: &Value) -> bool {
    match entry["kind"].as_str() {
        Some("messages") => false,
        Some("block_fragment") => true,
        other => panic!("unknown kind {other:?}"),
    }
}

/// Writes the entries of a case, and measures them on the way.
fn write(case: &Value, layout: &Layout) -> (Vec<u8>, PacketSize) {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(layout, &mut out);
    let mut size = PacketSize::new(layout);
    for entry in entries(case) {
        let channel = int(&entry["channel"]) as u8;
        if is_fragment(entry) {
            let place = FragmentPlace {
                channel,
                id: int(&entry["message_id"]) as u16,
                count: int(&entry["num_fragments"]) as u16,
                index: int(&entry["fragment_id"]) as u16,
            };
            let data = bytes(&entry["data"]);
            let kind = entry["message_type"].as_u64().unwrap_or(0) as u8;
            writer.fragment(place, kind, data.split_at(data.len() / 3));
            size = size.with_fragment(layout, place, data.len());
            continue;
        }
        let messages = items(entry, "messages");
        let ids = messages
            .iter()
            .filter_map(|message| message["id"].as_u64())
            .map(|id| id as u16)
            .collect::<Vec<_>>();
        match layout.channels()[usize::from(channel)].is_reliable() {
            true => writer.reliable(channel, ids.iter().copied()),
            false => writer.unreliable(channel, messages.len()),
        }
        size = size.with_list(layout, channel);
        for (index, message) in messages.iter().enumerate() {
            let body = bytes(&message["body"]);
            let kind = int(&message["type"]) as u8;
            writer.message(kind, body.split_at(body.len() / 2));
            let id = ids.get(index).copied().unwrap_or(0);
            size = size.with_message(layout, id, kind, body.len());
        }
    }
    writer.finish();
    (out, size)
}

/// Everything a packet carries, in the words of the vector files.
fn read(packet: &ConnectionPacket<'_>) -> Vec<(u8, Value)> {
    let mut scratch = None;
    packet
        .items()
        .map(|item| match item {
            Item::Message(message) => {
                let mut value = serde_json::json!({
                    "type": message.kind,
                    "body": hex(message.body.read(&mut scratch)),
                });
                if let Some(id) = message.id {
                    value["id"] = id.into();
                }
                (message.channel, value)
            }
            Item::Fragment(fragment) => {
                let mut value = serde_json::json!({
                    "channel": fragment.place.channel,
                    "kind": "block_fragment",
                    "message_id": fragment.place.id,
                    "num_fragments": fragment.place.count,
                    "fragment_id": fragment.place.index,
                    "data": hex(fragment.data),
                });
                if let Some(kind) = fragment.kind {
                    value["message_type"] = kind.into();
                }
                (fragment.place.channel, value)
            }
        })
        .collect()
}

#[test]
fn packets() {
    let layout = Layout::default();
    each_case("yojimbo_packets.json", "cases", |case| {
        let expected = bytes(&case["packet"]);
        let (written, size) = write(case, &layout);
        assert_bytes(&written, &expected, "written");
        assert_same(size.bytes(), expected.len(), "measured");
        let mut items = Items::default();
        let packet = ConnectionPacket::parse(&expected, &layout, &mut items)
            .unwrap_or_else(|e| panic!("refused: {e:?}"));
        let mut listed = Vec::new();
        for entry in entries(case) {
            let channel = int(&entry["channel"]) as u8;
            match entry["messages"].as_array() {
                Some(list) => listed.extend(list.iter().map(|m| (channel, m.clone()))),
                None => listed.push((channel, entry.clone())),
            }
        }
        assert_same(read(&packet), listed, "read");
    });
}

/// The receiving side of one connection, with an owner who takes everything at once.
struct Connection {
    layout: Arc<Layout>,
    receiver: Receiver,
    inbox: Inbox,
    stats: Stats,
    delivered: BTreeMap<Channel, Vec<Vec<u8>>>,
    labels: Labels,
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Packet(PacketError),
    Channel(Objection),
}

impl Connection {
    fn new() -> Self {
        let layout = Arc::new(Layout::default());
        Self {
            receiver: Receiver::new(layout.clone()),
            layout,
            inbox: Inbox::new(256 * 1024),
            stats: Stats::default(),
            delivered: BTreeMap::new(),
            labels: Labels::default(),
        }
    }

    fn receive(&mut self, packet: &[u8]) -> Result<(), Refusal> {
        let now = Timestamp::ZERO;
        let mut items = Items::default();
        let packet =
            ConnectionPacket::parse(packet, &self.layout, &mut items).map_err(Refusal::Packet)?;
        self.receiver
            .check(now, &packet, &mut self.inbox)
            .map_err(Refusal::Channel)?;
        self.receiver
            .apply(now, &packet, &mut self.inbox, &mut self.stats);
        self.labels.note(0, &packet);
        while let Some(message) = self.inbox.pop() {
            let list = self.delivered.entry(message.channel).or_default();
            list.push(message.payload.to_vec());
        }
        Ok(())
    }

    /// Everything delivered on a channel so far.
    fn on(&self, channel: Channel) -> &[Vec<u8>] {
        self.delivered.get(&channel).map_or(&[], Vec::as_slice)
    }

    /// What was delivered on a channel is what `theirs` says, so far as both go.
    fn assert_delivered(&self, channel: Channel, theirs: &[&Value], what: &str) {
        for (index, (ours, theirs)) in self.on(channel).iter().zip(theirs).enumerate() {
            let what = format!("{what}, message {index}");
            let (id, kind) = self.labels.of(channel, index);
            assert_same(
                u64::from(kind),
                int(&theirs["type"]),
                &format!("{what}: type"),
            );
            if !theirs["id"].is_null() {
                assert_same(u64::from(id), int(&theirs["id"]), &format!("{what}: id"));
            }
            assert_payload(ours, theirs, &what);
        }
    }
}

/// What the reference tolerates and we do not: docs/wire/yojimbo.md, section 8.
fn is_stricter(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Packet(
            PacketError::BlockMissing | PacketError::InlineBlock | PacketError::ShortFragment
        )
    )
}

fn assert_payload(ours: &[u8], theirs: &Value, what: &str) {
    assert_same(ours.len() as u64, int(&theirs["length"]), what);
    if theirs["data"].is_string() {
        return assert_bytes(ours, &bytes(&theirs["data"]), what);
    }
    let hash = ours.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_same(&format!("{hash:016x}"), &theirs["fnv1a64"], what);
}

#[test]
fn negative() {
    each_case("yojimbo_negative.json", "cases", |case| {
        let mut connection = Connection::new();
        let outcome = connection.receive(&bytes(&case["packet"]));
        let delivered = case["delivered"].as_array().expect("an array");
        match (is_accepted(case), outcome) {
            (true, Ok(())) => {
                for channel in 0..connection.layout.channels().len() as Channel {
                    let theirs: Vec<_> = delivered
                        .iter()
                        .filter(|message| int(&message["channel"]) == u64::from(channel))
                        .collect();
                    let what = format!("channel {channel}");
                    assert_same(connection.on(channel).len(), theirs.len(), &what);
                    connection.assert_delivered(channel, &theirs, &what);
                }
            }
            (true, Err(refusal)) => assert!(is_stricter(&refusal), "refused: {refusal:?}"),
            (false, Err(_)) => assert!(connection.delivered.is_empty(), "nothing is applied"),
            (false, Ok(())) => panic!("not refused"),
        }
    });
}

/// The reference's window moves with what its application takes; ours takes everything at once. So
/// we may be ahead of it, and need not break off where it does because of messages left lying.
#[test]
fn receive_scripts() {
    each_case("yojimbo_receive_scripts.json", "cases", |case| {
        if case["generator"].is_string() {
            assert_eq!(case["all_accepted_in_order"], true);
            return consecutive_ids(int(&case["delivered_total"]));
        }
        let mut connection = Connection::new();
        let mut theirs: BTreeMap<Channel, Vec<&Value>> = BTreeMap::new();
        for step in items(case, "steps") {
            let what = step["what"].to_string();
            let outcome = connection.receive(&bytes(&step["packet"]));
            let delivered = step["delivered"].as_array().expect("an array");
            for message in delivered {
                let channel = int(&message["channel"]) as Channel;
                theirs.entry(channel).or_default().push(message);
            }
            let ours: usize = connection.delivered.values().map(Vec::len).sum();
            let left_lying = ours > theirs.values().map(Vec::len).sum();
            match (is_accepted(step), &outcome) {
                (true, Ok(())) | (false, Err(_)) => {}
                (false, Ok(())) => assert!(left_lying, "{what}: taken"),
                (true, Err(refusal)) => assert!(is_stricter(refusal), "{what}: {refusal:?}"),
            }
            let all_taken = (delivered.len() as u64) < int(&step["take"]);
            for (channel, theirs) in &theirs {
                assert!(connection.on(*channel).len() >= theirs.len(), "{what}");
                connection.assert_delivered(*channel, theirs, &what);
            }
            if all_taken && outcome.is_ok() {
                assert!(!left_lying, "{what}: more than the reference delivers");
            }
        }
    });
}

/// Packets of 256 empty frames with consecutive ids, more than once around the circle of ids.
fn consecutive_ids(total: u64) {
    assert!(total > 65536, "no wrap, nothing proved");
    assert_same(total % 256, 0, "messages beside whole packets");
    let mut connection = Connection::new();
    for packet in 0..total / 256 {
        let mut out = Vec::new();
        let mut writer = PacketWriter::new(&connection.layout, &mut out);
        let ids = packet * 256..(packet + 1) * 256;
        let ids: Vec<u16> = ids.map(|id| id as u16).collect();
        writer.reliable(0, ids.iter().copied());
        for _ in ids {
            writer.message(0, (&[], &[]));
        }
        writer.finish();
        assert_eq!(connection.receive(&out), Ok(()), "packet {packet}");
        assert_eq!(connection.on(0).len() as u64, (packet + 1) * 256);
    }
}

/// The packets themselves are not in the file, but their contents and lengths are.
#[test]
fn send_scripts() {
    let layout = Layout::default();
    each_case("yojimbo_send_scripts.json", "cases", |case| {
        let mut sizes = Vec::new();
        for step in items(case, "steps") {
            match step["op"].as_str() {
                Some("send_frames") => {
                    let accepted = int(&step["accepted"]) as usize;
                    sizes.extend(std::iter::repeat_n(int(&step["size"]) as usize, accepted));
                }
                Some("send_block") => sizes.push(int(&step["size"]) as usize),
                Some("packet") => {
                    let size = planned_size(&layout, &sizes, &step["contents"]);
                    assert_same(size as u64, int(&step["bytes"]), &step.to_string());
                }
                Some("ack") => {}
                _ => panic!("unknown step {step}"),
            }
        }
    });
}

fn planned_size(layout: &Layout, sizes: &[usize], contents: &Value) -> usize {
    let mut size = PacketSize::new(layout);
    for entry in contents.as_array().expect("an array") {
        if let Some(ids) = entry["ids"].as_array() {
            size = size.with_list(layout, 0);
            for id in ids.iter().map(int) {
                size = size.with_message(layout, id as u16, 0, sizes[id as usize]);
            }
            continue;
        }
        let fragment_size = usize::from(layout.channels()[0].block_fragment_size);
        let place = FragmentPlace {
            channel: 0,
            id: int(&entry["block"]) as u16,
            count: int(&entry["of"]) as u16,
            index: int(&entry["fragment"]) as u16,
        };
        let before = usize::from(place.index) * fragment_size;
        let block = sizes[usize::from(place.id)];
        assert_same(
            usize::from(place.count),
            block.div_ceil(fragment_size),
            "of",
        );
        let length = (block - before).min(fragment_size);
        size = size.with_fragment(layout, place, length);
    }
    size.bytes()
}
