//! Where workers put what they counted, and where readers find it.
//!
//! ```text
//!   worker ── publish, 4 times a second ──▶ ┌───────┐
//!   worker ── publish ────────────────────▶ │ Board │ ── snapshot ──▶ metrics.rs, status.rs, admin.rs
//!   health checks, signals, reload ───────▶ └───────┘
//! ```
//!
//! Each worker has its own cell behind its own lock, held for one copy of plain data. A reader never
//! makes a worker wait for longer than that, and no reader at all costs nothing but the copy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_proto::{Now, Stats, Timestamp};

use crate::counters::WorkerCounters;

/// What the process is doing, for everybody who asks.
#[derive(Debug)]
pub struct Board {
    started: Now,
    queue_memory_bytes: u64,
    process: Mutex<Process>,
    listeners: Mutex<Vec<Arc<ListenerCell>>>,
    backends: Mutex<Vec<Backend>>,
}

impl Board {
    /// A board without listeners, of a process that is starting. `queue_memory_bytes` is the limit
    /// over all queues.
    pub fn new(started: Now, queue_memory_bytes: u64) -> Self {
        Self {
            started,
            queue_memory_bytes,
            process: Mutex::new(Process {
                state: State::Starting,
                drain_deadline_unix: None,
                reloads_ok: 0,
                reloads_refused: 0,
                last_reload_ok: true,
                loaded_unix: started.unix_secs,
                log_lines_suppressed: [0; LOG_LEVELS.len()],
            }),
            listeners: Mutex::default(),
            backends: Mutex::default(),
        }
    }

    /// Makes a listener visible, and says where its workers report: one reporter for each.
    pub fn add_listener(&self, about: ListenerInfo, workers: usize) -> Vec<Reporter> {
        let targets = lock(&self.backends)
            .iter()
            .find(|backend| backend.about.name == about.backend)
            .map_or(0, |backend| backend.targets.len());
        let empty = Report {
            counters: WorkerCounters::new(targets),
            peers: Vec::new(),
            at: self.started.mono,
        };
        let cell = Arc::new(ListenerCell {
            about,
            workers: (0..workers).map(|_| Mutex::new(empty.clone())).collect(),
        });
        lock(&self.listeners).push(Arc::clone(&cell));
        (0..workers)
            .map(|worker| Reporter {
                cell: Arc::clone(&cell),
                worker,
            })
            .collect()
    }

    /// Takes a listener off the board: a reload removed it and its last peer is gone.
    pub fn remove_listener(&self, name: &str) {
        lock(&self.listeners).retain(|cell| cell.about.name != name);
    }

    /// Makes a backend visible. Before the listeners that use it. Its targets count as up until a
    /// check says otherwise, so that a backend without checks is never in the way of readiness.
    pub fn add_backend(&self, about: BackendInfo) {
        let targets = vec![TargetState::default(); about.targets.len()];
        lock(&self.backends).push(Backend { about, targets });
    }

    /// Changes what is known about one target; nothing when there is no such target.
    pub fn update_target(
        &self,
        backend: &str,
        target: usize,
        update: impl FnOnce(&mut TargetState),
    ) {
        let mut backends = lock(&self.backends);
        let found = backends
            .iter_mut()
            .find(|candidate| candidate.about.name == backend)
            .and_then(|backend| backend.targets.get_mut(target));
        if let Some(target) = found {
            update(target);
        }
    }

    /// Changes what is known about the process: state, reloads, the drain's end.
    pub fn update_process(&self, update: impl FnOnce(&mut Process)) {
        update(&mut lock(&self.process));
    }

    /// Everything, added up, as of now.
    pub fn snapshot(&self, now: Now) -> Snapshot {
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
            queue_memory_bytes: self.queue_memory_bytes,
            listeners,
            backends,
        }
    }
}

/// One worker's place on the board.
#[derive(Clone, Debug)]
pub struct Reporter {
    cell: Arc<ListenerCell>,
    worker: usize,
}

impl Reporter {
    /// Counters for this worker to count in, sized for its listener's backend.
    pub fn counters(&self) -> WorkerCounters {
        lock(&self.cell.workers[self.worker]).counters.clone()
    }

