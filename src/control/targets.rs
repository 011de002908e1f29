//! The targets of all backends, and taking one out of use.

use anyhow::bail;
use serde_json::{Value, json};
use tidegate_proto::Timestamp;

use super::Gate;
use crate::backend::advice;

impl Gate {
    pub(super) fn targets(&self) -> Value {
        let snapshot = self.snapshot();
        let backends = snapshot.backends.iter();
        let since = |then: Timestamp| snapshot.now.mono.since(then).as_secs();
        let rows = backends.flat_map(|backend| {
            backend.targets.iter().map(|target| {
                json!({
                    "backend": backend.name,
                    "target": target.name,
                    "up": target.state.up,
                    "failing_s": target.state.failing.map(|failing| since(failing.since)),
                    "failing": target.state.failing.map(|failing| failing.why.label()),
                    "addresses": target.state.addresses,
                    "addresses_up": target.state.addresses_up,
                    "draining": target.state.draining,
                    "leaving": target.state.leaving,
                    "connections": target.counters.connections,
                    "connects": target.counters.connects,
                    "connect_failures": target.counters.connect_failures.iter().sum::<u64>(),
                    "crashes": target.state.crashes,
                    "last_crash_s": target.state.last_crash.map(since),
                })
            })
        });
        json!({ "targets": rows.collect::<Vec<_>>() })
    }

    pub(super) fn set_target_draining(
        &self,
        target: &str,
        draining: bool,
    ) -> anyhow::Result<Value> {
        let backends = self.backends.set_draining(target, draining);
        if backends.is_empty() {
            bail!("no target {target}; `tidegate ctl backends` lists them");
        }
        // An operator who takes one out after the other does not see that this was the last.
        let mut warnings = Vec::new();
        for (backend, why) in backends {
            if let Some(why) = why.filter(|_| draining) {
                advice::warn_of_shut(&backend, Some(&target), why);
                warnings.push(why.warning(&backend));
            }
        }
        if warnings.is_empty() {
            return Ok(json!({}));
        }
        Ok(json!({ "warnings": warnings }))
    }
}
