//! netcode vectors: tokens, challenges, packets, the replay window, and both ends step by step.
//!
//! The reference that made them knows neither the token life cycle nor the restart rule nor the
//! timeout clamp, so the server runs with those switched off where a switch exists; the life cycle
//! has none and agrees with the vectors, because no conforming client uses a token twice.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tidegate_proto::session::{Reject, Stranger};
use tidegate_proto::time::{Now, Timestamp};
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Packet, Role};
use tidegate_proto::yojimbo::netcode::replay::Replay;
use tidegate_proto::yojimbo::netcode::wire::{self, Kind, Request};
use tidegate_proto::yojimbo::netcode::{
    Client, ClientState, ConnectToken, DISCONNECT_REPEATS, Handshake, Key, Link, Mint, Outcome,
    Params, PrivateToken, Received, Roster, RosterParams, Seat, TimeoutPolicy, UserData, challenge,
};

use crate::compare::{assert_bytes, assert_same, hex};
use crate::vectors::{bytes, each_capture, each_case, int, is_accepted, items};

fn array<const N: usize>(value: &Value) -> [u8; N] {
    bytes(value).try_into().expect("the right number of bytes")
}

fn key(value: &Value) -> Key {
    Key::new(array(value))
}

fn address(value: &Value) -> SocketAddr {
    let address = value.as_str().and_then(|text| text.parse().ok());
    address.unwrap_or_else(|| panic!("not ip:port: {value}"))
}

fn addresses(value: &Value) -> Vec<SocketAddr> {
    let list = value.as_array().expect("a list of addresses");
    list.iter().map(address).collect()
}

/// Seconds, with a fraction, on the monotonic clock.
fn at(value: &Value, unix_secs: u64) -> Now {
    let seconds = value.as_f64().expect("seconds");
    Now {
        mono: Timestamp::from_nanos((seconds * 1e9).round() as u64),
        unix_secs,
    }
}

fn private_of(case: &Value) -> PrivateToken {
    PrivateToken {
        client_id: int(&case["client_id"]),
        timeout_seconds: case["timeout_seconds"].as_i64().expect("seconds") as i32,
        servers: addresses(&case["internal_addresses"]),
        client_to_server: key(&case["client_to_server_key"]),
        server_to_client: key(&case["server_to_client_key"]),
        user_data: UserData::new(array(&case["user_data"])),
    }
}

fn mint_of(case: &Value) -> ConnectToken {
    let mint = Mint {
        protocol_id: int(&case["protocol_id"]),
        create: int(&case["create_timestamp"]),
        expire: int(&case["expire_timestamp"]),
        nonce: array(&case["nonce"]),
        servers: addresses(&case["public_addresses"]),
        private: private_of(case),
    };
    ConnectToken::mint(mint, &key(&case["private_key"])).expect("mintable")
}

#[test]
fn connect_tokens() {
    each_case("netcode_connect_tokens.json", "cases", |case| {
        let private = private_of(case);
        let plain = bytes(&case["private_plain"]);
        assert_bytes(&private.to_bytes(), &plain, "private_plain");
        let token = mint_of(case);
        let encrypted = bytes(&case["private_encrypted"]);
        assert_bytes(token.private.as_slice(), &encrypted, "private_encrypted");
        assert_bytes(&token.to_bytes(), &bytes(&case["token"]), "token");

        let token = ConnectToken::parse(&bytes(&case["token"])).expect("parses");
        let servers = addresses(&case["public_addresses"]);
        assert_same(token.servers.as_slice(), servers, "public_addresses");
        let keys = [Key::new([0x55; 32]), key(&case["private_key"])];
        let (index, opened) = token.open_private(&keys).expect("opens");
        assert_eq!(index, 1, "the second key fits");
        assert_bytes(&opened.to_bytes(), &plain, "opened");
        let minted = mint_of(case).to_bytes();
        assert_bytes(&token.to_bytes(), &minted, "read and written");
    });
}

#[test]
fn challenge_tokens() {
    each_case("netcode_challenge_tokens.json", "cases", |case| {
        let key = key(&case["challenge_key"]);
        let sequence = int(&case["challenge_sequence"]);
        let user_data = UserData::new(array(&case["user_data"]));
        let mut token = challenge::seal(&key, sequence, int(&case["client_id"]), &user_data);
        assert_bytes(token.as_slice(), &bytes(&case["encrypted"]), "encrypted");
        let plain = challenge::open(&key, sequence, &mut token).expect("opens");
        assert_bytes(plain, &bytes(&case["plain"]), "plain");
        let mut token = array(&case["encrypted"]);
        assert_eq!(
            challenge::open(&key, sequence ^ 1, &mut token),
            Err(Reject::ChallengeFailed)
        );
    });
}