    /// Puts a copy on the board, and with it the sign that this worker still turns.
    pub fn publish(&self, now: Timestamp, counters: &WorkerCounters) {
        let mut report = lock(&self.cell.workers[self.worker]);
        report.counters.clone_from(counters);
        report.at = now;
    }

    /// Puts this worker's worst peers on the board, once a second.
    pub fn publish_peers(&self, peers: WorstPeers) {
        lock(&self.cell.workers[self.worker]).peers = peers.into_rows();
    }
}

/// The worst peers of one worker, a bounded number of them however many are offered.
#[derive(Debug, Default)]
pub struct WorstPeers {
    rows: Vec<PeerRow>,
}

impl WorstPeers {
    /// As many as anybody reads.
    pub const MAX: usize = 50;

    /// Considers one peer.
    pub fn offer(&mut self, row: PeerRow) {
        self.rows.push(row);
        // Sorting every now and then costs less than keeping order.
        if self.rows.len() >= 4 * Self::MAX {
            self.keep_worst();
        }
    }

    fn into_rows(mut self) -> Vec<PeerRow> {
        self.keep_worst();
        self.rows
    }

    fn keep_worst(&mut self) {
        self.rows
            .sort_unstable_by(|a, b| b.badness().total_cmp(&a.badness()));
        self.rows.truncate(Self::MAX);
    }
}

/// One peer, for people. Never in a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerRow {
    pub address: SocketAddr,
    pub client_id: Option<u64>,
    pub age: Duration,
    /// Index of its target in the backend's list.
    pub target: Option<usize>,
    /// Bytes of messages it sent that the backend has not taken.
    pub inbox_bytes: usize,
    pub stats: Stats,
}

impl PeerRow {
    /// What the list is sorted by: bad mode first, then loss, then round trip. A second of RTT
    /// weighs as much as losing everything.
    pub(crate) fn badness(&self) -> f64 {
        let mode = if self.stats.in_bad_mode { 2.0 } else { 0.0 };
        mode + f64::from(self.stats.loss) + self.stats.rtt.as_secs_f64().min(1.0)
    }
}

/// What does not change about a listener.
#[derive(Clone, Debug)]
pub struct ListenerInfo {
    pub name: String,
    pub protocol: &'static str,
    pub bind: Vec<SocketAddr>,
    pub backend: String,
    pub peers_max: u64,
}

/// What does not change about a backend.
#[derive(Clone, Debug)]
pub struct BackendInfo {
    pub name: String,
    /// As written in the configuration.
    pub targets: Vec<String>,
}

/// What checks and operators decided about a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetState {
    pub up: bool,
    pub draining: bool,
    pub checks_ok: u64,
    pub checks_failed: u64,
}

impl Default for TargetState {
    fn default() -> Self {
        Self {
            up: true,
            draining: false,
            checks_ok: 0,
            checks_failed: 0,
        }
    }
}

/// What concerns the process as a whole.
#[derive(Clone, Debug)]
pub struct Process {
    pub state: State,
    /// When the drain under way ends whatever is left.
    pub drain_deadline_unix: Option<u64>,
    pub reloads_ok: u64,
    pub reloads_refused: u64,
    pub last_reload_ok: bool,
    /// When the configuration in force was loaded.
    pub loaded_unix: u64,
    /// Log lines held back because they repeat, in the order of [`LOG_LEVELS`].
    pub log_lines_suppressed: [u64; LOG_LEVELS.len()],
}

impl Process {
    /// A reload was tried.
    pub fn on_reload(&mut self, now: Now, ok: bool) {
        self.last_reload_ok = ok;
        if ok {
            self.reloads_ok += 1;
            self.loaded_unix = now.unix_secs;
        } else {
            self.reloads_refused += 1;
        }
    }
}

/// The levels whose lines may be held back.
pub const LOG_LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// Where in its life the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Starting,
    Serving,
    Draining,
}

impl State {
    pub const ALL: [Self; 3] = [Self::Starting, Self::Serving, Self::Draining];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }
}

/// The board at one moment. Plain data: what metrics and pages are made of.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub now: Now,
    pub started_unix: u64,
    pub uptime: Duration,
    pub process: Process,
    pub queue_memory_bytes: u64,
    pub listeners: Vec<ListenerSnapshot>,
    pub backends: Vec<BackendSnapshot>,
}

