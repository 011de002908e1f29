//! The built program gets another configuration while peers play.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use serde_json::Value;
use support::place::Place;
use support::program::{Program, program};
use support::scene::{Scene, Traffic, assert_connected, ctl, is_over, join, knock};
use support::{NO_HOST, PATIENCE, accept, wait_until};

/// Adds this text to the server's file.
fn append(scene: &Scene, text: &str) {
    scene.edit("version = 1\n", &format!("version = 1\n{text}\n"));
}

/// A second tunnel, to this address of the server, as another client.
fn tunnel(scene: &Scene, remote: &str, protocol: &str, more: &str) -> (Program, SocketAddr) {
    let text = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
         [tunnel.second]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{remote}\"\n\
         protocol = \"{protocol}\"\nframing = \"raw\"\n{more}\n"
    );
    let path = scene.place.write("second.toml", &text);
    let running = Program::start(program().args(["connect", "--config"]).arg(path));
    let entrance = running.address();
    (running, entrance)
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|name| name.as_str().unwrap()).collect()
}

/// The listeners that `ctl stats` shows, with their peers.
fn listeners(scene: &Scene) -> Vec<(String, u64)> {
    let stats = scene.ask(&["stats"]);
    let rows = stats["listeners"].as_array().unwrap().iter();
    let rows = rows.map(|row| {
        let name = row["listener"].as_str().unwrap().to_owned();
        (name, row["peers"].as_u64().unwrap())
    });
    rows.collect()
}

fn wait_for_listeners(scene: &Scene, expected: &[(&str, u64)]) {
    wait_until(&format!("{expected:?}"), PATIENCE, || {
        let found = listeners(scene);
        let found: Vec<_> = found.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        (found == expected).then_some(())
    });
}

/// One comes and goes, with a backend of its own, while peers of another play on.
#[test]
fn a_listener_comes_and_goes() {
    let scene = Scene::new("comes");
    let traffic = Traffic::start(scene.join());
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let arena = format!(
        "[listener.arena]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"arena\"\n\
         [backend.arena]\ntargets = [\"tcp://{}\"]\nframing = \"raw\"\n\
         health = {{ kind = \"off\" }}\n",
        backend.local_addr().unwrap()
    );
    append(&scene, &arena);
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(names(&answer["added"]), ["backend.arena", "listener.arena"]);
    assert_eq!(answer["applied"], Value::Array(Vec::new()), "{answer}");
    let address = address_of(&scene, "arena");
    let (_tunnel, entrance) = tunnel(&scene, &address, "gaffer", "");
    let (mut player, mut stream) = join(entrance, &backend);
    wait_for_listeners(&scene, &[("arena", 1), ("game", 1)]);
    let of_one = scene.ask(&["peers", "--listener", "arena"])["peers"].clone();
    assert_eq!(of_one.as_array().unwrap().len(), 1, "{of_one}");
    assert_eq!(
        scene.ask(&["backends"])["targets"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert!(
        UdpSocket::bind(&address).is_err(),
        "the port is taken, or what follows proves nothing"
    );

    scene.edit(&arena, "");
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["removed"]),
        ["listener.arena", "backend.arena"]
    );
    assert!(is_over(&mut player), "its peers are told to go");
    assert!(is_over(&mut stream));
    let ended = scene.server.logged("session_end");
    assert_eq!(
        (&ended["listener"], &ended["reason"]),
        (&"arena".into(), &"drain".into())
    );
    wait_for_listeners(&scene, &[("game", 1)]);
    assert_eq!(
        scene.ask(&["backends"])["targets"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // What is shown goes a moment before the socket does.
    wait_until("its port", PATIENCE, || UdpSocket::bind(&address).ok());
    assert_eq!(scene.ask(&["stats"])["not_ready"], Value::Array(Vec::new()));

    // It can come back under its old name.
    append(&scene, &arena);
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(traffic.stop() > 0);
}

/// A listener moves from one address to another: both serve for as long as both are listed, who is
/// at the old one is told, and who is at the new one stays.
#[test]
fn an_address_changes() {
    let scene = Scene::new("moves");
    let old = scene.server.address().to_string();
    let (mut player, _stream) = scene.join();
    assert_eq!(scene.ask(&["ban", "198.51.100.7"])["ok"], true);

    scene.edit(
        "bind = [\"127.0.0.1:0\"]",
        "bind = [\"127.0.0.1:0\", \"127.0.0.2:0\"]",
    );
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["applied"]),
        ["listener.game.bind"],
        "{answer}"
    );
    let new = bound(&scene, |line| {
        line["address"]
            .as_str()
            .is_some_and(|address| address.starts_with("127.0.0.2:"))
    });
    let key = "netcode = { key_file = \"key\", client_id = \"78\" }";
    let (_tunnel, entrance) = tunnel(&scene, &new, "yojimbo", key);
    let traffic = Traffic::start(join(entrance, &scene.backend));
    wait_for_listeners(&scene, &[("game", 2)]);
    let received = |stats: Value| {
        stats["listeners"][0]["datagrams_received"]
            .as_u64()
            .unwrap()
    };
    let before = received(scene.ask(&["stats"]));

    scene.edit("\"127.0.0.1:0\", ", "");
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["applied"]),
        ["listener.game.bind"],
        "{answer}"
    );
    assert!(is_over(&mut player), "its address is gone");
    assert_eq!(scene.server.logged("session_end")["reason"], "drain");
    wait_for_listeners(&scene, &[("game", 1)]);
    wait_until("the old port", PATIENCE, || UdpSocket::bind(&old).ok());
    // Two workers had it, and whatever they said of it stands before the next line.
    assert_eq!(scene.ask(&["ban", "198.51.100.8"])["ok"], true);
    wait_until("the next line", PATIENCE, || {
        let lines = scene.server.all_logged("control_command");
        let is_it = |line: &Value| line["command"] == "ban" && line["whom"] == "198.51.100.8";
        lines.iter().any(is_it).then_some(())
    });
    let closed = scene.server.all_logged("listener_closed");
    let addresses: Vec<_> = closed.iter().map(|line| &line["address"]).collect();
    assert_eq!(addresses, [old.as_str()]);
    assert!(
        received(scene.ask(&["stats"])) >= before,
        "counters do not fall"
    );
    assert_eq!(scene.ask(&["bans"])["bans"][0]["whom"], "198.51.100.7/32");
    assert!(
        traffic.stop() > 0,
        "who is at the address that stayed has noticed nothing"
    );
    join(entrance, &scene.backend);
}