#[test]
fn packets() {
    each_case("netcode_packets.json", "cases", |case| {
        let kind = Kind::from_number(int(&case["type"]) as u8).expect("a packet kind");
        let mut datagram = bytes(&case["packet"]);
        let mut written = Vec::new();
        if kind == Kind::Request {
            let token = ConnectToken::parse(&bytes(&case["token"])).expect("a token");
            token.emit_request(&mut written);
            assert_bytes(&written, &datagram, "written");
            let protocol_id = int(&case["protocol_id"]);
            let request = Request::parse(&mut datagram, protocol_id).expect("parses");
            assert_same(request.expire, int(&case["expire_timestamp"]), "expire");
            let keys = [key(&case["private_key"])];
            let (_, token) = PrivateToken::open(request, protocol_id, &keys).expect("opens");
            let private = private_of(case).to_bytes();
            assert_bytes(&token.to_bytes(), &private, "opened");
            return;
        }
        let plain = plain_of(case, kind);
        let (key, protocol_id) = (key(&case["key"]), int(&case["protocol_id"]));
        let sequence = int(&case["sequence"]);
        packet::emit(&mut written, &key, protocol_id, kind, sequence, &plain);
        assert_bytes(&written, &datagram, "written");

        let role = if Role::Server.takes(kind) {
            Role::Server
        } else {
            Role::Client
        };
        let opened = packet::open(
            role,
            &key,
            protocol_id,
            &mut Beyond::default(),
            None,
            &mut datagram,
        )
        .expect("opens");
        assert_bytes(&plain_again(&opened), &plain, "opened");
    });
}

fn plain_of(case: &Value, kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Request => unreachable!("requests are not sealed"),
        Kind::Denied | Kind::Disconnect => Vec::new(),
        Kind::Challenge | Kind::Response => packet::proof_bytes(
            int(&case["challenge_sequence"]),
            &array(&case["challenge_token"]),
        )
        .to_vec(),
        Kind::KeepAlive => packet::keep_alive_bytes(
            int(&case["client_index"]) as u32,
            int(&case["max_clients"]) as u32,
        )
        .to_vec(),
        Kind::Payload | Kind::GcmPayload => bytes(&case["payload"]),
    }
}

fn plain_again(packet: &Packet<'_>) -> Vec<u8> {
    match packet {
        Packet::Denied | Packet::Disconnect => Vec::new(),
        Packet::Challenge(proof) | Packet::Response(proof) => {
            packet::proof_bytes(proof.sequence, proof.token).to_vec()
        }
        Packet::KeepAlive {
            client_index,
            max_clients,
        } => packet::keep_alive_bytes(*client_index, *max_clients).to_vec(),
        Packet::Payload { bytes, .. } => bytes.to_vec(),
    }
}

/// The reference marks empty places with the highest sequence, so it takes that one again and
/// again. We take it once; a vector that shows the quirk is followed up to there.
#[test]
fn replay_window() {
    each_case("netcode_replay.json", "cases", |case| {
        let mut replay = Replay::default();
        let mut top_taken = false;
        for step in items(case, "steps") {
            let (sequence, accepted) = (int(&step[0]), step[1] == true);
            let ours = replay.check(sequence).is_ok();
            if sequence == u64::MAX && top_taken {
                assert!(!ours, "the highest sequence twice");
                continue;
            }
            assert_same(ours, accepted, &format!("sequence {sequence}: taken"));
            if ours {
                replay.advance(sequence);
                top_taken |= sequence == u64::MAX;
            }
        }
    });
}

#[test]
fn negative_packets() {
    each_case("netcode_negative.json", "cases", |case| {
        let mut datagram = bytes(&case["packet"]);
        let is_taken = match case["role"].as_str().expect("a role") {
            "server" if datagram.first() == Some(&0) => open_request(case, &mut datagram),
            "server" => open_packet(Role::Server, case, &mut datagram),
            "client" => open_packet(Role::Client, case, &mut datagram),
            other => panic!("unknown role {other}"),
        };
        assert_same(is_taken, is_accepted(case), "taken");
    });
}

