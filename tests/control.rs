//! The built program under its operator's hands: a server, a tunnel to it, a backend behind, and
//! `tidegate ctl` beside.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};
use support::place::Place;
use support::program::{Program, program};
use support::scene::{Scene, Traffic, assert_connected, ctl, is_over, join, knock};
use support::{PATIENCE, skipped, wait_until};

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

/// A drain keeps who is here and takes nobody; undone, it takes them again.
#[test]
fn a_drain_can_be_undone() {
    let scene = Scene::new("drain");
    let (mut player, mut stream) = scene.join();
    assert_eq!(scene.ask(&["drain"])["peers"], 1, "who is still here");
    assert_eq!(scene.ask(&["stats"])["state"], "draining");
    // Of another client: a second session of the first one's would be refused anyway.
    let remote = format!("yojimbo://{}", scene.server.address());
    let to = ["connect", "--remote", &remote, "--key"];
    let from = ["--listen", "tcp://127.0.0.1:0", "--control", ""];
    let another = Program::start(program().args(to).arg(scene.place.path("key")).args(from));
    let mut late = TcpStream::connect(another.address()).unwrap();
    assert_eq!(another.logged("not_let_in")["reason"], "denied");
    let end = another.logged("session_end");
    assert!(
        end["rtt_ms"].is_null() && end["rtt_min_ms"].is_null(),
        "{end}"
    );
    assert!(is_over(&mut late));
    assert_connected(&mut player, &mut stream);
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    assert_eq!(scene.ask(&["stats"])["state"], "serving");
    scene.ask(&["kick", "77"]);
    assert!(is_over(&mut player));
    let (mut player, _stream) = scene.join();
    assert_eq!(scene.ask(&["drain", "--grace", "1s"])["ok"], true);
    assert!(is_over(&mut player), "the grace is over");
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    scene.join();
}

/// The grace of a drain ends with it: nobody is sent home when that time is over.
#[test]
fn an_undone_drain_sends_nobody_home() {
    let scene = Scene::new("undone");
    let (mut player, mut stream) = scene.join();
    assert_eq!(scene.ask(&["drain", "--grace", "1s"])["ok"], true);
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    // The same process counts both times, so the grace is over when the level is taken back.
    assert_eq!(scene.ask(&["log", "debug", "--for", "2s"])["ok"], true);
    wait_until("the former level", PATIENCE, || {
        (scene.ask(&["log"])["level"] == "info").then_some(())
    });
    assert_connected(&mut player, &mut stream);
}

/// `connect` is emptied in the same way: who is here stays, and a program that comes is turned away at once.
#[test]
fn a_drained_tunnel_takes_no_streams() {
    let scene = Scene::new("drained-tunnel");
    let path = |file: &str| scene.place.path(file).display().to_string();
    let (key, control) = (path("key"), path("tunnel.sock"));
    let remote = format!("yojimbo://{}", scene.server.address());
    let to = ["connect", "--remote", &remote, "--key", &key];
    let from = ["--listen", "tcp://127.0.0.1:0", "--control", &control];
    let tunnel = Program::start(program().args(to).args(from));
    let entrance = tunnel.address();
    tunnel.logged("control");
    let (mut player, mut stream) = join(entrance, &scene.backend);
    let ask = |order| ctl(control.as_ref(), &[order]).status.success();
    assert!(ask("drain"));
    let mut late = TcpStream::connect(entrance).unwrap();
    assert_eq!(tunnel.logged("dial_refused")["reason"], "draining");
    assert!(is_over(&mut late));
    assert_connected(&mut player, &mut stream);
    assert!(ask("undrain"));
    join(entrance, &scene.backend);
}

/// A token is good for one session, and may have cost its service something.
#[test]
fn a_drained_tunnel_fetches_no_token() {
    let scene = Scene::new("drained-token");
    let remote = scene.server.address();
    let control = scene.place.path("tunnel.sock");
    let config = scene.place.write(
        "fetching.toml",
        format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n\
             [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{remote}\"\n\
             framing = \"raw\"\nnetcode = {{ token_command = \"echo >>{}\" }}\n",
            control.display(),
            scene.place.path("asked").display()
        ),
    );
    let tunnel = Program::start(program().args(["connect", "--config"]).arg(config));
    let entrance = tunnel.address();
    tunnel.logged("control");
    assert!(ctl(&control, &["drain"]).status.success());
    let mut late = TcpStream::connect(entrance).unwrap();
    assert!(is_over(&mut late));
    assert_eq!(tunnel.logged("dial_refused")["reason"], "draining");
    assert!(!scene.place.path("asked").exists());
}

