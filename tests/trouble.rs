//! What the program does and says when what it stands on fails: its backends, its time, its descriptors,
//! the reader of its log.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use support::place::Place;
use support::program::{Program, program};
use support::scene::ctl;
use support::{accept, end_of, own_address, page, skipped, wait_until};
use tidegate::config::{self, Input};
use tidegate::running_listener::bind;

/// A gaffer listener before `targets`, a tunnel that leads to it, and its page.
struct Scene {
    place: Place,
    server: Program,
    _tunnel: Program,
    entrance: SocketAddr,
    page: SocketAddr,
}

impl Scene {
    /// `serve` is how the server is started: the program's name and arguments follow.
    fn start(name: &str, serve: &[&str], targets: &str, backend: &str) -> Self {
        let place = Place::new(name);
        let path = |file: &str| place.path(file).display().to_string();
        let server = format!(
            "version = 1\n\
             [runtime]\nworkers = 1\n\
             [admin]\nlisten = \"127.0.0.1:0\"\ncontrol_socket = \"{}\"\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
             idle_timeout = \"2s\"\n\
             [backend.game]\ntargets = [{targets}]\nframing = \"u16be\"\n{backend}\n",
            path("control.sock")
        );
        place.write("server.toml", &server);
        let mut command = match serve {
            [] => program(),
            [wrapper, arguments @ ..] => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(env!("CARGO_BIN_EXE_tidegate"));
                command
            }
        };
        let server = Program::start(command.args(["serve", "--config", &path("server.toml")]));
        let (remote, page) = (server.address(), server.admin());
        server.logged("control");
        let tunnel = format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
             [tunnel.home]\nprotocol = \"gaffer\"\nlisten = [\"tcp://127.0.0.1:0\"]\n\
             remote = \"{remote}\"\nframing = \"raw\"\nidle_timeout = \"60s\"\n"
        );
        place.write("tunnel.toml", &tunnel);
        let tunnel = Program::start(program().args(["connect", "--config", &path("tunnel.toml")]));
        let entrance = tunnel.address();
        assert_eq!(tunnel.logged("listening")["tunnel"], "home");
        Self {
            place,
            server,
            _tunnel: tunnel,
            entrance,
            page,
        }
    }

    fn player(&self) -> TcpStream {
        let mut player = TcpStream::connect(self.entrance).unwrap();
        let patience = Some(Duration::from_secs(20));
        player.set_read_timeout(patience).unwrap();
        player.write_all(b"hello").unwrap();
        player
    }

    /// Of the first series that begins so; less than any figure where there is none.
    fn metric(&self, series: &str) -> f64 {
        page::metric(self.page, series).unwrap_or(-1.0)
    }

    /// Until so many checks of the target that listens here have ended so.
    fn wait_for_checks(&self, target: &TcpListener, result: &str, count: f64) {
        let address = target.local_addr().unwrap();
        let series = format!(
            "tidegate_backend_health_checks_total{{backend=\"game\",target=\"tcp://{address}\",result=\"{result}\"}}"
        );
        let made = || (self.metric(&series) == count).then_some(());
        wait_until(&series, Duration::from_secs(20), made);
    }

    fn wait_for_metric(&self, series: &str) {
        let moved = || (self.metric(series) > 0.0).then_some(());
        wait_until(series, Duration::from_secs(20), moved);
    }
}

/// The first connection that such a backend sees is a session's.
const UNWATCHED: &str = "health = { kind = \"off\" }";

fn backend() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("\"tcp://{}\"", listener.local_addr().unwrap());
    (listener, target)
}

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

