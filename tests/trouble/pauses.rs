//! A process that gets no processor time.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::Value;

use super::{Scene, UNWATCHED, backend};
use crate::support::place::Place;
use crate::support::program::{Program, program};
use crate::support::scene::ctl;
use crate::support::{accept, page};

/// Who was stopped reads what waited for it before it looks at its clocks, and says that it was.
#[test]
fn a_pause_longer_than_the_timeout_costs_no_peer_that_went_on_speaking() {
    let (listener, target) = backend();
    let scene = Scene::start("paused", &[], &target, UNWATCHED);
    let mut player = scene.player();
    let mut stream = accept(&listener);
    let mut frame = [0; 7];
    stream.read_exact(&mut frame).unwrap();
    scene.server.signal("STOP");
    std::thread::sleep(Duration::from_millis(3_500));
    scene.server.signal("CONT");
    player.write_all(b"again").unwrap();
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(&frame[2..], b"again");
    let line = scene.server.logged("process_paused");
    assert_eq!(line["level"], "warn");
    assert!(line["for_s"].as_f64().unwrap() > 3.0, "{line}");
    let (_, status) = page::ask(scene.page, "/status");
    let status: Value = serde_json::from_str(&status).unwrap();
    let found = status["findings"][0]["text"].as_str().unwrap();
    assert!(found.starts_with("this process did not run for 3 s, until "));
}

/// As `cpulimit` stops a process: each time it interrupts what a worker waits in, for a quarter of a second at most.
#[test]
fn a_process_that_is_stopped_time_and_again_still_turns() {
    let (_listener, target) = backend();
    let scene = Scene::start("limited-cpu", &[], &target, UNWATCHED);
    for _ in 0..35 {
        scene.server.signal("STOP");
        std::thread::sleep(Duration::from_millis(150));
        scene.server.signal("CONT");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (code, text) = page::ask(scene.page, "/livez");
    assert_eq!(code, 200, "{text}");
}

/// Every worker sees it, and it is one event.
#[test]
fn a_pause_is_told_once_whoever_sees_it() {
    let place = Place::new("paused-twice");
    let control = place.path("control.sock");
    let text = format!(
        "version = 1\n[runtime]\nworkers = 2\n[log]\nrepeat_window = \"0s\"\n\
         [admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n\
         [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
         [backend.game]\ntargets = [\"tcp://127.0.0.1:1\"]\nframing = \"raw\"\nhealth = {{ kind = \"off\" }}\n",
        control.display()
    );
    let file = place.write("server.toml", &text);
    let mut server = Program::start(program().args(["serve", "--config"]).arg(file));
    server.logged("listening");
    // Each worker answers, and so has begun to take turns.
    let peers = ctl(&control, &["peers"]);
    assert!(peers.status.success(), "{peers:?}");
    server.signal("STOP");
    std::thread::sleep(Duration::from_millis(2_500));
    server.signal("CONT");
    server.logged("process_paused");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    server.logged("stopped");
    assert_eq!(server.all_logged("process_paused").len(), 1);
}
