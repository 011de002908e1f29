// A connector from its challenge on, its server's key known: what it says before it is in, and whatever its server says to
// that, in any order. Three bytes an operation: what, and two that say how.

use std::time::Duration;

use tidegate_proto::yojimbo::netcode::packet;
use tidegate_proto::yojimbo::netcode::wire::Kind;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, Mint, PrivateToken, UserData};
use tidegate_proto::yojimbo::{Connector, Params};
use tidegate_proto::{CloseReason, Event, Now, Session as _};

struct Fuzzed {
    connector: Connector,
    now: Now,
    sequence: u64,
    is_in: bool,
    is_over: bool,
    /// Bytes that we may still say: they are held, and no input of a few bytes pays for them.
    to_say: usize,
}

pub fn run(data: &[u8]) {
    let Some((&config, operations)) = data.split_first() else {
        return;
    };
    let mut fuzzed = Fuzzed::challenged(config);
    for operation in operations.chunks_exact(3).take(300) {
        fuzzed.step(operation[0], operation[1], operation[2]);
        fuzzed.drain();
        // What came may be for a clock that is due at once; that must then have moved on, or its owner would spin.
        fuzzed.connector.handle_timeout(fuzzed.now);
        fuzzed.drain();
        match fuzzed.connector.poll_timeout() {
            None => assert!(fuzzed.is_over),
            Some(deadline) => assert!(deadline.at > fuzzed.now.mono, "{deadline:?}"),
        }
    }
}

impl Fuzzed {
    fn challenged(config: u8) -> Self {
        let now = Now::default();
        // A token outlives its server's timeout, or the other way round.
        let life = if config & 1 == 0 { 12 } else { 2 };
        let params = Params::default().with_path_mtu(9_000, config & 2 == 0);
        let mut fuzzed = Self {
            connector: Connector::new(now, params.into(), token(life), config.into()),
            now,
            sequence: 0,
            is_in: false,
            is_over: false,
            to_say: 20_000,
        };
        fuzzed.drain();
        assert!(!fuzzed.connector.has_room(), "nobody has answered");
        fuzzed.now = now.after(Duration::from_millis(u64::from(config) * 4));
        fuzzed.receive(Kind::Challenge, &[0; 308]);
        assert!(fuzzed.connector.has_room());
        fuzzed.drain();
        fuzzed
    }

    fn step(&mut self, what: u8, how: u8, more: u8) {
        let now = self.now;
        match what % 10 {
            0 => {
                let said = vec![how; usize::from(more) * 24];
                if said.len() <= self.to_say {
                    self.to_say -= said.len();
                    self.connector.send(now, what >> 7, &said).ok();
                }
            }
            1 => {
                self.now = now.after(Duration::from_millis(u64::from(how)));
                self.connector.handle_timeout(self.now);
            }
            2 => {
                if let Some(deadline) = self.connector.poll_timeout() {
                    self.now = now.after(deadline.at.since(now.mono));
                    self.connector.handle_timeout(self.now);
                }
            }
            3 => self.receive(Kind::KeepAlive, &[0; 8]),
            4 => self.receive(Kind::Payload, &vec![how; usize::from(more)]),
            // A packet that acknowledges ours, as the reliable layer writes it.
            5 => self.receive(Kind::Payload, &[0, how, 0, more, 0, 255, 255, 255, 255]),
            6 => {
                let kinds = [Kind::Denied, Kind::Disconnect, Kind::Challenge, Kind::GcmPayload];
                self.receive(kinds[usize::from(how & 3)], &vec![0; usize::from(more)]);
            }
            7 => drop(self.connector.handle_datagram(now, &mut vec![how; usize::from(more)])),
            8 => {
                let linger = Duration::from_millis(u64::from(how) * 20);
                self.connector.finish(now, CloseReason::BackendClosed, linger);
            }
            _ => while self.connector.poll_message().is_some() {},
        }
    }

    /// A packet that the server sealed.
    fn receive(&mut self, kind: Kind, plain: &[u8]) {
        let mut datagram = Vec::new();
        packet::emit(&mut datagram, &Key::new([2; 32]), 1, kind, self.sequence, plain);
        self.sequence += 1;
        self.connector.handle_datagram(self.now, &mut datagram).ok();
    }

    fn drain(&mut self) {
        self.hear_events();
        let (mut out, mut datagrams) = (Vec::new(), 0);
        while self.connector.poll_transmit(self.now, &mut out) {
            out.clear();
            datagrams += 1;
            assert!(datagrams <= 256, "one turn is bounded");
        }
        self.hear_events();
    }

    fn hear_events(&mut self) {
        while let Some(event) = self.connector.poll_event() {
            assert!(!self.is_over, "{event:?} after the end");
            self.is_over = matches!(event, Event::Closed(_));
            let connects = event == Event::Connected;
            assert!(!(connects && self.is_in), "connected twice");
            self.is_in |= connects;
        }
    }
}

fn token(life: u64) -> ConnectToken {
    let private = PrivateToken {
        client_id: 1,
        timeout_seconds: 3,
        servers: vec![([127, 0, 0, 1], 40_000).into()],
        client_to_server: Key::new([1; 32]),
        server_to_client: Key::new([2; 32]),
        user_data: UserData::empty(),
    };
    let mint = Mint::new(1, 100..=100 + life, [1; 24], private);
    ConnectToken::mint(mint, &Key::new([7; 32])).expect("mintable")
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        // Says something, is let in, is acknowledged, leaves.
        vec![12, 0, 7, 4, 1, 50, 0, 3, 0, 0, 5, 0, 0, 8, 50, 0, 2, 0, 0, 2, 0, 0],
        // Its answer goes again, and everything behind it.
        vec![12, 0, 7, 90, 128, 7, 2, 1, 120, 0, 2, 0, 0, 1, 60, 0, 3, 0, 0, 5, 3, 3, 2, 0, 0],
        // A payload shows that it is in; then it leaves before anything else is heard.
        vec![13, 0, 7, 4, 5, 0, 0, 3, 0, 0, 8, 1, 0, 2, 0, 0],
        // Leaves before it is in, and is never let in; is denied.
        vec![12, 0, 7, 4, 8, 9, 0, 2, 0, 0, 1, 255, 0, 1, 255, 0, 2, 0, 0],
        vec![12, 0, 7, 4, 6, 0, 0, 2, 0, 0],
    ]
}
