//! Clients of yojimbo's library that a server told to go, at the next server of their token: they come with what they
//! had at the first.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use support::place::Place;
use support::program::Program;
use support::token::mint;
use support::{PATIENCE, echo_server, wait_until};
use tidegate_client::{Clock, Dial, Polled, State};
use tidegate_proto::Now;
use tidegate_proto::yojimbo::netcode::{Client, ClientState};
use tidegate_proto::yojimbo::reliable::Header;

struct Scene {
    place: Place,
    server: Program,
    clock: Clock,
}

impl Scene {
    /// A server that bans an address once its players broke the protocol three times.
    fn start(name: &str) -> Self {
        let place = Place::new(name);
        let mut keygen = place.start(&["keygen", "--out", "netcode.key"]);
        assert_eq!(keygen.exit_code(), Some(0));
        let config = format!(
            "version = 1\n\
             [runtime]\nworkers = 1\n\
             [admin]\nlisten = \"\"\n\
             [listener.game]\nbind = [\"127.0.0.1:0\"]\npublic_addresses = [\"any\"]\nbackend = \"game\"\n\
             limits = {{ strikes = {{ limit = 2, window = \"1h\", ban = \"1h\" }} }}\n\
             [backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"u16be\"\n",
            echo_server()
        );
        place.write("tidegate.toml", config);
        let server = place.start(&["serve", "--config", "tidegate.toml"]);
        server.address();
        Self {
            place,
            server,
            clock: Clock::start(),
        }
    }

    fn token(&self, client_id: u64) -> Vec<u8> {
        let servers = [self.server.address()];
        let token = mint(&self.place, client_id, &servers, PATIENCE);
        tidegate::tokens::token_text(&token).as_bytes().to_vec()
    }

    /// A client that connects and sends empty packets with these headers.
    fn say(&self, client_id: u64, headers: &[Header]) {
        let address: SocketAddr = self.server.address();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let token = mint(&self.place, client_id, &[address], PATIENCE);
        let mut client = Client::new(self.now(), token);
        wait_until("a seat", PATIENCE, || {
            let mut datagram = Vec::new();
            if client.poll_transmit(self.now(), &mut datagram) {
                socket.send_to(&datagram, address).unwrap();
            }
            let mut answer = [0; 2048];
            if let Ok(length) = socket.recv(&mut answer) {
                let _other = client.handle_datagram(self.now(), address, &mut answer[..length]);
            }
            (client.state() == ClientState::Connected).then_some(())
        });
        let mut link = client.into_link().unwrap();
        for header in headers {
            let mut datagram = Vec::new();
            let sealing = link.begin(&mut datagram);
            header.emit(&mut datagram);
            datagram.extend([0]);
            link.seal(self.now(), &mut datagram, sealing);
            socket.send_to(&datagram, address).unwrap();
        }
    }

    /// Whether somebody from the same address is let in.
    fn lets_in(&self, client_id: u64) -> bool {
        let dial = Dial::yojimbo(&self.token(client_id)).unwrap();
        let mut client = Polled::connect(self.now(), dial).unwrap();
        wait_until("a decision", PATIENCE, || match client.update(self.now()) {
            State::Connecting => None,
            decided => Some(decided == State::Connected),
        })
    }

    fn now(&self) -> Now {
        self.clock.now()
    }
}

/// What a client sends that has received nothing yet.
const FRESH: Header = Header {
    sequence: 0,
    ack: u16::MAX,
    ack_bits: 0,
};
/// What one sends that has a session with another server behind it.
const OF_ANOTHER: Header = Header {
    sequence: 251,
    ack: 237,
    ack_bits: u32::MAX,
};

/// A drain of the first server sends all of them on at once, and they may share an address.
#[test]
fn who_was_told_to_go_elsewhere_is_ended_and_not_held_against_its_address() {
    let scene = Scene::start("next");
    for client_id in 1..=4 {
        scene.say(client_id, &[OF_ANOTHER]);
    }
    let ends = wait_until("their ends", PATIENCE, || {
        let ends = scene.server.all_logged("session_end");
        (ends.len() == 4).then_some(ends)
    });
    let is_violation = |line: &serde_json::Value| line["reason"] == "protocol_violation";
    assert!(ends.iter().all(is_violation), "{ends:?}");
    let line = scene.server.wait_for("unreadable_peer");
    assert!(
        line.contains("another_server") && line.contains("needs a new token"),
        "{line}"
    );
    assert!(scene.lets_in(5), "with a token of its own");
    assert!(!scene.server.has_said("source_banned"));
}

#[test]
fn who_acknowledges_falsely_later_is_held_against_its_address() {
    let scene = Scene::start("later");
    for client_id in 1..=3 {
        scene.say(client_id, &[FRESH, OF_ANOTHER]);
    }
    let line = scene.server.wait_for("source_banned");
    assert!(line.contains("\"reason\":\"strikes\""), "{line}");
    assert!(!scene.server.has_said("another_server"));
}
