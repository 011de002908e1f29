//! A drain by hand: no newcomers, until another command says otherwise.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Gate;
use crate::board::{Process, State};
use crate::listener::Listener;

impl Gate {
    pub(super) async fn drain_by_signal(self: &Arc<Self>) -> anyhow::Result<Value> {
        let done = self.drain(None).await?;
        tracing::info!(
            event = "drain",
            reason = "SIGUSR1",
            "no newcomers from now on, and those who are here stay; `tidegate ctl undrain` ends it"
        );
        Ok(done)
    }

    pub(super) async fn drain(self: &Arc<Self>, seconds: Option<u64>) -> anyhow::Result<Value> {
        self.unless_stopping(|_| ())?;
        let peers = self
            .workers
            .sum(|_, listener| {
                listener.set_draining(true);
                listener.peers()
            })
            .await?;
        let number = self.drains.fetch_add(1, Relaxed) + 1;
        let grace = seconds.map(Duration::from_secs);
        let now = self.clock.clone().now().mono;
        self.unless_stopping(|process| {
            process.state = State::Draining;
            process.drain_deadline = grace.map(|grace| now + grace);
        })?;
        if let Some(grace) = grace {
            tokio::spawn(Arc::clone(self).end_drain(number, grace));
        }
        Ok(json!({ "peers": peers }))
    }

    /// Those who are left are told to go, unless another command came in between. When they have gone, the
    /// deadline is met: the process stays, and must not look late for as long as it does.
    async fn end_drain(self: Arc<Self>, number: u64, grace: Duration) {
        let is_current = || self.drains.load(Relaxed) == number && !self.board.is_stopping();
        sleep(grace).await;
        if !is_current() {
            return;
        }
        self.workers
            .each(|now, listener| listener.drain(now, DRAIN_LINGER));
        while is_current() {
            let busy = |_, listener: &mut Listener| usize::from(!listener.is_empty());
            if matches!(self.workers.sum(busy).await, Ok(0)) {
                // Another drain counts first, and only then sets its deadline.
                self.board.update_process(|process| {
                    if self.drains.load(Relaxed) == number && !process.stopping {
                        process.drain_deadline = None;
                    }
                });
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn undrain(&self) -> anyhow::Result<Value> {
        self.unless_stopping(|_| ())?;
        self.drains.fetch_add(1, Relaxed);
        self.workers
            .sum(|_, listener| {
                listener.set_draining(false);
                0
            })
            .await?;
        self.unless_stopping(|process| {
            process.state = State::Serving;
            process.drain_deadline = None;
        })?;
        Ok(json!({}))
    }

    /// A stop has a deadline of its own, by which it is judged. It may begin while the workers are asked.
    fn unless_stopping(&self, update: impl FnOnce(&mut Process)) -> anyhow::Result<()> {
        let mut is_stopping = false;
        self.board.update_process(|process| {
            is_stopping = process.stopping;
            if !is_stopping {
                update(process);
            }
        });
        if is_stopping {
            bail!("the process is stopping");
        }
        Ok(())
    }
}

/// For those who are left after the grace to get what was accepted for them.
const DRAIN_LINGER: Duration = Duration::from_secs(5);

/// Whether they have gone.
const LOOK_EVERY: Duration = Duration::from_millis(500);