/// A port that is taken, by somebody else or by a listener that goes, changes nothing, even where
/// other parts of the file could be put into force.
#[test]
fn a_taken_port_changes_nothing() {
    let scene = Scene::new("taken");
    let traffic = Traffic::start(scene.join());
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let two = format!(
        "[listener.free]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
         [listener.taken]\nprotocol = \"gaffer\"\nbind = [\"{}\"]\nbackend = \"game\"\n",
        taken.local_addr().unwrap()
    );
    append(&scene, &two);
    let answer = scene.ask(&["reload"]);
    let error = answer["error"].as_str().unwrap();
    assert!(
        error.starts_with("listener taken: cannot bind 127.0.0.1:"),
        "{error}"
    );
    assert!(
        error.contains("help: another program has it; `ss -uapn"),
        "{error}"
    );
    wait_for_listeners(&scene, &[("game", 1)]);

    // The same file is good once the port is free.
    drop(taken);
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["added"]),
        ["listener.free", "listener.taken"],
        "{answer}"
    );
    scene.edit(&two, "");
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    wait_for_listeners(&scene, &[("game", 1)]);

    // Another name for the same address: it has to become free first.
    let game = scene.server.address();
    scene.edit(
        "[listener.game]\nbind = [\"127.0.0.1:0\"]",
        &format!("[listener.renamed]\nbind = [\"{game}\"]"),
    );
    let answer = scene.ask(&["reload"]);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("listener.game has 127.0.0.1:"), "{error}");
    assert!(error.contains("in a second one"), "{error}");
    wait_for_listeners(&scene, &[("game", 1)]);
    let stats = scene.ask(&["stats"]);
    assert_eq!(
        (&stats["reloads_refused"], &stats["last_reload_ok"]),
        (&2.into(), &false.into())
    );
    assert!(traffic.stop() > 0);
}

/// Where a listener is that a reload added.
fn address_of(scene: &Scene, listener: &str) -> String {
    bound(scene, |line| line["listener"] == listener)
}

/// The address in the first line of the log that says this of a socket.
fn bound(scene: &Scene, is: impl Fn(&Value) -> bool) -> String {
    let line = scene.server.logged_where("listening", is);
    line["address"].as_str().unwrap().to_owned()
}