/// Somebody wonders in the morning why nobody could come in.
#[test]
fn a_drain_by_signal_is_in_the_log() {
    let scene = Scene::new("usr1");
    scene.server.signal("USR1");
    let line = scene.server.logged("drain");
    assert_eq!(line["reason"], "SIGUSR1");
    assert!(line["msg"].as_str().unwrap().contains("undrain"), "{line}");
    assert_eq!(scene.ask(&["stats"])["state"], "draining");
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    scene.join();
}

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

/// Not everything that can be named with --control is tidegate's.
#[test]
fn what_is_no_control_socket_is_said() {
    let place = Place::new("foreign");
    let foreign = place.path("foreign.sock");
    let other = std::os::unix::net::UnixListener::bind(&foreign).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut caller, _) = other.accept().unwrap();
        BufReader::new(&caller)
            .read_line(&mut String::new())
            .unwrap();
        caller.write_all(b"220 mail.example.net\r\n").unwrap();
    });
    for (path, hint) in [
        (place.dir(), "no socket"),
        (&place.write("file", "x"), "no socket"),
        (&foreign, "it answers \"220 mail.example.net\""),
    ] {
        let output = ctl(path, &["stats"]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{complaint}");
        assert!(complaint.contains(hint), "{complaint}");
        assert!(complaint.contains("--control"), "{complaint}");
    }
    answers.join().unwrap();
}

/// Whether it was done is another question, and the answer says where that is written.
#[test]
fn an_answer_that_never_comes_is_told_from_one_that_was_cut_off() {
    let place = Place::new("unanswered");
    let path = place.path("silent.sock");
    let silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let asked = |reason: &str| {
        let output = ctl(&path, &["reload"]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{complaint}");
        assert!(complaint.contains(reason), "{complaint}");
        assert!(complaint.contains("help: "), "{complaint}");
    };
    asked("no answer in 10 s");
    let waiting = silent.accept().unwrap();
    let cut = std::thread::spawn(move || {
        let (caller, _) = silent.accept().unwrap();
        let mut question = String::new();
        BufReader::new(caller).read_line(&mut question).unwrap();
    });
    asked("ended the connection without an answer");
    cut.join().unwrap();
    drop(waiting);
}

/// A connect waits for ever where the queue of a process that hangs is full.
#[test]
fn one_that_hangs_stops_nobody_else() {
    let place = Place::new("hangs");
    let path = place.path("hung.sock");
    let hung = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    hung.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    hung.listen(0).unwrap();
    let _in_queue = UnixStream::connect(&path).unwrap();

    let serve = ["serve", "--listen", "rudp://127.0.0.1:0", "--admin", ""];
    let backend = ["--backend", "tcp://127.0.0.1:9", "--control"];
    let mut command = program();
    let mut second = Program::start(command.args(serve).args(backend).arg(&path));
    assert_eq!(second.exit_code(), Some(69));
    second.wait_for("another process answers there");

    let mut asks = Program::start(program().args(["ctl", "stats", "--control"]).arg(&path));
    asks.wait_for("takes no connections");
    assert_eq!(asks.exit_code(), Some(69));
}

/// With content it holds what players say: an operator sees that it runs, and where to.
#[test]
fn a_recording_that_runs_is_seen() {
    let scene = Scene::new("recording");
    assert_eq!(scene.ask(&["stats"])["recordings"], serde_json::json!([]));
    let started = scene.ask(&["capture", "start", "seen.pcapng", "--content"]);
    let file = started["file"]
        .as_str()
        .unwrap_or_else(|| panic!("{started}"));
    assert!(
        Path::new(file).is_absolute() && Path::new(file).is_file(),
        "{file}"
    );
    assert_eq!(scene.server.logged("capture_started")["file"], file);
    let _streams = scene.join();
    let recording = wait_until("its session", PATIENCE, || {
        let recording = scene.ask(&["stats"])["recordings"][0].clone();
        (recording["sessions"] == 1).then_some(recording)
    });
    assert_eq!(
        (&recording["file"], &recording["content"]),
        (&file.into(), &true.into())
    );
    assert!(recording["bytes"].as_u64().unwrap() > 0, "{recording}");
    let second = scene.ask(&["capture", "start", "another.pcapng"]);
    let refused = second["error"].as_str().unwrap();
    assert!(refused.contains(file), "{refused}");
    assert_eq!(scene.ask(&["capture", "stop"])["sessions"], 1);
    assert_eq!(scene.ask(&["stats"])["recordings"], serde_json::json!([]));
    std::fs::remove_file(file).unwrap();
}

/// A file that nothing will ever be written to would only be in the way of the next try.
#[test]
fn a_recording_without_a_thread_leaves_no_file() {
    let scene = Scene::new("threadless");
    let file = scene.place.path("never.pcapng");
    // The answering side has a thread after the first question; a recording needs one of its own.
    scene.ask(&["capture", "stop"]);
    let pid = Pid::from_raw(scene.server.pid() as i32);
    let limit = |current| Rlimit {
        current,
        maximum: None,
    };
    let taken = address_space(scene.server.pid());
    // Room for what is small, and for no stack.
    prlimit(pid, Resource::As, limit(Some(taken + (1 << 20)))).unwrap();
    let name = file.to_str().unwrap();
    let refused = scene.ask(&["capture", "start", name]);
    prlimit(pid, Resource::As, limit(None)).unwrap();
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.contains("no thread for the recording"), "{refused}");
    assert!(!file.exists());
    assert_eq!(scene.ask(&["capture", "start", name])["ok"], true);
}

