//! Recordings of the built server: they open in tshark, hold no keys, and repeat.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use support::lossy::{Lossy, bad_network};
use support::place::Place;
use support::token::mint;
use support::{PATIENCE, echo_server, scene, skipped, wait_until};
use tidegate::capture::pcapng::{DATAGRAMS, Packet, Packets, RECORDS};
use tidegate::capture::record::{Record, What};
use tidegate::config::read_key_file;
use tidegate::replay::{Report, replay};
use tidegate_client::{Client, Clock, Dial, GAFFER_PROTOCOL_ID, Polled, State};
use tidegate_proto::yojimbo::netcode::ConnectToken;

/// A session through a bad network: numbered messages, echoed.
fn play(dial: Dial) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let session = async {
        let client = Client::connect(dial).await.unwrap();
        for number in 0..MESSAGES {
            client.send(&message(number)).await.unwrap();
        }
        for number in 0..MESSAGES {
            assert_eq!(client.recv().await.unwrap().payload, message(number));
        }
        client.close().await
    };
    let bounded = async { tokio::time::timeout(Duration::from_secs(60), session).await };
    runtime.block_on(bounded).expect("it takes too long");
}

const MESSAGES: u32 = 150;

fn message(number: u32) -> Vec<u8> {
    format!("message {number} says hello ")
        .repeat(12)
        .into_bytes()
}

struct Recording {
    place: Place,
    bytes: Vec<u8>,
}

/// Records one session of this protocol, from a server that is then stopped.
fn record(
    protocol: &str,
    name: &str,
    more: &[&str],
    look: impl FnOnce(&ConnectToken),
) -> Recording {
    let place = Place::new(&format!("capture-{name}"));
    let more = [&["--capture", "session.pcapng"], more].concat();
    let mut serve = place.serve(protocol, "u16be", echo_server(), &more);
    let lossy = Lossy::start(serve.address(), bad_network(), 3);
    match protocol {
        "yojimbo" => {
            let token = mint(&place, 7, &[lossy.address], PATIENCE);
            play(Dial::yojimbo(&token.to_bytes()).unwrap());
            look(&token);
        }
        "gaffer" => play(Dial::gaffer(lossy.address, GAFFER_PROTOCOL_ID)),
        _ => play(Dial::rudp(lossy.address)),
    }
    assert!(lossy.lost() > 5, "the network was too kind");
    serve.wait_for("\"event\":\"session_end\"");
    serve.signal("TERM");
    assert_eq!(serve.exit_code(), Some(0));
    let bytes = std::fs::read(place.path("session.pcapng")).unwrap();
    Recording { place, bytes }
}

fn packets(file: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Packets::new(file).unwrap();
    std::iter::from_fn(|| packets.read().unwrap()).collect()
}

fn holds(file: &[u8], what: &[u8]) -> bool {
    file.windows(what.len()).any(|window| window == what)
}

fn run_replay(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("replay")
        .arg(file)
        .output()
        .unwrap()
}