/// An operator's ban and drain hold for listeners that come later.
#[test]
fn a_newcomer_obeys_what_was_ordered_before() {
    let scene = Scene::new("obeys");
    assert_eq!(scene.ask(&["ban", "127.0.0.0/8"])["ok"], true);
    let arena =
        "[listener.arena]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n";
    append(&scene, arena);
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let address = address_of(&scene, "arena");
    let (_tunnel, entrance) = tunnel(&scene, &address, "gaffer", "connect_timeout = \"1s\"");
    let mut refused = knock(entrance);
    assert!(is_over(&mut refused), "banned");
    assert_eq!(scene.ask(&["unban", "127.0.0.0/8"])["ok"], true);
    let (mut player, _stream) = join(entrance, &scene.backend);

    assert_eq!(scene.ask(&["drain"])["ok"], true);
    let later = arena.replace("arena", "later");
    append(&scene, &later);
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let address = address_of(&scene, "later");
    let (_other, entrance) = tunnel(&scene, &address, "gaffer", "connect_timeout = \"1s\"");
    let mut refused = knock(entrance);
    assert!(is_over(&mut refused), "draining");
    player.write_all(b"still here").unwrap();
}

/// `[drain]` waits for a restart, also where a listener goes by the very file that changes it.
#[test]
fn who_is_told_to_go_has_the_grace_in_force() {
    let scene = Scene::new("grace");
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let arena = format!(
        "[listener.arena]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"arena\"\n\
         idle_timeout = \"10m\"\n[backend.arena]\ntargets = [\"tcp://{}\"]\nframing = \"raw\"\n\
         health = {{ kind = \"off\" }}\n",
        backend.local_addr().unwrap()
    );
    append(&scene, &arena);
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let (tunnel, entrance) = tunnel(&scene, &address_of(&scene, "arena"), "gaffer", "");
    let (_player, mut stream) = join(entrance, &backend);
    // It takes nothing any more, and is given all the time there is.
    tunnel.signal("STOP");
    stream.write_all(b"for nobody").unwrap();
    scene.edit(&arena, "[drain]\ngrace = \"1h\"\n");
    let answer = scene.ask(&["reload"]);
    assert_eq!(names(&answer["needs_restart"]), ["drain.grace"], "{answer}");
    // Meanwhile nobody else has its name: two would be one in every metric.
    append(&scene, &arena);
    let refused = scene.ask(&["reload"])["error"].clone();
    let said = refused.as_str().unwrap_or_default();
    assert!(said.starts_with("listener.arena was removed"), "{refused}");
    // By default 25 s.
    wait_for_listeners(&scene, &[("game", 0)]);
}

/// Nobody made a mistake: nothing is counted, no alert fires, and the operator is told.
#[test]
fn what_cannot_be_reloaded_is_no_failure() {
    let place = Place::new("noreload");
    let control = place.path("control.sock");
    let admin = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n",
        control.display()
    );
    let tunnel = "[tunnel.home]\nprotocol = \"gaffer\"\nlisten = [\"tcp://127.0.0.1:0\"]\n\
                  remote = \"127.0.0.1:9\"\nframing = \"raw\"\n";
    let server = "[listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\n\
                  backend = \"game\"\n[backend.game]\ntargets = [\"tcp://127.0.0.1:9\"]\n\
                  framing = \"raw\"\nhealth = { kind = \"off\" }\n";
    for (command, tables, why) in [
        ("connect", tunnel, "a tunnel changes with a restart only"),
        ("serve", server, "standard input can be read only once"),
    ] {
        let config = place.write("config.toml", format!("{admin}{tables}"));
        let running = Program::start(
            program()
                .args([command, "--config", "-"])
                .stdin(std::fs::File::open(config).unwrap()),
        );
        running.logged("control");
        let ask = |words: &[&str]| -> Value {
            serde_json::from_slice(&ctl(&control, words).stdout).unwrap()
        };
        let answer = ask(&["reload"]);
        assert_eq!(answer["ok"], false, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(why), "{answer}");
        running.signal("HUP");
        let said = || {
            let lines = running.all_logged("reload");
            (lines.len() == 2).then_some(lines)
        };
        for line in wait_until("both lines", PATIENCE, said) {
            assert_eq!(line["level"], "info", "{line}");
            assert!(line["outcome"].as_str().unwrap().contains(why), "{line}");
        }
        let stats = ask(&["stats"]);
        assert_eq!(
            (&stats["reloads_refused"], &stats["last_reload_ok"]),
            (&0.into(), &true.into()),
            "{command}"
        );
    }
}

