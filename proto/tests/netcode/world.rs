//! A listener and its clients in memory, with every datagram on record.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::session::{Reject, Stranger, StrangerClass};
use tidegate_proto::time::{Now, Timestamp};
use tidegate_proto::yojimbo::netcode::{
    Client, ClientState, ConnectToken, DISCONNECT_REPEATS, Handshake, Key, Link, Mint, Outcome,
    Params, PrivateToken, Received, Roster, RosterParams, Seat, UserData, global_sequence_start,
};

pub(crate) const PROTOCOL: u64 = 0x7469_6465_6761_7465;
pub(crate) const HOME: &str = "192.0.2.1:4000";
/// When every world begins, unix seconds.
pub(crate) const EPOCH: u64 = 1_700_000_000;

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn server_address() -> SocketAddr {
    address("198.51.100.7:40000")
}

pub(crate) fn private_key() -> Key {
    Key::new([0x42; 32])
}

/// `millis` after the world began; its calendar agrees.
pub(crate) fn at(millis: u64) -> Now {
    Now {
        mono: Timestamp::from_millis(millis),
        unix_secs: EPOCH + millis / 1000,
    }
}

/// What the listeners of these tests want: the defaults, our key, our address.
pub(crate) fn params() -> Params {
    let mut params = Params::new(PROTOCOL, vec![server_address()], 16);
    params.private_keys.push(private_key());
    params
}

/// A token for `client_id`, made at unix second `create`, good for 30 s. Its nonce and keys are
/// told apart by `number`.
pub(crate) fn mint(client_id: u64, number: u8, create: u64) -> ConnectToken {
    ConnectToken::mint(mint_parts(client_id, number, create), &private_key()).unwrap()
}

pub(crate) fn mint_parts(client_id: u64, number: u8, create: u64) -> Mint {
    let private = PrivateToken {
        client_id,
        timeout_seconds: 5,
        servers: vec![server_address()],
        client_to_server: direction_key(number, 1),
        server_to_client: direction_key(number, 2),
        user_data: UserData::new([number; 256]),
    };
    Mint::new(PROTOCOL, create..=create + 30, [number; 24], private)
}

fn direction_key(number: u8, direction: u8) -> Key {
    let mut bytes = [number; 32];
    bytes[31] = direction;
    Key::new(bytes)
}

/// One listener with one worker.
pub(crate) struct Server {
    pub(crate) handshake: Handshake,
    /// Why it takes nobody.
    pub(crate) refusing: Option<Reject>,
    pub(crate) roster: Roster,
    pub(crate) peers: BTreeMap<SocketAddr, Peer>,
    /// Everything that was not taken, in order.
    pub(crate) rejects: Vec<Reject>,
    /// What each stranger's datagram was at first sight.
    pub(crate) classes: Vec<Result<StrangerClass, Reject>>,
    pub(crate) denials: Vec<Reject>,
    pub(crate) delivered: Vec<Vec<u8>>,
    /// Sessions that were ever begun.
    pub(crate) seatings: usize,
    /// Everything that was sent.
    pub(crate) sent: Vec<Vec<u8>>,
}

pub(crate) struct Peer {
    pub(crate) link: Link,
    pub(crate) seat: Seat,
}

impl Server {
    /// With 16 slots, long enough in service that every genuine token is younger than it.
    pub(crate) fn new() -> Self {
        Self::with(params(), 16, EPOCH - 3600)
    }

    pub(crate) fn with(params: Params, slots: u32, started_unix: u64) -> Self {
        let roster = RosterParams {
            slots,
            ..RosterParams::default()
        };
        Self::worker(params, Roster::new(roster, started_unix), 0, started_unix)
    }

    pub(crate) fn worker(params: Params, roster: Roster, worker: u16, started_unix: u64) -> Self {
        let mut challenge_key = [worker as u8; 32];
        challenge_key[..8].copy_from_slice(&started_unix.to_le_bytes());
        Self {
            handshake: Handshake::new(
                params,
                roster.clone(),
                Key::new(challenge_key),
                global_sequence_start(worker, started_unix),
            ),
            refusing: None,
            roster,
            peers: BTreeMap::new(),
            rejects: Vec::new(),
            classes: Vec::new(),
            denials: Vec::new(),
            delivered: Vec::new(),
            seatings: 0,
            sent: Vec::new(),
        }
    }

    /// What the handshake makes of a datagram.
    pub(crate) fn judge(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &mut [u8],
        reply: &mut Vec<u8>,
    ) -> Result<Outcome, Reject> {
        let stranger = Stranger {
            from,
            datagram,
            reply,
        };
        self.handshake.handle(now, stranger, self.refusing)
    }