fn open_packet(role: Role, case: &Value, datagram: &mut [u8]) -> bool {
    if case["key"].is_null() {
        return false;
    }
    let protocol_id = int(&case["protocol_id"]);
    packet::open(
        role,
        &key(&case["key"]),
        protocol_id,
        &mut Beyond::default(),
        None,
        datagram,
    )
    .is_ok()
}

/// Through the whole handshake, since it is what reads requests. Everything that is checked after
/// the private token was opened means that it opened.
fn open_request(case: &Value, datagram: &mut [u8]) -> bool {
    let mut params = vector_params(int(&case["protocol_id"]), Vec::new());
    if !case["private_key"].is_null() {
        params.private_keys.push(key(&case["private_key"]));
    }
    let mut handshake = handshake(params, 1, Key::new([1; 32]));
    let now = Now {
        mono: Timestamp::ZERO,
        unix_secs: int(&case["now"]),
    };
    let from = "192.0.2.9:9".parse().expect("an address");
    let rejected = handshake
        .handle(
            now,
            Stranger {
                from,
                datagram,
                reply: &mut Vec::new(),
            },
            None,
        )
        .expect_err("rejected");
    rejected == Reject::TokenAddress
}

#[test]
fn negative_private_tokens() {
    each_case("netcode_negative.json", "private_tokens", |case| {
        let (protocol_id, expire) = (int(&case["protocol_id"]), int(&case["expire_timestamp"]));
        let mut datagram = Vec::new();
        wire::emit_request(
            &mut datagram,
            protocol_id,
            expire,
            &array(&case["nonce"]),
            &array(&case["private_encrypted"]),
        );
        let request = Request::parse(&mut datagram, protocol_id).expect("well-formed");
        let opened = PrivateToken::open(request, protocol_id, &[key(&case["private_key"])]);
        let refused = (!is_accepted(case)).then_some(Reject::TokenInvalid);
        assert_same(opened.err(), refused, "refused");
    });
}

#[test]
fn negative_client_tokens() {
    each_case("netcode_negative.json", "client_tokens", |case| {
        let parsed = ConnectToken::parse(&bytes(&case["token"]));
        assert_same(parsed.is_ok(), is_accepted(case), "taken");
    });
}

/// What the reference's server does: no restart rule, no clamp, timeouts as issued.
fn vector_params(protocol_id: u64, public_addresses: Vec<SocketAddr>) -> Params {
    Params {
        max_token_lifetime: None,
        timeout: TimeoutPolicy::AsIssued,
        ..Params::new(protocol_id, public_addresses, 256)
    }
}

fn handshake(params: Params, slots: u32, challenge_key: Key) -> Handshake {
    let roster = RosterParams {
        slots,
        ..RosterParams::default()
    };
    Handshake::new(params, Roster::new(roster, 0), challenge_key, 1 << 63)
}

/// One datagram out, in the order in which they left.
type Out = Vec<(SocketAddr, Vec<u8>)>;

struct Server {
    handshake: Handshake,
    /// By slot.
    peers: Vec<Option<Peer>>,
    out: Out,
    /// Slot, sequence, and the bytes in hex.
    payloads: Vec<(usize, u64, String)>,
}

struct Peer {
    address: SocketAddr,
    link: Link,
    seat: Seat,
}

impl Server {
    fn of(case: &Value) -> Self {
        let mut params = vector_params(
            int(&case["protocol_id"]),
            vec![address(&case["server_address"])],
        );
        params.private_keys.push(key(&case["private_key"]));
        let slots = int(&case["max_clients"]) as u32;
        Self {
            handshake: handshake(params, slots, key(&case["challenge_key"])),
            peers: (0..slots).map(|_| None).collect(),
            out: Out::new(),
            payloads: Vec::new(),
        }
    }

    fn step(&mut self, now: Now, step: &Value) {
        if step.get("in").is_some() {
            self.receive(now, address(&step["from"]), &mut bytes(&step["in"]));
        } else if step.get("send_to_slot").is_some() {
            self.send(
                now,
                int(&step["send_to_slot"]) as usize,
                &bytes(&step["payload"]),
            );
        } else if step.get("disconnect_slot").is_some() {
            self.disconnect(now, int(&step["disconnect_slot"]) as usize);
        } else {
            self.tick(now, step);
        }
    }

