//! One backend's cell: what checks and operators decided about its targets.

use super::{BackendSnapshot, ListenerSnapshot, TargetSnapshot};
use crate::counters::TargetCounters;

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

#[derive(Debug)]
pub(super) struct Backend {
    pub(super) about: BackendInfo,
    pub(super) targets: Vec<TargetState>,
    /// A reload removed it.
    pub(super) leaving: bool,
}

impl Backend {
    /// Its targets count as up until a check says otherwise.
    pub(super) fn new(about: BackendInfo) -> Self {
        Self {
            targets: vec![TargetState::default(); about.targets.len()],
            about,
            leaving: false,
        }
    }

    pub(super) fn snapshot(&self, listeners: &[ListenerSnapshot]) -> BackendSnapshot {
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
                    let mut counters = TargetCounters::default();
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
