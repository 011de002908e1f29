//! How the process ends: signals, the drain's deadline, and what a worker's own end means.
//!
//! ```text
//!   starting ──SIGTERM, SIGINT──▶ exit 0
//!      │
//!   serving ──SIGTERM──▶ draining ──everybody gone──▶ exit 0
//!      │                     │ grace over, SIGTERM again, SIGINT
//!      └──SIGINT─────────────┴──▶ stopping, half a second ──▶ exit 0
//! ```

use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::board::{Board, State};
use crate::clock::Clock;
use crate::config::Drain;
use crate::exit::Exit;
use crate::listener::Parts;
use crate::worker::{Command, Handle, Remote};
use crate::{notify, stderr};

/// SIGTERM and SIGINT. The kernel does not deliver them to the first process of a container before that asks for
/// them, so they are kept from the beginning of a start, which may wait for names.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Deliver first.
    InOrder,
    /// Now.
    AtOnce,
}

impl StopSignals {
    /// From now on they are kept until somebody asks.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::InOrder,
            _ = self.interrupt.recv() => Stop::AtOnce,
        }
    }
}

/// The workers, and word of their ends.
pub struct Fleet {
    workers: Vec<Handle>,
    ended: UnboundedReceiver<()>,
    clock: Clock,
}

/// Goes with a worker's thread: when it is dropped, the thread has ended.
struct Alive(UnboundedSender<()>);

impl Drop for Alive {
    fn drop(&mut self) {
        // Nobody listens any more when the process ends anyway.
        self.0.send(()).ok();
    }
}

impl Fleet {
    /// Starts a worker for each share of the listeners.
    pub fn spawn(shares: Vec<Vec<Parts>>, clock: &Clock) -> anyhow::Result<Self> {
        let (sender, ended) = unbounded_channel();
        let spawn = |(index, share)| {
            let alive = Alive(sender.clone());
            Handle::spawn(index, clock.clone(), share, alive)
                .with_context(|| format!("cannot start worker {index}"))
        };
        let workers = shares.into_iter().enumerate().map(spawn);
        Ok(Self {
            workers: workers.collect::<Result<_, _>>()?,
            ended,
            clock: clock.clone(),
        })
    }

    /// Ways to tell the workers from elsewhere.
    pub fn remotes(&self) -> Vec<Remote> {
        self.workers.iter().map(Handle::remote).collect()
    }

    /// Serves until a signal says otherwise, then ends in order.
    pub async fn run(
        mut self,
        board: &Board,
        drain: &Drain,
        mut signals: StopSignals,
    ) -> anyhow::Result<()> {
        board.update_process(|process| process.state = State::Serving);
        notify::ready();
        let stop = tokio::select! {
            stop = signals.next() => stop,
            // Workers do not end by themselves: whatever it is, the rest cannot go on as if nothing
            // had happened.
            _ = self.ended.recv() => Stop::AtOnce,
        };
        board.update_process(|process| process.stopping = true);
        if stop == Stop::InOrder {
            let longest = drain.ready_delay + drain.grace;
            let now = self.clock.now();
            board.update_process(|process| {
                process.state = State::Draining;
                process.drain_deadline = Some(now.mono + longest);
            });
            tracing::info!(
                event = "drain",
                reason = "SIGTERM",
                peers = board.snapshot(now).peers(),
                ready_delay_s = drain.ready_delay.as_secs(),
                grace_s = drain.grace.as_secs(),
                "no newcomers from now on; who is here is told to go, and the process ends once all is delivered, or \
                 when the grace is over"
            );
            notify::stopping(longest, &board.snapshot(now));
            tokio::select! {
                () = self.drain(drain) => {}
                _ = signals.next() => tracing::info!(
                    event = "drain_cut_short",
                    "a second signal: the process ends at once, and what was not delivered is lost"
                ),
            }
        }
        self.tell(|| Command::Stop);
        if timeout(STOP_PATIENCE, self.all_ended()).await.is_err() {
            bail!("a worker does not end");
        }
        notify::stopped();
        tracing::info!(event = "stopped");
        self.join()
    }

    async fn drain(&mut self, drain: &Drain) {
        sleep(drain.ready_delay).await;
        let linger = drain.grace.saturating_sub(LINGER_MARGIN);
        self.tell(|| Command::Drain { linger });
        // The caller ends the sessions that are left after the grace.
        timeout(drain.grace, self.all_ended()).await.ok();
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            worker.tell(command());
        }
    }

    async fn all_ended(&mut self) {
        // The word comes from inside the thread, a moment before its end.
        while !self.workers.iter().all(Handle::is_finished) {
            let pause = Duration::from_millis(5);
            timeout(pause, self.ended.recv()).await.ok();
        }
    }

    /// What the workers ended with. After a panic, whose message has been printed, nobody knows what
    /// state the rest is in.
    fn join(self) -> anyhow::Result<()> {
        for worker in self.workers {
            match worker.join() {
                Ok(result) => result.context("a worker failed")?,
                Err(_) => {
                    stderr::complain("error: a worker panicked; this is a bug in tidegate");
                    std::process::exit(Exit::Bug.code().into());
                }
            }
        }
        Ok(())
    }
}

/// A stop takes the workers half a second at most.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Of the grace, what streams need to close after the last session.
const LINGER_MARGIN: Duration = Duration::from_secs(3);
