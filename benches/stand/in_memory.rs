//! A server endpoint and its clients without sockets, in a time that only moves when told to: what
//! is left is the protocol.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tidegate::framing::{FrameCodec, Framing};
use tidegate::protocol::RejectAll;
use tidegate::tokens::{Recipe, mint};
use tidegate_proto::yojimbo::netcode::{self, Handshake, Key, Roster, RosterParams, UserData};
use tidegate_proto::yojimbo::{Acceptor, Connector, Params};
use tidegate_proto::{Endpoint, Event, Now, PeerId, Timestamp, endpoint};

/// Datagrams one after the other.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Whose, and where each ends.
    entries: Vec<(SocketAddr, usize)>,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

/// Both sides.
pub struct InMemory {
    pub now: Now,
    slots: u32,
    pub server: Endpoint,
    clients: Endpoint,
    ids: Vec<PeerId>,
    /// The server's names for those who are in.
    pub peers: Vec<PeerId>,
    codec: FrameCodec,
    pub up: Batch,
    pub down: Batch,
    reply: Vec<u8>,
    frames: Vec<u8>,
    message: Vec<u8>,
    pub heard: u64,
}

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4000);
const PROTOCOL_ID: u64 = 7;
const KEY: [u8; 32] = [0x11; 32];
const FIRST: u32 = 0x0a00_0001;

impl InMemory {
    /// So many clients, all in.
    pub fn new(clients: u32, message_bytes: usize) -> Self {
        let mut world = Self::empty(clients, message_bytes);
        world.join_all();
        world
    }

    /// As many as there are slots join.
    pub fn join_all(&mut self) {
        for number in 0..self.slots {
            self.dial(number);
        }
        while self.peers.len() < self.slots as usize {
            self.exchange();
            self.wait(Duration::from_millis(10));
        }
    }

    /// A tenth of a second in which nobody says anything.
    pub fn idle_step(&mut self) {
        self.wait(Duration::from_millis(100));
        self.exchange();
    }

    /// The clients' half of it.
    pub fn idle_clients(&mut self) {
        self.now.mono += Duration::from_millis(100);
        self.clients.handle_timeout(self.now);
        self.transmit_up();
    }

    /// The server's; [`InMemory::take_down`] comes after it.
    pub fn idle_server(&mut self) {
        self.serve_timers();
        self.serve_datagrams();
        self.serve_output();
    }

    fn exchange(&mut self) {
        self.transmit_up();
        self.serve_datagrams();
        self.serve_output();
        self.take_down();
    }

    /// Nobody yet.
    pub fn empty(slots: u32, message_bytes: usize) -> Self {
        let unix_secs = tidegate::clock::wall_secs();
        let now = Now {
            mono: Timestamp::from_millis(1_000),
            unix_secs,
        };
        let mut params = netcode::Params::new(PROTOCOL_ID, vec![SERVER], slots);
        params.private_keys = vec![Key::new(KEY)];
        params.max_token_lifetime = None;
        params.max_pending = slots as usize;
        let roster = RosterParams {
            slots,
            ..RosterParams::default()
        };
        let roster = Roster::new(roster, unix_secs);
        let handshake = Handshake::new(params, roster, Key::new([3; 32]), 1 << 63);
        let acceptor = Acceptor::new(handshake, Arc::new(Params::default()), 5);
        let limits = endpoint::Params {
            peers_max: slots as usize,
            ..endpoint::Params::default()
        };
        Self {
            now,
            slots,
            server: Endpoint::new(Box::new(acceptor), limits),
            clients: Endpoint::new(Box::new(RejectAll), limits),
            ids: Vec::new(),
            peers: Vec::new(),
            codec: FrameCodec::new(Framing::U16Be, false, false, 60_000),
            up: Batch::default(),
            down: Batch::default(),
            reply: Vec::new(),
            frames: Vec::new(),
            message: vec![0x5a; message_bytes],
            heard: 0,
        }
    }