    /// Takes a datagram; the answer, if there is one. Admits at once whoever is seated.
    pub(crate) fn receive(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<Vec<u8>> {
        let mut datagram = datagram.to_vec();
        if let Some(peer) = self.peers.get_mut(&from) {
            match peer.link.open(now, &mut datagram) {
                Ok(Received::Payload { bytes, .. }) => self.delivered.push(bytes.to_vec()),
                Ok(Received::Disconnect) => drop(self.peers.remove(&from)),
                Ok(Received::KeepAlive { .. } | Received::Handshake) => {}
                Err(reject) => self.rejects.push(reject),
            }
            return None;
        }
        let size = datagram.len();
        let mut reply = Vec::new();
        let class = self.handshake.classify(now, from, &datagram);
        let outcome = self.judge(now, from, &mut datagram, &mut reply);
        match (class, &outcome) {
            (Err(seen), Err(told)) => assert_eq!(seen, *told, "two reasons"),
            (Err(seen), Ok(_)) => panic!("{seen:?} at first sight, and then taken"),
            (Ok(class), Ok(Outcome::Seated(_))) => assert_eq!(class, StrangerClass::Awaited),
            (Ok(_), _) => {}
        }
        self.classes.push(class);
        match outcome {
            Ok(Outcome::Challenged) => {}
            Ok(Outcome::Denied(reason)) => self.denials.push(reason),
            Ok(Outcome::Seated(seated)) => {
                let (mut link, seat) = (seated.link, seated.seat);
                link.admit(now, Some(Duration::from_secs(5)), &mut reply);
                self.seatings += 1;
                self.peers.insert(from, Peer { link, seat });
            }
            Err(reject) => {
                assert!(reply.is_empty(), "a rejected datagram is not answered");
                self.rejects.push(reject);
            }
        }
        assert!(reply.len() <= size, "{} bytes for {size}", reply.len());
        if reply.is_empty() {
            return None;
        }
        self.sent.push(reply.clone());
        Some(reply)
    }

    pub(crate) fn send(&mut self, now: Now, to: SocketAddr, payload: &[u8]) -> Vec<Vec<u8>> {
        let link = &mut self.peers.get_mut(&to).unwrap().link;
        let mut datagrams = Vec::new();
        let mut out = Vec::new();
        if link.preface(now, &mut out) {
            datagrams.push(std::mem::take(&mut out));
        }
        datagrams.push(seal(link, now, payload));
        self.sent.extend(datagrams.iter().cloned());
        datagrams
    }
}

/// One sealed payload.
pub(crate) fn seal(link: &mut Link, now: Now, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let sealing = link.begin(&mut out);
    out.extend_from_slice(payload);
    link.seal(now, &mut out, sealing);
    out
}

/// The ten goodbyes.
pub(crate) fn goodbyes(link: &mut Link, now: Now) -> Vec<Vec<u8>> {
    let one = |_| {
        let mut out = Vec::new();
        link.disconnect(now, &mut out);
        out
    };
    (0..DISCONNECT_REPEATS).map(one).collect()
}

/// What a client sends next, if something is due.
pub(crate) fn transmit(client: &mut Client, now: Now) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    client.poll_transmit(now, &mut out).then_some(out)
}

/// The client takes this datagram of the server.
#[track_caller]
pub(crate) fn hear(client: &mut Client, now: Now, datagram: &mut [u8]) {
    client
        .handle_datagram(now, server_address(), datagram)
        .unwrap();
}

/// A client that was challenged, all in one moment.
#[track_caller]
pub(crate) fn challenged_client(
    server: &mut Server,
    now: Now,
    from: SocketAddr,
    token: ConnectToken,
) -> Client {
    let mut client = Client::new(now, token);
    let request = transmit(&mut client, now).unwrap();
    let mut challenge = server.receive(now, from, &request).unwrap();
    hear(&mut client, now, &mut challenge);
    client
}

/// A client's whole way in, one exchange each 100 ms, with everything it sent.
pub(crate) fn connect(
    server: &mut Server,
    start_millis: u64,
    from: SocketAddr,
    token: ConnectToken,
) -> (Option<Link>, Vec<Vec<u8>>) {
    connect_at(server, at(start_millis), from, token)
}

/// A client's whole way in from `start` on, one exchange each 100 ms, with everything it sent.
pub(crate) fn connect_at(
    server: &mut Server,
    start: Now,
    from: SocketAddr,
    token: ConnectToken,
) -> (Option<Link>, Vec<Vec<u8>>) {
    let mut client = Client::new(start, token);
    let mut sent = Vec::new();
    for step in 0..10 {
        let now = start.after(Duration::from_millis(step * 100));
        let Some(datagram) = transmit(&mut client, now) else {
            continue;
        };
        sent.push(datagram.clone());
        if let Some(mut answer) = server.receive(now, from, &datagram) {
            hear(&mut client, now, &mut answer);
        }
        client.handle_timeout(now);
        if client.state() == ClientState::Connected {
            break;
        }
    }
    (client.into_link(), sent)
}
