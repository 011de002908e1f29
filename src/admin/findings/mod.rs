//! What an operator should know first: everything on the page that is not as it should be, worst
//! first. The same limits as the alert rules, of all listeners together and without the rules' patience.

#[cfg(test)]
mod tests;

use serde::Serialize;
use tidegate_proto::Reject;

use super::history::{History, add_up};
use super::units::{bytes, count, share};
use crate::board::{Snapshot, State};
use crate::capture::Recording;
use crate::counters::WorkerCounters;
use crate::metrics::Usage;

/// Slots, descriptors.
pub(super) const ALMOST_FULL: f64 = 0.9;
/// One direction's part of the memory.
pub(super) const QUEUES_FULL: f64 = 0.375;
pub(super) const WORKERS_BUSY: f64 = 0.85;
/// A share of the peers, of more than [`A_FEW`].
pub(super) const BAD_MODE: f64 = 0.3;
const A_FEW: f64 = 10.0;
/// Rejected datagrams a second.
const FLOOD: f64 = 10_000.0;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) text: String,
    /// The alert that says the same after a while: its entry in the runbook.
    pub(super) alert: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Players are hurt, or about to be.
    Bad,
    /// Somebody should look.
    Warn,
    /// Somebody wanted it so.
    Info,
}

impl Level {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, alert: Option<&'static str>, text: String) {
        self.0.push(Finding { level, text, alert });
    }
}

pub(super) fn findings(snapshot: &Snapshot, history: &History, usage: &Usage) -> Vec<Finding> {
    let mut found = Findings::default();
    process(&mut found, snapshot, usage);
    backends(&mut found, snapshot);
    slots(&mut found, snapshot);
    load(&mut found, snapshot, history);
    let mut found = found.0;
    found.sort_by_key(|finding| finding.level);
    found
}

fn process(found: &mut Findings, snapshot: &Snapshot, usage: &Usage) {
    for worker in snapshot.stuck() {
        found.add(Level::Bad, None, worker);
    }
    let process = &snapshot.process;
    match process.state {
        State::Serving => {}
        State::Starting => found.add(Level::Info, None, "starting".into()),
        State::Draining => found.add(Level::Info, None, drain(snapshot)),
    }
    if let Some(recording) = &snapshot.recording {
        found.0.push(recorded(recording));
    }
    if !process.last_reload_ok {
        let text = "the last reload was refused; the configuration before it is in force";
        found.add(Level::Warn, Some("TidegateReloadFailed"), text.into());
    }
    if !process.needs_restart.is_empty() {
        let values = process.needs_restart.join(", ");
        let text = format!("new values wait for a restart: {values}");
        found.add(Level::Warn, None, text);
    }
    let violations: u64 = snapshot
        .listeners
        .iter()
        .map(|listener| listener.counters.invariant_violations)
        .sum();
    if violations > 0 {
        let text = "books do not balance: a bug in tidegate, please report it with the log";
        found.add(Level::Warn, Some("TidegateInvariantViolated"), text.into());
    }
    if let (Some(open), Some(most)) = (usage.open_fds, usage.max_fds)
        && open as f64 > ALMOST_FULL * most as f64
    {
        let text = format!("{open} of {most} descriptors are open");
        found.add(Level::Warn, Some("TidegateDescriptorsAlmostUsed"), text);
    }
}

/// Only a stop ends the process. A drain by hand ends sessions, if it has a deadline, and no more.
fn drain(snapshot: &Snapshot) -> String {
    let process = &snapshot.process;
    let left = process
        .drain_deadline_unix
        .map(|end| end.saturating_sub(snapshot.now.unix_secs));
    let what = match left {
        Some(secs) if process.stopping => {
            format!("no new peers, and the process ends in {secs} s at the latest")
        }
        None if process.stopping => "no new peers, and the process ends".into(),
        Some(0) => "no new peers, and those who are left are told to go".into(),
        Some(secs) => format!("no new peers, and those who are left in {secs} s are told to go"),
        None if snapshot.peers() > 0 => "no new peers; those who are here stay".into(),
        None => "nobody is here, and the process stays until it is stopped".into(),
    };
    format!("draining: {what}")
}

/// Somebody wanted it so, and may have forgotten; with messages it holds what players say.
fn recorded(recording: &Recording) -> Finding {
    let what = match recording.content {
        true => "with the messages, decrypted",
        false => "without the messages",
    };
    let file = recording.file.display();
    let size = bytes(recording.bytes as f64);
    let sessions = recording.sessions;
    let (level, text) = match &recording.ended {
        None => (
            Level::Info,
            format!("sessions are recorded, {what}, to {file}: {sessions} so far, {size}"),
        ),
        Some(why) => (
            Level::Warn,
            format!("the recording to {file}, {what}, has ended by itself: {why}"),
        ),
    };
    Finding {
        level,
        text,
        alert: None,
    }
}

