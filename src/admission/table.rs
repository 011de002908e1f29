//! A fixed table of token buckets for `governor`, whose own keyed store keeps every address it ever
//! saw.
//!
//! The words are atomic because `governor` shares its parts; they are only ever used by one worker,
//! with relaxed order, which costs what a plain word costs.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use governor::clock::Clock;
use governor::nanos::Nanos;
use governor::state::StateStore;
use ipnet::IpNet;
use tidegate_proto::Timestamp;

/// Buckets in a row. Clones are the same table: `governor` owns one of them.
#[derive(Clone)]
pub(super) struct BucketTable(Arc<Table>);

struct Table {
    /// When the bucket is full again, in nanoseconds since start; 0 is never used.
    full_at: Box<[AtomicU64]>,
    /// A few bits of the last prefix's hash, to notice that another one comes.
    tags: Box<[AtomicU16]>,
    /// When the last of them is full again: from then on, nobody need look at any.
    all_full_at: AtomicU64,
    shared: AtomicU64,
    /// Keyed at start: who falls on one bucket with whom cannot be found out from outside.
    hasher: RandomState,
    clock: TurnClock,
}

/// Where a prefix falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) bucket: usize,
    tag: u16,
}

/// Which of a prefix's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    Handshakes,
    /// The bucket of sources that have shown a genuine token.
    Proven,
    Strays,
}

impl BucketTable {
    pub(super) fn new(size: usize, clock: TurnClock) -> Self {
        let size = size.max(1);
        Self(Arc::new(Table {
            full_at: (0..size).map(|_| AtomicU64::new(0)).collect(),
            tags: (0..size).map(|_| AtomicU16::new(0)).collect(),
            all_full_at: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            hasher: RandomState::new(),
            clock,
        }))
    }

    pub(super) fn place(&self, prefix: IpNet, lane: Lane) -> Place {
        let hash = self.0.hasher.hash_one((prefix, lane));
        Place {
            bucket: (hash % self.0.full_at.len() as u64) as usize,
            tag: (hash >> 48) as u16,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.full_at.len()
    }

    /// Buckets that are not full again yet. Looks at all of them, if there are any.
    pub(super) fn used(&self, now: Timestamp) -> u64 {
        if self.0.all_full_at.load(Relaxed) <= now.as_nanos() {
            return 0;
        }
        let used = |full_at: &&AtomicU64| full_at.load(Relaxed) > now.as_nanos();
        self.0.full_at.iter().filter(used).count() as u64
    }

    /// A prefix gets back what took so long to fill in, unless another one has its bucket now.
    pub(super) fn give_back(&self, place: Place, costs: Duration) {
        if self.0.tags[place.bucket].load(Relaxed) != place.tag {
            return;
        }
        let full_at = &self.0.full_at[place.bucket];
        let after = full_at
            .load(Relaxed)
            .saturating_sub(costs.as_nanos() as u64);
        full_at.store(after, Relaxed);
    }

    /// How often a prefix met a bucket that another one had used.
    pub(super) fn shared(&self) -> u64 {
        self.0.shared.load(Relaxed)
    }

    /// Bytes, whatever comes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.0.full_at) + size_of_val(&*self.0.tags) + size_of::<Table>()
    }
}

impl StateStore for BucketTable {
    type Key = Place;

    fn measure_and_replace<T, F, E>(&self, place: &Place, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let full_at = &self.0.full_at[place.bucket];
        let tag = &self.0.tags[place.bucket];
        let before = full_at.load(Relaxed);
        if before > self.0.clock.now().as_u64() && tag.load(Relaxed) != place.tag {
            self.0.shared.fetch_add(1, Relaxed);
        }
        let (outcome, after) = measure((before != 0).then(|| Nanos::new(before)))?;
        full_at.store(after.as_u64(), Relaxed);
        let all_full_at = self.0.all_full_at.load(Relaxed).max(after.as_u64());
        self.0.all_full_at.store(all_full_at, Relaxed);
        tag.store(place.tag, Relaxed);
        Ok(outcome)
    }
}

/// The time of the worker's turn, for `governor`: one turn has one time, and nobody reads a clock.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnClock(Arc<AtomicU64>);

impl TurnClock {
    pub(super) fn set(&self, now: Timestamp) {
        self.0.store(now.as_nanos(), Relaxed);
    }
}

impl Clock for TurnClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.load(Relaxed))
    }
}
