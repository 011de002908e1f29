//! What a restart remembers of connect tokens: the built program, killed and started again.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use support::place::Place;
use support::program::Program;
use support::{PATIENCE, own_address, wait_until};
use tidegate::config::read_key_file;
use tidegate::tokens::{self, Recipe};
use tidegate_client::{Clock, Dial, Polled, State};
use tidegate_proto::yojimbo::netcode::{Key, UserData};

struct Scene {
    place: Place,
    server: SocketAddr,
    _backend: TcpListener,
}

impl Scene {
    /// A place for servers that follow each other at one address; `state` is where they keep things.
    fn new(name: &str, state: &str) -> Self {
        let place = Place::new(name);
        let backend = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = own_address();
        let mut keygen = place.start(&["keygen", "--out", "netcode.key"]);
        assert_eq!(keygen.exit_code(), Some(0));
        std::fs::create_dir(place.path("state")).unwrap();
        place.write(
            "tidegate.toml",
            format!(
                "version = 1\n\
                 [runtime]\nworkers = 2\nstate_directory = \"{state}\"\n\
                 [admin]\nlisten = \"\"\n\
                 [listener.game]\nbind = [\"{server}\"]\nbackend = \"game\"\n\
                 netcode = {{ max_token_lifetime = \"{}s\" }}\n\
                 limits = {{ ip_handshakes = {{ rate = 1000000, burst = 1000000 }}, \
                 handshakes = {{ rate = 1000000, burst = 1000000 }} }}\n\
                 [backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"u16be\"\n\
                 health = {{ kind = \"off\" }}\n",
                LIFETIME.as_secs(),
                backend.local_addr().unwrap()
            ),
        );
        Self {
            place,
            server,
            _backend: backend,
        }
    }

    fn start(&self) -> Program {
        let program = self.place.start(&["serve", "--config", "tidegate.toml"]);
        program.address();
        program
    }

    fn token(&self) -> Vec<u8> {
        let token = tokens::mint(self.recipe(), &self.key()).unwrap();
        tokens::token_text(&token).as_bytes().to_vec()
    }

    fn key(&self) -> Key {
        read_key_file(&self.place.path("netcode.key")).unwrap()
    }

    fn recipe(&self) -> Recipe {
        Recipe {
            protocol_id: u64::from_le_bytes(*b"tidegat1"),
            client_id: u64::from_le_bytes(tokens::random().unwrap()),
            servers: vec![self.server],
            lifetime: LIFETIME,
            timeout: PATIENCE,
            user_data: UserData::empty(),
        }
    }

    fn file(&self) -> std::path::PathBuf {
        self.place.path("state/game.tokens")
    }
}

/// Dials until it is decided, or for so long.
fn dial(token: &[u8], patience: Duration) -> (Polled, State) {
    let clock = Clock::start();
    let mut client = Polled::connect(clock.now(), Dial::yojimbo(token).unwrap()).unwrap();
    let end = clock.now().mono + patience;
    let state = wait_until("a decision", patience * 2, || {
        match client.update(clock.now()) {
            State::Connecting if clock.now().mono < end => None,
            decided => Some(decided),
        }
    });
    (client, state)
}

/// Of tokens: longer than a test runs on a machine that is slow.
const LIFETIME: Duration = Duration::from_secs(300);
/// Long enough for twenty requests to a server that answers the first one it wants to.
const REFUSED: Duration = Duration::from_secs(2);