fn backends(found: &mut Findings, snapshot: &Snapshot) {
    for backend in &snapshot.backends {
        let name = &backend.name;
        if let Some(why) = backend.shut() {
            let text = format!(
                "no target of backend {name} {}: nobody can join",
                why.text()
            );
            found.add(Level::Bad, Some("TidegateNoBackend"), text);
            continue;
        }
        for target in backend.in_use() {
            let who = format!("target {} of backend {name}", target.name);
            let up = target.state.up;
            // Who drains a game server wants to stop it: that it is down then is no trouble.
            if target.state.draining {
                let down = if up { "" } else { ", and down" };
                let text = format!("{who} is drained by hand{down}");
                found.add(Level::Info, None, text);
            } else if !up {
                let text = format!("{who} is down");
                found.add(Level::Warn, Some("TidegateBackendDown"), text);
            }
        }
    }
}

fn slots(found: &mut Findings, snapshot: &Snapshot) {
    let is_scarce = |peers, most| peers as f64 > ALMOST_FULL * most as f64;
    let (peers, most) = (snapshot.peers(), snapshot.peers_max);
    if is_scarce(peers, most) {
        let text = format!("{peers} of {most} slots (runtime.max_peers) are in use");
        found.add(Level::Warn, Some("TidegateAlmostFull"), text);
    }
    for listener in &snapshot.listeners {
        let (peers, most) = (listener.counters.peers, listener.about.peers_max);
        if is_scarce(peers, most) {
            let text = format!("{} has {peers} of {most} slots in use", listener.about.name);
            found.add(Level::Warn, Some("TidegateListenerAlmostFull"), text);
        }
    }
}

fn load(found: &mut Findings, snapshot: &Snapshot, history: &History) {
    let (total, before) = (add_up(snapshot), history.minute_ago());
    let now = history.recent();
    let now = |curve| now.get(curve).copied().unwrap_or(0.0);
    if since(&total, &before, Reject::TokenHistoryFull) > 0 {
        let text = "players are refused because no more connect tokens can be remembered";
        found.add(Level::Bad, Some("TidegateTokenHistoryFull"), text.into());
    }
    handshakes(found, &total, &before);
    let dropped = total.kernel_drops.saturating_sub(before.kernel_drops);
    if dropped > 60 {
        let text = format!("the kernel dropped {dropped} datagrams in the last minute");
        found.add(Level::Warn, Some("TidegateKernelDropsUdp"), text);
    }
    let (peers, bad) = (total.peers as f64, total.peers_in_bad_mode as f64);
    if peers > A_FEW && bad > BAD_MODE * peers {
        let part = share(bad / peers);
        let text = format!("{part} of the peers are in bad mode: suspect this site's network");
        found.add(Level::Warn, Some("TidegateBadNetworkWidespread"), text);
    }
    if now("busy") > WORKERS_BUSY {
        let text = format!("workers are busy {} of their time", share(now("busy")));
        found.add(Level::Warn, Some("TidegateWorkerSaturated"), text);
    }
    let listeners = snapshot.listeners.iter();
    let held_back: u64 = listeners.map(|l| l.counters.peers_held_back).sum();
    if held_back > 0 {
        let text = format!("memory for queues is short, and {held_back} peers are held back");
        found.add(Level::Warn, Some("TidegateQueueMemory"), text);
    }
    if now("rejects") > FLOOD {
        let text = format!("{} datagrams a second are rejected", count(now("rejects")));
        found.add(Level::Warn, Some("TidegateUnderAttack"), text);
    }
}

/// Players who come with a token and are refused for it see nothing at all, so somebody must say it.
fn handshakes(found: &mut Findings, total: &WorkerCounters, before: &WorkerCounters) {
    let minute = |reject| since(total, before, reject);
    let early = minute(Reject::TokenBeforeStart);
    if early > 0 {
        let text = format!(
            "{early} handshakes in the last minute had tokens from before this start: \
             clients get in with a new token, at the latest after max_token_lifetime"
        );
        found.add(Level::Info, None, text);
    }
    let accepted = total
        .handshakes_accepted
        .saturating_sub(before.handshakes_accepted);
    let refused: u64 = REFUSALS.into_iter().map(minute).sum();
    if refused > accepted.max(30) {
        let most = REFUSALS.into_iter().max_by_key(|&reject| minute(reject));
        let text = format!(
            "{refused} handshakes in the last minute were refused, most as {}, {accepted} accepted",
            most.unwrap_or(Reject::TokenKey).label()
        );
        found.add(Level::Warn, Some("TidegateHandshakesFailing"), text);
    }
}

/// How often this happened meanwhile. A listener that is gone took what it had counted with it, so there may be less.
fn since(total: &WorkerCounters, before: &WorkerCounters, reject: Reject) -> u64 {
    total.rejects[reject as usize].saturating_sub(before.rejects[reject as usize])
}

/// Refusals that have a cause on this side, or of the token service. Not those that pass by themselves, or
/// that whoever forges an address brings about.
const REFUSALS: [Reject; 8] = [
    Reject::TokenExpired,
    Reject::TokenFuture,
    Reject::TokenKey,
    Reject::TokenAddress,
    Reject::TokenReused,
    Reject::TokenOtherAddress,
    Reject::TokenInvalid,
    Reject::ChallengeFailed,
];
