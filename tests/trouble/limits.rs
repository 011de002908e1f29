//! What the machine has no more of: disk, descriptors, ports, threads.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use serde_json::Value;
use tidegate::config::{self, Input};
use tidegate::running_listener::bind;

use super::{Scene, UNWATCHED, backend};
use crate::support::place::Place;
use crate::support::program::Program;
use crate::support::scene::ctl;
use crate::support::{accept, end_of, page, skipped};

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
