//! The page as data: what `/status` answers. Times in seconds, sizes in bytes, shares from 0 to 1.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::LazyLock;

use serde::Serialize;
use tidegate_proto::{CloseReason, Reject};

use super::findings::{Finding, findings};
use super::history::{History, add_up, round};
use crate::board::{
    BackendSnapshot, ListenerSnapshot, PeerRow, Snapshot, TargetSnapshot, WorstPeers,
};
use crate::counters::{Histogram, WorkerCounters};
use crate::metrics::Usage;

#[derive(Debug, Serialize)]
pub(super) struct Status {
    /// Which machine this is, where it says so.
    pub(super) host: Option<&'static str>,
    pub(super) version: &'static str,
    pub(super) state: &'static str,
    /// Empty while peers are welcome.
    pub(super) not_ready: Vec<String>,
    /// What is not as it should be, worst first.
    pub(super) findings: Vec<Finding>,
    pub(super) uptime: f64,
    pub(super) peers: u64,
    /// The smaller of all listeners' together and `runtime.max_peers`.
    pub(super) peers_limit: u64,
    pub(super) bad_peers: u64,
    /// The keys whose limits keep newcomers out now.
    pub(super) full: Vec<String>,
    pub(super) queued_bytes: u64,
    pub(super) queued_bytes_limit: u64,
    /// `None` where the system does not say.
    pub(super) memory_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    /// Means of the last seconds. For rates: how many peers there are is known without.
    pub(super) now: BTreeMap<&'static str, f64>,
    pub(super) listeners: Vec<Listener>,
    /// Distributions over the last minute.
    pub(super) rtt: Distribution,
    pub(super) loss: Distribution,
    /// Only reasons that occurred; the most frequent of the last minute first.
    pub(super) rejects: Vec<Reason>,
    pub(super) closes: Vec<Reason>,
    pub(super) backends: Vec<Backend>,
    /// The worst peers, worst first.
    pub(super) worst: Vec<Peer>,
    pub(super) history: BTreeMap<&'static str, Vec<f64>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) protocol: &'static str,
    pub(super) bind: Vec<SocketAddr>,
    pub(super) backend: String,
    pub(super) peers: u64,
    pub(super) peers_limit: u64,
    pub(super) bad_peers: u64,
    pub(super) handshakes_accepted: u64,
    pub(super) rejects: u64,
    pub(super) kernel_drops: u64,
    pub(super) invariant_violations: u64,
    pub(super) workers: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Distribution {
    /// Upper bounds; the last count is everything above the last bound.
    pub(super) bounds: &'static [f64],
    pub(super) counts: Vec<u64>,
    /// `None` without samples.
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
    pub(super) last_minute: u64,
    pub(super) total: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) targets: Vec<Target>,
}

#[derive(Debug, Serialize)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) up: bool,
    /// How many its name stands for, and how many of them are up.
    pub(super) addresses: usize,
    pub(super) addresses_up: usize,
    pub(super) draining: bool,
    /// A reload removed it; its sessions stay.
    pub(super) leaving: bool,
    pub(super) connections: u64,
    pub(super) connects: u64,
    pub(super) connect_failures: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Peer {
    pub(super) listener: String,
    pub(super) address: SocketAddr,
    /// As in the log.
    pub(super) session: String,
    /// As `tidegate ctl` takes it. Text, because JSON numbers lose the low digits of 64 bits.
    pub(super) client_id: Option<String>,
    pub(super) age: f64,
    pub(super) bad: bool,
    /// `None`, like the two below, where it is not measured: before the first answer, and `loss` with rudp.
    pub(super) rtt: Option<f64>,
    pub(super) jitter: Option<f64>,
    pub(super) loss: Option<f64>,
    pub(super) resent: u64,
    /// Waiting for the backend, and for the peer.
    pub(super) inbox_bytes: usize,
    pub(super) outbox_bytes: u32,
}

impl Status {
    pub(super) fn new(snapshot: &Snapshot, history: &History, usage: &Usage) -> Self {
        let total = add_up(snapshot);
        let before = history.minute_ago();
        let listeners = &snapshot.listeners;
        let reasons = |labels: &[&'static str], of: fn(&WorkerCounters) -> &[u64]| {
            Reason::list(labels, of(&total), of(&before))
        };
        Self {
            host: host(),
            version: env!("CARGO_PKG_VERSION"),
            state: snapshot.process.state.label(),
            not_ready: snapshot.not_ready(),
            findings: findings(snapshot, history, usage),
            uptime: round(snapshot.uptime.as_secs_f64()),
            peers: snapshot.peers(),
            peers_limit: snapshot.peers_limit(),
            bad_peers: total.peers_in_bad_mode,
            full: snapshot.full(),
            queued_bytes: snapshot.queued_bytes(),
            queued_bytes_limit: snapshot.queue_memory_bytes,
            memory_bytes: usage.resident_bytes,
            open_fds: usage.open_fds,
            max_fds: usage.max_fds,
            now: history.recent(),
            rtt: Distribution::new(&total.rtt.since(&before.rtt)),
            loss: Distribution::new(&total.loss.since(&before.loss)),
            rejects: reasons(&Reject::ALL.map(Reject::label), |c| &c.rejects),
            closes: reasons(&CloseReason::ALL.map(CloseReason::label), |c| {
                &c.sessions_closed
            }),
            listeners: listeners.iter().map(Listener::new).collect(),
            backends: snapshot.backends.iter().map(Backend::new).collect(),
            worst: worst(listeners),
            history: history.curves(&total),
        }
    }
}

