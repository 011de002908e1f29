//! A process that is told to end, and whom it waits for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::names::Hosts;
use super::{Scene, UNWATCHED, backend};
use crate::support::place::Place;
use crate::support::program::{Program, program};
use crate::support::scene::ctl;
use crate::support::{PATIENCE, accept, page, wait_until};

/// A pipe to which nobody writes costs the connection that waits for it, and the others hear their signals and commands.
#[test]
fn a_token_that_never_comes_holds_up_nothing_else() {
    let place = Place::new("no-token");
    let path = |name: &str| place.path(name);
    let made = Command::new("mkfifo").arg(path("token")).status().unwrap();
    assert!(made.success());
    let control = path("control.sock");
    let file = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n\
         [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"127.0.0.1:1\"\nframing = \"raw\"\n\
         connect_timeout = \"1s\"\nnetcode = {{ token_file = \"token\" }}\n",
        control.display()
    );
    let file = place.write("tunnel.toml", &file);
    let mut tunnel = Program::start(program().args(["connect", "--config"]).arg(file));
    let mut player = TcpStream::connect(tunnel.address()).unwrap();
    let patience = Some(PATIENCE);
    player.set_read_timeout(patience).unwrap();
    assert_eq!(player.read(&mut [0; 1]).unwrap(), 0);
    let failed = tunnel.logged("dial_failed");
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("within connect_timeout"), "{failed}");
    assert!(ctl(&control, &["stats"]).status.success());
    tunnel.signal("TERM");
    assert_eq!(tunnel.exit_code(), Some(0));
}

/// Its backend hangs, so its stream outlives the process's patience; why it ended and how far it got is said all the same.
#[test]
fn a_stop_that_waits_for_no_stream_tells_of_each_session() {
    let (listener, target) = backend();
    let mut scene = Scene::start("hung-stop", &[], &target, UNWATCHED);
    let _player = scene.player();
    let _hung = accept(&listener);
    scene.server.logged("session_start");
    scene.server.signal("INT");
    assert_eq!(scene.server.exit_code(), Some(0));
    assert_eq!(scene.server.logged("session_end")["reason"], "shutdown");
}

/// Both times count: a supervisor that is told of one would kill the rest, and an alert speak of a bug.
#[test]
fn the_deadline_of_a_drain_includes_the_time_before_it() {
    let (_listener, target) = backend();
    let drain = "[drain]\nready_delay = \"600s\"\ngrace = \"5s\"";
    let mut scene = Scene::start("deadline", &[], &target, drain);
    scene.server.signal("TERM");
    let line = scene.server.logged("drain");
    assert_eq!(
        (&line["reason"], &line["peers"]),
        (&"SIGTERM".into(), &0.into())
    );
    let begun = scene.metric("process_start_time_seconds");
    let deadline = || scene.metric("tidegate_drain_deadline_timestamp_seconds") - begun;
    assert!(deadline() > 600.0, "{} s is too near", deadline());
    // A drain without an end, as SIGUSR1 orders it, has none; the stop keeps its own.
    let control = scene.place.path("control.sock");
    let answer = ctl(&control, &["drain"]);
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.contains("the process is stopping"), "{answer}");
    assert!(!ctl(&control, &["reload"]).status.success());
    let reloaded = scene.metric("tidegate_config_last_reload_successful");
    assert_eq!(reloaded, 1.0, "nobody made a mistake");
    assert!(deadline() > 600.0, "{} s is the drain's", deadline());
    scene.server.signal("TERM");
    assert_eq!(scene.server.exit_code(), Some(0));
    scene.server.logged("drain_cut_short");
}

/// A drain by hand ends sessions, and the process stays: that is not late, for as long as it takes.
#[test]
fn a_drain_by_hand_has_met_its_deadline_when_everybody_has_gone() {
    let (listener, target) = backend();
    let scene = Scene::start("by-hand", &[], &target, UNWATCHED);
    let mut player = scene.player();
    let mut stream = accept(&listener);
    let control = scene.place.path("control.sock");
    let drain = |grace: &str| {
        let answer = ctl(&control, &["drain", "--grace", grace]);
        assert!(answer.status.success(), "{answer:?}");
    };
    let series = "tidegate_drain_deadline_timestamp_seconds";
    drain("1h");
    let distant = scene.metric(series);
    drain("1s");
    let deadline = scene.metric(series);
    assert!(deadline > 0.0 && deadline < distant - 3_000.0, "{deadline}");
    player.read_to_end(&mut Vec::new()).ok();
    stream.read_to_end(&mut Vec::new()).ok();
    let is_met = || (scene.metric(series) == 0.0).then_some(());
    wait_until("the deadline to be met", PATIENCE, is_met);
    assert_eq!(scene.metric("tidegate_state{state=\"draining\"}"), 1.0);
    assert!(
        page::ask(scene.page, "/status")
            .1
            .contains("until it is stopped")
    );
}

/// A service manager can only restart what has ended.
#[test]
fn a_reader_of_the_log_who_is_stuck_keeps_nobody_from_ending() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = format!("gaffer://{}", taken.local_addr().unwrap());
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Fills the pipe, and stays behind with the byte that does not fit any more.
    let mut own = writer.try_clone().unwrap();
    std::thread::spawn(move || while own.write_all(&[b'x'; 4096]).is_ok() {});
    writer.flush().unwrap();
    let mut child = program()
        .args([
            "serve",
            "--listen",
            &listen,
            "--backend",
            "tcp://127.0.0.1:1",
        ])
        .args(["--admin", "", "--control", ""])
        .stderr(Stdio::from(writer))
        .spawn()
        .unwrap();
    let end = wait_until("its end", PATIENCE, || child.try_wait().unwrap());
    assert_eq!(end.code(), Some(69));
    drop(reader);
}

/// A start may wait for names. It ends in order all the same, and not by the kernel: that would leave files behind, and
/// does not even end the first process of a container, to which it delivers only what was asked for.
#[test]
fn a_stop_during_a_start_ends_it_in_order() {
    for signal in ["TERM", "INT"] {
        let Some(hosts) = Hosts::new(&format!("stopped-{signal}")) else {
            return;
        };
        // A look-up of a name waits there until somebody opens it to write.
        let file = hosts.0.path("hosts");
        std::fs::remove_file(&file).unwrap();
        let made = Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        let [wrapper, arguments @ ..] = hosts.around();
        let mut command = Command::new(wrapper);
        let command = command.args(arguments).arg(env!("CARGO_BIN_EXE_tidegate"));
        let mut server = Program::start(
            command
                .args(["serve", "--listen", "gaffer://127.0.0.1:0"])
                .args(["--backend", "tcp://game.test:7000"])
                .args(["--admin", "", "--control", ""]),
        );
        let pid = server.child.id().to_string();
        let looks_up = || {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
            let names =
                tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
            let mut names = names.map_while(Result::ok);
            names.find(|name| name.trim_end() == "look-up")
        };
        wait_until("a look-up", PATIENCE, looks_up);
        server.signal(signal);
        assert_eq!(server.exit_code(), Some(0), "{signal}");
        server.logged("stopped");
        assert_eq!(server.all_logged("stopped").len(), 1, "{signal}");
    }
}
