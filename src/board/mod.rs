//! Where workers put what they counted, and where readers find it.
//!
//! ```text
//!   worker ── publish, 4 times a second ──▶ ┌───────┐
//!   worker ── publish ────────────────────▶ │ Board │ ── snapshot ──▶ metrics/, admin/
//!   signals, reload, pools of backends ───▶ └───────┘
//! ```
//!
//! Each worker has its own cell behind its own lock, held for one copy of plain data. A reader never
//! makes a worker wait for longer than that, and no reader at all costs nothing but the copy.

mod backend;
mod listener;
mod process;
mod snapshot;
mod worst;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_proto::{Now, Timestamp};

pub use listener::{ListenerInfo, Reporter, WorkerSocket};
pub use process::{LOG_LEVELS, Process, State};
pub use snapshot::{
    BackendSnapshot, ListenerSnapshot, Snapshot, SocketSnapshot, TargetSnapshot, WorkerSnapshot,
};
pub use worst::{PeerRow, WorstPeers};

use crate::backend::Pool;
use crate::capacity::Capacity;
use crate::capture::Tap;
use backend::Backend;
use listener::ListenerCell;

/// What the process is doing, for everybody who asks.
#[derive(Debug)]
pub struct Board {
    started: Now,
    capacity: Arc<Capacity>,
    process: Mutex<Process>,
    listeners: Mutex<Vec<ListenerCell>>,
    backends: Mutex<Vec<Backend>>,
    /// Where sessions are recorded, if somebody wants it.
    tap: Tap,
}

impl Board {
    /// A board without listeners, of a process that is starting. `capacity` is what its listeners
    /// share.
    pub fn new(started: Now, capacity: Arc<Capacity>) -> Self {
        Self {
            started,
            capacity,
            process: Mutex::new(Process::starting(started)),
            listeners: Mutex::default(),
            backends: Mutex::default(),
            tap: Tap::default(),
        }
    }

    /// Where the recordings of this process are made.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Makes a listener visible, and says where its workers report: one reporter for each socket.
    pub fn add_listener(&self, about: ListenerInfo, sockets: &[WorkerSocket]) -> Vec<Reporter> {
        let targets = lock(&self.backends)
            .iter()
            .find(|backend| backend.name == about.backend)
            .map_or(0, |backend| backend.pool.len());
        let mut cell = ListenerCell::new(about, targets);
        let reporters = cell.add_shards(sockets, self.started.mono);
        let mut listeners = lock(&self.listeners);
        listeners.push(cell);
        listeners.sort_by_cached_key(|cell| in_order(&cell.about.name));
        reporters
    }

    /// A listener has other sockets: where it is bound now, and reporters for those that are new.
    pub fn extend_listener(
        &self,
        name: &str,
        bind: Vec<SocketAddr>,
        sockets: &[WorkerSocket],
        now: Timestamp,
    ) -> Vec<Reporter> {
        let mut listeners = lock(&self.listeners);
        let found = listeners.iter_mut().find(|cell| cell.about.name == name);
        found.map_or_else(Vec::new, |cell| {
            cell.about.bind = bind;
            cell.add_shards(sockets, now)
        })
    }

    /// A listener takes so many peers from now on.
    pub fn set_peers_max(&self, name: &str, peers_max: u64) {
        let mut listeners = lock(&self.listeners);
        if let Some(cell) = listeners.iter_mut().find(|cell| cell.about.name == name) {
            cell.about.peers_max = peers_max;
        }
    }

    /// A listener is being removed: it leaves the board once all its shards are over.
    pub fn retire_listener(&self, name: &str) {
        for cell in lock(&self.listeners).iter_mut() {
            cell.leaving |= cell.about.name == name;
        }
    }

    /// A backend is no longer used by new sessions: it leaves the board with its last listener.
    pub fn retire_backend(&self, name: &str) {
        for backend in lock(&self.backends).iter_mut() {
            backend.leaving |= backend.name == name;
        }
    }

    /// What is being removed and still there: names of listeners and of backends.
    pub fn leaving(&self) -> (Vec<String>, Vec<String>) {
        self.sweep();
        let listeners = lock(&self.listeners);
        let listeners = listeners.iter().filter(|cell| cell.leaving);
        let backends = lock(&self.backends);
        let backends = backends.iter().filter(|backend| backend.leaving);
        (
            listeners.map(|cell| cell.about.name.clone()).collect(),
            backends.map(|backend| backend.name.clone()).collect(),
        )
    }

    fn sweep(&self) {
        let mut listeners = lock(&self.listeners);
        for cell in listeners.iter_mut() {
            cell.sweep();
        }
        listeners.retain(|cell| !cell.is_over());
        lock(&self.backends).retain(|backend| {
            let name = &backend.name;
            !backend.leaving || listeners.iter().any(|cell| cell.about.backend == *name)
        });
    }

    /// Makes a backend visible. Before the listeners that use it.
    pub fn add_backend(&self, name: &str, pool: Arc<Pool>) {
        let mut backends = lock(&self.backends);
        backends.push(Backend::new(name, pool));
        backends.sort_by_cached_key(|backend| in_order(&backend.name));
    }

    /// Changes what is known about the process: state, reloads, the drain's end.
    pub fn update_process(&self, update: impl FnOnce(&mut Process)) {
        update(&mut lock(&self.process));
    }

    /// Where in its life the process is.
    pub fn state(&self) -> State {
        lock(&self.process).state
    }

    /// Whether it ends.
    pub fn is_stopping(&self) -> bool {
        lock(&self.process).stopping
    }

    /// Everything, added up, as of now.
    pub fn snapshot(&self, now: Now) -> Snapshot {
        self.sweep();
        let listeners: Vec<ListenerSnapshot> = lock(&self.listeners)
            .iter()
            .map(|cell| cell.snapshot(now.mono))
            .collect();
        let backends = lock(&self.backends)
            .iter()
            .map(|backend| backend.snapshot(&listeners))
            .collect();
        Snapshot {
            now,
            started_unix: self.started.unix_secs,
            uptime: now.mono.since(self.started.mono),
            process: lock(&self.process).clone(),
            peers_max: self.capacity.peers_max() as u64,
            limit_met: self.capacity.limit_met(),
            recording: self.tap.recording(),
            queue_memory_bytes: self.capacity.queued_max(),
            most_queued_bytes: self.capacity.most_queued(),
            listeners,
            backends,
        }
    }
}

/// What a name is sorted by where people look for it: `arena-2` stands before `arena-10`. No name has more digits.
fn in_order(name: &str) -> String {
    let is_same = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
    let runs = name.as_bytes().chunk_by(is_same);
    runs.map(|run| {
        let run = String::from_utf8_lossy(run);
        if run.starts_with(|first: char| first.is_ascii_digit()) {
            format!("{run:0>63}")
        } else {
            run.into_owned()
        }
    })
    .collect()
}

/// A worker that panicked while it held its lock ends the process anyway; until then its last word
/// is still worth reading.
fn lock<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
