//! The peers an operator should look at first.

use std::cmp::Ordering;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::Stats;

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

    pub(super) fn into_rows(mut self) -> Vec<PeerRow> {
        self.keep_worst();
        self.rows
    }

    fn keep_worst(&mut self) {
        self.rows.sort_unstable_by(PeerRow::worst_first);
        self.rows.truncate(Self::MAX);
    }
}

/// One peer, for people. Never in a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerRow {
    /// As in the log.
    pub session: u64,
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
    /// How the list is sorted. Those whose path nobody measures come last, and who was sent most again first of them.
    pub(crate) fn worst_first(&self, other: &Self) -> Ordering {
        let badness = other.badness().total_cmp(&self.badness());
        let resent = |row: &Self| row.stats.messages_resent;
        badness.then_with(|| resent(other).cmp(&resent(self)))
    }

    /// Bad mode first, then loss, then round trip. A second of RTT weighs as much as losing everything.
    fn badness(&self) -> f64 {
        let mode = if self.stats.in_bad_mode { 2.0 } else { 0.0 };
        mode + f64::from(self.stats.loss) + self.stats.rtt.as_secs_f64().min(1.0)
    }
}