#[test]
fn a_killed_server_remembers_who_was_there_and_nobody_else_waits() {
    let scene = Scene::new("history", "state");
    let mut first = scene.start();
    let (used, unused) = (scene.token(), scene.token());
    assert_eq!(dial(&used, PATIENCE).1, State::Connected);
    first.signal("KILL");
    first.exit_code();

    let mut second = scene.start();
    let said = second.wait_for("\"event\":\"token_history\"");
    assert!(said.contains("\"tokens\":1"), "{said}");
    assert_eq!(
        dial(&unused, PATIENCE).1,
        State::Connected,
        "issued before the restart"
    );
    assert_eq!(
        dial(&scene.token(), PATIENCE).1,
        State::Connected,
        "issued after it"
    );
    assert_eq!(
        dial(&used, REFUSED).1,
        State::Connecting,
        "it opened a session already"
    );
    second.signal("KILL");
    second.exit_code();

    let third = scene.start();
    let said = third.wait_for("\"event\":\"token_history\"");
    assert!(said.contains("\"tokens\":3"), "{said}");
    for token in [&used, &unused] {
        assert_eq!(dial(token, REFUSED).1, State::Connecting);
    }
}

/// The other side of it: without the file, nothing from before the start gets in.
#[test]
fn a_server_without_memory_refuses_what_may_have_been_used() {
    let scene = Scene::new("no-history", "");
    let unused = scene.token();
    // The rule counts in whole seconds, and so does a token's age.
    std::thread::sleep(Duration::from_millis(1_100));
    let _server = scene.start();
    assert_eq!(dial(&unused, REFUSED).1, State::Connecting);
    assert_eq!(dial(&scene.token(), PATIENCE).1, State::Connected);
    assert!(!scene.file().exists());
}

#[test]
fn a_broken_file_is_said_and_stops_nothing() {
    let scene = Scene::new("broken-history", "state");
    let unused = scene.token();
    std::thread::sleep(Duration::from_millis(1_100));
    std::fs::write(scene.file(), "this is no token history").unwrap();
    let server = scene.start();
    server.wait_for("\"event\":\"token_history_unreadable\"");
    assert_eq!(
        dial(&unused, REFUSED).1,
        State::Connecting,
        "who knows what it said"
    );
    assert_eq!(dial(&scene.token(), PATIENCE).1, State::Connected);
}

/// Somebody with genuine tokens asks and asks, and the players of a server that looks well stay outside.
#[test]
fn that_no_more_tokens_can_be_remembered_is_said() {
    let scene = Scene::new("full-history", "");
    let server = scene.start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(scene.server).unwrap();
    let (key, recipe) = (scene.key(), scene.recipe());
    wait_until("the warning", PATIENCE, || {
        let mut request = Vec::new();
        for _ in 0..64 {
            request.clear();
            let token = tokens::mint(recipe.clone(), &key).unwrap();
            token.emit_request(&mut request);
            socket.send(&request).unwrap();
        }
        server.has_said("newcomers_refused").then_some(())
    });
    let line = server.wait_for("newcomers_refused");
    for part in [
        "\"level\":\"warn\"",
        "\"reason\":\"token_history_full\"",
        "\"key\":\"listener.game.netcode.max_token_lifetime\"",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
}

/// With the key of yojimbo's samples anybody makes tokens of any age, so their age says nothing: `InsecureConnect` makes
/// tokens for 60 s since yojimbo 1.5.0, and for 10 s before that.
#[test]
fn tokens_of_the_all_zero_key_are_taken_whatever_their_lifetime() {
    let scene = Scene::new("zero_key", "");
    scene.place.write("netcode.key", "0".repeat(64));
    let file = std::fs::read_to_string(scene.place.path("tidegate.toml")).unwrap();
    let lifetime = format!("\"{}s\" }}", LIFETIME.as_secs());
    let insecure = file.replace(&lifetime, "\"30s\", insecure = true }");
    assert_ne!(insecure, file);
    scene.place.write("tidegate.toml", insecure);
    let _server = scene.start();
    for lifetime in [60, 20] {
        let recipe = Recipe {
            lifetime: Duration::from_secs(lifetime),
            ..scene.recipe()
        };
        let token = tokens::mint(recipe, &scene.key()).unwrap();
        let (_client, state) = dial(tokens::token_text(&token).as_bytes(), PATIENCE);
        assert_eq!(state, State::Connected, "a token for {lifetime} s");
    }
}
