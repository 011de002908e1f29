//! session_*.json: whole sessions of the reference client and server, as they were captured. Every
//! datagram that arrived is decrypted, reassembled and received; what comes out must be exactly what
//! the reference handed to its application.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidegate_proto::inbox::Inbox;
use tidegate_proto::yojimbo::channels::{self, ConnectionPacket, Items, Layout};
use tidegate_proto::yojimbo::netcode::packet::{Beyond, Packet, open};
use tidegate_proto::yojimbo::netcode::replay::Replay;
use tidegate_proto::yojimbo::netcode::{Key, Role};
use tidegate_proto::yojimbo::reliable::{self, Arrival, DatagramError};
use tidegate_proto::{Channel, Reject, Stats, Timestamp};

use crate::compare::{assert_bytes, assert_same};
use crate::labels::Labels;
use crate::vectors::{bytes, each_capture, int, items};

/// When the reference drops payloads that arrive.
#[derive(PartialEq)]
enum Stage {
    /// Its client before the first keep-alive.
    Connecting,
    Connected,
    /// Each end after a goodbye.
    Over,
}

/// One direction of one client's session.
struct Direction {
    role: Role,
    key: Key,
    protocol_id: u64,
    stage: Stage,
    layout: Arc<Layout>,
    replay: Replay,
    packets: reliable::Receiver,
    channels: channels::Receiver,
    inbox: Inbox,
    delivered: BTreeMap<Channel, Vec<Vec<u8>>>,
    labels: Labels,
}

impl Direction {
    fn new(role: Role, key: &Value, protocol_id: u64) -> Self {
        let layout = Arc::new(Layout::default());
        Self {
            role,
            key: Key::new(bytes(key).try_into().expect("32 bytes")),
            protocol_id,
            stage: match role {
                Role::Server => Stage::Connected,
                Role::Client => Stage::Connecting,
            },
            replay: Replay::default(),
            packets: reliable::Receiver::new(*layout.limits()),
            channels: channels::Receiver::new(layout.clone()),
            layout,
            inbox: Inbox::new(256 * 1024),
            delivered: BTreeMap::new(),
            labels: Labels::default(),
        }
    }

    fn receive(&mut self, now: Timestamp, mut datagram: Vec<u8>) {
        let is_request = datagram.first() == Some(&0);
        let replay = Some(&mut self.replay);
        let opened = open(
            self.role,
            &self.key,
            self.protocol_id,
            &mut Beyond::default(),
            replay,
            &mut datagram,
        );
        let bytes = match opened {
            Ok(Packet::Payload { bytes, .. }) if self.stage == Stage::Connected => bytes,
            Ok(Packet::KeepAlive { .. }) if self.stage == Stage::Connecting => {
                self.stage = Stage::Connected;
                return;
            }
            Ok(Packet::Disconnect) => {
                self.stage = Stage::Over;
                return;
            }
            // Handshake steps, keep-alives and duplicates carry no messages.
            Ok(_) | Err(Reject::Replayed | Reject::Stale) => return,
            Err(_) if is_request => return,
            Err(reject) => panic!("a datagram at {now:?} is refused: {reject:?}"),
        };
        let datagram = self.packets.parse(bytes);
        let (header, payload) = match datagram.and_then(|it| self.packets.receive(now, it)) {
            Ok(Arrival::Packet { header, payload }) => (header, payload),
            // An overtaken one may be too old here as well.
            Ok(Arrival::Stored) | Err(DatagramError::Stale | DatagramError::Duplicate) => return,
            Err(error) => panic!("a packet at {now:?} is refused: {error:?}"),
        };
        let mut items = Items::default();
        let packet = ConnectionPacket::parse(payload, &self.layout, &mut items);
        let packet = packet.expect("a good packet");
        self.channels
            .check(now, &packet, &mut self.inbox)
            .expect("a legal packet");
        let mut stats = Stats::default();
        self.channels
            .apply(now, &packet, &mut self.inbox, &mut stats);
        self.labels.note(header.sequence, &packet);
        self.packets.accept(header.sequence);
        while let Some(message) = self.inbox.pop() {
            let list = self.delivered.entry(message.channel).or_default();
            list.push(message.payload.to_vec());
        }
    }
}

fn assert_payload(ours: &[u8], theirs: &Value, what: &str) {
    if theirs.is_string() {
        return assert_bytes(ours, &bytes(theirs), what);
    }
    assert_same(ours.len() as u64, int(&theirs["length"]), what);
    let digest = ring::digest::digest(&ring::digest::SHA256, ours);
    assert_bytes(digest.as_ref(), &bytes(&theirs["sha256"]), what);
}

/// A message type of the default layout.
fn kind(name: &Value) -> u8 {
    match name.as_str() {
        Some("frame") => 0,
        Some("block") => 1,
        _ => panic!("neither frame nor block: {name}"),
    }
}

/// Compares one direction with its list of [t, client, channel, kind, id, data].
fn compare(directions: &[Direction], list: &Value, what: &str) {
    let list = list.as_array().expect("an array");
    for (client, direction) in directions.iter().enumerate() {
        let of_client = |entry: &&Value| int(&entry[1]) == client as u64;
        for channel in 0..direction.layout.channels().len() as Channel {
            let theirs: Vec<_> = list
                .iter()
                .filter(of_client)
                .filter(|entry| int(&entry[2]) == u64::from(channel))
                .collect();
            let none = Vec::new();
            let ours = direction.delivered.get(&channel).unwrap_or(&none);
            let what = format!("{what}, client {client}, channel {channel}");
            for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                let what = format!("{what}, message {index}");
                let label = (int(&theirs[4]) as u16, kind(&theirs[3]));
                let own_label = direction.labels.of(channel, index);
                assert_same(own_label, label, &format!("{what}: number and type"));
                assert_payload(ours, &theirs[5], &what);
            }
            assert_same(ours.len(), theirs.len(), &format!("{what}: messages"));
        }
    }
}

#[test]
fn captures() {
    each_capture(|capture| {
        let protocol_id = int(&capture["server"]["protocol_id"]);
        let clients = items(capture, "clients");
        let direction = |role, key: &str| -> Vec<Direction> {
            let new = |client: &Value| Direction::new(role, &client[key], protocol_id);
            clients.iter().map(new).collect()
        };
        let mut to_server = direction(Role::Server, "client_to_server_key");
        let mut to_client = direction(Role::Client, "server_to_client_key");
        let datagrams = items(capture, "datagrams");
        for arrival in items(capture, "arrivals") {
            let millis = arrival[0].as_f64().expect("a time");
            let now = Timestamp::from_millis(millis as u64);
            let datagram = &datagrams[int(&arrival[1]) as usize];
            let towards = match datagram[1].as_str() {
                Some("c2s") => &mut to_server,
                Some("s2c") => &mut to_client,
                _ => panic!("unknown direction {}", datagram[1]),
            };
            towards[int(&datagram[2]) as usize].receive(now, bytes(&datagram[3]));
        }
        compare(&to_server, &capture["server_delivered"], "to the server");
        compare(&to_client, &capture["client_delivered"], "to the client");
    });
}
