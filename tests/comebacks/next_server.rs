//! Clients of yojimbo's library that a server told to go, at the next server of their token: they come with what they
//! had at the first.

use tidegate_client::{Dial, Polled, State};
use tidegate_proto::yojimbo::reliable::Header;

use super::scene::{Scene, socket};
use super::support::{PATIENCE, wait_until};

impl Scene {
    /// A client that connects and sends empty packets with these headers.
    fn say(&self, client_id: u64, headers: &[Header]) {
        let socket = socket();
        let client = self.connect(&socket, client_id, PATIENCE);
        let mut link = client.into_link().unwrap();
        for header in headers {
            let mut datagram = Vec::new();
            let sealing = link.begin(&mut datagram);
            header.emit(&mut datagram);
            datagram.extend([0]);
            link.seal(self.now(), &mut datagram, sealing);
            socket.send_to(&datagram, self.server.address()).unwrap();
        }
    }

    /// Whether somebody from the same address is let in.
    fn lets_in(&self, client_id: u64) -> bool {
        let token = tidegate::tokens::token_text(&self.token(client_id, PATIENCE));
        let dial = Dial::yojimbo(token.as_bytes()).unwrap();
        let mut client = Polled::connect(self.now(), dial).unwrap();
        wait_until("a decision", PATIENCE, || match client.update(self.now()) {
            State::Connecting => None,
            decided => Some(decided == State::Connected),
        })
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
