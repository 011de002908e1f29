//! One backend's cell: its pool knows what checks, connects and operators decided about its targets.

use std::sync::Arc;

use super::{BackendSnapshot, ListenerSnapshot, TargetSnapshot};
use crate::backend::Pool;
use crate::counters::{Histogram, TargetCounters, buckets};

#[derive(Debug)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) pool: Arc<Pool>,
    /// A reload removed it.
    pub(super) leaving: bool,
}

impl Backend {
    pub(super) fn new(name: &str, pool: Arc<Pool>) -> Self {
        Self {
            name: name.to_owned(),
            pool,
            leaving: false,
        }
    }

    pub(super) fn snapshot(&self, listeners: &[ListenerSnapshot]) -> BackendSnapshot {
        let users = || {
            listeners
                .iter()
                .filter(|listener| listener.about.backend == self.name)
        };
        let mut connect_duration = Histogram::new(buckets::CONNECT);
        let mut targets = Vec::new();
        for (index, mut state) in self.pool.states().into_iter().enumerate() {
            // Of a backend that a reload removed, no target is in use.
            state.leaving |= self.leaving;
            let mut counters = TargetCounters::default();
            for user in users() {
                if let Some(seen) = user.counters.targets.get(index) {
                    counters.merge(seen);
                }
            }
            connect_duration.merge(&counters.connect_duration);
            // One that a reload removed is here until its last stream ends.
            if !state.leaving || counters.connections > 0 {
                targets.push(TargetSnapshot {
                    name: self.pool.target(index).to_string(),
                    state,
                    counters,
                });
            }
        }
        BackendSnapshot {
            name: self.name.clone(),
            checked: self.pool.is_checked(),
            connect_duration,
            targets,
        }
    }
}