    fn receive(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8]) {
        for slot in 0..self.peers.len() {
            let Some(peer) = self.peers[slot]
                .as_mut()
                .filter(|peer| peer.address == from)
            else {
                continue;
            };
            match peer.link.open(now, datagram) {
                Ok(Received::Payload { sequence, bytes }) => {
                    self.payloads.push((slot, sequence, hex(bytes)));
                }
                Ok(Received::Disconnect) => self.peers[slot] = None,
                Ok(Received::KeepAlive { .. } | Received::Handshake) | Err(_) => {}
            }
            return;
        }
        let size = datagram.len();
        let mut reply = Vec::new();
        let outcome = self.handshake.handle(
            now,
            Stranger {
                from,
                datagram,
                reply: &mut reply,
            },
            None,
        );
        assert!(
            reply.len() < size.max(1),
            "an answer is smaller than what it answers"
        );
        if let Ok(Outcome::Seated(seated)) = outcome {
            let (mut link, seat) = (seated.link, seated.seat);
            link.admit(now, None, &mut reply);
            let slot = seat.slot() as usize;
            self.peers[slot] = Some(Peer {
                address: from,
                link,
                seat,
            });
        }
        if !reply.is_empty() {
            self.out.push((from, reply));
        }
    }

    fn send(&mut self, now: Now, slot: usize, payload: &[u8]) {
        let peer = self.peers[slot].as_mut().expect("a connected slot");
        let mut out = Vec::new();
        if peer.link.preface(now, &mut out) {
            self.out.push((peer.address, std::mem::take(&mut out)));
        }
        assert!(
            !peer.link.preface(now, &mut out),
            "one keep-alive for each payload"
        );
        let sealing = peer.link.begin(&mut out);
        out.extend_from_slice(payload);
        peer.link.seal(now, &mut out, sealing);
        self.out.push((peer.address, out));
    }

    fn disconnect(&mut self, now: Now, slot: usize) {
        let mut peer = self.peers[slot].take().expect("a connected slot");
        for _ in 0..DISCONNECT_REPEATS {
            let mut out = Vec::new();
            peer.link.disconnect(now, &mut out);
            self.out.push((peer.address, out));
        }
    }

    /// Keep-alives first, then timeouts, as the reference does.
    fn tick(&mut self, now: Now, step: &Value) {
        for peer in self.peers.iter_mut().flatten() {
            if is_keep_alive_due(&peer.link, now, step, peer.address) {
                let mut out = Vec::new();
                peer.link.keep_alive(now, &mut out);
                self.out.push((peer.address, out));
            }
        }
        for peer in &mut self.peers {
            peer.take_if(|peer| peer.link.is_timed_out(now));
        }
        self.handshake.handle_timeout(now);
    }

    fn connected(&self) -> Vec<(u64, u64, SocketAddr, bool)> {
        let seated = self.peers.iter().flatten();
        seated
            .map(|p| {
                let slot = u64::from(p.seat.slot());
                (slot, p.seat.client_id(), p.address, p.link.is_confirmed())
            })
            .collect()
    }
}

/// Whether a keep-alive leaves. Ours thin out (docs/wire/netcode.md, section 9) where the reference's go on ten times a
/// second: when one leaves is then as the file has it, so that the numbers of later packets agree.
fn is_keep_alive_due(link: &Link, now: Now, step: &Value, to: SocketAddr) -> bool {
    if link.is_keep_alive_due(now) {
        return true;
    }
    let theirs = step["out"].as_array().expect("out");
    let is_sent = theirs.iter().any(|sent| address(&sent["to"]) == to);
    if is_sent {
        assert!(link.is_confirmed(), "thinned out before the peer is there");
        let next = link.poll_timeout().expect("a keep-alive").at;
        let wait = next.since(now.mono);
        assert!(wait < Duration::from_secs(1), "{wait:?} until the next");
    }
    is_sent
}

fn assert_out(ours: &Out, step: &Value, what: &str) {
    let theirs = step["out"].as_array().expect("out");
    for (index, ((to, ours), theirs)) in ours.iter().zip(theirs).enumerate() {
        let what = format!("{what}, datagram {index}");
        assert_same(*to, address(&theirs["to"]), &what);
        assert_bytes(ours, &bytes(&theirs["packet"]), &what);
    }
    assert_same(ours.len(), theirs.len(), &format!("{what}: datagrams"));
}

/// Bytes that stay as the file writes them.
fn text(value: &Value) -> String {
    value.as_str().expect("hex").to_owned()
}

