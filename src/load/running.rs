//! A load under way, as seen by the thread that waits for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_proto::Timestamp;

use super::plan::Plan;
use super::progress::Progress;
use super::tally::Tally;
use crate::clock::Clock;
use crate::metrics::Usage;

/// Clients under way; dropping it ends them.
pub struct Running {
    plan: Arc<Plan>,
    clock: Clock,
    progress: Arc<Progress>,
    workers: Vec<JoinHandle<anyhow::Result<Tally>>>,
    /// What was used until the measurement began.
    usage: Usage,
    usage_at: Timestamp,
    /// As of the last look while it measured.
    cost: Option<Cost>,
}

impl Running {
    /// These workers have begun with this plan.
    pub(super) fn new(
        plan: Arc<Plan>,
        clock: Clock,
        progress: Arc<Progress>,
        workers: Vec<JoinHandle<anyhow::Result<Tally>>>,
    ) -> Self {
        Self {
            usage: Usage::read(),
            usage_at: plan.began,
            plan,
            clock,
            progress,
            workers,
            cost: None,
        }
    }

    /// Where the clients dial.
    pub fn remote(&self) -> SocketAddr {
        self.plan.remote
    }

    /// Since the start.
    pub fn elapsed(&mut self) -> Duration {
        self.clock.now().mono.since(self.plan.began)
    }

    /// What was counted, with the round trips since the last look; and how far it is.
    pub fn look(&mut self) -> (Tally, Phase) {
        let now = self.clock.now().mono;
        let tally = self.progress.look();
        let phase = match self.progress.go.load(Ordering::Relaxed) {
            0 => Phase::Ramp,
            at if now < Timestamp::from_nanos(at) + self.plan.load.duration => Phase::Measure,
            _ => Phase::Settle,
        };
        if phase == Phase::Measure && now > self.usage_at + HEADS_UP {
            self.cost = Some(self.cost_until(now));
        }
        (tally, phase)
    }

    fn cost_until(&self, now: Timestamp) -> Cost {
        let usage = Usage::read();
        let seconds = now.since(self.usage_at).as_secs_f64();
        Cost {
            cores: (usage.cpu_seconds - self.usage.cpu_seconds) / seconds,
            resident_bytes: usage.resident_bytes.unwrap_or(0),
        }
    }

    /// Starts the measurement once every client is in, or out for good; where none ever was in, there is nothing to
    /// measure.
    pub fn keep_going(&mut self) {
        if self.progress.go.load(Ordering::Relaxed) == 0 {
            let tally = self.progress.glance();
            if tally.connected + tally.failed() < self.plan.load.clients as u64 {
                return;
            }
            match tally.ever_connected {
                0 => self.stop(),
                _ => self.begin(),
            }
        }
    }

    /// Starts the measurement, whether or not all are in.
    pub fn begin(&mut self) {
        // Workers hear of it before it begins.
        let begin = self.clock.now().mono + HEADS_UP;
        self.progress.go.store(begin.as_nanos(), Ordering::Relaxed);
        (self.usage, self.usage_at) = (Usage::read(), begin);
    }

    /// Whether all clients are done.
    pub fn is_over(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Ends them early.
    pub fn stop(&self) {
        self.progress.stop();
    }

    /// What became of everything, and what it cost here.
    pub fn finish(mut self) -> anyhow::Result<(Tally, Cost)> {
        let mut total = Tally::default();
        for worker in std::mem::take(&mut self.workers) {
            match worker.join() {
                Ok(tally) => total.absorb(&tally?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        // Nobody looked in a load that is shorter than the time between two reports.
        let now = self.clock.now().mono;
        let cost = self.cost.unwrap_or_else(|| self.cost_until(now));
        Ok((total, cost))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.progress.stop();
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Clients get in.
    Ramp,
    /// Messages are sent.
    Measure,
    /// The last of them come back.
    Settle,
}

impl Phase {
    /// One word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ramp => "ramp",
            Self::Measure => "measure",
            Self::Settle => "settle",
        }
    }
}

/// What this process used itself while it measured, as far as was looked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU seconds a second.
    pub cores: f64,
    /// Memory.
    pub resident_bytes: u64,
}

/// Longer than a worker's turn.
const HEADS_UP: Duration = Duration::from_millis(100);
