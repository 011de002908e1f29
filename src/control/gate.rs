//! Who carries requests out: asks the workers, gathers what they answer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use tidegate_proto::CloseReason;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;

use super::Request;
use super::whom::{peers_called, range_or_client};
use crate::backend::health;
use crate::backends::Backends;
use crate::blocking;
use crate::board::{Board, State};
use crate::capture::{Order, Tap};
use crate::clock::{self, Clock};
use crate::config::Refusal;
use crate::counters::Direction;
use crate::listener::{Listener, PeerView};
use crate::logging::Logging;
use crate::notify;
use crate::reload::{NoReload, Outcome, Reloader};
use crate::workers::Workers;

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

/// Everything an operator can reach.
pub struct Gate {
    board: Arc<Board>,
    clock: Clock,
    workers: Workers,
    backends: Arc<Backends>,
    logging: Logging,
    /// Counts drains and their ends, so that the grace of an old one does not end a newer one.
    drains: AtomicU64,
    /// What a reload changes; `None` where only a restart does.
    reloader: Option<Mutex<Reloader>>,
    /// Where sessions are recorded; `None` where none are accepted.
    tap: Option<Tap>,
}

/// What a gate gives access to.
pub struct Reach {
    /// What is known of the process.
    pub board: Arc<Board>,
    /// Of the process.
    pub clock: Clock,
    /// All of them.
    pub workers: Workers,
    /// All of them.
    pub backends: Arc<Backends>,
    /// Whose level can be changed.
    pub logging: Logging,
    /// What a reload changes; `None` where only a restart does.
    pub reloader: Option<Reloader>,
    /// Where sessions are recorded; `None` where none are accepted.
    pub tap: Option<Tap>,
}

impl Gate {
    /// Lets operators at all of this.
    pub fn new(reach: Reach) -> Self {
        Self {
            board: reach.board,
            clock: reach.clock,
            workers: reach.workers,
            backends: reach.backends,
            logging: reach.logging,
            drains: AtomicU64::new(0),
            reloader: reach.reloader.map(Mutex::new),
            tap: reach.tap,
        }
    }