#[test]
fn server_steps() {
    each_case("netcode_server_steps.json", "cases", |case| {
        let mut server = Server::of(case);
        for step in items(case, "steps") {
            let what = step["what"].to_string();
            server.step(at(&step["t"], int(&case["now"])), step);
            assert_out(&std::mem::take(&mut server.out), step, &what);
            let connected = step["connected"].as_array().expect("connected");
            let connected: Vec<_> = connected
                .iter()
                .map(|c| {
                    let confirmed = c["confirmed"] == true;
                    (
                        int(&c["slot"]),
                        int(&c["client_id"]),
                        address(&c["address"]),
                        confirmed,
                    )
                })
                .collect();
            assert_same(server.connected(), connected, &what);
            let payloads: Vec<_> = match step["payloads"].as_array() {
                None => Vec::new(),
                Some(list) => list
                    .iter()
                    .map(|p| {
                        (
                            int(&p["slot"]) as usize,
                            int(&p["sequence"]),
                            text(&p["data"]),
                        )
                    })
                    .collect(),
            };
            assert_same(std::mem::take(&mut server.payloads), payloads, &what);
        }
    });
}

/// A client on its way, then its link, then how it ended.
enum Dialer {
    Connecting(Box<Connecting>),
    Connected(Box<Connected>),
    Ended(i8),
}

struct Connecting {
    client: Client,
    /// It has a challenge and has not answered it yet.
    is_asked: bool,
}

struct Connected {
    link: Link,
    server: SocketAddr,
    seat: (u32, u32),
    is_over: bool,
}

impl Dialer {
    fn step(
        self,
        now: Now,
        step: &Value,
        out: &mut Out,
        payloads: &mut Vec<(u64, String)>,
    ) -> Self {
        match self {
            Self::Connecting(connecting) => connecting.step(now, step, out),
            Self::Connected(mut connected) => match connected.step(now, step, out, payloads) {
                Some(end) => Self::Ended(end),
                None => Self::Connected(connected),
            },
            Self::Ended(state) => Self::Ended(state),
        }
    }

    fn state(&self) -> i8 {
        match self {
            Self::Connecting(connecting) => connecting.client.state().number(),
            Self::Connected(_) => 3,
            Self::Ended(state) => *state,
        }
    }

    fn server(&self) -> Option<SocketAddr> {
        match self {
            Self::Connecting(connecting) => Some(connecting.client.server()),
            Self::Connected(connected) => Some(connected.server),
            Self::Ended(_) => None,
        }
    }

    fn seat(&self) -> Option<(u32, u32)> {
        match self {
            Self::Connected(connected) => Some(connected.seat),
            Self::Connecting(_) | Self::Ended(_) => None,
        }
    }
}

impl Connecting {
    fn step(mut self: Box<Self>, now: Now, step: &Value, out: &mut Out) -> Dialer {
        let client = &mut self.client;
        if step.get("in").is_some() {
            let (from, mut datagram) = (address(&step["from"]), bytes(&step["in"]));
            let before = client.state();
            // Refused datagrams are part of the script; what they change shows in the state.
            client.handle_datagram(now, from, &mut datagram).ok();
            if client.state() != before {
                self.is_asked = client.state() == ClientState::Responding;
            }
        } else if step.get("disconnect").is_some() {
            for _ in 0..DISCONNECT_REPEATS {
                let mut datagram = Vec::new();
                client.disconnect(now, &mut datagram);
                out.push((client.server(), datagram));
            }
            return Dialer::Ended(0);
        } else if step.get("send").is_none() {
            // Ours answers at once. The reference waits until a tenth of a second after its request.
            let theirs = step["out"].as_array().expect("out");
            let waits = self.is_asked && theirs.is_empty();
            let mut datagram = Vec::new();
            while !waits && client.poll_transmit(now, &mut datagram) {
                out.push((client.server(), std::mem::take(&mut datagram)));
                self.is_asked = false;
            }
            client.handle_timeout(now);
        }
        if client.state().is_connecting() {
            return Dialer::Connecting(self);
        }
        if client.state() != ClientState::Connected {
            return Dialer::Ended(client.state().number());
        }
        Dialer::Connected(Box::new(Connected {
            server: client.server(),
            seat: (client.client_index(), client.max_clients()),
            link: self.client.into_link().expect("connected"),
            is_over: false,
        }))
    }
}