impl Snapshot {
    /// Why the process is not alive: workers that stopped turning. Empty means alive.
    pub fn stuck(&self) -> Vec<String> {
        let workers = self.listeners.iter().flat_map(|listener| {
            listener
                .workers
                .iter()
                .enumerate()
                .map(move |(index, worker)| (listener, index, worker))
        });
        workers
            .filter(|(_, _, worker)| worker.silent >= BEAT_OVERDUE)
            .map(|(listener, index, worker)| {
                format!(
                    "worker {index} of listener {} has been silent for {} s",
                    listener.about.name,
                    worker.silent.as_secs()
                )
            })
            .collect()
    }

    /// Why nobody should be sent here. Empty means ready.
    pub fn not_ready(&self) -> Vec<String> {
        let mut reasons = self.stuck();
        if self.process.state != State::Serving {
            reasons.push(format!("state is {}", self.process.state.label()));
        }
        for backend in &self.backends {
            if !backend.targets.is_empty() && !backend.targets.iter().any(|target| target.state.up)
            {
                reasons.push(format!("no target of backend {} is up", backend.name));
            }
        }
        reasons
    }

    /// Connected peers of all listeners.
    pub fn peers(&self) -> u64 {
        self.listeners
            .iter()
            .map(|listener| listener.counters.peers)
            .sum()
    }

    /// Bytes in all queues.
    pub fn queued_bytes(&self) -> u64 {
        self.listeners
            .iter()
            .flat_map(|listener| listener.counters.queued_bytes)
            .sum()
    }
}

/// One listener, its workers added up.
#[derive(Clone, Debug)]
pub struct ListenerSnapshot {
    pub about: ListenerInfo,
    pub counters: WorkerCounters,
    pub workers: Vec<WorkerSnapshot>,
    /// The worst of all workers, worst first.
    pub worst: Vec<PeerRow>,
}

/// What is known about one worker by itself.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSnapshot {
    pub busy: Duration,
    pub peers: u64,
    /// How long ago it published.
    pub silent: Duration,
}

/// One backend, over all listeners that use it.
#[derive(Clone, Debug)]
pub struct BackendSnapshot {
    pub name: String,
    pub targets: Vec<TargetSnapshot>,
}

/// One target, over all workers.
#[derive(Clone, Debug)]
pub struct TargetSnapshot {
    pub name: String,
    pub state: TargetState,
    pub counters: crate::counters::TargetCounters,
}

#[derive(Debug)]
struct ListenerCell {
    about: ListenerInfo,
    workers: Vec<Mutex<Report>>,
}

#[derive(Clone, Debug)]
struct Report {
    counters: WorkerCounters,
    peers: Vec<PeerRow>,
    at: Timestamp,
}

impl ListenerCell {
    fn snapshot(&self, now: Timestamp) -> ListenerSnapshot {
        let mut sum: Option<WorkerCounters> = None;
        let mut workers = Vec::with_capacity(self.workers.len());
        let mut worst = WorstPeers::default();
        for cell in &self.workers {
            // Copied out, so that the worker waits for the copy and not for the addition.
            let report = lock(cell).clone();
            workers.push(WorkerSnapshot {
                busy: report.counters.busy,
                peers: report.counters.peers,
                silent: now.since(report.at),
            });
            for row in report.peers {
                worst.offer(row);
            }
            match &mut sum {
                Some(sum) => sum.merge(&report.counters),
                None => sum = Some(report.counters),
            }
        }
        ListenerSnapshot {
            about: self.about.clone(),
            counters: sum.unwrap_or_else(|| WorkerCounters::new(0)),
            workers,
            worst: worst.into_rows(),
        }
    }
}

#[derive(Debug)]
struct Backend {
    about: BackendInfo,
    targets: Vec<TargetState>,
}

impl Backend {
    fn snapshot(&self, listeners: &[ListenerSnapshot]) -> BackendSnapshot {
        let users = || {
            listeners
                .iter()
                .filter(|listener| listener.about.backend == self.about.name)
        };
        let targets = self.about.targets.iter().zip(&self.targets).enumerate();
        BackendSnapshot {
            name: self.about.name.clone(),
            targets: targets
                .map(|(index, (name, state))| {
                    let mut counters = crate::counters::TargetCounters::default();
                    for user in users() {
                        if let Some(seen) = user.counters.targets.get(index) {
                            counters.merge(seen);
                        }
                    }
                    TargetSnapshot {
                        name: name.clone(),
                        state: *state,
                        counters,
                    }
                })
                .collect(),
        }
    }
}

