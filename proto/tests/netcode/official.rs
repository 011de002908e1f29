//! The crate of the protocol's authors as the other end, over loopback.
//!
//! It owns its sockets, so these tests own one too; its time is an argument, and loopback delivers
//! before `send_to` returns, so nothing here waits.

#![expect(
    clippy::disallowed_types,
    reason = "the other end speaks through sockets only"
)]

use std::net::{SocketAddr, UdpSocket};

use tidegate_proto::session::Stranger;
use tidegate_proto::time::{Now, Timestamp};
use tidegate_proto::yojimbo::netcode::packet::Beyond;
use tidegate_proto::yojimbo::netcode::wire::Sizes;
use tidegate_proto::yojimbo::netcode::{
    Client, ClientState, ConnectToken, DISCONNECT_REPEATS, Handshake, Key, Link, Mint, Outcome,
    Params, Received, Roster, RosterParams, Seat,
};

use crate::world::{PROTOCOL, goodbyes, private_key, seal};

const USER_DATA: [u8; 256] = [0x5a; 256];

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// A token as their code makes it. It reads the clock, which ours may not.
fn their_token(server: SocketAddr, client_id: u64) -> ConnectToken {
    let bytes = netcode::generate_connect_token(
        &[server],
        &[server],
        30,
        5,
        client_id,
        PROTOCOL,
        private_key().as_bytes(),
        &USER_DATA,
    );
    ConnectToken::parse(&bytes.unwrap()).unwrap()
}

fn as_array(token: &ConnectToken) -> [u8; 2048] {
    token.to_bytes().as_slice().try_into().unwrap()
}

/// The `n`th tenth of a second after the token was made.
fn tick(n: u64, token: &ConnectToken) -> Now {
    Now {
        mono: Timestamp::from_millis(n * 101),
        unix_secs: token.create,
    }
}

fn their_time(n: u64) -> f64 {
    n as f64 * 0.101
}

#[test]
fn tokens_are_the_same_bytes() {
    for client_id in [0, 7, u64::MAX] {
        let token = their_token("203.0.113.9:40000".parse().unwrap(), client_id);
        let (_, private) = token
            .open_private(&[Key::new([1; 32]), private_key()])
            .unwrap();
        assert_eq!(private.client_id, client_id);
        assert_eq!(private.user_data.as_bytes(), &USER_DATA);
        let mint = Mint {
            protocol_id: PROTOCOL,
            create: token.create,
            expire: token.expire,
            nonce: token.nonce,
            servers: token.servers.clone(),
            private,
        };
        let ours = ConnectToken::mint(mint, &private_key()).unwrap();
        assert_eq!(ours.to_bytes(), token.to_bytes());
    }
}

/// Our listener behind a socket, with one slot.
struct Listener {
    socket: UdpSocket,
    handshake: Handshake,
    peer: Option<(SocketAddr, Link, Seat)>,
    delivered: Vec<Vec<u8>>,
}

impl Listener {
    fn new(started_unix: u64) -> Self {
        let socket = socket();
        let mut params = Params::new(PROTOCOL, vec![socket.local_addr().unwrap()], 1);
        params.private_keys.push(private_key());
        let roster = RosterParams {
            slots: 1,
            history: 16,
            ..RosterParams::default()
        };
        let roster = Roster::new(roster, started_unix);
        let challenge_key = Key::new([8; 32]);
        Self {
            socket,
            handshake: Handshake::new(params, roster, challenge_key, 1 << 63),
            peer: None,
            delivered: Vec::new(),
        }
    }

    fn turn(&mut self, now: Now) {
        let mut buffer = [0; 2048];
        while let Ok((size, from)) = self.socket.recv_from(&mut buffer) {
            let mut out = Vec::new();
            self.take(now, from, &mut buffer[..size], &mut out);
            if !out.is_empty() {
                self.socket.send_to(&out, from).unwrap();
            }
        }
        if let Some((to, link, _)) = &mut self.peer
            && link.is_keep_alive_due(now)
        {
            let mut out = Vec::new();
            link.keep_alive(now, &mut out);
            self.socket.send_to(&out, *to).unwrap();
        }
    }

    fn take(&mut self, now: Now, from: SocketAddr, datagram: &mut [u8], out: &mut Vec<u8>) {
        if let Some((_, link, _)) = self.peer.as_mut().filter(|(peer, ..)| *peer == from) {
            match link.open(now, datagram).expect("an official packet opens") {
                Received::Payload { bytes, .. } => self.delivered.push(bytes.to_vec()),
                Received::Disconnect => self.peer = None,
                Received::KeepAlive { .. } | Received::Handshake => {}
            }
            return;
        }
        if let Ok(Outcome::Seated(seated)) = self.handshake.handle(
            now,
            Stranger {
                from,
                datagram,
                reply: out,
            },
            None,
        ) {
            let (mut link, seat) = (seated.link, seated.seat);
            assert_eq!(seated.user_data.as_bytes(), &USER_DATA);
            link.admit(now, None, out);
            self.peer = Some((from, link, seat));
        }
    }
}