/// Bytes of it that this process has.
fn address_space(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// A target out of use gets no new sessions, so with the only one nobody is seated.
#[test]
fn a_target_can_be_taken_out() {
    let scene = Scene::new("target");
    let target = format!("tcp://{}", scene.backend.local_addr().unwrap());
    let answer = scene.ask(&["backend", "drain", &target]);
    assert_eq!(answer["ok"], true);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("all are drained by hand"), "{answer}");
    let line = scene.server.logged("no_target_left");
    assert_eq!(
        (&line["level"], &line["backend"], &line["target"]),
        (&"warn".into(), &"game".into(), &target.as_str().into())
    );
    assert_eq!(scene.ask(&["backends"])["targets"][0]["draining"], true);
    let mut refused = knock(scene.entrance);
    assert!(is_over(&mut refused));
    let answer = scene.ask(&["backend", "enable", &target]);
    assert_eq!(
        (&answer["ok"], answer.get("warnings")),
        (&true.into(), None)
    );
    scene.join();
    assert_eq!(
        scene.ask(&["backend", "drain", "tcp://nobody:1"])["ok"],
        false
    );
}

/// One target is drained by hand and the other one dies: it looks as if one were left, so the log says that none is.
#[test]
fn a_target_that_dies_beside_a_drained_one_is_told_of() {
    let place = Place::new("last-target");
    assert_eq!(
        place.start(&["keygen", "--out", "key"]).exit_code(),
        Some(0)
    );
    let [kept, lost] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [drained, dead] = [&kept, &lost].map(|one| format!("tcp://{}", one.local_addr().unwrap()));
    let config = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"control.sock\"\n\
         [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\nnetcode = {{ key_file = \"key\" }}\n\
         [backend.game]\ntargets = [\"{drained}\", \"{dead}\"]\nframing = \"raw\"\n\
         health = {{ kind = \"connect\", interval = \"1s\", timeout = \"1s\", up_after = 1, down_after = 1 }}\n"
    );
    place.write("server.toml", config);
    let server = place.start(&["serve", "--config", "server.toml"]);
    server.logged("control");
    let control = place.path("control.sock");
    let done = ctl(&control, &["backend", "drain", &drained]);
    assert!(done.status.success());
    drop(lost);
    let line = server.logged("no_target_left");
    assert_eq!(
        (&line["backend"], &line["target"]),
        (&"game".into(), &dead.as_str().into())
    );
}

