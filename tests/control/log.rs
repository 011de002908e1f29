//! What the log says, and how much of it.

use crate::support::scene::{Scene, assert_connected};
use crate::support::{PATIENCE, wait_until};

/// Other servers know it for something, and by the kernel's own rule it ends a program that did not ask for it: every
/// session with it, without a goodbye.
#[test]
fn a_signal_that_means_nothing_does_nothing() {
    let scene = Scene::new("usr2");
    let (mut player, mut stream) = scene.join();
    scene.server.signal("USR2");
    assert_eq!(scene.server.logged("signal_ignored")["signal"], "SIGUSR2");
    assert_connected(&mut player, &mut stream);
}

/// Silence has a word of its own; an empty one would be taken for it.
#[test]
fn the_log_is_not_silenced_by_an_empty_word() {
    let scene = Scene::new("silent");
    let answer = scene.ask(&["log", ""]);
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(scene.ask(&["log", "off"])["ok"], true);
    assert_eq!(scene.ask(&["log", "info"])["ok"], true);
    scene.join();
    scene.server.logged("session_start");
}

/// Debug that was left on fills disks.
#[test]
fn a_level_can_be_asked_for_and_set_for_a_while() {
    let scene = Scene::new("level");
    let level = || scene.ask(&["log"])["level"].clone();
    assert_eq!(level(), "info");
    assert_eq!(scene.ask(&["log", "debug", "--for", "2s"])["ok"], true);
    assert_eq!(level(), "debug");
    assert_eq!(scene.ask(&["stats"])["log_level"], "debug");
    scene.server.logged("control_query");
    let told = scene.server.logged("control_command");
    assert_eq!(
        (&told["command"], &told["log_level"], &told["seconds"]),
        (&"log".into(), &"debug".into(), &2.into())
    );
    assert_eq!(told["level"], "info", "the line's own");
    wait_until("the old level", PATIENCE, || {
        (level() == "info").then_some(())
    });
    let output = scene.ctl(&["log", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