/// A pipe is read at the start. A reload that waited for another writer would keep signals and commands waiting.
#[test]
fn a_reload_waits_for_no_pipe() {
    let place = Place::new("pipes");
    let control = place.path("control.sock");
    let key = place.path("key");
    let made = program().args(["keygen", "--out"]).arg(&key).status();
    assert!(made.unwrap().success());
    let config = |key: &str| {
        format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n\
             [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
             netcode.key_file = \"{key}\"\n[backend.game]\ntargets = [\"tcp://127.0.0.1:9\"]\n\
             framing = \"raw\"\nhealth = {{ kind = \"off\" }}\n",
            control.display()
        )
    };
    let plain = place.write("plain.toml", config("pipe"));
    let pipe = place.path("pipe");
    let made = Command::new("mkfifo")
        .args(["-m", "600"])
        .arg(&pipe)
        .status();
    assert!(made.unwrap().success());
    let key_text = std::fs::read_to_string(&key).unwrap();
    for (named, content, why) in [
        (
            &plain,
            key_text,
            "pipe: it is a pipe, which is read only at a start",
        ),
        (&pipe, config("key"), "the configuration came by a pipe"),
    ] {
        let running = Program::start(program().args(["serve", "--config"]).arg(named));
        let to = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, content));
        running.logged("control");
        writer.join().unwrap().unwrap();
        let answer = ctl(&control, &["reload"]);
        let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert_eq!(answer["ok"], false, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(why), "{answer}");
    }
}

/// What is typed wrong is a name that leads nowhere: the file is good, so only the answer can say it in time.
#[test]
fn a_reload_that_brings_a_name_that_is_not_found_says_so() {
    let scene = Scene::new("lost-name");
    let target = format!("tcp://{}", scene.backend.local_addr().unwrap());
    scene.edit(&target, &format!("tcp://{NO_HOST}:7000"));
    let is_said = |answer: &Value, backend: &str| {
        assert_eq!(answer["ok"], true, "{answer}");
        let warning = answer["warnings"][0].as_str().unwrap_or_default();
        let name = format!("target tcp://{NO_HOST}:7000 of backend {backend} was not found");
        assert!(warning.contains(&name), "{answer}");
    };
    is_said(&scene.ask(&["reload"]), "game");
    scene.server.logged("dns_failed");

    append(
        &scene,
        &format!(
            "[listener.arena]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"arena\"\n\
             [backend.arena]\ntargets = [\"tcp://{NO_HOST}:7000\"]\nframing = \"raw\""
        ),
    );
    is_said(&scene.ask(&["reload"]), "arena");

    scene.edit(
        &format!("{NO_HOST}:7000\"]\nframing = \"raw\"\nhealth"),
        &format!(
            "localhost:{}\"]\nframing = \"raw\"\nhealth",
            scene.backend.local_addr().unwrap().port()
        ),
    );
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer.get("warnings"), None, "{answer}");
    // At once: it was looked up before it was served.
    scene.join();
}

/// One of two game servers is drained by hand, and then the file loses the other one: `ctl backend drain` would have
/// said that this leaves nobody.
#[test]
fn a_reload_that_leaves_only_drained_targets_says_so() {
    let scene = Scene::new("drained-target");
    let first = format!("tcp://{}", scene.backend.local_addr().unwrap());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = format!("tcp://{}", other.local_addr().unwrap());
    scene.edit(&first, &format!("{first}\", \"{second}"));
    assert_eq!(scene.ask(&["reload"]).get("warnings"), None);
    let answer = scene.ask(&["backend", "drain", &first]);
    assert_eq!(answer.get("warnings"), None, "the other one takes them");

    scene.edit(&format!("\", \"{second}"), "");
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer["ok"], true, "{answer}");
    let warning = answer["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("all are drained by hand"), "{answer}");
    let line = scene.server.logged("no_target_left");
    assert_eq!(line["backend"], "game", "{line}");
    let answer = scene.ask(&["reload"]);
    assert_eq!(answer.get("warnings"), None, "said once");
}

