//! A reload whose worker is late: what is in force is not called refused.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tidegate::backends::Backends;
use tidegate::board::Board;
use tidegate::capacity::Capacity;
use tidegate::capture::Tap;
use tidegate::clock::Clock;
use tidegate::config::{Input, load};
use tidegate::logging;
use tidegate::reload::{Reloader, Values};
use tidegate::running_listener::Common;
use tidegate::worker::{Command, Handle, Remote};
use tidegate::workers::Workers;

const CONFIG: &str = "version = 1\n[runtime]\nworkers = 1\n[listener.game]\nprotocol = \"gaffer\"\n\
                      bind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
                      [backend.game]\ntargets = [\"tcp://127.0.0.1:9\"]\nframing = \"raw\"\n\
                      health = { kind = \"off\" }\n";

/// Longer than a question to the workers waits for its answers.
const LATE: Duration = Duration::from_secs(3);

/// Turns with its worker, and keeps it from turning once the board has a listener: after the reload has
/// asked the worker what it holds, and before it asks for its word.
fn hold_up(remote: Remote, board: Arc<Board>, over: Arc<AtomicBool>) {
    let own = remote.clone();
    remote.visit(move |now, _| {
        if over.load(Relaxed) {
            return;
        }
        // In the queue before the look: what is asked after the board's change stands behind it.
        hold_up(own, board.clone(), over.clone());
        if !board.snapshot(now).listeners.is_empty() {
            over.store(true, Relaxed);
            std::thread::sleep(LATE);
        }
    });
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_is_late_makes_nothing_refused() {
    let read = || {
        let text = CONFIG.to_owned();
        let input = Input {
            file: Some(("late.toml".into(), text)),
            ..Input::default()
        };
        Ok(load(&input)?)
    };
    let config = read().unwrap().config;
    let clock = Clock::start();
    let capacity = Arc::new(Capacity::new(64, 1 << 28));
    let board = Arc::new(Board::new(clock.clone().now(), capacity.clone()));
    let worker = Handle::spawn(0, clock.clone(), Vec::new(), ()).unwrap();
    let mut reloader = Reloader {
        source: Box::new(read),
        values: Values::new(),
        common: Common {
            runtime: config.runtime,
            board: board.clone(),
            capacity,
            clock,
            tap: Tap::default(),
            state: None,
        },
        drain: config.drain,
        listeners: Vec::new(),
        backends: Arc::new(Backends::new(board.clone())),
        workers: Workers::new(vec![worker.remote()]),
        logging: logging::install(&config.log).unwrap(),
    };
    let over = Arc::new(AtomicBool::new(false));
    hold_up(worker.remote(), board, over.clone());
    let outcome = reloader.reload().await;
    over.store(true, Relaxed);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.added, ["backend.game", "listener.game"]);
    assert!(outcome.unconfirmed, "it was not late");
    worker.tell(Command::Stop);
    worker.join().unwrap().unwrap();
}
