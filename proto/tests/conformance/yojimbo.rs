//! yojimbo_*.json: connection packets of the tidegate profile, written, read, and received.

use serde_json::Value;
use tidegate_proto::yojimbo::channels::{
    ConnectionPacket, FragmentPlace, Item, PacketSize, PacketWriter, Profile,
};

use crate::vectors::{bytes, int, items, load};

fn entries(case: &Value) -> &[Value] {
    case["entries"].as_array().expect("an array")
}

/// Writes the entries of a case, and measures them on the way.
fn write(case: &Value, profile: &Profile) -> (Vec<u8>, PacketSize) {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(profile, &mut out);
    let mut size = PacketSize::new(profile);
    for entry in entries(case) {
        let channel = int(&entry["channel"]) as u8;
        if entry["kind"] == "block_fragment" {
            let place = FragmentPlace {
                channel,
                id: int(&entry["message_id"]) as u16,
                count: int(&entry["num_fragments"]) as u16,
                index: int(&entry["fragment_id"]) as u16,
            };
            let data = bytes(&entry["data"]);
            let kind = entry["message_type"].as_u64().unwrap_or(0) as u8;
            writer.fragment(place, kind, data.split_at(data.len() / 3));
            size = size.with_fragment(profile, place, data.len());
            continue;
        }
        let messages = items(entry, "messages");
        let ids = messages
            .iter()
            .filter_map(|message| message["id"].as_u64())
            .map(|id| id as u16)
            .collect::<Vec<_>>();
        match profile.channels()[usize::from(channel)].is_reliable() {
            true => writer.reliable(channel, ids.iter().copied()),
            false => writer.unreliable(channel, messages.len()),
        }
        size = size.with_list(profile, channel);
        for (index, message) in messages.iter().enumerate() {
            let body = bytes(&message["body"]);
            let kind = int(&message["type"]) as u8;
            writer.message(kind, body.split_at(body.len() / 2));
            let id = ids.get(index).copied().unwrap_or(0);
            size = size.with_message(profile, id, kind, body.len());
        }
    }
    writer.finish();
    (out, size)
}

/// Everything a packet carries, in the words of the vector files.
fn read(packet: &ConnectionPacket<'_>) -> Vec<(u8, Value)> {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
    let mut scratch = [0; 256];
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
    let profile = Profile::default();
    for case in items(&load("yojimbo_packets.json"), "cases") {
        let name = &case["name"];
        let expected = bytes(&case["packet"]);
        let (written, size) = write(case, &profile);
        assert_eq!(written, expected, "{name}");
        assert_eq!(size.bytes(), expected.len(), "{name}");
        let packet = ConnectionPacket::parse(&expected, &profile)
            .unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let mut listed = Vec::new();
        for entry in entries(case) {
            let channel = int(&entry["channel"]) as u8;
            match entry["messages"].as_array() {
                Some(list) => listed.extend(list.iter().map(|m| (channel, m.clone()))),
                None => listed.push((channel, entry.clone())),
            }
        }
        assert_eq!(read(&packet), listed, "{name}");
    }
}