/// The file mode is the access control, and the file goes with the process.
#[test]
fn the_socket_is_its_owners_alone() {
    let mut scene = Scene::new("owner");
    let mode = scene.control().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    another_user_is_refused(&scene);
    let own = scene.place.path("server.toml");
    let mut second = Program::start(program().args(["serve", "--config"]).arg(&own));
    assert_eq!(second.exit_code(), Some(69));
    second.wait_for("another process answers there");
    second.wait_for("help: stop that one (`ss -xlp");
    scene.server.signal("TERM");
    assert_eq!(scene.server.exit_code(), Some(0));
    assert!(!scene.control().exists());

    // What a killed process left is taken over; what is no socket is left alone.
    drop(std::os::unix::net::UnixListener::bind(scene.control()).unwrap());
    let third = Program::start(program().args(["serve", "--config"]).arg(&own));
    third.logged("control");
    drop(third);
    std::fs::remove_file(scene.control()).unwrap();
    let elsewhere = scene.place.write("precious", "data");
    std::os::unix::fs::symlink(&elsewhere, scene.control()).unwrap();
    let mut fourth = Program::start(program().args(["serve", "--config"]).arg(&own));
    assert_eq!(fourth.exit_code(), Some(69), "a link is not followed");
    assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "data");
}

/// What tidies up `/tmp` removes sockets, however much they are in use.
#[test]
fn a_socket_that_was_removed_is_there_again() {
    let scene = Scene::new("removed");
    std::fs::remove_file(scene.control()).unwrap();
    let line = scene.server.logged("socket_removed");
    assert_eq!(line["address"], scene.control().to_str().unwrap());
    let mode = scene.control().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(scene.ask(&["stats"])["ok"], true);
}

/// Scripts that hang, and `nc` that somebody forgot, lock nobody out for as long as they may be silent.
#[test]
fn silent_callers_make_room() {
    let scene = Scene::new("silent-callers");
    let connect = |_| UnixStream::connect(scene.control()).unwrap();
    let silent: Vec<_> = (0..16).map(connect).collect();
    // While nobody waits, nobody has to go.
    let patience = Some(Duration::from_millis(2_500));
    silent[0].set_read_timeout(patience).unwrap();
    let heard = (&silent[0]).read(&mut [0]);
    assert!(heard.is_err(), "{heard:?}");
    assert_eq!(scene.ask(&["stats"])["ok"], true);
    drop(silent);
}

/// Many more than there are places make room in seconds: an operator is in a hurry.
#[test]
fn hundreds_of_silent_callers_make_room() {
    let scene = Scene::new("silent-hundreds");
    let connect = |_| UnixStream::connect(scene.control()).unwrap();
    let silent: Vec<_> = (0..240).map(connect).collect();
    // Fifteen rounds of sixteen, of which each took a second once, and `ctl` waits for ten.
    assert_eq!(scene.ask(&["stats"])["ok"], true);
    drop(silent);
}

/// Nor do those who ask and do not read, such as a `top` that was stopped.
#[test]
fn callers_who_do_not_read_make_room() {
    let scene = Scene::new("stopped-callers");
    // Their answers are more than a socket holds.
    let questions = "{\"command\":\"stats\"}\n".repeat(3_000);
    let ask = |_| {
        let mut caller = UnixStream::connect(scene.control()).unwrap();
        caller.write_all(questions.as_bytes()).unwrap();
        caller
    };
    let stopped: Vec<_> = (0..16).map(ask).collect();
    assert_eq!(scene.ask(&["stats"])["ok"], true);
    drop(stopped);
}

/// A pause that sessions survive, as when a machine is moved or a snapshot of it is taken, does not starve the watchdog: it
/// is fed before anything is said of workers, which stood still as well.
#[test]
fn a_pause_is_no_worker_that_hangs() {
    let place = Place::new("pause");
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    told.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = program();
    command.env("NOTIFY_SOCKET", place.path("notify"));
    command.env("WATCHDOG_USEC", "30000000");
    let listen = ["serve", "--listen", "gaffer://127.0.0.1:0"];
    let backend = ["--backend", "tcp://127.0.0.1:1", "--admin", ""];
    let server = Program::start(command.args(listen).args(backend));
    let mut word = [0; 1000];
    // The first two may come in either order; none is to be under way when it stops. By the second sign of life, two seconds
    // later, the workers have turned: a pause before their first turn is none to them.
    let mut awaited = vec![&b"READY=1"[..], b"WATCHDOG=1", b"WATCHDOG=1"];
    while !awaited.is_empty() {
        let length = told.recv(&mut word).unwrap();
        let came = (awaited.iter()).position(|begin| word[..length].starts_with(begin));
        if let Some(came) = came {
            awaited.swap_remove(came);
        }
    }
    server.signal("STOP");
    // Longer than a worker may be silent.
    std::thread::sleep(Duration::from_millis(5_500));
    told.set_nonblocking(true).unwrap();
    while told.recv(&mut word).is_ok() {}
    told.set_nonblocking(false).unwrap();
    server.signal("CONT");
    let length = told.recv(&mut word).unwrap();
    let said = String::from_utf8_lossy(&word[..length]);
    assert!(said.starts_with("WATCHDOG=1"), "{said}");
    server.logged("process_paused");
}

