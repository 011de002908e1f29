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
    listeners: Mutex<Vec<ListenerCell>>,
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
                stopping: false,
                reloads_ok: 0,
                reloads_refused: 0,
                last_reload_ok: true,
                loaded_unix: started.unix_secs,
                log_lines_suppressed: [0; LOG_LEVELS.len()],
                log_lines_dropped: 0,
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
        let mut cell = ListenerCell {
            about,
            shards: Vec::new(),
            past: WorkerCounters::new(targets),
            leaving: false,
        };
        let reporters = cell.add_shards(workers, self.started.mono);
        lock(&self.listeners).push(cell);
        reporters
    }

    /// A listener has other sockets: where it is bound now, and reporters for those that are new.
    pub fn extend_listener(
        &self,
        name: &str,
        bind: Vec<SocketAddr>,
        workers: usize,
        now: Timestamp,
    ) -> Vec<Reporter> {
        let mut listeners = lock(&self.listeners);
        let found = listeners.iter_mut().find(|cell| cell.about.name == name);
        found.map_or_else(Vec::new, |cell| {
            cell.about.bind = bind;
            cell.add_shards(workers, now)
        })
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
            backend.leaving |= backend.about.name == name;
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
            backends.map(|backend| backend.about.name.clone()).collect(),
        )
    }

    fn sweep(&self) {
        let mut listeners = lock(&self.listeners);
        for cell in listeners.iter_mut() {
            cell.sweep();
        }
        listeners.retain(|cell| !(cell.leaving && cell.shards.is_empty()));
        lock(&self.backends).retain(|backend| {
            let name = &backend.about.name;
            !backend.leaving || listeners.iter().any(|cell| cell.about.backend == *name)
        });
    }

    /// Makes a backend visible. Before the listeners that use it. Its targets count as up until a
    /// check says otherwise, so that a backend without checks is never in the way of readiness.
    pub fn add_backend(&self, about: BackendInfo) {
        let targets = vec![TargetState::default(); about.targets.len()];
        lock(&self.backends).push(Backend {
            about,
            targets,
            leaving: false,
        });
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
            queue_memory_bytes: self.queue_memory_bytes,
            listeners,
            backends,
        }
    }
}

/// One worker's place on the board.
#[derive(Clone, Debug)]
pub struct Reporter {
    report: Arc<Mutex<Report>>,
}

impl Reporter {
    /// Counters for this worker to count in, sized for its listener's backend.
    pub fn counters(&self) -> WorkerCounters {
        lock(&self.report).counters.clone()
    }

    /// Puts a copy on the board, and with it the sign that this worker still turns.
    pub fn publish(&self, now: Timestamp, counters: &WorkerCounters) {
        let mut report = lock(&self.report);
        report.counters.clone_from(counters);
        report.at = now;
    }

    /// Its socket is closed: what it counted stays, and nothing more is expected from it.
    pub fn finish(&self) {
        lock(&self.report).finished = true;
    }