/// What a recorded session did, it does again; what is changed is found, where it was changed.
fn repeats(protocol: &str) {
    let recording = record(protocol, protocol, &["--capture-content"], |_| {});
    let file = recording.place.path("session.pcapng");
    let output = run_replay(&file);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{output:?}");
    assert!(said.starts_with("the same result: 1 sessions"), "{said}");

    // One byte of one message, in the middle.
    let all = packets(&recording.bytes);
    let mut messages = all.iter().filter(|packet| {
        let record = Record::parse(packet.bytes);
        packet.interface == RECORDS
            && record.is_some_and(|record| matches!(record.what, What::Message(Some(_))))
    });
    let chosen = messages.nth(60).unwrap();
    let mut changed = recording.bytes.clone();
    let at = chosen.bytes.as_ptr() as usize - recording.bytes.as_ptr() as usize;
    changed[at + chosen.bytes.len() - 3] ^= 1;
    let difference = replay(&changed).unwrap().difference.unwrap();
    assert_eq!(difference.packet, chosen.number);
    assert!(
        difference.what.contains("a message from the peer"),
        "{difference}"
    );
    std::fs::write(&file, &changed).unwrap();
    let output = run_replay(&file);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1));
    let packet = format!("first difference: packet {}, session 0, ", chosen.number);
    assert!(said.starts_with(&packet), "{said}");

    // One byte of what the peer said: seen where it first matters, not before.
    let mut heard = all.iter().filter(|packet| {
        let record = Record::parse(packet.bytes);
        let long =
            |what| matches!(what, What::Datagram { opened: true, bytes, .. } if bytes.len() > 220);
        packet.interface == RECORDS && record.is_some_and(|record| long(record.what))
    });
    let chosen = heard.nth(20).unwrap();
    let mut changed = recording.bytes.clone();
    let at = chosen.bytes.as_ptr() as usize - recording.bytes.as_ptr() as usize;
    changed[at + 200] ^= 1;
    match replay(&changed).unwrap().difference {
        Some(difference) => assert!(difference.packet >= chosen.number, "{difference}"),
        // A message that had already come in another packet is not looked at twice.
        None => eprintln!("packet {} repeated what was known", chosen.number),
    }

    // A file that was cut off, as by a full disk, repeats as far as it goes.
    let half = &recording.bytes[..recording.bytes.len() / 2];
    let Report { difference, .. } = replay(half).unwrap();
    assert_eq!(difference, None);
}

/// A player whose address changes with its goodbye is heard, as it is while nothing records.
#[test]
fn a_goodbye_from_a_new_address_is_heard() {
    let place = Place::new("capture-moved");
    let more = ["--capture", "session.pcapng"];
    let serve = place.serve("yojimbo", "u16be", echo_server(), &more);
    let server = serve.address();
    let token = mint(&place, 7, &[server], PATIENCE);
    let clock = Clock::start();
    let dial = Dial::yojimbo(&token.to_bytes()).unwrap();
    let mut player = Polled::connect(clock.now(), dial).unwrap();
    wait_until("a seat", PATIENCE, || {
        (player.update(clock.now()) == State::Connected).then_some(())
    });
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let machine = player.machine_mut();
    machine.close(clock.now());
    let mut goodbye = Vec::new();
    while machine.poll_transmit(clock.now(), &mut goodbye).is_some() {
        elsewhere.send_to(&goodbye, server).unwrap();
        goodbye.clear();
    }
    let end = serve.wait_for("\"event\":\"session_end\"");
    assert!(end.contains("\"reason\":\"peer_disconnect\""), "{end}");
}

#[test]
fn a_yojimbo_session_repeats() {
    repeats("yojimbo");
}

#[test]
fn a_gaffer_session_repeats() {
    repeats("gaffer");
}

#[test]
fn a_rudp_session_repeats() {
    repeats("rudp");
}

/// No key is in it, with content or without; without, no message either.
#[test]
fn a_recording_holds_what_was_asked_for() {
    for (name, content) in [("content", true), ("sealed", false)] {
        let more: &[&str] = if content { &["--capture-content"] } else { &[] };
        let mut secrets = Vec::new();
        let recording = record("yojimbo", name, more, |token| {
            secrets.push(token.client_to_server.as_bytes().to_vec());
            secrets.push(token.server_to_client.as_bytes().to_vec());
        });
        let key = read_key_file(&recording.place.path("netcode.key")).unwrap();
        secrets.push(key.as_bytes().to_vec());
        for secret in &secrets {
            assert!(!holds(&recording.bytes, secret), "{name}: a key");
        }
        assert_eq!(holds(&recording.bytes, b"says hello"), content);
        if !content {
            let error = replay(&recording.bytes).unwrap_err().to_string();
            assert!(error.ends_with("record with content to replay"), "{error}");
        }
        opens_in_tshark(&recording, content);
    }
}

