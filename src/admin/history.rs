//! The last minutes, second by second: what the page's curves are made of, and what "in the last
//! minute" means. Bounded; Prometheus keeps the rest.

use std::collections::{BTreeMap, VecDeque};

use tidegate_proto::Timestamp;

use crate::board::Snapshot;
use crate::counters::{Direction, WorkerCounters};

/// What was, a second at a time, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
    /// Whole counters, as far back as they are subtracted.
    totals: VecDeque<(Timestamp, WorkerCounters)>,
}

/// One second: a value for each of [`CURVES`].
type Point = [f64; CURVES.len()];

/// The names of the curves. Rates are per second; RTTs in seconds, over ten seconds, 0 without peers;
/// `busy` is the mean share of the workers' time.
const CURVES: [&str; 13] = [
    "peers",
    "bad_peers",
    "datagrams_in",
    "datagrams_out",
    "bytes_in",
    "bytes_out",
    "messages_to_backend",
    "messages_to_peer",
    "rejects",
    "handshakes",
    "rtt_p50",
    "rtt_p95",
    "busy",
];

/// Five minutes of points.
const POINTS: usize = 300;
const MINUTE: usize = 60;

impl History {
    /// Another second.
    pub(super) fn push(&mut self, snapshot: &Snapshot) {
        let now = snapshot.now.mono;
        let total = add_up(snapshot);
        if let Some((then, before)) = self.totals.back() {
            let span = now.since(*then).as_secs_f64();
            if span > 0.0 {
                let sockets = snapshot.listeners.iter().map(|l| l.sockets.len()).sum();
                // The last of the totals is a second old already.
                let point = between(before, &total, &self.before(9), span, sockets);
                self.points.push_back(point);
            }
        }
        self.totals.push_back((now, total));
        while self.points.len() > POINTS {
            self.points.pop_front();
        }
        while self.totals.len() > MINUTE + 1 {
            self.totals.pop_front();
        }
    }

    /// Every curve, oldest value first, rounded to what a page can show. Where a curve is of what is and not of a
    /// rate, it ends with what is `now`: other places of the page say that too.
    pub(super) fn curves(&self, now: &WorkerCounters) -> BTreeMap<&'static str, Vec<f64>> {
        let mut points = self.points.clone();
        if let Some([peers, bad_peers, ..]) = points.back_mut() {
            (*peers, *bad_peers) = (now.peers as f64, now.peers_in_bad_mode as f64);
        }
        let curve = |index: usize| points.iter().map(move |point| round(point[index]));
        CURVES
            .into_iter()
            .enumerate()
            .map(|(index, name)| (name, curve(index).collect()))
            .collect()
    }

    /// The mean of the last five seconds: figures that can be read while they change.
    pub(super) fn recent(&self) -> BTreeMap<&'static str, f64> {
        let last = || self.points.iter().rev().take(5);
        let count = last().len().max(1) as f64;
        let mean = |index: usize| last().map(|point| point[index]).sum::<f64>() / count;
        CURVES
            .into_iter()
            .enumerate()
            .map(|(index, name)| (name, round(mean(index))))
            .collect()
    }

    /// Counters of all listeners as they were a minute ago, or as far back as is known.
    pub(super) fn minute_ago(&self) -> WorkerCounters {
        self.before(MINUTE)
    }

    fn before(&self, secs: usize) -> WorkerCounters {
        let index = self.totals.len().saturating_sub(secs + 1);
        self.totals
            .get(index)
            .map_or_else(|| WorkerCounters::new(0), |(_, total)| total.clone())
    }
}

/// All listeners as one.
pub(super) fn add_up(snapshot: &Snapshot) -> WorkerCounters {
    let mut total = WorkerCounters::new(0);
    for listener in &snapshot.listeners {
        total.merge(&listener.counters);
    }
    total
}

/// The second between two totals, in the order of [`CURVES`].
fn between(
    before: &WorkerCounters,
    after: &WorkerCounters,
    ten_secs_ago: &WorkerCounters,
    span: f64,
    sockets: usize,
) -> Point {
    let rate = |value: fn(&WorkerCounters) -> u64| {
        value(after).saturating_sub(value(before)) as f64 / span
    };
    let rtt = after.rtt.since(&ten_secs_ago.rtt);
    let busy = after.busy.saturating_sub(before.busy).as_secs_f64();
    [
        after.peers as f64,
        after.peers_in_bad_mode as f64,
        rate(|c| c.datagrams_received),
        rate(|c| c.sent.datagrams),
        rate(|c| c.datagram_bytes_received),
        rate(|c| c.sent.bytes),
        rate(|c| c.messages_forwarded[Direction::ToBackend as usize]),
        rate(|c| c.messages_forwarded[Direction::ToPeer as usize]),
        rate(|c| c.rejects.iter().sum()),
        rate(|c| c.handshakes_accepted),
        rtt.quantile(0.5).unwrap_or(0.0),
        rtt.quantile(0.95).unwrap_or(0.0),
        busy / span / sockets.max(1) as f64,
    ]
}

/// Four digits behind the point: a tenth of a millisecond.
pub(super) fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
