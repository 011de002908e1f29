//! What the program does and says when what it stands on fails: its backends, its time, its descriptors,
//! the reader of its log.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use socket2::SockRef;
use support::scene::{Directory, Running, ctl, program};
use support::{accept, wait_until};

/// A gaffer listener before `targets`, a tunnel that leads to it, and its page.
struct Scene {
    directory: Directory,
    server: Running,
    _tunnel: Running,
    entrance: SocketAddr,
    page: String,
}

impl Scene {
    /// `serve` is how the server is started: the program's name and arguments follow.
    fn start(name: &str, serve: &[&str], targets: &str, backend: &str) -> Self {
        let directory = Directory::new(name);
        let path = |file: &str| directory.0.join(file).display().to_string();
        let server = format!(
            "version = 1\n\
             [runtime]\nworkers = 1\n\
             [admin]\nlisten = \"127.0.0.1:0\"\ncontrol_socket = \"{}\"\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
             idle_timeout = \"2s\"\n\
             [backend.game]\ntargets = [{targets}]\nframing = \"u16be\"\n{backend}\n",
            path("control.sock")
        );
        directory.write("server.toml", &server);
        let mut command = match serve {
            [] => program(),
            [wrapper, arguments @ ..] => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(env!("CARGO_BIN_EXE_tidegate"));
                command
            }
        };
        let server = Running::of(command.args(["serve", "--config", &path("server.toml")]));
        let remote = text(&server, "listening", "address");
        let page = text(&server, "admin", "listen");
        server.logged("control");
        let tunnel = format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
             [tunnel.home]\nprotocol = \"gaffer\"\nlisten = [\"tcp://127.0.0.1:0\"]\n\
             remote = \"{remote}\"\nframing = \"raw\"\nidle_timeout = \"60s\"\n"
        );
        directory.write("tunnel.toml", &tunnel);
        let tunnel = Running::start(&["connect", "--config", &path("tunnel.toml")]);
        let entrance = text(&tunnel, "listening", "address").parse().unwrap();
        assert_eq!(tunnel.logged("listening")["tunnel"], "home");
        Self {
            directory,
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

    fn ask(&self, path: &str) -> String {
        let mut page = TcpStream::connect(&self.page).unwrap();
        let patience = Some(Duration::from_secs(20));
        page.set_read_timeout(patience).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        page.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        page.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Of the first series that begins so.
    fn metric(&self, series: &str) -> f64 {
        let answer = self.ask("/metrics");
        let line = answer.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value.and_then(|value| value.parse().ok()).unwrap_or(-1.0)
    }

    fn wait_for_metric(&self, series: &str) {
        let moved = || (self.metric(series) > 0.0).then_some(());
        wait_until(series, Duration::from_secs(20), moved);
    }
}

/// The first connection that such a backend sees is a session's.
const UNWATCHED: &str = "health = { kind = \"off\" }";

fn text(running: &Running, event: &str, field: &str) -> String {
    running.logged(event)[field].as_str().unwrap().to_owned()
}

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
    let pid = scene.server.child.id().to_string();
    let signal = |name| {
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    };
    signal("STOP");
    std::thread::sleep(Duration::from_millis(3_500));
    signal("CONT");
    player.write_all(b"again").unwrap();
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(&frame[2..], b"again");
    let line = scene.server.logged("process_paused");
    assert_eq!(line["level"], "warn");
    assert!(line["for_s"].as_f64().unwrap() > 3.0, "{line}");
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
    let refusals = || {
        let mut lines = scene.server.all_logged("newcomers_refused").into_iter();
        lines.find(|line| line["reason"] == "overload")
    };
    let line = wait_until("the limit", Duration::from_secs(20), refusals);
    assert_eq!(
        (&line["key"], line["limit"].as_u64()),
        (&"LimitNOFILE".into(), Some(64))
    );
    assert!(scene.ask("/livez").starts_with("HTTP/1.1 200"));
    let stats = ctl(&scene.directory.0.join("control.sock"), &["stats"]);
    assert!(stats.status.success(), "{stats:?}");
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
    let failures = scene.ask("/metrics");
    let mut failures = failures
        .lines()
        .filter(|line| line.starts_with("tidegate_backend_connect_failures_total{"));
    assert!(failures.all(|line| line.ends_with(" 0")));
}

/// Both times count: a supervisor that is told of one would kill the rest, and an alert speak of a bug.
#[test]
fn the_deadline_of_a_drain_includes_the_time_before_it() {
    let (_listener, target) = backend();
    let drain = "[drain]\nready_delay = \"600s\"\ngrace = \"5s\"";
    let mut scene = Scene::start("deadline", &[], &target, drain);
    let pid = scene.server.child.id().to_string();
    let signal = || Command::new("kill").arg(&pid).status().unwrap();
    assert!(signal().success());
    scene.server.logged("drain");
    let begun = scene.metric("process_start_time_seconds");
    let deadline = scene.metric("tidegate_drain_deadline_timestamp_seconds");
    assert!(deadline - begun > 600.0, "{deadline} is too near {begun}");
    // A drain without an end, as SIGUSR1 orders it, has none; the stop keeps its own.
    let control = scene.directory.0.join("control.sock");
    let answer = ctl(&control, &["drain"]);
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.contains("the process is stopping"), "{answer}");
    let series = "tidegate_drain_deadline_timestamp_seconds";
    assert!((scene.metric(series) - deadline).abs() < 1.0);
    assert!(signal().success());
    assert_eq!(scene.server.end(), 0);
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