    /// Puts this worker's worst peers on the board, once a second.
    pub fn publish_peers(&self, peers: WorstPeers) {
        lock(&self.report).peers = peers.into_rows();
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

/// What does not change about a listener while it serves, but for its sockets.
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
    /// The process ends, and nothing takes that back.
    pub stopping: bool,
    pub reloads_ok: u64,
    pub reloads_refused: u64,
    pub last_reload_ok: bool,
    /// When the configuration in force was loaded.
    pub loaded_unix: u64,
    /// Log lines held back because they repeat, in the order of [`LOG_LEVELS`].
    pub log_lines_suppressed: [u64; LOG_LEVELS.len()],
    /// Log lines that could not be written.
    pub log_lines_dropped: u64,
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
            let workers = listener.workers.iter();
            workers.map(move |worker| (listener, worker))
        });
        workers
            .filter(|(_, worker)| worker.silent >= BEAT_OVERDUE)
            .map(|(listener, worker)| {
                format!(
                    "worker {} of listener {} has been silent for {} s",
                    worker.number,
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
        for backend in self.backends.iter().filter(|backend| !backend.leaving) {
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
    /// A reload removed it, and its peers are told to go.
    pub leaving: bool,
    pub counters: WorkerCounters,
    pub workers: Vec<WorkerSnapshot>,
    /// The worst of all workers, worst first.
    pub worst: Vec<PeerRow>,
}

/// What is known about one worker by itself.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSnapshot {
    /// Which of the listener's, counted from 0.
    pub number: usize,
    pub busy: Duration,
    pub peers: u64,
    /// How long ago it published.
    pub silent: Duration,
}

/// One backend, over all listeners that use it.
#[derive(Clone, Debug)]
pub struct BackendSnapshot {
    pub name: String,
    /// A reload removed it, and peers of it are still here.
    pub leaving: bool,
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
    shards: Vec<Shard>,
    /// What shards counted that are over.
    past: WorkerCounters,
    leaving: bool,
}

/// One socket of one worker.
#[derive(Debug)]
struct Shard {
    /// Its label: the lowest number that was free.
    number: usize,
    report: Arc<Mutex<Report>>,
}

#[derive(Clone, Debug)]
struct Report {
    counters: WorkerCounters,
    peers: Vec<PeerRow>,
    at: Timestamp,
    finished: bool,
}

impl ListenerCell {
    fn add_shards(&mut self, count: usize, now: Timestamp) -> Vec<Reporter> {
        let empty = Report {
            counters: WorkerCounters::new(self.past.targets.len()),
            peers: Vec::new(),
            at: now,
            finished: false,
        };
        let mut reporters = Vec::with_capacity(count);
        for _ in 0..count {
            let taken = |number| self.shards.iter().any(|shard| shard.number == number);
            let number = (0..).find(|&number| !taken(number)).unwrap_or_default();
            let report = Arc::new(Mutex::new(empty.clone()));
            self.shards.push(Shard {
                number,
                report: Arc::clone(&report),
            });
            reporters.push(Reporter { report });
        }
        reporters
    }

    /// Takes over what finished shards counted.
    fn sweep(&mut self) {
        let past = &mut self.past;
        self.shards.retain(|shard| {
            let report = lock(&shard.report);
            if report.finished {
                past.merge_finished(&report.counters);
            }
            !report.finished
        });
    }

    fn snapshot(&self, now: Timestamp) -> ListenerSnapshot {
        let mut counters = self.past.clone();
        let mut workers = Vec::with_capacity(self.shards.len());
        let mut worst = WorstPeers::default();
        for shard in &self.shards {
            // Copied out, so that the worker waits for the copy and not for the addition.
            let report = lock(&shard.report).clone();
            workers.push(WorkerSnapshot {
                number: shard.number,
                busy: report.counters.busy,
                peers: report.counters.peers,
                silent: now.since(report.at),
            });
            for row in report.peers {
                worst.offer(row);
            }
            counters.merge(&report.counters);
        }
        ListenerSnapshot {
            about: self.about.clone(),
            leaving: self.leaving,
            counters,
            workers,
            worst: worst.into_rows(),
        }
    }
}

#[derive(Debug)]
struct Backend {
    about: BackendInfo,
    targets: Vec<TargetState>,
    leaving: bool,
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
            leaving: self.leaving,
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
    fn what_leaves_is_counted_until_it_is_gone_and_kept_while_its_listener_stays() {
        let (board, reporters) = board();
        let more = board.extend_listener("udp", Vec::new(), 1, at(3).mono);
        let all = reporters.iter().chain(&more);
        for reporter in all.clone() {
            let mut counters = reporter.counters();
            counters.datagrams_received = 7;
            counters.receive_buffer_bytes = 1;
            reporter.publish(at(1).mono, &counters);
        }
        reporters[0].finish();
        let seen = &board.snapshot(at(1)).listeners[0];
        assert_eq!(seen.counters.datagrams_received, 21, "counters never fall");
        assert_eq!(seen.counters.receive_buffer_bytes, 2, "gauges say now");
        assert_eq!(
            seen.workers.iter().map(|w| w.number).collect::<Vec<_>>(),
            [1, 2]
        );
        let again = board.extend_listener("udp", Vec::new(), 1, at(3).mono);
        assert_eq!(board.snapshot(at(1)).listeners[0].workers[2].number, 0);

        board.retire_listener("udp");
        board.retire_backend("game");
        assert_eq!(board.leaving(), (vec!["udp".into()], vec!["game".into()]));
        for reporter in all.skip(1).chain(&again) {
            assert!(board.snapshot(at(1)).listeners[0].leaving);
            reporter.finish();
        }
        assert!(board.snapshot(at(1)).listeners.is_empty());
        assert!(board.snapshot(at(1)).backends.is_empty());
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