/// Another game server behind the same listener, and one less: who plays notices nothing, newcomers
/// go where the file says now, and what is no longer listed goes with its last session.
#[test]
fn a_game_server_comes_and_another_goes() {
    let scene = Scene::new("targets");
    let key = "netcode = { key_file = \"key\", client_id = \"78\" }";
    let address = scene.server.address().to_string();
    let (_tunnel, entrance) = tunnel(&scene, &address, "yojimbo", key);
    let traffic = Traffic::start(scene.join());
    let first = format!("tcp://{}", scene.backend.local_addr().unwrap());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = format!("tcp://{}", other.local_addr().unwrap());
    let targets = || -> Vec<(String, bool, u64)> {
        let answer = scene.ask(&["backends"]);
        let rows = answer["targets"].as_array().unwrap().iter().map(|row| {
            let name = row["target"].as_str().unwrap().to_owned();
            let connections = row["connections"].as_u64().unwrap();
            (name, row["leaving"].as_bool().unwrap(), connections)
        });
        rows.collect()
    };
    let both = [(first.clone(), true, 1), (second.clone(), false, 1)];

    // It had nobody, so the next one goes there.
    scene.edit(&first, &format!("{first}\", \"{second}"));
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["applied"]),
        ["backend.game.targets"],
        "{answer}"
    );
    let (mut player, mut stream) = join(entrance, &other);
    scene.edit(&format!("{first}\", \""), "");
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["applied"]),
        ["backend.game.targets"],
        "{answer}"
    );
    assert_eq!(
        answer["needs_restart"],
        Value::Array(Vec::new()),
        "{answer}"
    );
    wait_until("the one that leaves", PATIENCE, || {
        (targets() == both).then_some(())
    });
    assert_connected(&mut player, &mut stream);
    assert!(
        traffic.stop() > 0,
        "who is at a target that goes stays there"
    );
    let alone = [(second.clone(), false, 1)];
    wait_until("its last session", PATIENCE, || {
        (targets() == alone).then_some(())
    });
    drop((player, stream));
    join(scene.entrance, &other);

    // It is back, with the counters it had, and nobody is at it.
    scene.edit(&second, &first);
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    join(entrance, &scene.backend);
    wait_until("its counters", PATIENCE, || {
        let row = &scene.ask(&["backends"])["targets"][0];
        let is_back = row["target"] == first.as_str() && row["connects"] == 2;
        is_back.then_some(())
    });
}

/// Streams share a buffer that holds the longest frame: where a reload allows longer ones, it has to grow.
#[test]
fn longer_frames_pass_after_a_reload() {
    let place = Place::new("longer-frames");
    let mut keygen = place.start(&["keygen", "--out", "key"]);
    assert_eq!(keygen.exit_code(), Some(0));
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = backend.local_addr().unwrap();
    let write_config = |max_message: &str| {
        let config = format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"control.sock\"\n\
             [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\nnetcode = {{ key_file = \"key\" }}\n\
             [backend.game]\ntargets = [\"tcp://{target}\"]\nframing = \"u32be\"\nmax_message = \"{max_message}\"\n\
             health = {{ kind = \"off\" }}\n"
        );
        place.write("server.toml", config);
    };
    write_config("1KiB");
    let server = place.start(&["serve", "--config", "server.toml"]);
    let remote = format!("yojimbo://{}", server.address());
    let connect = ["connect", "--listen", "tcp://127.0.0.1:0", "--admin", ""];
    let to = ["--remote", &remote, "--key", "key", "--framing", "u32be"];
    let tunnel = place.start(&[&connect[..], &to].concat());
    server.logged("control");
    write_config("200KiB");
    assert!(
        ctl(&place.path("control.sock"), &["reload"])
            .status
            .success()
    );

    let mut player = knock(tunnel.address());
    let mut stream = accept(&backend);
    let frame = [&150_000u32.to_be_bytes()[..], &[7; 150_000]].concat();
    stream.write_all(&frame).unwrap();
    let mut heard = vec![0; frame.len()];
    player.read_exact(&mut heard).unwrap();
    assert!(heard == frame);
}

/// Where streams go and what they begin with is in force for the next one.
#[test]
fn a_backend_that_wants_a_header_has_it_after_a_reload() {
    let scene = Scene::new("header");
    scene.edit(
        "framing = \"raw\"\n",
        "framing = \"raw\"\nproxy_protocol = \"v1\"\n",
    );
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let mut player = TcpStream::connect(scene.entrance).unwrap();
    player.write_all(b"hello").unwrap();
    let mut begin = [0; 11];
    accept(&scene.backend).read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"PROXY TCP4 ");
}

