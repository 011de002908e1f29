// A listener's handshakes under any sequence of operations, with the keys known, so that the bytes
// reach behind the ciphers. Three bytes an operation: what, who, how.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::session::{Reject, Stranger};
use tidegate_proto::time::Now;
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Packet, Role};
use tidegate_proto::yojimbo::netcode::wire::Kind;
use tidegate_proto::yojimbo::netcode::{
    ConnectToken, Handshake, Key, Link, Mint, Outcome, Params, PrivateToken, Received, Roster,
    RosterParams, Seat, UserData,
};

const TOKENS: u8 = 6;
const SLOTS: u32 = 2;
const PENDING: usize = 3;

struct World {
    now: Now,
    roster: Roster,
    handshake: Handshake,
    /// Why it takes nobody.
    refusing: Option<Reject>,
    tokens: Vec<ConnectToken>,
    peers: BTreeMap<SocketAddr, (Link, Seat)>,
    /// The latest challenge given out for each token.
    challenges: BTreeMap<u8, (u64, [u8; 300])>,
    sequence: u64,
    /// Tokens that were seated: each at most once.
    seated: BTreeSet<u8>,
}

pub fn run(data: &[u8]) {
    let mut world = World::new();
    for operation in data.chunks_exact(3).take(200) {
        world.operate(operation[0], operation[1], operation[2]);
        assert!(world.handshake.pending() <= PENDING);
        assert!(world.roster.seated() <= SLOTS as usize);
        assert_eq!(
            world.roster.seated(),
            world.peers.len(),
            "seats and sessions go together"
        );
    }
    let seated = world.roster.clone();
    drop(world);
    assert_eq!(seated.seated(), 0, "nothing leaks");
}

pub fn seeds() -> Vec<Vec<u8>> {
    let connect = |who: u8| [[0, who, 0], [1, who, 0], [2, who, 1], [2, who, 9]].concat();
    vec![
        connect(0),
        [
            connect(0),
            connect(1),
            connect(2),
            vec![3, 0, 0],
            connect(2),
            connect(0),
        ]
        .concat(),
        [vec![0, 0, 0, 5, 0, 255, 5, 0, 255], connect(0), connect(3)].concat(),
        [
            vec![0, 0, 0, 0, 0, 1, 0, 1, 2, 4, 7, 7, 6, 0, 0],
            connect(4),
        ]
        .concat(),
        [
            connect(1),
            vec![5, 0, 200, 5, 0, 200, 5, 0, 200],
            connect(1),
            connect(2),
        ]
        .concat(),
    ]
}

impl World {
    fn new() -> Self {
        let server: SocketAddr = ([127, 0, 0, 1], 40000).into();
        let mut params = Params::new(1, vec![server], SLOTS);
        params.private_keys.push(Key::new([7; 32]));
        params.max_pending = PENDING;
        let roster = Roster::new(
            RosterParams {
                slots: SLOTS,
                history: 5,
                ..RosterParams::default()
            },
            0,
        );
        Self {
            now: Now {
                unix_secs: 1000,
                ..Now::default()
            },
            refusing: None,
            handshake: Handshake::new(params, roster.clone(), Key::new([8; 32]), 1 << 63),
            roster,
            tokens: (0..TOKENS).map(|n| token(n, server)).collect(),
            peers: BTreeMap::new(),
            challenges: BTreeMap::new(),
            sequence: 0,
            seated: BTreeSet::new(),
        }
    }