/// The machine's name: with several pages open, people want to know whose this is.
fn host() -> Option<&'static str> {
    static NAME: LazyLock<Option<String>> = LazyLock::new(|| {
        let name = std::fs::read_to_string("/etc/hostname").ok()?;
        let name = name.lines().next()?.trim();
        (!name.is_empty()).then(|| name.chars().take(64).collect())
    });
    NAME.as_deref()
}

/// The worst of all listeners; each listener's own list is in order already.
fn worst(listeners: &[ListenerSnapshot]) -> Vec<Peer> {
    let rows = listeners
        .iter()
        .flat_map(|listener| listener.worst.iter().map(move |row| (listener, row)));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|(_, a), (_, b)| a.worst_first(b));
    rows.truncate(WorstPeers::MAX);
    let named = |(listener, row): &(&ListenerSnapshot, &PeerRow)| Peer::new(listener, row);
    rows.iter().map(named).collect()
}

impl Listener {
    fn new(snapshot: &ListenerSnapshot) -> Self {
        let ListenerSnapshot {
            about, counters, ..
        } = snapshot;
        Self {
            name: about.name.clone(),
            protocol: about.protocol,
            bind: about.bind.clone(),
            backend: about.backend.clone(),
            peers: counters.peers,
            peers_limit: about.peers_max,
            bad_peers: counters.peers_in_bad_mode,
            handshakes_accepted: counters.handshakes_accepted,
            rejects: counters.rejects.iter().sum(),
            kernel_drops: counters.kernel_drops,
            invariant_violations: counters.invariant_violations,
            workers: snapshot.workers().len(),
        }
    }
}

impl Distribution {
    fn new(histogram: &Histogram) -> Self {
        let quantile = |q| histogram.quantile(q).map(round);
        Self {
            bounds: histogram.bounds(),
            counts: histogram.counts().to_vec(),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
        }
    }
}

impl Reason {
    fn list(labels: &[&'static str], total: &[u64], before: &[u64]) -> Vec<Self> {
        let mut list: Vec<Self> = labels
            .iter()
            .zip(total.iter().zip(before))
            .filter(|(_, (total, _))| **total > 0)
            .map(|(reason, (total, before))| Self {
                reason,
                last_minute: total.saturating_sub(*before),
                total: *total,
            })
            .collect();
        list.sort_by_key(|reason| std::cmp::Reverse((reason.last_minute, reason.total)));
        list
    }
}

impl Backend {
    fn new(snapshot: &BackendSnapshot) -> Self {
        let target = |target: &TargetSnapshot| Target {
            name: target.name.clone(),
            up: target.state.up,
            addresses: target.state.addresses,
            addresses_up: target.state.addresses_up,
            draining: target.state.draining,
            leaving: target.state.leaving,
            connections: target.counters.connections,
            connects: target.counters.connects,
            connect_failures: target.counters.connect_failures.iter().sum(),
            bytes_sent: target.counters.bytes_sent,
            bytes_received: target.counters.bytes_received,
        };
        Self {
            name: snapshot.name.clone(),
            targets: snapshot.targets.iter().map(target).collect(),
        }
    }
}

impl Peer {
    fn new(listener: &ListenerSnapshot, row: &PeerRow) -> Self {
        let PeerRow { stats, .. } = row;
        let measured = |value: f64| stats.is_measured().then(|| round(value));
        Self {
            listener: listener.about.name.clone(),
            address: row.address,
            session: format!("{:016x}", row.session),
            client_id: row.client_id.map(|id| id.to_string()),
            age: round(row.age.as_secs_f64()),
            bad: stats.in_bad_mode,
            rtt: measured(stats.rtt.as_secs_f64()),
            jitter: measured(stats.rtt_variation.as_secs_f64()),
            loss: stats.known_loss().map(|loss| round(loss.into())),
            resent: stats.messages_resent,
            inbox_bytes: row.inbox_bytes,
            outbox_bytes: stats.outbox_bytes,
        }
    }
}
