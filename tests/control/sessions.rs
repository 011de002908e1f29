//! Sessions and those who play in them: who is there, how one is found, and how it is ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Stdio;

use serde_json::Value;

use crate::support::program::{Program, program};
use crate::support::scene::{Scene, is_over, knock};
use crate::support::{PATIENCE, wait_until};

/// A kick ends the session on both sides, each with its reason.
#[test]
fn a_kick_is_seen_on_both_sides() {
    let scene = Scene::new("kick");
    let (mut player, mut stream) = scene.join();
    let peers = scene.ask(&["peers"])["peers"].clone();
    assert_eq!(peers.as_array().unwrap().len(), 1);
    assert_eq!(peers[0]["client_id"], "77");
    assert_eq!(peers[0]["listener"], "game");
    let target = format!("tcp://{}", scene.backend.local_addr().unwrap());
    assert_eq!(peers[0]["target"], target);
    // A round trip is that of something said: until then there is no figure.
    stream.write_all(b"welcome").unwrap();
    player.read_exact(&mut [0; 7]).unwrap();
    let rtt_min = wait_until("a round trip", PATIENCE, || {
        scene.ask(&["peers"])["peers"][0]["rtt_min_ms"].as_f64()
    });
    assert!(rtt_min < 1e3, "{rtt_min} ms on this very machine");
    assert!(peers[0]["packets_lost"].is_u64());
    assert_eq!(
        (&peers[0]["held_back"], &peers[0]["bad_mode"]),
        (&false.into(), &0.into())
    );
    let session = peers[0]["session"].as_str().unwrap();
    assert_eq!(scene.server.logged("session_start")["session"], session);
    assert_eq!(scene.server.logged("session_start")["target"], target);
    assert_eq!(scene.ask(&["peer", "77"])["peers"][0]["session"], session);
    let of_listener = scene.ask(&["peers", "--listener", "game"])["peers"].clone();
    assert_eq!(of_listener[0]["session"], session);

    let mut ctl = program();
    let ctl = ctl.args(["ctl", "--control"]).arg(scene.control());
    let told = ctl.args(["peer", session]).output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap();
    assert!(
        told.starts_with(&format!("session           {session}\n")),
        "{told}"
    );

    assert_eq!(scene.ask(&["kick", session])["ended"], 1);
    assert!(is_over(&mut player), "the player's stream ends");
    assert!(is_over(&mut stream), "the backend's stream ends");
    assert_eq!(scene.server.logged("session_end")["reason"], "kicked");
    assert_eq!(
        scene.tunnel.logged("session_end")["reason"],
        "peer_disconnect"
    );
    let command = scene.server.logged("control_command");
    assert!(command["uid"].is_u64(), "{command}");
    assert_eq!(
        (&command["command"], &command["whom"]),
        (&"kick".into(), &session.into())
    );
    assert_eq!(command["ok"], true);
    assert!(command["error"].is_null(), "{command}");
    let again = scene.ask(&["kick", session]);
    assert_eq!(again["ok"], false, "nobody is left");
    let is_refusal = |line: &Value| line["ok"] == false;
    let refused = scene.server.logged_where("control_command", is_refusal);
    assert_eq!(refused["error"], again["error"], "the log says why");
}

/// Each end draws its own session number. What both know is in the lines of both: the tunnel's UDP port, and who came.
#[test]
fn a_tunnels_lines_say_which_session_of_the_server_is_theirs() {
    let scene = Scene::new("two-logs");
    let (player, _stream) = scene.join();
    let client = player.local_addr().unwrap().to_string();
    let theirs = scene.server.logged("session_start");
    scene.tunnel.logged("session_start");
    drop(player);
    for event in ["session_start", "session_end"] {
        let ours = scene.tunnel.logged(event);
        assert_eq!(ours["local"], theirs["peer"], "{ours}");
        assert_eq!(ours["client_id"], theirs["client_id"], "{ours}");
        assert_eq!(ours["client"], client.as_str(), "{ours}");
        assert_eq!(ours["tunnel"], scene.tunnel.logged("listening")["tunnel"]);
        assert!(ours["listener"].is_null(), "one name for one thing: {ours}");
        let theirs = scene.server.logged(event);
        assert_eq!(theirs["listener"], "game");
        assert!(theirs["tunnel"].is_null() && theirs["local"].is_null());
    }
}