#[test]
fn a_name_that_is_not_found_counts_as_that_and_another_target_is_tried() {
    let nowhere = "\"tcp://no-such-host.invalid:7000\"";
    let scene = Scene::start("nameless", &[], nowhere, "");
    let down = scene.server.logged("target_down");
    assert_eq!(down["error"], "its name has no address");
    assert!(down["help"].as_str().unwrap().contains("dns_failed"));
    let failed = scene.server.logged("dns_failed");
    let help = failed["help"].as_str().unwrap();
    assert!(help.starts_with("nobody can be sent there"), "{failed}");
    let (_, status) = page::ask(scene.page, "/status");
    let status: Value = serde_json::from_str(&status).unwrap();
    let found = status["findings"][0]["text"].as_str().unwrap();
    assert!(found.ends_with(": dns)"), "the metric's word: {found}");
    let listed = ctl(&scene.place.path("control.sock"), &["backends"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = &listed["targets"][0];
    assert_eq!(listed["failing"], "dns", "{listed}");
    assert!(listed["failing_s"].is_number(), "{listed}");
    let mut refused = scene.player();
    scene.wait_for_metric(
        "tidegate_backend_connect_failures_total{backend=\"game\",\
         target=\"tcp://no-such-host.invalid:7000\",reason=\"dns\"}",
    );
    refused.read_to_end(&mut Vec::new()).ok();

    let (listener, target) = backend();
    let both = format!("{nowhere}, {target}");
    let scene = Scene::start("named", &[], &both, UNWATCHED);
    let _player = scene.player();
    accept(&listener);
}

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

/// As on a full disk: it is the kernel's way to end who writes more than `ulimit -f` allows.
#[test]
fn a_limit_of_file_sizes_costs_a_recording_and_no_session() {
    let (listener, target) = backend();
    let limited = ["sh", "-c", "ulimit -f 8; exec \"$0\" \"$@\""];
    let scene = Scene::start("limited", &limited, &target, UNWATCHED);
    let file = |name: &str| scene.place.path(name);
    let recording = file("game.pcapng").display().to_string();
    let order = ["capture", "start", &recording, "--content"];
    let started = ctl(&file("control.sock"), &order);
    assert!(started.status.success(), "{started:?}");
    let mut player = scene.player();
    let mut stream = accept(&listener);
    let mut say = || {
        player.write_all(&[7; 16 << 10]).unwrap();
        stream.read_exact(&mut [0; 16 << 10]).unwrap();
    };
    say();
    let line = scene.server.logged("capture_failed");
    assert!(
        line["error"].as_str().unwrap().contains("too large"),
        "{line}"
    );
    say();
    let stats = ctl(&file("control.sock"), &["stats"]);
    let shown = String::from_utf8_lossy(&stats.stdout);
    assert!(shown.contains("too large"), "{shown}");
}

/// A full disk takes a name and no more: the operator must not wait for what nobody writes.
#[test]
fn a_recording_that_cannot_begin_is_refused() {
    let (_listener, target) = backend();
    let limited = ["sh", "-c", "ulimit -f 0; exec \"$0\" \"$@\""];
    let scene = Scene::start("cannot-record", &limited, &target, UNWATCHED);
    let recording = scene.place.path("game.pcapng");
    let path = recording.display().to_string();
    let started = ctl(
        &scene.place.path("control.sock"),
        &["capture", "start", &path],
    );
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(!started.status.success(), "{started:?}");
    assert!(said.contains("too large"), "{said}");
    assert!(!recording.exists(), "the name is free for another try");
}

/// Where streams have taken what they may, those who look and ask still get in, and the game server is
/// not blamed.
#[test]
fn without_descriptors_newcomers_are_refused_and_operators_are_not() {
    let (listener, target) = backend();
    let limited = ["sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""];
    let often = "health = { kind = \"connect\", interval = \"1s\", down_after = 1 }";
    let scene = Scene::start("descriptors", &limited, &target, often);
    std::thread::spawn(move || {
        let _streams: Vec<_> = listener.incoming().collect();
    });
    let _players: Vec<_> = (0..70).map(|_| scene.player()).collect();
    scene.wait_for_metric("tidegate_peer_disconnects_total{listener=\"game\",reason=\"overload\"}");
    let is_limit = |line: &Value| line["reason"] == "overload";
    let line = scene.server.logged_where("newcomers_refused", is_limit);
    assert_eq!(
        (&line["key"], line["limit"].as_u64()),
        (&"LimitNOFILE".into(), Some(64))
    );
    assert_eq!(page::ask(scene.page, "/livez").0, 200);
    let stats = ctl(&scene.place.path("control.sock"), &["stats"]);
    assert!(stats.status.success(), "{stats:?}");
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
    let (_, failures) = page::ask(scene.page, "/metrics");
    let mut failures = failures
        .lines()
        .filter(|line| line.starts_with("tidegate_backend_connect_failures_total{"));
    assert!(failures.all(|line| line.ends_with(" 0")));
}

/// However near to each other they begin: a second one would take a part of the players.
#[test]
fn two_starts_never_share_a_port() {
    let text = "version = 1\n[runtime]\nworkers = 2\n\
                [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
                [backend.game]\ntargets = [\"tcp://127.0.0.1:1\"]\nframing = \"raw\"\n";
    let input = Input {
        file: Some(("test.toml".into(), text.into())),
        ..Input::default()
    };
    let config = config::load(&input).unwrap().config;
    let bind = |address| bind(&config.runtime, &config.listeners[0], &[address]);
    for round in 0..1_000 {
        let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let (at, workers) = &sockets[0];
        let address = at.bound;
        assert!(workers.iter().all(|worker| worker.local_addr() == address));
        drop(sockets);
        let together = Barrier::new(2);
        let start = || {
            together.wait();
            bind(address).ok()
        };
        // Both are kept until both have begun.
        let both = std::thread::scope(|scope| {
            let both = [scope.spawn(start), scope.spawn(start)];
            both.map(|one| one.join().unwrap())
        });
        let serving = both.iter().flatten().count();
        assert!(serving < 2, "round {round}: both have {address}");
    }
}

/// However few there are beyond what tokio insists on: it is no failure without a reason, and no bug.
#[test]
fn a_start_without_descriptors_says_which_limit_it_met() {
    for most in (8..36).step_by(3) {
        let limited = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        let child = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_tidegate"), "serve"])
            .args(["--listen", "gaffer://127.0.0.1:0", "--control", ""])
            .args(["--backend", "tcp://127.0.0.1:1", "--admin", "127.0.0.1:0"])
            .env("TIDEGATE__RUNTIME__WORKERS", "8")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (code, said) = end_of(child);
        assert_eq!(code, Some(69), "{most}: {said}");
        let limit = format!("this process may have {most} files open");
        assert!(said.contains(&limit), "{said}");
        assert!(said.contains("LimitNOFILE="), "{said}");
    }
}

/// Threads (`TasksMax=`, `ulimit -u`): root may have any number, so somebody else starts it.
#[test]
fn a_start_without_threads_says_which_limit_it_met() {
    let Some(stranger) = Stranger::new("threads") else {
        return;
    };
    for most in 1..5 {
        let mut command = stranger.command("prlimit");
        let command = command.arg(format!("--nproc={most}"));
        let child = command
            .arg(stranger.0.path("tidegate"))
            .args(["serve", "--listen", "gaffer://127.0.0.1:0", "--control", ""])
            .args(["--backend", "tcp://127.0.0.1:1", "--admin", "127.0.0.1:0"])
            .env("TIDEGATE__RUNTIME__WORKERS", "3")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (code, said) = end_of(child);
        assert_eq!(code, Some(69), "{most}: {said}");
        assert!(said.contains("no thread for "), "{said}");
        assert!(said.contains("TasksMax="), "{said}");
    }
}

/// The C library has one error for want of threads and of room for their stacks. The least at which the process gets as
/// far as its threads depends on the build, so it is looked for from below.
#[test]
fn a_start_without_room_for_threads_says_which_limit_it_met() {
    for mib in (10..100).step_by(2) {
        let child = Command::new("prlimit")
            .arg(format!("--as={}", mib << 20))
            .arg(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--listen", "gaffer://127.0.0.1:0", "--control", ""])
            .args(["--backend", "tcp://127.0.0.1:1", "--admin", "127.0.0.1:0"])
            .env("TIDEGATE__RUNTIME__WORKERS", "8")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (code, said) = end_of(child);
        // Memory may run out too, before a thread is asked for or behind it.
        if code != Some(69) || !said.contains("no thread for ") {
            continue;
        }
        assert!(said.contains("LimitAS="), "{mib} MiB: {said}");
        assert!(!said.contains("TasksMax="), "{mib} MiB: {said}");
        return;
    }
    panic!("it began, or never got as far as its threads");
}

/// A name is looked up again and again, and sooner or later when no thread can be had: that look-up has failed, and
/// nothing else.
#[test]
fn a_look_up_without_a_thread_ends_nothing() {
    let Some(stranger) = Stranger::new("look-up") else {
        return;
    };
    let (listener, _) = backend();
    let port = listener.local_addr().unwrap().port();
    let file = format!(
        "version = 1\n[runtime]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\ncontrol_socket = \"\"\n\
         [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
         [backend.game]\ntargets = [\"tcp://localhost:{port}\"]\nframing = \"raw\"\ndns_refresh = \"1s\"\n"
    );
    let file = stranger.0.write("server.toml", &file);
    let mut command = stranger.command(stranger.0.path("tidegate"));
    let mut server = Program::start(command.args(["serve", "--config"]).arg(file));
    server.logged("admin");
    // After the start: what looks names up then has ended.
    accept(&listener);
    let pid = server.child.id().to_string();
    let mut limit = stranger.command("prlimit");
    let limited = limit.args(["--nproc=1", "--pid", &pid]).status();
    assert!(limited.unwrap().success());
    let failed = server.logged("dns_failed");
    assert!(
        failed["error"].as_str().unwrap().contains("no thread"),
        "{failed}"
    );
    let help = failed["help"].as_str().unwrap();
    assert!(help.contains("where it led before"), "{failed}");
    std::thread::sleep(Duration::from_secs(3));
    assert!(server.child.try_wait().unwrap().is_none(), "it goes on");
}

/// A directory with the program in it, for somebody who runs nothing else.
struct Stranger(Place);

impl Stranger {
    /// Only root can become somebody else.
    fn new(name: &str) -> Option<Self> {
        // SAFETY: takes nothing, cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            skipped("limits of threads; run this test as root");
            return None;
        }
        let place = Place::new(name);
        std::fs::set_permissions(place.dir(), PermissionsExt::from_mode(0o755)).unwrap();
        // By a process of its own: nothing can be run that another child may still have open to write.
        let mut copy = Command::new("cp");
        let copy = copy.arg(env!("CARGO_BIN_EXE_tidegate")).arg(place.dir());
        assert!(copy.status().unwrap().success());
        Some(Self(place))
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        // Each test is somebody of its own, because limits count all of a user's threads.
        let user = std::fs::metadata(self.0.dir()).unwrap().ino() as u32 % 10_000 + 1_000_000;
        let mut command = Command::new(program);
        command.current_dir(self.0.dir()).uid(user).gid(user);
        command
    }
}

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
    let patience = Some(Duration::from_secs(20));
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
    let deadline = scene.metric("tidegate_drain_deadline_timestamp_seconds");
    assert!(deadline - begun > 600.0, "{deadline} is too near {begun}");
    // A drain without an end, as SIGUSR1 orders it, has none; the stop keeps its own.
    let control = scene.place.path("control.sock");
    let answer = ctl(&control, &["drain"]);
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.contains("the process is stopping"), "{answer}");
    assert!(!ctl(&control, &["reload"]).status.success());
    let reloaded = scene.metric("tidegate_config_last_reload_successful");
    assert_eq!(reloaded, 1.0, "nobody made a mistake");
    let series = "tidegate_drain_deadline_timestamp_seconds";
    assert!((scene.metric(series) - deadline).abs() < 1.0);
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
    wait_until("the deadline to be met", Duration::from_secs(20), is_met);
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
    let end = wait_until("its end", Duration::from_secs(20), || {
        child.try_wait().unwrap()
    });
    assert_eq!(end.code(), Some(69));
    drop(reader);
}

/// `/etc/hosts` of a server: what its names stand for.
struct Hosts(Place);

impl Hosts {
    /// None where this user may not give a program files of its own.
    fn new(name: &str) -> Option<Self> {
        let own = ["--map-root-user", "--mount", "true"];
        let can = Command::new("unshare").args(own).output();
        if !can.is_ok_and(|can| can.status.success()) {
            skipped("a program with an /etc/hosts of its own needs unshare, and user namespaces");
            return None;
        }
        let hosts = Self(Place::new(&format!("hosts-{name}")));
        hosts.0.write("nsswitch.conf", "hosts: files\n");
        hosts.set(&[]);
        Some(hosts)
    }

    /// What `game.test` stands for from now on.
    fn set(&self, addresses: &[&str]) {
        let line = |address: &&str| format!("{address} game.test\n");
        let lines: String = addresses.iter().map(line).collect();
        self.0.write("hosts", &lines);
    }

    /// Starts a program that reads it instead of the machine's.
    fn around(&self) -> [String; 6] {
        let files = self.0.dir().display();
        let script = format!(
            "for file in hosts nsswitch.conf; do mount --bind {files}/$file /etc/$file || exit; done
             exec \"$0\" \"$@\""
        );
        let words = ["unshare", "--map-root-user", "--mount", "sh", "-c"];
        let mut words = words.map(str::to_owned).into_iter().chain([script]);
        std::array::from_fn(|_| words.next().unwrap())
    }
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
        wait_until("a look-up", Duration::from_secs(20), looks_up);
        server.signal(signal);
        assert_eq!(server.exit_code(), Some(0), "{signal}");
        server.logged("stopped");
        assert_eq!(server.all_logged("stopped").len(), 1, "{signal}");
    }
}

/// Two listeners on one port of two addresses.
fn two_backends() -> (TcpListener, TcpListener, u16) {
    wait_until(
        "a port that both have free",
        Duration::from_secs(20),
        || {
            let one = TcpListener::bind("127.0.0.2:0").unwrap();
            let port = one.local_addr().unwrap().port();
            let other = TcpListener::bind(("127.0.0.3", port)).ok()?;
            Some((one, other, port))
        },
    )
}

/// A game server in a container that starts again has another address. Nobody waits for the next time
/// that names are looked up anyway, and without checks the first who fails is enough.
#[test]
fn a_name_that_moves_is_found_where_it_went() {
    for (name, health) in [
        (
            "checked",
            "health = { kind = \"connect\", interval = \"1s\" }",
        ),
        ("unchecked", UNWATCHED),
    ] {
        let Some(hosts) = Hosts::new(name) else {
            return;
        };
        let (one, other, port) = two_backends();
        let words = hosts.around();
        let serve: Vec<&str> = words.iter().map(String::as_str).collect();
        let more = format!("dns_refresh = \"1h\"\n{health}");
        let target = format!("\"tcp://game.test:{port}\"");
        let scene = Scene::start(name, &serve, &target, &more);
        // Who comes before the name is there fails, and so does who comes before it is found.
        for (address, backend) in [("127.0.0.2", one), ("127.0.0.3", other)] {
            hosts.set(&[address]);
            backend.set_nonblocking(true).unwrap();
            let mut players = Vec::new();
            wait_until(address, Duration::from_secs(20), || {
                players.push(scene.player());
                std::thread::sleep(Duration::from_millis(100));
                let (mut stream, _) = backend.accept().ok()?;
                stream.set_nonblocking(false).unwrap();
                // A check says nothing.
                stream.read_exact(&mut [0; 7]).ok()
            });
        }
    }
}

/// Each is a server of its own: players are spread over them, one that dies costs its own, and those
/// who come play on the other.
#[test]
fn the_addresses_of_a_name_are_servers_of_their_own() {
    let Some(hosts) = Hosts::new("several") else {
        return;
    };
    hosts.set(&["127.0.0.2", "127.0.0.3"]);
    let (one, other, port) = two_backends();
    let words = hosts.around();
    let serve: Vec<&str> = words.iter().map(String::as_str).collect();
    let target = format!("tcp://game.test:{port}");
    let health = "health = { kind = \"connect\", interval = \"1s\", down_after = 1 }";
    let scene = Scene::start("several", &serve, &format!("\"{target}\""), health);
    let playing = |backend: &TcpListener| {
        let mut stream = accept(backend);
        while stream.read_exact(&mut [0; 7]).is_err() {
            stream = accept(backend);
        }
        stream
    };
    let _players = [scene.player(), scene.player()];
    let (_first, _second) = (playing(&one), playing(&other));
    let series = |state| {
        format!(
            "tidegate_backend_addresses{{backend=\"game\",target=\"{target}\",state=\"{state}\"}}"
        )
    };
    assert_eq!(scene.metric(&series("up")), 2.0);

    drop(other);
    let line = scene.server.logged("address_down");
    assert_eq!(line["address"], format!("127.0.0.3:{port}"));
    assert_eq!(
        (scene.metric(&series("up")), scene.metric(&series("down"))),
        (1.0, 1.0)
    );
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
    assert_eq!(page::ask(scene.page, "/readyz").0, 200);
    let _more = [scene.player(), scene.player()];
    let _streams = [playing(&one), playing(&one)];

    drop(one);
    assert_eq!(scene.server.logged("target_down")["target"], target);
    assert_eq!(scene.metric("tidegate_backend_up"), 0.0);
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
    wait_until("a player", Duration::from_secs(20), || {
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
    drop(accept(&listener));
    scene.wait_for_checks(&listener, "ok", 2.0);
    assert!(scene.server.all_logged("target_crashed").is_empty());
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
