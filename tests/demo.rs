//! The demo does what the README says it does: real sessions over a network that was bad.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot start a program has failed"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::{PATIENCE, end_of};
use tidegate::demo::{Demo, Spoken};

#[test]
fn players_on_a_lossy_network_get_every_message_back_once_and_in_order() {
    for protocol in [Spoken::Yojimbo, Spoken::Gaffer, Spoken::Rudp] {
        play(protocol);
    }
}

fn play(protocol: Spoken) {
    let demo = Demo {
        protocol,
        players: 20,
        rate: 20,
        size: 64,
        loss: 0.05,
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(2),
        storms: false,
        duration: Some(Duration::from_secs(6)),
        admin: Some(([127, 0, 0, 1], 0).into()),
    };
    let verdict = demo.run().expect("the demo runs");
    assert_eq!(verdict.connected, 20, "{verdict:?}");
    assert_eq!(verdict.wrong, 0, "{verdict:?}");
    assert!(verdict.echoed > 1_000, "{verdict:?}");
    assert!(verdict.lost > 50, "too kind a network: {verdict:?}");
}

/// An interrupt prints the totals, and no session counts as lost because of that.
#[test]
fn an_interrupted_demo_sums_up() {
    for signal in ["INT", "TERM"] {
        let (demo, said) = start(&["--players", "10", "--loss", "10"]);
        while !next(&said).trim_start().starts_with("3 s") {}
        let pid = demo.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
        let (code, complaint) = end_of(demo);
        assert_eq!(code, Some(0), "{complaint}");
        let totals = said.iter().last().unwrap();
        assert!(totals.contains("each one once and in order"), "{totals}");
        assert!(totals.ends_with("datagrams were lost."), "{totals}");
    }
}

/// `tidegate demo | head`: the reader has seen enough, and that is no error.
#[test]
fn a_demo_whose_reader_went_away_ends() {
    let (demo, said) = start(&["--players", "1"]);
    next(&said);
    drop(said);
    let (code, complaint) = end_of(demo);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
}

/// As it is built, with these arguments, and the lines of its standard output for as long as somebody takes them.
fn start(arguments: &[&str]) -> (Child, Receiver<String>) {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["demo", "--admin", "127.0.0.1:0"])
        .args(arguments)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(demo.stdout.take().unwrap());
    let (sender, said) = channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (demo, said)
}

fn next(said: &Receiver<String>) -> String {
    said.recv_timeout(PATIENCE).unwrap()
}
