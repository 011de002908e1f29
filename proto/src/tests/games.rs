//! Servers and clients of each protocol, for worlds of any of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::library::{FRAME, LibraryPeer, LibraryServer};
use crate::endpoint::{self, Endpoint, PeerId};
use crate::session::{Acceptor, Reject, Session, Stranger, Verdict};
use crate::sim::{Conditions, Random, Traffic, World};
use crate::time::Now;
use crate::yojimbo::netcode::{
    self, ConnectToken, Handshake, Key, Mint, PrivateToken, Roster, RosterParams,
    global_sequence_start,
};
use crate::{gaffer, rudp, sender, yojimbo};

/// Calendar time at which every world begins.
pub(super) const START: u64 = 1_700_000_000;
/// Longest life of a connect token, in seconds.
const TOKEN_LIFETIME: u64 = 30;
const PROTOCOL_ID: u64 = u64::from_le_bytes(*b"tidegat1");

/// A protocol, and how its sessions behave.
#[derive(Clone, Debug)]
pub(super) enum Rules {
    Yojimbo(Arc<yojimbo::Params>),
    Gaffer(Arc<gaffer::Params>),
    Rudp(rudp::Params),
}

impl Rules {
    /// Yojimbo's own, with this sender.
    pub(super) fn yojimbo(sender: &sender::Params) -> Self {
        Self::Yojimbo(Arc::new(yojimbo::Params {
            sender: Arc::new(sender.clone()),
            ..yojimbo::Params::default()
        }))
    }

    /// Of a tidegate that knows no long fragments.
    pub(super) fn older(&self) -> Self {
        match self {
            Self::Yojimbo(params) => {
                let params = yojimbo::Params::clone(params);
                Self::Yojimbo(Arc::new(params.without_long_fragments()))
            }
            Self::Gaffer(_) | Self::Rudp(_) => self.clone(),
        }
    }
}

/// Makes servers and clients that fit each other; each with keys, tokens and seeds of its own.
pub(super) struct Game {
    rules: Rules,
    /// The clients'.
    dialling: Rules,
    /// Yojimbo clients, and the server, are of the library's make.
    library_clients: bool,
    library_server: bool,
    /// The library's clients look at their network so often.
    frame: Duration,
    seed: u64,
    random: Random,
    /// What tokens say of it, in seconds.
    timeout: i32,
}

/// The acceptor of an endpoint that only dials.
struct RejectAll;

impl Acceptor for RejectAll {
    fn handle_unknown(&mut self, _now: Now, _stranger: Stranger<'_>) -> Verdict {
        Verdict::Reject(Reject::UnknownPeer)
    }
}

impl Game {
    pub(super) fn new(rules: Rules, seed: u64) -> Self {
        Self {
            dialling: rules.clone(),
            library_clients: false,
            library_server: false,
            frame: FRAME,
            rules,
            seed,
            random: Random::new(seed),
            timeout: 5,
        }
    }

    /// The library's clients, before a server of ours with the usual rules.
    pub(super) fn of_library_clients(seed: u64) -> Self {
        let rules = Rules::Yojimbo(Arc::new(yojimbo::Params::default()));
        Self::new(rules, seed).with_library_clients()
    }

    /// With tokens that let a session be silent for so many seconds.
    pub(super) fn with_timeout(self, secs: i32) -> Self {
        Self {
            timeout: secs,
            ..self
        }
    }

    /// With clients that have other rules of the same protocol.
    pub(super) fn dialled_by(self, dialling: Rules) -> Self {
        Self { dialling, ..self }
    }

    /// With clients of the library's make.
    pub(super) fn with_library_clients(self) -> Self {
        Self {
            library_clients: true,
            ..self
        }
    }

    /// With clients that have so many frames a second.
    pub(super) fn with_ticks(self, ticks: u32) -> Self {
        Self {
            frame: Duration::from_secs(1) / ticks,
            ..self
        }
    }

