//! Who carries requests out. What follows from each is in the file of its noun.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::bail;
use serde_json::Value;
use tokio::sync::Mutex;

use super::Request;
use crate::backends::Backends;
use crate::board::{Board, Snapshot};
use crate::capture::Tap;
use crate::clock::Clock;
use crate::logging::Logging;
use crate::reload::Reloader;
use crate::workers::Workers;

/// Everything an operator can reach.
pub struct Gate {
    /// What is known of the process.
    pub board: Arc<Board>,
    /// The clock of the process.
    pub clock: Clock,
    pub workers: Workers,
    pub backends: Arc<Backends>,
    /// Whose level can be changed.
    pub logging: Logging,
    /// Counts drains and their ends, so that the grace of an old one does not end a newer one.
    pub drains: AtomicU64,
    /// What a reload changes; `None` where only a restart does.
    pub reloader: Option<Mutex<Reloader>>,
    /// Where sessions are recorded; `None` where none are accepted.
    pub tap: Option<Tap>,
}

impl Gate {
    /// Does what is asked; an error says why not.
    pub async fn handle(self: &Arc<Self>, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Peers { listener } => self.peers(listener.as_deref()).await,
            Request::Peer { whom } => self.peer(&whom).await,
            Request::Kick { whom } => self.kick(&whom).await,
            Request::Ban { whom, seconds } => self.ban(&whom, seconds).await,
            Request::Unban { whom } => self.unban(&whom).await,
            Request::Bans => self.bans().await,
            Request::Backends => Ok(self.targets()),
            Request::BackendDrain { target } => self.set_target_draining(&target, true),
            Request::BackendEnable { target } => self.set_target_draining(&target, false),
            Request::Drain { seconds } => self.drain(seconds).await,
            Request::Undrain => self.undrain().await,
            Request::Reload => self.reload().await,
            Request::Log { level, seconds } => self.log(level.as_deref(), seconds),
            Request::CaptureStart(order) => self.start_capture(order).await,
            Request::CaptureStop => self.stop_capture().await,
            Request::Stats => Ok(self.stats()),
        }
    }

    /// What is on the board now.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.board.snapshot(self.clock.clone().now())
    }

    /// A listener that is not there has no peers, and nothing to record: who asks means another one.
    pub(super) fn refuse_misspelt(&self, listener: Option<&str>) -> anyhow::Result<()> {
        match listener {
            Some(name)
                if !self
                    .snapshot()
                    .listeners
                    .iter()
                    .any(|it| it.about.name == name) =>
            {
                bail!("no listener {name}; `tidegate ctl stats` lists them")
            }
            Some(_) | None => Ok(()),
        }
    }
}