/// A service manager that hangs hears nothing, and what is sent to it waits once its queue is full.
#[test]
fn a_service_manager_that_hangs_delays_no_stop() {
    let place = Place::new("deaf");
    let deaf = UnixDatagram::bind(place.path("notify")).unwrap();
    let serve = ["serve", "--listen", "rudp://127.0.0.1:0", "--admin", ""];
    let mut command = program();
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let backend = ["--backend", "tcp://127.0.0.1:9"];
    let mut stopped = Program::start(command.args(serve).args(backend));
    deaf.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut word = [0; 100];
    while !word.starts_with(b"READY=1") {
        deaf.recv(&mut word).unwrap();
    }

    let noise = UnixDatagram::unbound().unwrap();
    noise.set_nonblocking(true).unwrap();
    let full = std::iter::repeat_with(|| noise.send_to(b"STATUS=", place.path("notify")));
    let full = full.take(100_000).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    stopped.signal("TERM");
    assert_eq!(stopped.exit_code(), Some(0));
}

/// The Unix socket of a tunnel goes with its process, like the control socket; a killed one's is taken over.
#[test]
fn a_tunnels_socket_goes_with_the_process() {
    let place = Place::new("tunnel-socket");
    let path = place.path("in.sock");
    let listen = format!("unix:{}", path.display());
    let remote = ["--remote", "gaffer://127.0.0.1:9", "--admin", ""];
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let start = || {
        let mut command = program();
        command.env("NOTIFY_SOCKET", place.path("notify"));
        Program::start(command.args(["connect", "--listen", &listen]).args(remote))
    };
    // Signals are listened to from then on.
    let is_ready = || {
        let mut word = [0; 100];
        while !word.starts_with(b"READY=1") {
            told.recv(&mut word).unwrap();
        }
    };
    let killed = start();
    is_ready();
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        start().exit_code(),
        Some(69),
        "another process answers there"
    );
    drop(killed);
    assert!(path.exists());

    let mut stopped = start();
    is_ready();
    stopped.signal("TERM");
    assert_eq!(stopped.exit_code(), Some(0));
    assert!(!path.exists());

    // What is no socket is left alone.
    std::fs::write(&path, "data").unwrap();
    assert_eq!(start().exit_code(), Some(69));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
}

/// Somebody else gets as far as the file's mode. Only root can become somebody else.
fn another_user_is_refused(scene: &Scene) {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skipped("another user's access to the control socket; run this test as root");
        return;
    }
    // Where everybody may go: the build's own directory may be closed to others.
    std::fs::set_permissions(scene.place.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let ours = scene.place.path("tidegate");
    // By a process of its own: what this one has open to write, a child of another test may still have open,
    // and nothing can be run that somebody may write.
    let copy = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_tidegate"))
        .arg(&ours)
        .status();
    assert!(copy.unwrap().success());
    let mut command = Command::new(ours);
    std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
    let control = scene.control();
    let output = command.arg("ctl").arg("--control").arg(&control);
    let output = output.args(["log", "info"]).output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Permission denied"), "{said}");
    // The nearest case that works: the same user, once the mode lets everybody in.
    std::fs::set_permissions(&control, PermissionsExt::from_mode(0o666)).unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = scene.server.logged("control_command");
    assert_eq!(told["uid"], NOBODY, "{told}");
    std::fs::set_permissions(&control, PermissionsExt::from_mode(0o600)).unwrap();
}

const NOBODY: u32 = 65_534;