/// A console's id has sixteen digits, as a session has; and where nobody has an id, there is the address.
#[test]
fn a_peer_is_found_by_session_client_and_address() {
    let mut scene = Scene::new("whom");
    let remote = scene.server.address();
    let tunnel = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
         [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{remote}\"\n\
         framing = \"raw\"\nnetcode = {{ key_file = \"key\", client_id = \"2535405290000000\" }}\n"
    );
    let config = scene.place.write("console.toml", &tunnel);
    scene.tunnel = Program::start(program().args(["connect", "--config"]).arg(config));
    scene.entrance = scene.tunnel.address();
    for spelling in ["session", "client_id", "hexadecimal", "address", "ip"] {
        let (mut player, _stream) = scene.join();
        let peer = scene.ask(&["peers"])["peers"][0].clone();
        let field = |name: &str| peer[name].as_str().unwrap().to_owned();
        let whom = match spelling {
            "hexadecimal" => format!("{:#x}", 2_535_405_290_000_000_u64),
            "ip" => "127.0.0.1".to_owned(),
            field_name => field(field_name),
        };
        let shown = scene.ask(&["peer", &whom]);
        assert_eq!(shown["peers"][0]["session"], peer["session"], "{whom}");
        assert_eq!(scene.ask(&["kick", &whom])["ended"], 1, "{whom}");
        assert!(is_over(&mut player), "{whom}");
        let is_gone = || {
            let peers = scene.ask(&["peers"])["peers"].clone();
            peers.as_array().unwrap().is_empty().then_some(())
        };
        wait_until("the session's end", PATIENCE, is_gone);
        for command in ["peer", "kick"] {
            let answer = scene.ask(&[command, &whom]);
            let error = answer["error"].as_str().unwrap();
            assert!(error.contains("session, client id or address"), "{error}");
        }
    }
    let error = scene.ask(&["kick", "the cheater"])["error"].to_string();
    assert!(error.contains("no client id and no address"), "{error}");
}

/// `top` shows who plays, for people and for scripts, in any order that can be asked for.
#[test]
fn top_shows_who_plays() {
    let scene = Scene::new("top");
    let _streams = scene.join();
    let top = |more: &[&str]| {
        let mut command = program();
        command.args(["top", "--once", "--control"]);
        let output = command.arg(scene.control()).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{more:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for sort in ["rtt", "loss", "bytes", "rate", "queue"] {
        let text = top(&["--json", "--sort", sort]);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["peers"].as_array().unwrap().len(), 1, "{text}");
        assert_eq!(answer["peers"][0]["client_id"], "77");
        assert_eq!(answer["peers"][0]["in_per_s"], 0.0, "nobody speaks: {text}");
    }
    let text = top(&[]);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("tidegate "), "{text}");
    assert!(lines.next().unwrap().contains("client id"), "{text}");
    assert!(lines.next().unwrap().ends_with("  77"), "{text}");
    assert!(
        !text.contains('\x1b'),
        "no control codes where nothing is redrawn"
    );
    let mut piped = program();
    let piped = piped.args(["top", "--control"]).arg(scene.control());
    let piped = String::from_utf8(piped.output().unwrap().stdout).unwrap();
    assert!(
        piped.starts_with("tidegate ") && !piped.contains('\x1b'),
        "it ends by itself: {piped}"
    );
}