/// A worker that published less often than this is stuck: it should four times a second.
const BEAT_OVERDUE: Duration = Duration::from_secs(5);

/// A worker that panicked while it held its lock ends the process anyway; until then its last word
/// is still worth reading.
fn lock<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Now {
        Now::default().after(Duration::from_secs(secs))
    }

    fn board() -> (Board, Vec<Reporter>) {
        let board = Board::new(at(0), 1 << 20);
        board.add_backend(BackendInfo {
            name: "game".into(),
            targets: vec!["tcp://127.0.0.1:7000".into(), "unix:/run/game.sock".into()],
        });
        let reporters = board.add_listener(
            ListenerInfo {
                name: "udp".into(),
                protocol: "gaffer",
                bind: vec!["127.0.0.1:40000".parse().unwrap()],
                backend: "game".into(),
                peers_max: 64,
            },
            2,
        );
        (board, reporters)
    }

    fn row(port: u16, loss: f32, in_bad_mode: bool) -> PeerRow {
        PeerRow {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            client_id: None,
            age: Duration::ZERO,
            target: None,
            inbox_bytes: 0,
            stats: Stats {
                loss,
                in_bad_mode,
                ..Stats::default()
            },
        }
    }

    #[test]
    fn workers_and_listeners_add_up_to_their_backend() {
        let (board, reporters) = board();
        for (index, reporter) in reporters.iter().enumerate() {
            let mut counters = reporter.counters();
            counters.peers = 1 + index as u64;
            counters.targets[1].connections = 5;
            reporter.publish(at(1).mono, &counters);
        }
        let snapshot = board.snapshot(at(1));
        assert_eq!(snapshot.peers(), 3);
        assert_eq!(snapshot.backends[0].targets[1].counters.connections, 10);
        assert_eq!(snapshot.listeners[0].workers[1].peers, 2);
    }

    #[test]
    fn a_silent_worker_is_named() {
        let (board, reporters) = board();
        board.update_process(|process| process.state = State::Serving);
        let counters = reporters[0].counters();
        reporters[0].publish(at(9).mono, &counters);
        reporters[1].publish(at(5).mono, &counters);
        assert_eq!(board.snapshot(at(9)).not_ready(), Vec::<String>::new());
        let stuck = board.snapshot(at(10)).stuck();
        assert_eq!(stuck, ["worker 1 of listener udp has been silent for 5 s"]);
    }

    #[test]
    fn ready_needs_the_state_and_a_target() {
        let (board, _) = board();
        assert_eq!(board.snapshot(at(0)).not_ready(), ["state is starting"]);
        board.update_process(|process| process.state = State::Serving);
        board.update_target("game", 0, |target| target.up = false);
        assert!(board.snapshot(at(0)).not_ready().is_empty());
        board.update_target("game", 1, |target| target.up = false);
        assert_eq!(
            board.snapshot(at(0)).not_ready(),
            ["no target of backend game is up"]
        );
    }

    #[test]
    fn the_worst_peers_are_few_and_worst_first() {
        let (board, reporters) = board();
        let mut worst = WorstPeers::default();
        for port in 1..=10_000 {
            worst.offer(row(port, f32::from(port % 100) / 100.0, port == 777));
        }
        reporters[0].publish_peers(worst);
        let mut worst = WorstPeers::default();
        worst.offer(row(20_000, 1.0, false));
        reporters[1].publish_peers(worst);
        let rows = &board.snapshot(at(0)).listeners[0].worst;
        assert_eq!(rows.len(), WorstPeers::MAX);
        assert_eq!(rows[0].address.port(), 777, "bad mode first");
        assert_eq!(rows[1].address.port(), 20_000, "then loss, over workers");
    }

    #[test]
    fn a_refused_reload_keeps_the_date_of_the_configuration_in_force() {
        let (board, _) = board();
        board.update_process(|process| process.on_reload(at(50), true));
        board.update_process(|process| process.on_reload(at(60), false));
        let process = board.snapshot(at(60)).process;
        assert_eq!((process.loaded_unix, process.last_reload_ok), (50, false));
        assert_eq!((process.reloads_ok, process.reloads_refused), (1, 1));
    }
}