    /// With a server of the library's make.
    pub(super) fn with_library_server(self) -> Self {
        Self {
            library_server: true,
            ..self
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// A server whose process begins at this calendar time, with no memory of an earlier one.
    pub(super) fn server(&mut self, started_unix: u64) -> Endpoint {
        let secret = bytes(&mut self.random);
        let acceptor: Box<dyn Acceptor> = match &self.rules {
            Rules::Gaffer(params) => Box::new(gaffer::Acceptor::new(params.clone(), secret)),
            Rules::Rudp(params) => Box::new(rudp::Acceptor::new(*params, secret)),
            Rules::Yojimbo(params) => {
                let (challenges, seed) = (bytes(&mut self.random), self.random.next());
                let handshake = handshake(started_unix, Key::new(challenges));
                let params = params.clone();
                if self.library_server {
                    let server = LibraryServer { handshake, params };
                    return Endpoint::new(Box::new(server), endpoint::Params::default());
                }
                Box::new(yojimbo::Acceptor::new(handshake, params, seed))
            }
        };
        Endpoint::new(acceptor, endpoint::Params::default())
    }

    /// A client that dials now. For yojimbo, with a token made for it now.
    pub(super) fn dial(&mut self, now: Now, client: usize) -> (Endpoint, PeerId) {
        let session = self.session(now, client);
        dial(now, session)
    }

    /// The session of such a client.
    pub(super) fn session(&mut self, now: Now, client: usize) -> Box<dyn Session> {
        let seed = self.random.next();
        match self.dialling.clone() {
            Rules::Gaffer(params) => Box::new(gaffer::Session::dial(now, &params, seed)),
            Rules::Rudp(params) => Box::new(rudp::Session::dial(now, params)),
            Rules::Yojimbo(params) => {
                let token = self.token(now, client);
                if self.library_clients {
                    return Box::new(LibraryPeer::dial(now, params, token, self.frame));
                }
                Box::new(yojimbo::Connector::new(now, params, token, seed))
            }
        }
    }

    /// A connect token like any other.
    pub(super) fn token(&mut self, now: Now, client: usize) -> ConnectToken {
        let random = &mut self.random;
        let private = PrivateToken {
            client_id: 1000 + client as u64,
            timeout_seconds: self.timeout,
            servers: vec![server_address()],
            client_to_server: Key::new(bytes(random)),
            server_to_client: Key::new(bytes(random)),
            user_data: netcode::UserData::empty(),
        };
        let lifetime = now.unix_secs..=now.unix_secs + TOKEN_LIFETIME;
        let mint = Mint::new(PROTOCOL_ID, lifetime, bytes(random), private);
        ConnectToken::mint(mint, &Key::new([7; 32])).expect("a token like any other")
    }

    /// A world with `clients` that all say `up` and are told `down`.
    pub(super) fn world(
        &mut self,
        seed: u64,
        clients: usize,
        weather: Conditions,
        up: &Traffic,
        down: &Traffic,
    ) -> World {
        let server = self.server(START - 100);
        let mut world = World::new(seed, server, server_address(), weather, START);
        for client in 0..clients {
            let (endpoint, peer) = self.dial(world.now(), client);
            world.add_client(endpoint, peer, client_address(client), up.clone(), down);
        }
        world
    }
}

/// An endpoint without a session: a client whose program was killed.
pub(super) fn nobody() -> Endpoint {
    Endpoint::new(Box::new(RejectAll), endpoint::Params::default())
}

/// An endpoint for one session that dials.
pub(super) fn dial(now: Now, session: Box<dyn Session>) -> (Endpoint, PeerId) {
    let mut endpoint = nobody();
    let peer = endpoint.dial(now, server_address(), session);
    (endpoint, peer)
}

pub(super) fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 40_000))
}

pub(super) fn client_address(client: usize) -> SocketAddr {
    let (high, low) = ((client / 250) as u8, (client % 250) as u8 + 1);
    SocketAddr::from(([10, 1, high, low], 50_000))
}

fn handshake(started_unix: u64, challenge_key: Key) -> Handshake {
    let slots = 64;
    let params = RosterParams {
        slots,
        ..RosterParams::default()
    };
    let roster = Roster::new(params, started_unix);
    let mut params = netcode::Params::new(PROTOCOL_ID, vec![server_address()], slots);
    params.private_keys = vec![Key::new([7; 32])];
    params.max_token_lifetime = Some(TOKEN_LIFETIME);
    let sequence = global_sequence_start(0, started_unix);
    Handshake::new(params, roster, challenge_key, sequence)
}

fn bytes<const N: usize>(random: &mut Random) -> [u8; N] {
    std::array::from_fn(|_| random.next() as u8)
}
