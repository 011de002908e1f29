//! Figures of the process, for scripts and people.

use serde_json::{Value, json};

use super::Gate;
use crate::counters::Direction;

impl Gate {
    pub(super) fn stats(&self) -> Value {
        let snapshot = self.snapshot();
        let listeners = snapshot.listeners.iter().map(|listener| {
            let counters = &listener.counters;
            let bind: Vec<_> = listener
                .about
                .bind
                .iter()
                .map(ToString::to_string)
                .collect();
            json!({
                "listener": listener.about.name,
                "protocol": listener.about.protocol,
                "bind": bind.join(" "),
                "leaving": listener.leaving,
                "peers": counters.peers,
                "peers_max": listener.about.peers_max,
                "datagrams_received": counters.datagrams_received,
                "datagrams_sent": counters.sent.datagrams,
                "messages_to_backend": counters.messages_forwarded[Direction::ToBackend as usize],
                "messages_to_peers": counters.messages_forwarded[Direction::ToPeer as usize],
                "refused": counters.rejects.iter().sum::<u64>(),
            })
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": snapshot.process.state.label(),
            "uptime_s": snapshot.uptime.as_secs(),
            "peers": snapshot.peers(),
            "peers_limit": snapshot.peers_limit(),
            "full": snapshot.full(),
            "queued_bytes": snapshot.queued_bytes(),
            "log_level": self.logging.level(),
            "reloads": snapshot.process.reloads_ok,
            "reloads_refused": snapshot.process.reloads_refused,
            "last_reload_ok": snapshot.process.reload_error.is_none(),
            "reload_error": snapshot.process.reload_error,
            "needs_restart": snapshot.process.needs_restart,
            "not_ready": snapshot.not_ready(),
            "recordings": snapshot.recording.iter().collect::<Vec<_>>(),
            "listeners": listeners.collect::<Vec<_>>(),
        })
    }
}