    /// SIGHUP reloads, SIGUSR1 drains without an end.
    pub fn obey(self: Arc<Self>, mut signals: Signals) {
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

    async fn reload(&self) -> anyhow::Result<Value> {
        notify::reloading();
        let outcome = self.try_reload().await;
        self.note_reload(&outcome);
        notify::ready();
        let outcome = outcome?;
        let mut answer = serde_json::to_value(&outcome)?;
        answer["outcome"] = outcome.to_string().into();
        Ok(answer)
    }

    async fn try_reload(&self) -> anyhow::Result<Outcome> {
        let Some(reloader) = &self.reloader else {
            return Err(NoReload("a tunnel changes with a restart only").into());
        };
        reloader.lock().await.reload().await
    }

    fn note_reload(&self, outcome: &anyhow::Result<Outcome>) {
        if let Err(error) = outcome
            && error.is::<NoReload>()
        {
            tracing::info!(event = "reload", outcome = %error);
            return;
        }
        let now = self.clock.clone().now();
        self.board
            .update_process(|process| process.on_reload(now, outcome.is_ok()));
        match outcome {
            Ok(done) => tracing::info!(event = "reload", outcome = %done),
            Err(error) => tracing::error!(event = "reload_refused", error = on_one_line(error)),
        }
        if let Ok(done) = outcome {
            done.warn_of_what_waits();
        }
        if outcome.as_ref().is_ok_and(|done| done.unconfirmed) {
            tracing::warn!(
                event = "reload_unconfirmed",
                help = "the new configuration is in force, but a worker has not turned for two seconds and \
                        takes its part of it when it does; /livez says which one, if it hangs"
            );
        }
    }

    /// Does what is asked.
    pub(super) async fn handle(self: &Arc<Self>, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Peers { listener } => {
                self.refuse_misspelt(listener.as_deref())?;
                let mut peers = self.peers().await?;
                peers.retain(|peer| listener.as_ref().is_none_or(|name| *name == peer.listener));
                Ok(json!({ "peers": peers }))
            }
            Request::Peer { whom } => self.peer(&whom).await,
            Request::Kick { whom } => self.kick(&whom).await,
            Request::Ban { whom, seconds } => self.ban(&whom, seconds).await,
            Request::Unban { whom } => {
                let meant = range_or_client(&whom)?;
                let lifted = self
                    .workers
                    .sum(move |_, listener| usize::from(listener.unban(meant)))
                    .await?;
                if lifted == 0 {
                    bail!("{whom} is not banned");
                }
                Ok(json!({}))
            }
            Request::Bans => self.bans().await,
            Request::Backends => Ok(json!({ "targets": self.targets() })),
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

    fn log(&self, level: Option<&str>, seconds: Option<u64>) -> anyhow::Result<Value> {
        match (level, seconds) {
            (None, _) => return Ok(json!({ "level": self.logging.level() })),
            (Some(level), None) => self.logging.set_level(level).map_err(anyhow::Error::msg)?,
            (Some(level), Some(seconds)) => {
                let loan = self.logging.lend_level(level).map_err(anyhow::Error::msg)?;
                let logging = self.logging.clone();
                tokio::spawn(async move {
                    sleep(Duration::from_secs(seconds)).await;
                    if let Err(error) = logging.give_back(&loan) {
                        tracing::debug!(event = "log_level", error);
                    }
                });
            }
        }
        Ok(json!({}))
    }

    async fn start_capture(&self, order: Order) -> anyhow::Result<Value> {
        let Some(tap) = self.tap.clone() else {
            bail!("sessions are recorded where they are accepted, by serve");
        };
        self.refuse_misspelt(order.listener.as_deref())?;
        let mut clock = self.clock.clone();
        let start = move || tap.start(order, clock.now());
        let file = blocking::ask("recording", &RECORDINGS, start).await??;
        Ok(json!({ "file": file }))
    }

    async fn stop_capture(&self) -> anyhow::Result<Value> {
        let tap = self.tap.clone().unwrap_or_default();
        let taken = blocking::ask("recording", &RECORDINGS, move || tap.stop()).await?;
        let Some(taken) = taken else {
            bail!("there is no recording");
        };
        if let Some(why) = taken.failed {
            bail!("the file ends before the recording did: {why}; what it has can be read");
        }
        Ok(json!({
            "sessions": taken.sessions,
            "cut": taken.cut,
            "bytes": taken.bytes,
        }))
    }

    /// A listener that is not there has no peers, and nothing to record: who asks means another one.
    fn refuse_misspelt(&self, listener: Option<&str>) -> anyhow::Result<()> {
        let snapshot = self.board.snapshot(self.clock.clone().now());
        match listener {
            Some(name) if !snapshot.listeners.iter().any(|it| it.about.name == name) => {
                bail!("no listener {name}; `tidegate ctl stats` lists them")
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn peers(&self) -> anyhow::Result<Vec<PeerView>> {
        let all = self
            .workers
            .ask(|now, listener| listener.views(now))
            .await?;
        Ok(all.into_iter().flatten().collect())
    }

    async fn peer(&self, whom: &str) -> anyhow::Result<Value> {
        for meant in peers_called(whom)? {
            let views = move |now, listener: &mut Listener| listener.views_of(now, meant);
            let all = self.workers.ask(views).await?;
            let peers: Vec<PeerView> = all.into_iter().flatten().collect();
            if !peers.is_empty() {
                return Ok(json!({ "peers": peers }));
            }
        }
        bail!("{}", nobody(whom))
    }

    async fn kick(&self, whom: &str) -> anyhow::Result<Value> {
        for meant in peers_called(whom)? {
            let end =
                move |now, listener: &mut Listener| listener.end(now, meant, CloseReason::Kicked);
            let ended = self.workers.sum(end).await?;
            if ended > 0 {
                return Ok(json!({ "ended": ended }));
            }
        }
        bail!("{}", nobody(whom))
    }

    async fn ban(&self, whom: &str, seconds: Option<u64>) -> anyhow::Result<Value> {
        let meant = range_or_client(whom)?;
        let span = seconds.map(Duration::from_secs);
        let answers = self
            .workers
            .ask(move |now, listener| listener.ban(now, meant, span))
            .await?;
        let mut ended = 0;
        for answer in answers {
            ended += answer?;
        }
        Ok(json!({ "whom": meant.to_string(), "ended": ended }))
    }

    async fn bans(&self) -> anyhow::Result<Value> {
        // Every worker knows the same.
        let all = self.workers.ask(|now, listener| listener.bans(now)).await?;
        let mut bans: Vec<_> = all.into_iter().flatten().collect();
        bans.sort();
        bans.dedup_by(|a, b| a.0 == b.0);
        let row =
            |(whom, seconds): (String, Option<u64>)| json!({"whom": whom, "seconds_left": seconds});
        Ok(json!({ "bans": bans.into_iter().map(row).collect::<Vec<_>>() }))
    }

    fn targets(&self) -> Vec<Value> {
        let snapshot = self.board.snapshot(self.clock.clone().now());
        let backends = snapshot.backends.iter();
        let rows = backends.flat_map(|backend| {
            backend.targets.iter().map(|target| {
                json!({
                    "backend": backend.name,
                    "target": target.name,
                    "up": target.state.up,
                    "addresses": target.state.addresses,
                    "addresses_up": target.state.addresses_up,
                    "draining": target.state.draining,
                    "leaving": target.state.leaving,
                    "connections": target.counters.connections,
                    "connects": target.counters.connects,
                    "connect_failures": target.counters.connect_failures.iter().sum::<u64>(),
                })
            })
        });
        rows.collect()
    }

    fn set_target_draining(&self, target: &str, draining: bool) -> anyhow::Result<Value> {
        let backends = self.backends.set_draining(target, draining);
        if backends.is_empty() {
            bail!("no target {target}; `tidegate ctl backends` lists them");
        }
        // Whoever takes one out after the other does not see that this was the last.
        let mut warnings = Vec::new();
        for (backend, why) in backends {
            if let Some(why) = why.filter(|_| draining) {
                health::warn_of_shut(&backend, Some(&target), why);
                warnings.push(why.warning(&backend));
            }
        }
        if warnings.is_empty() {
            return Ok(json!({}));
        }
        Ok(json!({ "warnings": warnings }))
    }

    async fn drain_by_signal(self: &Arc<Self>) -> anyhow::Result<Value> {
        let done = self.drain(None).await?;
        tracing::info!(
            event = "drain",
            reason = "SIGUSR1",
            "no newcomers from now on, and whoever is here stays; `tidegate ctl undrain` ends it"
        );
        Ok(done)
    }

    async fn drain(self: &Arc<Self>, seconds: Option<u64>) -> anyhow::Result<Value> {
        // A stop has a deadline of its own, by which it is judged.
        if self.board.is_stopping() {
            bail!("the process is stopping");
        }
        let peers = self
            .workers
            .sum(|_, listener| {
                listener.set_draining(true);
                listener.peers()
            })
            .await?;
        let number = self.drains.fetch_add(1, Relaxed) + 1;
        let ends = seconds.map(|seconds| clock::wall_secs().saturating_add(seconds));
        self.board.update_process(|process| {
            process.state = State::Draining;
            process.drain_deadline_unix = ends;
        });
        if let Some(seconds) = seconds {
            tokio::spawn(Arc::clone(self).end_drain(number, Duration::from_secs(seconds)));
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
                // Whoever begins another drain counts first, and only then sets its deadline.
                self.board.update_process(|process| {
                    if self.drains.load(Relaxed) == number && !process.stopping {
                        process.drain_deadline_unix = None;
                    }
                });
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn undrain(&self) -> anyhow::Result<Value> {
        if self.board.is_stopping() {
            bail!("the process is stopping");
        }
        self.drains.fetch_add(1, Relaxed);
        self.workers
            .sum(|_, listener| {
                listener.set_draining(false);
                0
            })
            .await?;
        self.board.update_process(|process| {
            process.state = State::Serving;
            process.drain_deadline_unix = None;
        });
        Ok(json!({}))
    }

    fn stats(&self) -> Value {
        let snapshot = self.board.snapshot(self.clock.clone().now());
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
                "datagrams_sent": counters.datagrams_sent,
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
            "last_reload_ok": snapshot.process.last_reload_ok,
            "needs_restart": snapshot.process.needs_restart,
            "not_ready": snapshot.not_ready(),
            "recordings": snapshot.recording.iter().collect::<Vec<_>>(),
            "listeners": listeners.collect::<Vec<_>>(),
        })
    }
}

/// For the log: mistakes of a file come with its lines and carets, which belong on a terminal.
pub(super) fn on_one_line(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => refusal.brief(),
        None => format!("{error:#}").replace('\n', ";"),
    }
}

fn nobody(whom: &str) -> String {
    format!("no peer {whom}: nobody here has this session, client id or address")
}

/// One after the other: the disk that one waits for is the next one's.
static RECORDINGS: Semaphore = Semaphore::const_new(1);

/// For those who are left after the grace to get what was accepted for them.
const DRAIN_LINGER: Duration = Duration::from_secs(5);

/// Whether they have gone.
const LOOK_EVERY: Duration = Duration::from_millis(500);
