//! What the gate for strangers counts.

/// What `admission/` knows about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounters {
    /// Gauge: buckets of the address table that hold somebody's debt.
    pub buckets_used: u64,
    /// Gauge: its fixed size.
    pub buckets: u64,
    /// A stranger met a bucket that another prefix had used.
    pub buckets_shared: u64,
    /// Gauge: bans in force.
    pub bans: u64,
    pub bans_by_operator: u64,
    pub bans_by_strikes: u64,
}

impl AdmissionCounters {
    pub(super) fn merge(&mut self, other: &Self) {
        self.buckets_used += other.buckets_used;
        self.buckets += other.buckets;
        self.buckets_shared += other.buckets_shared;
        // An operator's ban is known to every worker, so the largest count is the number of bans.
        self.bans = self.bans.max(other.bans);
        self.bans_by_operator = self.bans_by_operator.max(other.bans_by_operator);
        self.bans_by_strikes += other.bans_by_strikes;
    }
}