/// `top --json | head -1` ends: who has read enough is shown no more.
#[test]
fn top_ends_when_nobody_reads_it() {
    let scene = Scene::new("top-unread");
    let mut top = program();
    top.args(["top", "--json", "--control"])
        .arg(scene.control());
    let mut top = top.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(top.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with('{'), "{line}");
    let ended = wait_until("top ends", PATIENCE, || top.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
}

/// The answers that people read: a table they can take in, and tables after figures.
#[test]
fn answers_are_for_people() {
    let scene = Scene::new("people");
    let _streams = scene.join();
    let told = |arguments: &[&str]| {
        let mut command = program();
        let command = command.args(["ctl", "--control"]).arg(scene.control());
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let peers = told(&["peers"]);
    let widest = peers.lines().map(str::len).max().unwrap();
    assert!(widest < 160 && peers.contains("client id"), "{peers}");
    assert!(told(&["peer", "77"]).contains("messages_resent"));
    let stats = told(&["stats"]);
    let (figures, table) = stats.split_once("\n\n").unwrap();
    assert!(
        figures.contains("\nstate ") && figures.contains("\nversion "),
        "{stats}"
    );
    assert!(
        table.starts_with("listener ") && table.contains("\ngame "),
        "{stats}"
    );
    assert_eq!(told(&["reload"]), "nothing has changed\n");
    assert!(told(&["ban", "198.51.100.7/16"]).starts_with("198.51.0.0/16 is banned"));
    // Peers' addresses are IPv4 where they can be: no ban of an IPv6 network that maps them would meet any.
    assert!(told(&["ban", "::ffff:192.0.2.0/120"]).starts_with("192.0.2.0/24 is banned"));
    assert!(told(&["bans"]).contains("\n198.51.0.0/16 "));
    assert!(told(&["drain"]).contains("who stay: 1"));
    assert_eq!(told(&["undrain"]), "done\n");
}

/// A banned client is turned away before a backend is opened, and let in again afterwards.
#[test]
fn a_ban_holds_until_it_is_lifted() {
    let scene = Scene::new("ban");
    let (mut player, _stream) = scene.join();
    assert_eq!(scene.ask(&["ban", "77", "--for", "1h"])["ended"], 1);
    assert!(is_over(&mut player));
    assert_eq!(scene.server.logged("session_end")["reason"], "banned");
    let mut refused = knock(scene.entrance);
    assert!(is_over(&mut refused), "banned clients get nowhere");
    let bans = scene.ask(&["bans"])["bans"].clone();
    assert_eq!(
        bans.as_array().unwrap().len(),
        1,
        "though both workers have it"
    );
    assert_eq!(bans[0]["whom"], "client 77");
    assert!(bans[0]["seconds_left"].as_u64().unwrap() > 3_500);
    assert_eq!(scene.ask(&["unban", "77"])["ok"], true);
    let _streams = scene.join();
    assert_eq!(scene.ask(&["unban", "77"])["ok"], false);

    // An operator who means one address and types a network is told what is banned now.
    let answer = scene.ask(&["ban", "127.0.0.1/8"]);
    assert_eq!(
        (&answer["whom"], &answer["ended"]),
        (&"127.0.0.0/8".into(), &1.into())
    );
    assert_eq!(scene.ask(&["bans"])["bans"][0]["whom"], "127.0.0.0/8");
    assert_eq!(scene.ask(&["unban", "127.0.0.0/8"])["ok"], true);
    assert_eq!(scene.ask(&["ban", "nonsense"])["ok"], false);
}

/// A player who cannot connect hears nothing, and nobody else does; an operator who asks is told, and not without end.
#[test]
fn who_is_refused_is_named_to_whoever_asks() {
    let mut scene = Scene::new("refused");
    let server = scene.server.address();
    let junk = UdpSocket::bind("127.0.0.1:0").unwrap();
    junk.connect(server).unwrap();
    let stranger = junk.local_addr().unwrap().to_string();
    let flood = || {
        for _ in 0..500 {
            junk.send(b"hello?").unwrap();
        }
    };
    junk.send(b"hello?").unwrap();
    let directives = "info,tidegate::listener=debug";
    // A slip of the finger would change nothing, and look as if it had.
    let slip = scene.ask(&["log", "info,tidegate::listner=debug"]);
    assert_eq!(slip["ok"], false, "{slip}");
    let known = slip["error"].as_str().unwrap();
    assert!(
        known.contains("tidegate::listner") && known.contains("tidegate::listener,"),
        "{known}"
    );
    assert_eq!(scene.ask(&["log", directives])["ok"], true);
    let quiet = scene.server.all_logged("refused");
    flood();
    let line = scene.server.logged("refused");
    assert_eq!(
        (&line["level"], &line["listener"]),
        (&"debug".into(), &"game".into())
    );
    assert_eq!(line["peer"], stranger.as_str(), "{line}");
    assert_eq!(line["reason"], "unknown_peer", "{line}");

    // Its token is made with another key.
    let other = scene.place.path("other");
    let made = program().args(["keygen", "--out"]).arg(other).status();
    assert!(made.unwrap().success());
    let tunnel = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
         [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{server}\"\n\
         framing = \"raw\"\nnetcode = {{ key_file = \"other\", client_id = \"78\" }}\n"
    );
    let config = scene.place.write("stranger.toml", &tunnel);
    scene.tunnel = Program::start(program().args(["connect", "--config"]).arg(config));
    let _player = TcpStream::connect(scene.tunnel.address()).unwrap();
    let is_key = |line: &Value| line["reason"] == "token_key";
    scene.server.logged_where("refused", is_key);
    assert!(quiet.is_empty(), "{quiet:?}");
    let lines = scene.server.all_logged("refused").len();
    assert!(lines < 100, "{lines} lines of 500 datagrams and a player");
}
