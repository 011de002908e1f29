//! Reloads and orders beside a worker, without the program around them: a worker that is late makes nothing refused, what
//! is ordered while names are looked up holds, what changes for one listener changes for no other, and a stop that comes
//! meanwhile goes first.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tidegate::backends::Backends;
use tidegate::board::{Board, State};
use tidegate::capacity::Capacity;
use tidegate::capture::Tap;
use tidegate::clock::Clock;
use tidegate::config::{Input, load};
use tidegate::control::{Gate, Request};
use tidegate::listener::{Listener, Whom};
use tidegate::logging::{self, Logging};
use tidegate::reload::{NoReload, Reloader, Values};
use tidegate::running_listener::Common;
use tidegate::worker::{Command, Handle, Remote};
use tidegate::workers::Workers;
use tidegate_proto::Timestamp;

const CONFIG: &str = "version = 1\n[runtime]\nworkers = 1\n[listener.game]\nprotocol = \"gaffer\"\n\
                      bind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
                      [backend.game]\ntargets = [\"tcp://127.0.0.1:9\"]\nframing = \"raw\"\n\
                      health = { kind = \"off\" }\n";

/// One more, whose backend has a name.
const ARENA: &str = "[listener.arena]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"arena\"\n\
                     [backend.arena]\ntargets = [\"tcp://localhost:9\"]\nframing = \"raw\"\n\
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

/// A worker without listeners, and a reloader that has read nothing yet.
struct Rig {
    worker: Handle,
    reloader: Reloader,
    file: Arc<Mutex<String>>,
}

impl Rig {
    fn start() -> Self {
        static LOGGING: OnceLock<Logging> = OnceLock::new();
        let file = Arc::new(Mutex::new(CONFIG.to_owned()));
        let text = file.clone();
        let read = move || {
            let text = text.lock().unwrap().clone();
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
        let logging = LOGGING.get_or_init(|| logging::install(&config.log).unwrap());
        let reloader = Reloader {
            source: Box::new(read),
            values: Values::new(),
            common: Common {
                runtime: config.runtime,
                board: board.clone(),
                capacity,
                clock: clock.clone(),
                tap: Tap::default(),
                state: None,
            },
            drain: config.drain,
            listeners: Vec::new(),
            backends: Arc::new(Backends::new(board, clock)),
            workers: Workers::new(vec![worker.remote()]),
            logging: logging.clone(),
        };
        Self {
            worker,
            reloader,
            file,
        }
    }

    fn stop(self) {
        self.worker.tell(Command::Stop);
        self.worker.join().unwrap().unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_is_late_makes_nothing_refused() {
    let mut rig = Rig::start();
    let board = rig.reloader.common.board.clone();
    let over = Arc::new(AtomicBool::new(false));
    hold_up(rig.worker.remote(), board, over.clone());
    let outcome = rig.reloader.reload().await;
    over.store(true, Relaxed);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.added, ["backend.game", "listener.game"]);
    assert!(outcome.unconfirmed, "it was not late");
    rig.stop();
}

/// The order comes when the reload has begun, and stands in the worker's queue before what the reload brings.
#[tokio::test(flavor = "current_thread")]
async fn a_ban_during_a_reload_holds_for_what_it_brings() {
    let mut rig = Rig::start();
    rig.reloader.reload().await.unwrap();
    rig.file.lock().unwrap().push_str(ARENA);
    let workers = rig.reloader.workers.clone();
    let ban = async {
        workers.each(|now, listener| {
            listener.ban(now, Whom::Client(7), None).unwrap();
        });
    };
    let (outcome, ()) = tokio::join!(rig.reloader.reload(), ban);
    assert_eq!(outcome.unwrap().added, ["backend.arena", "listener.arena"]);
    let bans = |now, own: &mut Listener| (own.name().to_owned(), own.bans(now).len());
    let mut bans = workers.ask(bans).await.unwrap();
    bans.sort();
    assert_eq!(bans, [("arena".to_owned(), 1), ("game".to_owned(), 1)]);
    rig.stop();
}

/// A worker that ends takes no listener, and one that nobody reports of looks as if its worker hung.
#[tokio::test(flavor = "current_thread")]
async fn a_stop_during_a_reload_brings_nothing() {
    let mut rig = Rig::start();
    let board = rig.reloader.common.board.clone();
    let stop = async { board.update_process(|process| process.stopping = true) };
    let (outcome, ()) = tokio::join!(rig.reloader.reload(), stop);
    assert!(outcome.unwrap_err().is::<NoReload>());
    let now = rig.reloader.common.clock.clone().now();
    assert!(board.snapshot(now).listeners.is_empty());
    rig.stop();
}

/// By the deadline of a stop the process is judged; an order that came before it, and that the worker had not heard of
/// yet, does not move it.
#[tokio::test(flavor = "current_thread")]
async fn a_stop_keeps_its_deadline_from_orders_under_way() {
    for order in [Request::Drain { seconds: Some(9) }, Request::Undrain] {
        let rig = Rig::start();
        let Common { board, clock, .. } = &rig.reloader.common;
        let gate = Arc::new(Gate {
            board: board.clone(),
            clock: clock.clone(),
            workers: rig.reloader.workers.clone(),
            backends: rig.reloader.backends.clone(),
            logging: rig.reloader.logging.clone(),
            drains: AtomicU64::default(),
            reloader: None,
            tap: None,
        });
        let (turn, held) = channel::<()>();
        rig.worker.remote().visit(move |_, _| {
            held.recv().ok();
        });
        let stop = async {
            board.update_process(|process| {
                process.stopping = true;
                process.state = State::Draining;
                process.drain_deadline = Some(Timestamp::from_millis(25));
            });
            drop(turn);
        };
        let (answer, ()) = tokio::join!(gate.handle(order), stop);
        let refused = answer.unwrap_err().to_string();
        assert_eq!(refused, "the process is stopping");
        let process = board.snapshot(clock.clone().now()).process;
        assert_eq!(process.state, State::Draining);
        assert_eq!(process.drain_deadline, Some(Timestamp::from_millis(25)));
        rig.stop();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_change_of_one_listener_is_none_of_the_others() {
    let mut rig = Rig::start();
    let arena = ARENA.replace("raw", "u16be");
    rig.file.lock().unwrap().push_str(&arena);
    rig.reloader.reload().await.unwrap();
    let workers = rig.reloader.workers.clone();
    let frames = async || {
        let frame = |_, own: &mut Listener| (own.name().to_owned(), own.max_frame());
        let mut frames = workers.ask(frame).await.unwrap();
        frames.sort();
        frames
    };
    let before = frames().await;
    assert_ne!(before[0].1, before[1].1, "{before:?}");
    let text = CONFIG.replace("[listener.game]", "[listener.game]\nmax_peers = 9");
    *rig.file.lock().unwrap() = text + &arena;
    let outcome = rig.reloader.reload().await.unwrap();
    assert_eq!(outcome.applied, ["listener.game.max_peers"]);
    assert_eq!(frames().await, before);
    rig.stop();
}
