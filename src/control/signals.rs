//! What operators say by signals.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Gate;

/// Signals that would end the process, and every session with it, if nobody had asked for them.
pub struct Signals {
    hangup: Signal,
    drain: Signal,
    unused: Signal,
}

impl Signals {
    /// From now on they are kept until somebody obeys: a start may wait for names, and a reload that comes then
    /// must not end it.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            drain: signal(SignalKind::user_defined1())?,
            unused: signal(SignalKind::user_defined2())?,
        })
    }
}

impl Gate {
    /// SIGHUP reloads, SIGUSR1 drains without an end.
    pub(super) fn obey(self: Arc<Self>, mut signals: Signals) {
        tokio::spawn(async move {
            loop {
                let outcome = tokio::select! {
                    _ = signals.hangup.recv() => self.reload().await,
                    _ = signals.drain.recv() => self.drain_by_signal().await,
                    _ = signals.unused.recv() => {
                        tracing::info!(event = "signal_ignored", signal = "SIGUSR2");
                        continue;
                    }
                };
                // They have said so themselves; the caller is not there to be told.
                if let Err(error) = outcome {
                    tracing::debug!(event = "signal", error = format!("{error:#}"));
                }
            }
        });
    }
}
