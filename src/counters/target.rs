//! One worker's view of one target of a backend.

use super::{ClosedBy, ConnectFailure, Histogram, add, buckets};

/// What one worker counts about one target of its backend.
#[derive(Clone, Debug)]
pub struct TargetCounters {
    /// Gauge: open now.
    pub connections: u64,
    pub connects: u64,
    pub connect_failures: [u64; ConnectFailure::ALL.len()],
    pub connect_duration: Histogram,
    pub closes: [u64; ClosedBy::ALL.len()],
    /// Stream bytes, framing included.
    pub bytes_received: u64,
    pub bytes_sent: u64,
}

impl Default for TargetCounters {
    fn default() -> Self {
        Self {
            connections: 0,
            connects: 0,
            connect_failures: [0; ConnectFailure::ALL.len()],
            connect_duration: Histogram::new(buckets::CONNECT),
            closes: [0; ClosedBy::ALL.len()],
            bytes_received: 0,
            bytes_sent: 0,
        }
    }
}

impl TargetCounters {
    /// Adds another worker's view of the same target.
    pub fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connects += other.connects;
        add(&mut self.connect_failures, &other.connect_failures);
        self.connect_duration.merge(&other.connect_duration);
        add(&mut self.closes, &other.closes);
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
    }
}
