//! A bug ends the process. What a worker with one has touched is not played on, and who sits at another worker is
//! told; what another thread does would not be done any more.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{PATIENCE, Setup, end_of, tcp_backend, toy_parts, wait_until};
use tidegate::board::Board;
use tidegate::capacity::Capacity;
use tidegate::clock::Clock;
use tidegate::config::{Drain, Log, LogFormat};
use tidegate::shutdown::{Fleet, StopSignals};
use tidegate::udp::Options;
use tidegate::{bugs, logging};

/// Not a test by itself: the process that has the bug.
#[test]
fn the_process_that_panics() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let (_backend, target) = tcp_backend();
    let clock = Clock::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(async {
        let board = Board::new(clock.clone().now(), Capacity::new(64, 1 << 28).into());
        let share = |_| {
            let targets = std::slice::from_ref(&target);
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            let socket = tidegate::udp::UdpSocket::bind(loopback, Options::default()).unwrap();
            println!("{ADDRESS}{}", socket.local_addr());
            vec![toy_parts(socket, targets, &Setup::default(), None)]
        };
        let fleet = Fleet::spawn((0..2).map(share).collect(), &clock);
        let drain = Drain {
            grace: Duration::from_secs(5),
            ready_delay: Duration::ZERO,
        };
        let signals = StopSignals::catch()?;
        fleet.unwrap().run(&board, &drain, signals).await
    });
    panic!("it went on: {outcome:?}");
}

#[test]
fn a_panic_in_a_worker_ends_the_process_and_tells_everybody_else() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_panics", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut address = || -> SocketAddr {
        let mut rest = lines.by_ref().map_while(Result::ok);
        let line = rest.find_map(|line| Some(line.split_once(ADDRESS)?.1.to_owned()));
        line.unwrap().parse().unwrap()
    };
    let players = [address(), address()].map(|server| {
        let player = UdpSocket::bind("127.0.0.1:0").unwrap();
        player.connect(server).unwrap();
        player.set_nonblocking(true).unwrap();
        wait_until("welcome", PATIENCE, || {
            player.send(b"H").ok();
            heard(&player, b'W')
        });
        player
    });
    players[0].send(b"P").unwrap();
    wait_until("goodbye at the other worker", PATIENCE, || {
        heard(&players[1], b'B')
    });
    let (code, said) = end_of(child);
    assert_eq!(code, Some(70), "{said}");
    assert!(said.contains("a bug in the toy"), "{said}");
    assert!(said.contains("a worker panicked"), "{said}");
}

/// Not a test by itself: the process with a bug in a task of the main thread, or in another thread.
#[test]
fn the_process_that_panics_elsewhere() {
    let Some(thread) = std::env::var_os(ELSEWHERE) else {
        return;
    };
    let log = Log {
        format: LogFormat::Json,
        level: "info".to_owned(),
        repeat_window: Duration::ZERO,
    };
    let logging = logging::install(&log).unwrap();
    bugs::make_fatal(move || logging.flush());
    tracing::info!(event = "said_before");
    let bug = || panic!("a bug in its own place");
    if thread == "task" {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async move { tokio::spawn(async move { bug() }).await.ok() });
    } else {
        let thread = std::thread::Builder::new().name(thread.into_string().unwrap());
        thread.spawn(bug).unwrap().join().ok();
    }
    std::process::exit(0);
}

/// What such a thread or task did would not be done any more, and nobody would know.
#[test]
fn a_panic_elsewhere_ends_the_process_with_its_last_words() {
    for (thread, code) in [("task", 70), ("hangs", 70), ("log", 70), ("admin", 0)] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "the_process_that_panics_elsewhere",
                "--nocapture",
            ])
            .env(ELSEWHERE, thread)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{thread}: {said}");
        assert!(said.contains("a bug in its own place"), "{thread}: {said}");
        assert!(said.contains("said_before"), "{thread}: {said}");
    }
}

fn heard(player: &UdpSocket, kind: u8) -> Option<()> {
    let mut datagram = [0; 64];
    let length = player.recv(&mut datagram).ok()?;
    (length > 0 && datagram[0] == kind).then_some(())
}

const CHILD: &str = "TIDEGATE_TEST_PANICS";
const ELSEWHERE: &str = "TIDEGATE_TEST_PANICS_ELSEWHERE";
/// Before each address that the process prints.
const ADDRESS: &str = "serves at ";
