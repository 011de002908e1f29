//! The board at one moment. Plain data: what metrics and pages are made of.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_proto::Now;

use super::{ListenerInfo, PeerRow, Process, State, WorkerSocket};
use crate::backend::{Shut, TargetState};
use crate::capacity::Limit;
use crate::capture::Recording;
use crate::counters::{Histogram, TargetCounters, WorkerCounters};

/// Everything, added up.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub now: Now,
    pub started_unix: u64,
    pub uptime: Duration,
    pub process: Process,
    /// Peers over all listeners.
    pub peers_max: u64,
    /// The limit of the process that keeps newcomers out now.
    pub limit_met: Option<Limit>,
    /// The recording that is being made.
    pub recording: Option<Recording>,
    pub queue_memory_bytes: u64,
    /// The most that ever waited in all queues.
    pub most_queued_bytes: u64,
    pub listeners: Vec<ListenerSnapshot>,
    pub backends: Vec<BackendSnapshot>,
}

impl Snapshot {
    /// Why the process is not alive: workers that stopped turning. Empty means alive.
    pub fn stuck(&self) -> Vec<String> {
        let sockets = self.listeners.iter().flat_map(|listener| {
            let sockets = listener.sockets.iter();
            sockets.map(move |socket| (listener, socket))
        });
        sockets
            .filter(|(_, socket)| socket.silent >= BEAT_OVERDUE)
            .map(|(listener, socket)| {
                format!(
                    "{} of listener {} has been silent for {} s",
                    socket.socket,
                    listener.about.name,
                    socket.silent.as_secs()
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
            // Where nobody checks, players find out that it is back: they have to come for that.
            if let Some(why) = backend.shut()
                && (backend.checked || why == Shut::Drained)
            {
                reasons.push(format!(
                    "no target of backend {} {}",
                    backend.name,
                    why.text()
                ));
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

    /// Listeners that newcomers may still come to: not those that a reload removed.
    pub fn staying(&self) -> impl Iterator<Item = &ListenerSnapshot> {
        self.listeners.iter().filter(|listener| !listener.leaving)
    }

    /// How many there may be.
    pub fn peers_limit(&self) -> u64 {
        let peers_max: u64 = self
            .staying()
            .map(|listener| listener.about.peers_max)
            .sum();
        peers_max.min(self.peers_max)
    }

    /// The keys that keep newcomers out now.
    pub fn full(&self) -> Vec<String> {
        let process = self.limit_met.map(|limit| limit.key().to_owned());
        let full = self
            .staying()
            .filter(|listener| listener.counters.peers >= listener.about.peers_max);
        let full = full.map(|listener| format!("listener.{}.max_peers", listener.about.name));
        process.into_iter().chain(full).collect()
    }

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
    pub sockets: Vec<SocketSnapshot>,
    /// The worst of all workers, worst first.
    pub worst: Vec<PeerRow>,
}

impl ListenerSnapshot {
    /// Its workers by their number, whichever addresses each serves.
    pub fn workers(&self) -> BTreeMap<usize, WorkerSnapshot> {
        let mut workers: BTreeMap<_, WorkerSnapshot> = BTreeMap::new();
        for socket in &self.sockets {
            let worker = workers.entry(socket.socket.worker).or_default();
            worker.busy = worker.busy.max(socket.busy);
            worker.peers += socket.peers;
        }
        workers
    }
}

/// One worker's part of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// Busy time of the whole thread.
    pub busy: Duration,
    pub peers: u64,
}

/// What is known about one socket by itself.
#[derive(Clone, Copy, Debug)]
pub struct SocketSnapshot {
    pub socket: WorkerSocket,
    /// Busy time of the whole thread.
    pub busy: Duration,
    pub peers: u64,
    /// How long ago it published.
    pub silent: Duration,
}

/// One backend, over all listeners that use it.
#[derive(Clone, Debug)]
pub struct BackendSnapshot {
    pub name: String,
    /// Whether its targets are asked if they are there; otherwise connects tell.
    pub checked: bool,
    /// Over all targets, those that are gone included.
    pub connect_duration: Histogram,
    pub targets: Vec<TargetSnapshot>,
}

impl BackendSnapshot {
    /// Why newcomers find no target here, if so.
    pub fn shut(&self) -> Option<Shut> {
        Shut::of(self.in_use().map(|target| target.state))
    }

    /// Its targets, but for those that a reload removed.
    pub fn in_use(&self) -> impl Iterator<Item = &TargetSnapshot> + Clone {
        self.targets.iter().filter(|target| !target.state.leaving)
    }
}

/// One target, over all workers.
#[derive(Clone, Debug)]
pub struct TargetSnapshot {
    pub name: String,
    pub state: TargetState,
    pub counters: TargetCounters,
}

/// A worker that published less often than this is stuck: it should four times a second.
const BEAT_OVERDUE: Duration = Duration::from_secs(5);