impl Connected {
    /// The number of the state in which the connection ended, if it did.
    fn step(
        &mut self,
        now: Now,
        step: &Value,
        out: &mut Out,
        payloads: &mut Vec<(u64, String)>,
    ) -> Option<i8> {
        let mut datagram = Vec::new();
        if step.get("in").is_some() {
            if address(&step["from"]) == self.server {
                match self.link.open(now, &mut bytes(&step["in"])) {
                    Ok(Received::Payload { sequence, bytes }) => {
                        payloads.push((sequence, hex(bytes)));
                    }
                    // The reference acts on a goodbye at its next update.
                    Ok(Received::Disconnect) => self.is_over = true,
                    Ok(Received::KeepAlive { .. } | Received::Handshake) | Err(_) => {}
                }
            }
            return None;
        }
        if step.get("send").is_some() {
            let sealing = self.link.begin(&mut datagram);
            datagram.extend_from_slice(&bytes(&step["send"]));
            self.link.seal(now, &mut datagram, sealing);
            out.push((self.server, datagram));
            return None;
        }
        if step.get("disconnect").is_some() {
            for _ in 0..DISCONNECT_REPEATS {
                self.link.disconnect(now, &mut datagram);
                out.push((self.server, std::mem::take(&mut datagram)));
            }
            return Some(0);
        }
        if is_keep_alive_due(&self.link, now, step, self.server) {
            self.link.keep_alive(now, &mut datagram);
            out.push((self.server, datagram));
        }
        if self.is_over {
            return Some(0);
        }
        self.link.is_timed_out(now).then_some(-4)
    }
}

#[test]
fn client_steps() {
    each_case("netcode_client_steps.json", "cases", |case| {
        let start = Now {
            mono: Timestamp::ZERO + Duration::from_secs(10),
            unix_secs: 0,
        };
        let token = ConnectToken::parse(&bytes(&case["token"])).expect("a token");
        let mut dialer = Dialer::Connecting(Box::new(Connecting {
            client: Client::new(start, token),
            is_asked: false,
        }));
        for step in items(case, "steps") {
            let what = step["what"].to_string();
            let (mut out, mut payloads) = (Out::new(), Vec::new());
            dialer = dialer.step(at(&step["t"], 0), step, &mut out, &mut payloads);
            assert_out(&out, step, &what);
            let state = Some(i64::from(dialer.state()));
            assert_same(state, step["state"].as_i64(), &what);
            if step.get("server").is_some() {
                assert_same(dialer.server(), Some(address(&step["server"])), &what);
            }
            if step.get("client_index").is_some() {
                let seat = (
                    int(&step["client_index"]) as u32,
                    int(&step["max_clients"]) as u32,
                );
                assert_same(dialer.seat(), Some(seat), &what);
            }
            let expected: Vec<_> = match step["payloads"].as_array() {
                None => Vec::new(),
                Some(list) => list
                    .iter()
                    .map(|p| (int(&p["sequence"]), text(&p["data"])))
                    .collect(),
            };
            assert_same(payloads, expected, &what);
        }
    });
}

/// A captured session's client, arrivals in order, against our listener: everything the handshake
/// answers is a datagram the reference's server sent too, and its payloads and goodbyes open.
#[test]
fn captured_sessions_connect() {
    each_capture(replay_capture);
}

fn replay_capture(file: &Value) {
    let described = &file["server"];
    let mut case = described.clone();
    case["server_address"] = described["address"].clone();
    let mut server = Server::of(&case);
    let datagrams = items(file, "datagrams");
    let recorded: Vec<_> = datagrams
        .iter()
        .filter(|datagram| datagram[1] == "s2c")
        .map(|datagram| bytes(&datagram[3]))
        .collect();
    let mut answers = 0;
    for arrival in items(file, "arrivals") {
        let datagram = &datagrams[int(&arrival[1]) as usize];
        if datagram[1] != "c2s" {
            continue;
        }
        let seconds = arrival[0].as_f64().expect("milliseconds") / 1000.0;
        let now = at(&seconds.into(), int(&described["unix_time_at_t0"]));
        let client = &items(file, "clients")[int(&datagram[2]) as usize];
        server.receive(now, address(&client["address"]), &mut bytes(&datagram[3]));
        for (_, answer) in server.out.drain(..) {
            assert!(recorded.contains(&answer), "at {} ms", arrival[0]);
            answers += 1;
        }
    }
    assert!(answers >= 2, "a challenge and a keep-alive at least");
    assert!(!server.payloads.is_empty(), "it talked");
    // Whoever said goodbye is gone; whoever was cut off is not, since no clock ran here.
    let said_goodbye = items(file, "events")
        .iter()
        .any(|e| e[2] == "client_calls_disconnect");
    assert_same(server.connected().is_empty(), said_goodbye, "nobody left");
}