    fn operate(&mut self, what: u8, who: u8, how: u8) {
        let token = who % TOKENS;
        let from: SocketAddr = ([10, 0, 0, (who ^ how >> 7) % 8], 5000).into();
        match what % 8 {
            0 => {
                let mut request = Vec::new();
                self.tokens[usize::from(token)].emit_request(&mut request);
                // Now and then a bit of it is wrong.
                if how >= 240 {
                    let at = usize::from(how - 240) * 71;
                    request[at] ^= 1;
                }
                self.receive(from, token, request);
            }
            1 => {
                let given_to = if how & 1 == 1 { how % TOKENS } else { token };
                let challenge = self.challenges.get(&given_to).copied();
                let (sequence, challenge) = challenge.unwrap_or((0, [how; 300]));
                let sequence = sequence.wrapping_add(u64::from(how >> 5));
                let plain = packet::proof_bytes(sequence, &challenge);
                self.send_sealed(from, token, Kind::Response, &plain);
            }
            2 => self.send_sealed(from, token, Kind::Payload, &vec![how; usize::from(how) * 5]),
            3 => self.send_sealed(from, token, Kind::Disconnect, &[]),
            4 => self.receive(from, token, vec![how; usize::from(who) * 5]),
            5 => {
                self.now = self.now.after(Duration::from_millis(u64::from(how) * 40));
                self.handshake.handle_timeout(self.now);
                let now = self.now;
                self.peers.retain(|_, (link, _)| !link.is_timed_out(now));
                let next = self.handshake.poll_timeout();
                assert!(
                    next.is_none_or(|next| next.at > now.mono),
                    "nothing is overdue"
                );
            }
            6 => {
                let reason = Reject::Draining;
                self.refusing = (how & 1 == 1).then_some(reason);
            }
            _ => self.send_sealed(from, token, Kind::KeepAlive, &[how; 8]),
        }
    }

    fn send_sealed(&mut self, from: SocketAddr, token: u8, kind: Kind, plain: &[u8]) {
        let mut datagram = Vec::new();
        let key = &self.tokens[usize::from(token)].client_to_server;
        packet::emit(&mut datagram, key, 1, kind, self.sequence, plain);
        self.sequence += 1;
        self.receive(from, token, datagram);
    }

    fn receive(&mut self, from: SocketAddr, token: u8, mut datagram: Vec<u8>) {
        if let Some((link, _)) = self.peers.get_mut(&from) {
            if link.open(self.now, &mut datagram) == Ok(Received::Disconnect) {
                self.peers.remove(&from);
            }
            return;
        }
        let mut reply = Vec::new();
        let size = datagram.len();
        let class = self.handshake.classify(self.now, from, &datagram);
        let outcome = self.handshake.handle(
            self.now,
            Stranger {
                from,
                datagram: &mut datagram,
                reply: &mut reply,
            },
            self.refusing,
        );
        if let Err(seen) = class {
            assert_eq!(outcome.as_ref().err(), Some(&seen), "refused at first sight");
        }
        match outcome {
            Ok(Outcome::Challenged) => self.remember(token, &mut reply),
            Ok(Outcome::Denied(_)) => assert_eq!(reply.len(), 25),
            Ok(Outcome::Seated(seated)) => {
                assert!(reply.is_empty());
                assert!(
                    self.seated.insert(token),
                    "token {token} opened a second session"
                );
                assert_eq!(seated.seat.client_id(), u64::from(token / 2));
                let mut link = seated.link;
                link.admit(self.now, Some(Duration::from_secs(5)), &mut reply);
                self.peers.insert(from, (link, seated.seat));
            }
            Err(_) => assert!(reply.is_empty()),
        }
        assert!(reply.len() <= size, "no amplification");
    }

    fn remember(&mut self, token: u8, reply: &mut [u8]) {
        assert_eq!(reply.len(), 333);
        let key = &self.tokens[usize::from(token)].server_to_client;
        let Ok(Packet::Challenge(proof)) = packet::open(Role::Client, key, 1, &mut Beyond::default(), None, reply) else {
            panic!("a challenge for another token");
        };
        self.challenges
            .insert(token, (proof.sequence, *proof.token));
    }
}

/// Two tokens for each client id, of different lives.
fn token(number: u8, server: SocketAddr) -> ConnectToken {
    let private = PrivateToken {
        client_id: u64::from(number / 2),
        timeout_seconds: 1 + i32::from(number),
        servers: vec![server],
        client_to_server: Key::new([number; 32]),
        server_to_client: Key::new([number + 100; 32]),
        user_data: UserData::empty(),
    };
    let lifetime = 990..=1005 + u64::from(number) * 4;
    let mint = Mint::new(1, lifetime, [number; 24], private);
    ConnectToken::mint(mint, &Key::new([7; 32])).expect("mintable")
}