#[test]
fn an_official_client_talks_to_our_server() {
    let placeholder = their_token("127.0.0.1:1".parse().unwrap(), 0);
    let mut listener = Listener::new(placeholder.create - 3600);
    let token = their_token(listener.socket.local_addr().unwrap(), 11);
    let mut client = netcode::Client::new("127.0.0.1:0".parse().unwrap(), 0.0).unwrap();
    client.connect(&as_array(&token)).unwrap();
    let mut echoed = 0;
    for n in 1..60 {
        client.update(their_time(n));
        listener.turn(tick(n, &token));
        if client.state() == netcode::ClientState::Connected {
            client.send_packet(&[n as u8; 700]).unwrap();
            if let Some((to, link, _)) = &mut listener.peer {
                let datagram = seal(link, tick(n, &token), &[n as u8; 1200]);
                listener.socket.send_to(&datagram, *to).unwrap();
            }
        }
        while let Some((payload, _)) = client.receive_packet() {
            assert_eq!(payload.len(), 1200);
            echoed += 1;
        }
    }
    assert!(echoed > 40, "{echoed} payloads came down");
    assert!(listener.delivered.len() > 40 && listener.delivered[0].len() == 700);
    let (_, link, seat) = listener.peer.as_ref().unwrap();
    assert!(link.is_confirmed());
    assert_eq!(
        (
            seat.client_id(),
            client.client_index(),
            client.max_clients()
        ),
        (11, 0, 1)
    );
    client.disconnect();
    listener.turn(tick(60, &token));
    assert!(listener.peer.is_none(), "its goodbye is understood");
}

#[test]
fn an_official_client_understands_our_goodbye_and_our_denial() {
    let placeholder = their_token("127.0.0.1:1".parse().unwrap(), 0);
    let mut listener = Listener::new(placeholder.create - 3600);
    let address = listener.socket.local_addr().unwrap();
    let (first, second) = (their_token(address, 1), their_token(address, 2));
    let mut clients = [first.clone(), second].map(|token| {
        let mut client = netcode::Client::new("127.0.0.1:0".parse().unwrap(), 0.0).unwrap();
        client.connect(&as_array(&token)).unwrap();
        client
    });
    for n in 1..20 {
        for client in &mut clients {
            client.update(their_time(n));
            listener.turn(tick(n, &first));
        }
    }
    assert_eq!(clients[0].state(), netcode::ClientState::Connected);
    assert_eq!(clients[1].state(), netcode::ClientState::ConnectionDenied);
    let (to, mut link, _) = listener.peer.take().unwrap();
    for goodbye in goodbyes(&mut link, tick(20, &first)) {
        listener.socket.send_to(&goodbye, to).unwrap();
    }
    clients[0].update(their_time(20));
    assert_eq!(clients[0].state(), netcode::ClientState::Disconnected);
}

#[test]
fn our_client_talks_to_an_official_server() {
    let mut server = netcode::Server::new(
        "127.0.0.1:0".parse().unwrap(),
        PROTOCOL,
        private_key().as_bytes(),
        0.0,
    )
    .unwrap();
    server.start(4).unwrap();
    let socket = socket();
    let token = their_token(server.address(), 21);
    let mut client = Client::new(tick(0, &token), token.clone());
    let mut buffer = [0; 2048];
    for n in 1..30 {
        let now = tick(n, &token);
        let mut out = Vec::new();
        if client.poll_transmit(now, &mut out) {
            socket.send_to(&out, client.server()).unwrap();
        }
        server.update(their_time(n));
        while let Ok((size, from)) = socket.recv_from(&mut buffer) {
            client.handle_datagram(now, from, &mut buffer[..size]).ok();
        }
        client.handle_timeout(now);
        if client.state() == ClientState::Connected {
            break;
        }
    }
    assert_eq!(client.state(), ClientState::Connected);
    assert_eq!((client.client_index(), client.max_clients()), (0, 4));
    assert_eq!(server.client_id(0), 21);
    assert_eq!(server.client_user_data(0), Some(&USER_DATA));
    let mut link = client.into_link().unwrap();

    // What only a peer of our make takes is nothing to theirs, whatever its length or cipher.
    link.go_beyond(Beyond::new(Sizes::with_payload(8_201), true));
    let (mut up, mut down) = (0, 0);
    for n in 30..60 {
        let now = tick(n, &token);
        let beyond = [1_201, 1_280, 1_418, 8_201][n as usize % 4];
        socket
            .send_to(&seal(&mut link, now, &vec![0; beyond]), server.address())
            .unwrap();
        let mut gcm = Vec::new();
        let sealing = link.begin_gcm(&mut gcm);
        gcm.extend_from_slice(&[n as u8; 1000]);
        link.seal(now, &mut gcm, sealing);
        socket.send_to(&gcm, server.address()).unwrap();
        socket
            .send_to(&seal(&mut link, now, &[n as u8; 1200]), server.address())
            .unwrap();
        server.update(their_time(n));
        server.send_packet(0, &[n as u8; 33]).unwrap();
        while let Some((payload, _)) = server.receive_packet(0) {
            assert_eq!(payload, [n as u8; 1200]);
            up += 1;
        }
        while let Ok((size, _)) = socket.recv_from(&mut buffer) {
            if let Received::Payload { bytes, .. } = link.open(now, &mut buffer[..size]).unwrap() {
                assert_eq!(bytes, [n as u8; 33]);
                down += 1;
            }
        }
    }
    assert_eq!((up, down), (30, 30));
    let goodbyes = goodbyes(&mut link, tick(60, &token));
    assert_eq!(goodbyes.len(), DISCONNECT_REPEATS);
    socket.send_to(&goodbyes[0], server.address()).unwrap();
    server.update(their_time(60));
    assert_eq!(server.num_connected_clients(), 0);
}