/// As a person would open it: every datagram is a UDP packet with good checksums, every message has
/// a comment.
fn opens_in_tshark(recording: &Recording, content: bool) {
    let tshark = |arguments: &[&str]| {
        let mut command = Command::new("tshark");
        command
            .arg("-r")
            .arg(recording.place.path("session.pcapng"));
        command.args([
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
        ]);
        command.args(arguments).output()
    };
    let Ok(output) = tshark(&[
        "-Y",
        "udp.checksum.status == 1",
        "-T",
        "fields",
        "-e",
        "ip.src",
    ]) else {
        skipped("there is no tshark here to read the recording");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    let all = packets(&recording.bytes);
    let datagrams = all.iter().filter(|packet| packet.interface == DATAGRAMS);
    assert_eq!(lines, datagrams.count());
    let comments = tshark(&["-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"]).unwrap();
    let comments = String::from_utf8_lossy(&comments.stdout).into_owned();
    let said = "session 0: peer, channel 0, ";
    assert_eq!(comments.contains(said), content, "{comments}");
    if content {
        assert!(comments.contains("message 7 says hello"), "{comments}");
    }
}

/// The operator begins and ends it while players come and go.
#[test]
fn an_operator_records_one_listener() {
    let place = Place::new("capture-ctl");
    let backend = echo_server();
    place.write(
        "serve.toml",
        format!(
            r#"
            version = 1
            admin.control_socket = "{}"
            [backend.game]
            targets = ["tcp://{backend}"]
            framing = "u16be"
            [listener.game]
            protocol = "gaffer"
            bind = ["127.0.0.1:0"]
            backend = "game"
            [listener.lobby]
            protocol = "gaffer"
            bind = ["127.0.0.2:0"]
            backend = "game"
            "#,
            place.path("control").display()
        ),
    );
    let serve = place.start(&["serve", "-c", "serve.toml", "--admin", ""]);
    let server = serve.address();
    serve.wait_for("\"event\":\"control\"");
    let ctl = |arguments: &[&str]| {
        let output = scene::ctl(&place.path("control"), arguments);
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let start = |file: &str, listener: &str| {
        let file = place.path(file).display().to_string();
        ctl(&[
            "capture",
            "start",
            &file,
            "--listener",
            listener,
            "--content",
        ])
    };
    assert!(!ctl(&["capture", "stop"]).0, "there is none");
    for (begun, said) in [
        start("nobody.pcapng", "gmae"),
        ctl(&["peers", "--listener", "gmae"]),
    ] {
        assert!(!begun && said.contains("no listener gmae;"), "{said}");
    }
    assert!(!place.path("nobody.pcapng").exists());
    let (begun, said) = start("other.pcapng", "lobby");
    assert!(begun, "{said}");
    assert!(!start("second.pcapng", "game").0, "one at a time");
    play(Dial::gaffer(server, GAFFER_PROTOCOL_ID));
    let (ended, said) = ctl(&["capture", "stop"]);
    assert!(ended && said.contains("\"sessions\":0"), "{said}");
    let (begun, said) = start("other.pcapng", "game");
    assert!(!begun, "never over a file that is there: {said}");

    let (begun, said) = start("game.pcapng", "game");
    assert!(begun, "{said}");
    play(Dial::gaffer(server, GAFFER_PROTOCOL_ID));
    let (ended, said) = ctl(&["capture", "stop"]);
    assert!(ended && said.contains("\"sessions\":1"), "{said}");
    let recorded = std::fs::read(place.path("game.pcapng")).unwrap();
    let report = replay(&recorded).unwrap();
    assert_eq!((report.sessions, report.difference), (1, None));
}

/// A recording keeps to its size, and what it holds is good.
#[test]
fn a_full_recording_is_still_a_recording() {
    let more = ["--capture-content", "--capture-size", "64KiB"];
    let recording = record("gaffer", "full", &more, |_| {});
    assert!(recording.bytes.len() <= 64 << 10);
    assert!(recording.bytes.len() > 60 << 10, "it was filled");
    assert_eq!(replay(&recording.bytes).unwrap().difference, None);
}
