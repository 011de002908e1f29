//! Several workers behind one port: a session follows its peer's new port, whichever worker the
//! kernel then gives its datagrams to.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use support::place::Place;
use support::program::Program;
use support::token::mint_for;
use support::{PATIENCE, echo_server, page, wait_until};
use tidegate::clock::Clock;
use tidegate_proto::yojimbo::netcode::ConnectToken;
use tidegate_proto::yojimbo::{Connector, Params};
use tidegate_proto::{Event, Session};

/// `tidegate serve` with four workers.
struct Serve {
    program: Program,
    admin: SocketAddr,
}

impl Serve {
    fn start(place: &Place, backend: SocketAddr) -> Self {
        place.write("netcode.key", "42".repeat(32));
        let key = place.path("netcode.key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        place.write(
            "tidegate.toml",
            format!(
                r#"
                version = 1
                [runtime]
                workers = 4
                [admin]
                listen = "127.0.0.1:0"
                [log]
                format = "json"
                [listener.game]
                bind = ["127.0.0.1:0"]
                public_addresses = ["any"]
                backend = "game"
                [listener.game.netcode]
                key_file = "netcode.key"
                max_token_lifetime = "{lifetime}s"
                [backend.game]
                targets = ["tcp://{backend}"]
                framing = "u16be"
                health = {{ kind = "off" }}
                "#,
                lifetime = LIFETIME.as_secs()
            ),
        );
        let program = place.start(&["serve", "--config", "tidegate.toml"]);
        let admin = program.admin();
        Self { program, admin }
    }

    fn metrics(&self) -> String {
        page::ask(self.admin, "/metrics").1
    }

    /// Which worker has all peers, once one of them does.
    fn worker(&self) -> String {
        wait_until("one worker with a peer", PATIENCE, || {
            let metrics = self.metrics();
            let peers = metrics
                .lines()
                .filter(|line| line.starts_with("tidegate_worker_peers{") && !line.ends_with(" 0"));
            let workers: Vec<_> = peers.collect();
            (workers.len() == 1).then(|| workers[0].to_owned())
        })
    }

    /// The sum of all series of a metric.
    fn sum(&self, name: &str) -> f64 {
        let metrics = self.metrics();
        let series = metrics.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        series
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

/// Of tokens: longer than any test waits.
const LIFETIME: Duration = Duration::from_secs(300);

/// A client that can change its port.
struct Player {
    server: SocketAddr,
    socket: UdpSocket,
    session: Connector,
    clock: Clock,
    connected: bool,
    heard: Vec<Vec<u8>>,
}

impl Player {
    fn new(place: &Place, server: SocketAddr, client_id: u64) -> Self {
        let token = mint_for(LIFETIME, place, client_id, &[server], PATIENCE);
        Self::with(token, server, client_id)
    }

    fn with(token: ConnectToken, server: SocketAddr, client_id: u64) -> Self {
        let mut clock = Clock::start();
        let now = clock.now();
        let session = Connector::new(now, Arc::new(Params::default()), token, client_id);
        Self {
            server,
            socket: Self::socket(server),
            session,
            clock,
            connected: false,
            heard: Vec::new(),
        }
    }

    fn socket(server: SocketAddr) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        socket
    }

    /// What a NAT does to a client.
    fn change_port(&mut self) {
        let old = self.socket.local_addr().unwrap();
        self.socket = Self::socket(self.server);
        assert_ne!(old, self.socket.local_addr().unwrap());
    }

    fn turn(&mut self) {
        let mut datagram = [0; 2048];
        if let Ok(length) = self.socket.recv(&mut datagram) {
            let now = self.clock.now();
            self.session
                .handle_datagram(now, &mut datagram[..length])
                .ok();
        }
        let now = self.clock.now();
        if self
            .session
            .poll_timeout()
            .is_some_and(|next| next.at <= now.mono)
        {
            self.session.handle_timeout(now);
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Authenticated => {}
                Event::Connected => self.connected = true,
                Event::Closed(reason) => panic!("closed: {reason:?}"),
            }
        }
        while let Some(message) = self.session.poll_message() {
            self.heard.push(message.payload.to_vec());
        }
        let mut datagram = Vec::new();
        while self.session.poll_transmit(now, &mut datagram) {
            self.socket.send(&datagram).ok();
            datagram.clear();
        }
    }

    fn turn_until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        wait_until(what, PATIENCE, || {
            self.turn();
            is(self).then_some(())
        });
    }

    /// Says something and waits for its echo.
    fn echo(&mut self, message: &[u8]) {
        let heard = self.heard.len();
        let now = self.clock.now();
        self.session.send(now, 0, message).unwrap();
        self.turn_until("an echo", |player| player.heard.len() > heard);
        assert_eq!(self.heard[heard], message);
    }
}

