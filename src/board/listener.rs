//! One listener's cell: a shard for each socket, and what shards counted that are over.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tidegate_proto::Timestamp;

use super::{ListenerSnapshot, PeerRow, SocketSnapshot, WorstPeers, lock};
use crate::counters::WorkerCounters;

/// What does not change about a listener while it serves, but for its sockets and how many peers it takes.
#[derive(Clone, Debug)]
pub struct ListenerInfo {
    pub name: String,
    pub protocol: &'static str,
    pub bind: Vec<SocketAddr>,
    pub backend: String,
    pub peers_max: u64,
}

/// A socket of a listener: whose it is, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSocket {
    /// The thread's number, counted from 0.
    pub worker: usize,
    /// `None` where each session has a socket of its own.
    pub address: Option<SocketAddr>,
}

impl WorkerSocket {
    /// One for each of so many workers.
    pub fn one_each(workers: usize) -> Vec<Self> {
        let address = None;
        (0..workers)
            .map(|worker| Self { worker, address })
            .collect()
    }
}

impl fmt::Display for WorkerSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.worker)?;
        match self.address {
            Some(address) => write!(f, " ({address})"),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(super) struct ListenerCell {
    pub(super) about: ListenerInfo,
    shards: Vec<Shard>,
    /// What shards counted that are over.
    past: WorkerCounters,
    /// A reload removed it.
    pub(super) leaving: bool,
}

impl ListenerCell {
    /// Without shards; its backend has so many targets.
    pub(super) fn new(about: ListenerInfo, targets: usize) -> Self {
        Self {
            about,
            shards: Vec::new(),
            past: WorkerCounters::new(targets),
            leaving: false,
        }
    }

    /// Whether nobody reports here any more, nor will.
    pub(super) fn is_over(&self) -> bool {
        self.leaving && self.shards.is_empty()
    }

    /// One for each socket, in their order.
    pub(super) fn add_shards(&mut self, sockets: &[WorkerSocket], now: Timestamp) -> Vec<Reporter> {
        let empty = Report {
            counters: WorkerCounters::new(self.past.targets.len()),
            peers: Vec::new(),
            at: now,
            finished: false,
        };
        let add = |&socket: &WorkerSocket| {
            let report = Arc::new(Mutex::new(empty.clone()));
            self.shards.push(Shard {
                socket,
                report: Arc::clone(&report),
            });
            Reporter { report }
        };
        sockets.iter().map(add).collect()
    }

    /// Takes over what finished shards counted.
    pub(super) fn sweep(&mut self) {
        let past = &mut self.past;
        self.shards.retain(|shard| {
            let report = lock(&shard.report);
            if report.finished {
                past.merge_finished(&report.counters);
            }
            !report.finished
        });
    }

    pub(super) fn snapshot(&self, now: Timestamp) -> ListenerSnapshot {
        let mut counters = self.past.clone();
        let mut sockets = Vec::with_capacity(self.shards.len());
        let mut worst = WorstPeers::default();
        for shard in &self.shards {
            // Copied out, so that the worker waits for the copy and not for the addition.
            let report = lock(&shard.report).clone();
            sockets.push(SocketSnapshot {
                socket: shard.socket,
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
            sockets,
            worst: worst.into_rows(),
        }
    }
}

/// One socket of one worker.
#[derive(Debug)]
struct Shard {
    socket: WorkerSocket,
    report: Arc<Mutex<Report>>,
}

#[derive(Clone, Debug)]
struct Report {
    counters: WorkerCounters,
    peers: Vec<PeerRow>,
    at: Timestamp,
    finished: bool,
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