    pub fn dial(&mut self, number: u32) {
        let recipe = Recipe {
            protocol_id: PROTOCOL_ID,
            client_id: u64::from(number) + 1,
            servers: vec![SERVER],
            lifetime: Duration::from_secs(300),
            timeout: Duration::from_secs(10),
            user_data: UserData::empty(),
        };
        let token = mint(recipe, &Key::new(KEY)).unwrap();
        let params = Arc::new(Params::default());
        let session = Connector::new(self.now, params, token, u64::from(number));
        let address = SocketAddr::from((Ipv4Addr::from(FIRST + number), 9));
        let id = self.clients.dial(self.now, address, Box::new(session));
        self.ids.push(id);
    }

    /// Time passes; what is due on both sides is done.
    pub fn wait(&mut self, span: Duration) {
        self.now.mono += span;
        self.clients.handle_timeout(self.now);
        self.serve_timers();
    }

    /// Every client says something.
    pub fn clients_say(&mut self) {
        for &id in &self.ids {
            self.clients.send(self.now, id, 0, &self.message).unwrap();
        }
    }

    pub fn transmit_up(&mut self) {
        self.up.clear();
        while let Some((_, from)) = self.clients.poll_transmit(self.now, &mut self.up.bytes) {
            self.up.entries.push((from, self.up.bytes.len()));
        }
    }

    /// What the server does when time has passed. It and the other `serve_*` are all that the server does: they are
    /// what benches/instructions.sh counts, so none calls another.
    #[inline(never)]
    fn serve_timers(&mut self) {
        self.server.handle_timeout(self.now);
    }

    /// What the server does with datagrams: route, open, parse, order, frame for the backend.
    #[inline(never)]
    pub fn serve_datagrams(&mut self) {
        let mut start = 0;
        for &(from, end) in &self.up.entries {
            let datagram = &mut self.up.bytes[start..end];
            start = end;
            let handled = self
                .server
                .handle_datagram(self.now, from, datagram, &mut self.reply);
            if !self.reply.is_empty() {
                self.down.bytes.extend_from_slice(&self.reply);
                self.down.entries.push((from, self.down.bytes.len()));
            }
            if let tidegate_proto::Handled::Peer(id) = handled {
                while let Some(message) = self.server.poll_message(id) {
                    self.frames.clear();
                    self.codec
                        .encode(message.channel, message.payload, &mut self.frames)
                        .unwrap();
                    self.heard += 1;
                }
            }
        }
        while let Some((id, event)) = self.server.poll_event() {
            match event {
                Event::Authenticated => self.server.admit(self.now, id),
                Event::Connected => self.peers.push(id),
                Event::Closed(reason) => panic!("{reason:?}"),
            }
        }
    }

    /// What the server does with frames of backends: cut, queue.
    #[inline(never)]
    pub fn serve_frames(&mut self) {
        self.frames.clear();
        self.codec
            .encode(0, &self.message, &mut self.frames)
            .unwrap();
        for &id in &self.peers {
            let frame = self.codec.decode(&self.frames).unwrap().unwrap();
            let payload = &self.frames[frame.payload];
            self.server
                .send(self.now, id, frame.channel, payload)
                .unwrap();
        }
    }

    /// What the server does to send: compose, seal.
    #[inline(never)]
    pub fn serve_output(&mut self) {
        while let Some((_, to)) = self.server.poll_transmit(self.now, &mut self.down.bytes) {
            self.down.entries.push((to, self.down.bytes.len()));
        }
    }

    pub fn take_down(&mut self) {
        let mut start = 0;
        for &(to, end) in &self.down.entries {
            let datagram = &mut self.down.bytes[start..end];
            start = end;
            if let tidegate_proto::Handled::Peer(id) =
                self.clients
                    .handle_datagram(self.now, to, datagram, &mut self.reply)
            {
                while self.clients.poll_message(id).is_some() {}
            }
        }
        self.down.clear();
        while let Some((_, event)) = self.clients.poll_event() {
            assert!(!matches!(event, Event::Closed(_)), "{event:?}");
        }
    }

    /// One round of a game at 30 Hz: every client says something, every client is told something.
    pub fn round(&mut self) {
        self.wait(Duration::from_micros(33_333));
        self.clients_say();
        self.transmit_up();
        self.serve_datagrams();
        self.serve_frames();
        self.serve_output();
        self.take_down();
    }
}