#[test]
fn a_session_follows_its_peer_to_another_worker() {
    let place = Place::new("workers");
    let serve = Serve::start(&place, echo_server());
    let address = serve.program.address();
    let mut player = Player::new(&place, address, 7);
    player.turn_until("connected", |player| player.connected);
    player.echo(b"before");
    let first = serve.worker();
    let mut said = 1;
    let moves = (1..=20).find(|number: &u32| {
        player.change_port();
        for word in 0..5 {
            player.echo(format!("{word} after {number} moves").as_bytes());
            said += 1;
        }
        serve.worker() != first
    });
    let moves = moves.expect("each move has three chances in four to meet another worker");
    assert_eq!(player.heard.len(), said, "nothing was said twice or lost");
    // The books balance over both workers: one session, all its messages, nothing counted twice. Each worker
    // publishes its own a few times a second.
    let forwarded = 2.0 * said as f64;
    let books = [
        ("tidegate_messages_forwarded_total", forwarded),
        ("tidegate_messages_sent_total", said as f64),
        ("tidegate_invariant_violations_total", 0.0),
        ("tidegate_backend_connections", 1.0),
        ("tidegate_backend_connections_total", 1.0),
    ];
    let what = format!("balanced books after {moves} moves: {books:?}");
    wait_until(&what, PATIENCE, || {
        let balance = |(name, value): (&str, f64)| serve.sum(name) == value;
        books.into_iter().all(balance).then_some(())
    });
}

/// A router that was restarted gives out its ports anew: each player gets the port of another one, and so in most cases
/// another player's worker.
#[test]
fn sessions_follow_peers_who_got_each_others_ports() {
    let place = Place::new("ports");
    let serve = Serve::start(&place, echo_server());
    let address = serve.program.address();
    let mut players: Vec<Player> = (0..6)
        .map(|client| Player::new(&place, address, client))
        .collect();
    for player in &mut players {
        player.turn_until("connected", |player| player.connected);
        player.echo(b"before");
    }
    for round in 0..3 {
        // In a ring, and two of them with each other besides.
        for pair in [(0, 1), (1, 2), (2, 3), (4, 5)] {
            let (left, right) = players.split_at_mut(pair.1);
            std::mem::swap(&mut left[pair.0].socket, &mut right[0].socket);
        }
        for (index, player) in players.iter_mut().enumerate() {
            player.echo(format!("{index} after {round} restarts").as_bytes());
        }
    }
    let books = [
        ("tidegate_peers", 6.0),
        ("tidegate_backend_connections_total", 6.0),
        ("tidegate_invariant_violations_total", 0.0),
    ];
    wait_until(&format!("{books:?}"), PATIENCE, || {
        let balance = |(name, value): (&str, f64)| serve.sum(name) == value;
        books.into_iter().all(balance).then_some(())
    });
}

/// One token on many sockets at once, so that every worker is shown it in the same moment: what was used is one list for
/// all of them, and one player gets in.
#[test]
fn a_token_shown_to_all_workers_at_once_seats_one() {
    let place = Place::new("shown");
    let serve = Serve::start(&place, echo_server());
    let address = serve.program.address();
    let token = mint_for(LIFETIME, &place, 7, &[address], PATIENCE);
    let one = |_| Player::with(token.clone(), address, 7);
    let mut players: Vec<Player> = (0..24).map(one).collect();
    let asked = |refused: &str| {
        let metrics = serve.metrics();
        let series = format!("result=\"{refused}\"");
        let line = metrics.lines().find(|line| line.contains(&series));
        line.map_or(0.0, |line| {
            line.rsplit(' ').next().unwrap().parse().unwrap()
        })
    };
    // All others have asked again and again, on whichever worker they come to.
    wait_until("one in, and the others refused", PATIENCE, || {
        players.iter_mut().for_each(Player::turn);
        let is_in = players.iter().any(|player| player.connected);
        (is_in && asked("token_other_address") >= 23.0).then_some(())
    });
    let seated = players.iter().filter(|player| player.connected).count();
    assert_eq!(seated, 1);
    let books = [
        ("tidegate_peers", 1.0),
        ("tidegate_backend_connections_total", 1.0),
    ];
    wait_until(&format!("{books:?}"), PATIENCE, || {
        let balance = |(name, value): (&str, f64)| serve.sum(name) == value;
        books.into_iter().all(balance).then_some(())
    });
}
