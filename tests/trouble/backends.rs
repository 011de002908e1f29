//! Game servers that write nonsense, read nothing, die and come back.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;

use super::{Scene, UNWATCHED, backend};
use crate::support::{PATIENCE, accept, own_address, page, wait_until};

#[test]
fn a_backend_that_writes_no_frames_is_named_with_what_it_wrote() {
    let (listener, target) = backend();
    let scene = Scene::start(
        "unreadable",
        &[],
        &target,
        &format!("max_message = \"1KiB\"\n{UNWATCHED}"),
    );
    let _player = scene.player();
    accept(&listener).write_all(&[0x40; 64]).unwrap();
    let line = scene.server.logged("unreadable_backend");
    assert_eq!(line["level"], "warn");
    assert_eq!(line["reason"], "backend_protocol_error");
    assert_eq!(line["listener"], "game");
    assert!(line["target"].as_str().unwrap().starts_with("tcp://127."));
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("16448 bytes") && error.contains("1024"),
        "{error}"
    );
}

#[test]
fn a_frame_that_fits_no_message_is_named_with_its_size() {
    let (listener, target) = backend();
    let scene = Scene::start("too-long", &[], &target, UNWATCHED);
    let _player = scene.player();
    let frame = [&20_000u16.to_be_bytes()[..], &[7; 20_000]].concat();
    accept(&listener).write_all(&frame).unwrap();
    let line = scene.server.logged("unreadable_backend");
    assert_eq!(line["reason"], "message_too_large");
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("a frame of 20000 bytes") && error.contains("16384"),
        "{error}"
    );
}

/// What fits the kernel's buffers is the kernel's to give up, and what does not is ours.
#[test]
fn a_backend_that_reads_nothing_stalls_and_does_not_break() {
    for bytes in [50 << 10, 32 << 20] {
        let (listener, target) = backend();
        let small = SockRef::from(&listener).set_recv_buffer_size(8 << 10);
        small.unwrap();
        let deaf = format!("stall = \"1s\"\n{UNWATCHED}");
        let scene = Scene::start("deaf", &[], &target, &deaf);
        let mut player = scene.player();
        let stream = accept(&listener);
        let writes = std::thread::spawn(move || {
            // The session ends in the middle of the longer one.
            player.write_all(&vec![7; bytes]).ok();
            player
        });
        let ended = scene.server.logged("session_end");
        assert_eq!(ended["reason"], "backend_stalled", "{bytes}: {ended}");
        let line = scene.server.logged("stalled_backend");
        assert_eq!(line["level"], "warn");
        assert!(line["target"].as_str().unwrap().starts_with("tcp://127."));
        assert_eq!(line["stall_s"], 1.0, "{line}");
        drop((stream, writes.join().unwrap()));
    }
}

/// The only ones who know are those who came.
#[test]
fn a_dead_backend_that_nobody_checks_is_told_of() {
    // Nobody else may have it when the game server comes back: a free port is anybody's.
    let address = own_address();
    let target = format!("\"tcp://{address}\"");
    let scene = Scene::start("unchecked-dead", &[], &target, UNWATCHED);
    let _players: Vec<_> = (0..3).map(|_| scene.player()).collect();
    let line = scene.server.logged("target_down");
    assert_eq!(
        (&line["level"], &line["backend"]),
        (&"warn".into(), &"game".into())
    );
    assert!(
        line["error"].as_str().unwrap().contains("refused"),
        "{line}"
    );
    assert!(
        line["help"]
            .as_str()
            .unwrap()
            .contains("start the game server")
    );
    assert_eq!(scene.metric("tidegate_backend_up"), 0.0);
    // Nobody else finds out that it is back.
    assert_eq!(page::ask(scene.page, "/readyz").0, 200);
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut players = Vec::new();
    wait_until("a player", PATIENCE, || {
        players.push(scene.player());
        std::thread::sleep(Duration::from_millis(100));
        listener.accept().ok()
    });
    scene.server.logged("target_up");
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
}

/// As a scene's backend is that answers its first check, and is not asked again for as long as a test takes.
const SELDOM_WATCHED: &str = "health = { kind = \"connect\", interval = \"1h\" }";

/// A game server that listens at an address nobody else has, found up once, with the streams of so many players.
fn at_play(name: &str, players: usize) -> (Scene, TcpListener, Vec<TcpStream>, Vec<TcpStream>) {
    let listener = TcpListener::bind(own_address()).unwrap();
    let target = format!("\"tcp://{}\"", listener.local_addr().unwrap());
    let scene = Scene::start(name, &[], &target, SELDOM_WATCHED);
    drop(accept(&listener));
    scene.wait_for_checks(&listener, "ok", 1.0);
    let players: Vec<_> = (0..players).map(|_| scene.player()).collect();
    let streams = players.iter().map(|_| accept(&listener)).collect();
    (scene, listener, players, streams)
}

/// Its supervisor starts it again long before the next check.
#[test]
fn a_game_server_that_crashes_and_is_back_at_once_is_told_of() {
    let (scene, listener, _players, streams) = at_play("crashed", 12);
    let address = listener.local_addr().unwrap();
    drop((listener, streams));
    let line = scene.server.logged("target_crashed");
    assert_eq!(
        (&line["level"], &line["target"]),
        (&"warn".into(), &format!("tcp://{address}").into())
    );
    let back = TcpListener::bind(address).unwrap();
    // The alert needs one.
    scene.wait_for_checks(&back, "failed", 1.0);
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
    let (_, status) = page::ask(scene.page, "/status");
    let status: Value = serde_json::from_str(&status).unwrap();
    let found = &status["findings"][0];
    assert_eq!(found["alert"], "TidegateBackendCrashed", "{status}");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("target tcp://{address}")));
}

#[test]
fn a_game_server_that_ends_a_match_is_asked_and_found_there() {
    let (scene, listener, _players, streams) = at_play("match-over", 12);
    drop(streams);
    // More than once: see below.
    scene.wait_for_checks(&listener, "ok", 4.0);
    assert!(scene.server.all_logged("target_crashed").is_empty());
}

/// The kernel may close the streams of a killed program before it closes what the program listened on.
#[test]
fn a_game_server_that_takes_connections_while_it_crashes_is_told_of() {
    let (scene, listener, _players, streams) = at_play("crashing", 12);
    drop(streams);
    drop(accept(&listener));
    drop(listener);
    scene.server.logged("target_crashed");
}

/// The checks know nothing yet, and a session's end is no warning.
#[test]
fn a_player_who_finds_no_game_server_is_told_of_before_the_checks() {
    let (scene, listener, _players, _streams) = at_play("unnoticed", 1);
    drop(listener);
    let _newcomer = scene.player();
    let line = scene.server.logged("connect_failed");
    assert_eq!(
        (&line["level"], &line["reason"]),
        (&"warn".into(), &"refused".into())
    );
    assert!(
        line["help"]
            .as_str()
            .unwrap()
            .contains("start the game server"),
        "{line}"
    );
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
}
