//! A file that has changed.

use std::io::Write;

use crate::support::program::program;
use crate::support::scene::{Scene, Traffic, is_over, knock};
use crate::support::{PATIENCE, wait_until};

/// A broken file changes nothing, says why, and disturbs nobody.
#[test]
fn a_broken_file_changes_nothing() {
    let scene = Scene::new("broken");
    let traffic = Traffic::start(scene.join());
    let path = scene.place.path("server.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    for broken in [
        good.replace("raw", "row"),
        good.replace("[backend.game]", "[backend.gome]"),
        good.replace("version = 1", ""),
        format!("{good}\nsurprise = 1\n"),
        "[".to_owned(),
    ] {
        std::fs::write(&path, &broken).unwrap();
        let answer = scene.ask(&["reload"]);
        assert_eq!(answer["ok"], false, "{broken}");
        let why = answer["error"].as_str().unwrap();
        assert!(why.contains("configuration refused"), "{why}");
    }
    let stats = scene.ask(&["stats"]);
    assert_eq!(
        (&stats["reloads_refused"], &stats["last_reload_ok"]),
        (&5.into(), &false.into())
    );
    let why = stats["reload_error"].as_str().unwrap();
    assert!(why.contains("server.toml:1:"), "{why}");
    std::fs::write(&path, &good).unwrap();
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer["ok"], true);
    assert_eq!(answer["applied"].as_array().unwrap().len(), 0, "{answer}");
    assert_eq!(scene.ask(&["peers"])["peers"].as_array().unwrap().len(), 1);
    assert!(traffic.stop() > 0);
    assert_eq!(
        scene.server.logged("session_end")["reason"],
        "peer_disconnect"
    );
}

/// The key changes, twice, while somebody plays: new tokens are taken, old ones while they are
/// listed, and the session goes on.
#[test]
fn a_key_changes_without_an_outage() {
    let scene = Scene::new("rotation");
    let traffic = Traffic::start(scene.join());
    let second = scene.place.path("second");
    let made = program()
        .arg("keygen")
        .arg("--out")
        .arg(&second)
        .status()
        .unwrap();
    assert!(made.success());
    scene.edit(
        "key_file = \"key\"",
        "key_file = \"second\", previous_key_files = [\"key\"]",
    );
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(
        answer["needs_restart"].as_array().unwrap().len(),
        0,
        "{answer}"
    );
    assert!(answer.to_string().contains("netcode.keys"), "{answer}");

    // The tunnel mints with the old key and one fixed client id, so the first player has to go.
    assert!(traffic.stop() > 0);
    assert_eq!(
        scene.server.logged("session_end")["reason"],
        "peer_disconnect"
    );
    let traffic = Traffic::start(scene.join());
    scene.edit(", previous_key_files = [\"key\"]", "");
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    assert_eq!(scene.ask(&["peers"])["peers"].as_array().unwrap().len(), 1);
    assert!(traffic.stop() > 0, "its session outlives its key");
    let mut refused = knock(scene.entrance);
    refused.write_all(b"hello").unwrap();
    assert!(
        is_over(&mut refused),
        "a key that is listed no more opens nothing"
    );
}

/// What only a restart can change is left alone, and said; SIGHUP does the same as the command, each
/// time.
#[test]
fn what_needs_a_restart_is_said() {
    let scene = Scene::new("restart");
    scene.edit("workers = 2", "workers = 1");
    scene.edit(
        "backend = \"game\"",
        "backend = \"game\"\nidle_timeout = \"11s\"",
    );
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer["applied"][0], "listener.game.idle_timeout");
    assert_eq!(answer["needs_restart"][0], "runtime.workers");
    let warned = scene.server.logged("needs_restart");
    assert_eq!(
        (&warned["level"], &warned["values"]),
        (&"warn".into(), &"runtime.workers".into())
    );
    assert_eq!(scene.ask(&["stats"])["needs_restart"][0], "runtime.workers");
    scene.edit("version = 1", "version = 1\nlog = { level = \"debug\" }");
    for reloads in 2..6 {
        scene.server.signal("HUP");
        wait_until("another reload", PATIENCE, || {
            (scene.ask(&["stats"])["reloads"] == reloads).then_some(())
        });
    }
    scene.join();
}