/// Who may come is in force for the next one who does.
#[test]
fn a_network_that_is_denied_stays_out_after_a_reload() {
    let scene = Scene::new("denied");
    let denied = "limits = { deny = [\"127.0.0.0/8\"] }\n";
    scene.edit(
        "backend = \"game\"\n",
        &format!("backend = \"game\"\n{denied}"),
    );
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let mut refused = knock(scene.entrance);
    assert!(is_over(&mut refused));
    let line = scene.tunnel.logged("not_let_in");
    assert_eq!(line["reason"], "connect_timeout");
    let client = refused.local_addr().unwrap().to_string();
    assert_eq!(line["client"], client.as_str(), "{line}");
    let local: SocketAddr = line["local"].as_str().unwrap().parse().unwrap();
    assert!(local.ip().is_loopback() && local.port() != 0, "{line}");
    scene.edit(denied, "");
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    scene.join();
}

/// What a peer may send is in force for the next one who comes.
#[test]
fn a_share_that_is_smaller_after_a_reload_is_one() {
    let scene = Scene::new("share");
    let key = "netcode = { key_file = \"key\", client_id = \"78\" }";
    let address = scene.server.address().to_string();
    let (_tunnel, entrance) = tunnel(&scene, &address, "yojimbo", key);
    let refused = || scene.ask(&["stats"])["listeners"][0]["refused"].as_u64();
    let _at_once = scene.join();
    assert_eq!(refused(), Some(0));
    let few = "limits = { strict = true, peer_packets = { rate = 1, burst = 1 } }";
    scene.edit(
        "backend = \"game\"\n",
        &format!("backend = \"game\"\n{few}\n"),
    );
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let _late = TcpStream::connect(entrance).unwrap();
    wait_until("what is too much", PATIENCE, || {
        (refused()? > 0).then_some(())
    });
}

/// Only yojimbo has slots, whose number a reload changes as well: elsewhere the endpoint alone knows how many may come.
#[test]
fn seats_without_slots_come_and_go() {
    let scene = Scene::new("gaffer-seats");
    let open = "[listener.open]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\nmax_peers = 2\n";
    append(&scene, open);
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let address = address_of(&scene, "open");
    let patient = "connect_timeout = \"60s\"";
    let (_tunnel, entrance) = tunnel(&scene, &address, "gaffer", patient);
    let _one = join(entrance, &scene.backend);
    scene.edit("max_peers = 2\n", "max_peers = 1\n");
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let mut refused = knock(entrance);
    refused.write_all(b"hello").unwrap();
    let line = scene.server.logged("newcomers_refused");
    assert_eq!(line["key"], "listener.open.max_peers");
    scene.edit("max_peers = 1\n", "max_peers = 2\n");
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    // Nothing has told that player to stop trying.
    accept(&scene.backend).read_exact(&mut [0; 5]).unwrap();
}

/// Seats can be more and fewer; with fewer than are taken nobody has to go.
#[test]
fn seats_come_and_go() {
    let scene = Scene::new("seats");
    let key = "netcode = { key_file = \"key\", client_id = \"78\" }";
    let address = scene.server.address().to_string();
    let (_tunnel, entrance) = tunnel(&scene, &address, "yojimbo", key);
    scene.edit(
        "backend = \"game\"\n",
        "backend = \"game\"\nmax_peers = 1\n",
    );
    let answer = scene.ask(&["reload"]);
    assert_eq!(
        names(&answer["applied"]),
        ["listener.game.max_peers"],
        "{answer}"
    );
    let traffic = Traffic::start(scene.join());
    let mut refused = knock(entrance);
    assert!(is_over(&mut refused), "no seat is free");
    wait_until("the limit", PATIENCE, || {
        let stats = scene.ask(&["stats"]);
        let is_full = names(&stats["full"]) == ["listener.game.max_peers"];
        (is_full && stats["peers_limit"] == 1).then_some(())
    });

    scene.edit("max_peers = 1\n", "max_peers = 20\n");
    assert_eq!(scene.ask(&["reload"])["ok"], true);
    let (mut player, _stream) = join(entrance, &scene.backend);
    scene.edit("[runtime]\n", "[runtime]\nmax_peers = 2\n");
    let answer = scene.ask(&["reload"]);
    assert_eq!(names(&answer["applied"]), ["runtime.max_peers"], "{answer}");
    let stats = scene.ask(&["stats"]);
    assert_eq!(names(&stats["full"]), ["runtime.max_peers"], "{stats}");
    assert_eq!(stats["peers_limit"], 2);
    player.write_all(b"still here").unwrap();
    assert!(traffic.stop() > 0);
}
