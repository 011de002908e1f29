//! Workers that hang: systemd's watchdog is fed only while none does, and the log says which one does, because whoever
//! restarts the process for it takes away all else that knows.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::board::Board;
use crate::clock::Clock;
use crate::exit::Unavailable;
use crate::notify::Feed;
use crate::sizing::threads;

/// Looks from now on, from a thread of its own, which goes with the board: what runs the control plane may hang too.
pub fn watch(board: &Arc<Board>, clock: Clock) -> Result<(), Unavailable> {
    let board = Arc::downgrade(board);
    thread::Builder::new()
        .name("hangs".into())
        .spawn(move || look(&board, clock))
        .map_err(|error| threads::unavailable("the watchdog", &error))?;
    Ok(())
}

fn look(board: &Weak<Board>, mut clock: Clock) {
    let mut feed = Feed::open();
    let pause = feed.every().map_or(EVERY, |every| every.min(EVERY));
    let mut told = false;
    let mut looked = clock.now().mono;
    while let Some(board) = board.upgrade() {
        if clock.now().mono.since(looked) >= pause + STOOD_STILL {
            await_turns(&board, &mut clock);
        }
        looked = clock.now().mono;
        let snapshot = board.snapshot(clock.now());
        drop(board);
        let stuck = snapshot.stuck();
        feed.tell(&snapshot, stuck.is_empty());
        say(&stuck, &mut told);
        thread::sleep(pause);
    }
}

/// Once when one does, and once when none does any more.
fn say(stuck: &[String], told: &mut bool) {
    let hangs = !stuck.is_empty();
    match (std::mem::replace(told, hangs), hangs) {
        (false, true) => tracing::error!(
            event = "worker_hangs",
            error = stuck.join("; "),
            help = "unless a debugger holds it, this is a bug: please report it, if it still hangs with what `gdb --batch \
                    -ex 'thread apply all bt' -p PID` prints",
            "nobody of its players is served; what asks /livez, and systemd's watchdog, restart the process if it lasts"
        ),
        (true, false) => tracing::info!(event = "worker_turns_again"),
        _ => {}
    }
}

/// Where the whole process stood still, its workers have not turned either, and this thread may be the first to go on.
/// Were they judged at once, the watchdog would starve for one more period, and a pause that all sessions have survived
/// would end them.
fn await_turns(board: &Board, clock: &mut Clock) {
    let until = clock.now().mono + FIRST_TURN;
    loop {
        let now = clock.now();
        if now.mono >= until || board.snapshot(now).stuck().is_empty() {
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Well before a watchdog's ten seconds are over.
const EVERY: Duration = Duration::from_secs(1);

/// Later than any thread is woken that gets processor time.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// For the workers to turn, as they do four times a second.
const FIRST_TURN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