/// Without a file or a word about it, in a login session: `ctl` finds the one that runs, asks which one
/// when several do, and passes by what a killed one left.
#[test]
fn the_one_that_runs_is_found() {
    let place = Place::new("found");
    let session = place.path("session");
    std::fs::create_dir(&session).unwrap();
    let start = |arguments: &[&str]| {
        let mut command = program();
        let command = command.env("XDG_RUNTIME_DIR", &session).args(arguments);
        Program::start(command.current_dir(place.dir()))
    };
    let ask = |more: &[&str]| {
        let mut command = program();
        command.env("XDG_RUNTIME_DIR", &session);
        // In place of the directory of a service that may run on this machine.
        command.env("RUNTIME_DIRECTORY", place.path("service"));
        let output = command.args(["ctl", "--json", "stats"]).args(more).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("no tidegate was found"), "{said}");

    let serve = ["serve", "--listen", "gaffer://127.0.0.1:0", "--admin", ""];
    let serve = [&serve[..], &["--backend", "tcp://127.0.0.1:9"]].concat();
    let first = start(&serve);
    let first_path = first.logged("control")["path"].clone();
    let mode = session.join("tidegate").metadata().unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(0), "{said}");

    let connect = ["connect", "--listen", "tcp://127.0.0.1:0"];
    let second = start(&[&connect[..], &["--remote", "gaffer://127.0.0.1:9"]].concat());
    let second_path = second.logged("control")["path"].clone();
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(2), "{said}");
    for path in [&first_path, &second_path] {
        assert!(said.contains(path.as_str().unwrap()), "{said}");
    }
    let (code, said) = ask(&["--control", second_path.as_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");

    // Killed: its socket stays and nobody answers.
    drop(first);
    assert!(Path::new(first_path.as_str().unwrap()).exists());
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(0), "{said}");
    // The next start removes it, and neither the socket of one that runs nor anything else.
    let session_directory = session.join("tidegate");
    std::fs::write(session_directory.join("1.sock"), "no socket").unwrap();
    let fourth = start(&serve);
    fourth.logged("control");
    assert!(!Path::new(first_path.as_str().unwrap()).exists());
    assert!(Path::new(second_path.as_str().unwrap()).exists());
    assert!(session_directory.join("1.sock").exists());
    drop((second, fourth));

    let elsewhere = place.path("chosen.sock");
    let chosen = [&serve[..], &["--control", elsewhere.to_str().unwrap()]].concat();
    let third = start(&chosen);
    assert_eq!(third.logged("control")["path"], elsewhere.to_str().unwrap());
    let (code, said) = ask(&["--control", elsewhere.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
}

/// Garbage gets an error, and the next line an answer.
#[test]
fn garbage_is_answered() {
    let scene = Scene::new("garbage");
    let mut stream = UnixStream::connect(scene.control()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
        .write_all(b"{\"command\":\"destroy\"}\n\xc3\x28\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("\"ok\":false"), "{first}");
    assert_eq!(scene.ask(&["stats"])["ok"], true, "others are served");
}

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
        wait_until("another reload", Duration::from_secs(10), || {
            (scene.ask(&["stats"])["reloads"] == reloads).then_some(())
        });
    }
    scene.join();
}

/// A control socket that nobody asked for and that cannot be made costs a warning; one that was named, the start.
#[test]
fn only_a_named_socket_must_be_had() {
    let place = Place::new("no-control");
    let session = place.path(&"x".repeat(100));
    std::fs::create_dir(&session).unwrap();
    let serve = ["serve", "--listen", "gaffer://127.0.0.1:0", "--admin", ""];
    let serve = [&serve[..], &["--backend", "tcp://127.0.0.1:9"]].concat();
    let mut command = program();
    let running = Program::start(command.env("XDG_RUNTIME_DIR", &session).args(&serve));
    let warning = running.logged("control_failed");
    assert_eq!(warning["level"], "warn", "{warning}");
    let error = warning["error"].as_str().unwrap();
    assert!(error.contains("at most 107 bytes"), "{error}");
    running.logged("target_down");

    let cases = [
        (session, 78, "at most 107"),
        ("absent".into(), 69, "its directory"),
    ];
    for (named, code, help) in cases {
        let mut command = program();
        command
            .args(&serve)
            .arg("--control")
            .arg(named.join("x.sock"));
        let output = command.current_dir(place.dir()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(help), "{said}");
    }
}
