//! What an operator should know first: everything on the page that is not as it should be, worst
//! first. The same limits as the alert rules, of all listeners together and without the rules' patience.

mod backends;
mod process;
#[cfg(test)]
mod tests;

use serde::Serialize;
use tidegate_proto::{CloseReason, Reject};

use super::history::{History, add_up};
use super::units::{count, share};
use crate::board::Snapshot;
use crate::counters::{Direction, WorkerCounters};
use crate::metrics::Usage;
use crate::udp::UdpError;

/// Slots, descriptors, memory.
pub(super) const ALMOST_FULL: f64 = 0.9;
/// One direction's part of the memory.
pub(super) const QUEUES_FULL: f64 = 0.375;
pub(super) const WORKERS_BUSY: f64 = 0.85;
/// A share of the peers, of more than [`A_FEW`].
pub(super) const BAD_MODE: f64 = 0.3;
/// The median of what the peers lose.
const LOSSY: f64 = 0.05;
const LOST: f64 = 0.3;
const BLOCKED: f64 = 0.1;
const A_FEW: f64 = 10.0;
/// Datagrams a minute: fewer that fail to leave are no finding, however little leaves.
const SEND_ERRORS: u64 = 60;
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
    process::find(&mut found, snapshot, usage);
    backends::find(&mut found, snapshot);
    slots(&mut found, snapshot);
    load(&mut found, snapshot, history);
    let mut found = found.0;
    found.sort_by_key(|finding| finding.level);
    found
}

fn slots(found: &mut Findings, snapshot: &Snapshot) {
    let is_scarce = |peers, most| peers as f64 > ALMOST_FULL * most as f64;
    let (peers, most) = (snapshot.peers(), snapshot.peers_max);
    if is_scarce(peers, most) {
        let text = format!("{peers} of {most} slots (runtime.max_peers) are in use");
        found.add(Level::Warn, Some("TidegateAlmostFull"), text);
    }
    for listener in snapshot.staying() {
        let (peers, most) = (listener.counters.peers, listener.about.peers_max);
        if is_scarce(peers, most) {
            let text = format!("{} has {peers} of {most} slots in use", listener.about.name);
            found.add(Level::Warn, Some("TidegateListenerAlmostFull"), text);
        }
    }
}

fn load(found: &mut Findings, snapshot: &Snapshot, history: &History) {
    let minute = Minute {
        now: add_up(snapshot),
        before: history.minute_ago(),
    };
    let total = &minute.now;
    let now = history.recent();
    let now = |curve| now.get(curve).copied().unwrap_or(0.0);
    if minute.rejects(Reject::TokenHistoryFull) > 0 {
        let text = "players are refused because no more connect tokens can be remembered";
        found.add(Level::Bad, Some("TidegateTokenHistoryFull"), text.into());
    }
    lost(found, &minute);
    cannot_send(found, &minute);
    handshakes(found, &minute);
    let dropped = minute.count(|counters| counters.kernel_drops);
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
    let loss = total.loss.since(&minute.before.loss).quantile(0.5);
    if peers > A_FEW && loss.is_some_and(|loss| loss > LOSSY) {
        let text =
            "half of the peers or more lose over 5 % of the packets: suspect this site's network";
        found.add(Level::Warn, Some("TidegateLossHigh"), text.into());
    }
    if now("busy") > WORKERS_BUSY {
        let text = format!("workers are busy {} of their time", share(now("busy")));
        found.add(Level::Warn, Some("TidegateWorkerSaturated"), text);
    }
    wait(found, total);
    let held_back = total.peers_held_back;
    if held_back > 0 {
        let text = format!("memory for queues is short, and {held_back} peers are held back");
        found.add(Level::Warn, Some("TidegateQueueMemory"), text);
    }
    if now("rejects") > FLOOD {
        let text = format!("{} datagrams a second are rejected", count(now("rejects")));
        found.add(Level::Warn, Some("TidegateUnderAttack"), text);
    }
}

/// What was counted in the last minute.
struct Minute {
    now: WorkerCounters,
    before: WorkerCounters,
}

impl Minute {
    /// By how much this has grown. A listener that is gone took what it had counted with it, so there may be less.
    fn count(&self, what: impl Fn(&WorkerCounters) -> u64) -> u64 {
        what(&self.now).saturating_sub(what(&self.before))
    }

    fn rejects(&self, reason: Reject) -> u64 {
        self.count(|counters| counters.rejects[reason as usize])
    }

    fn closes(&self, reason: CloseReason) -> u64 {
        self.count(|counters| counters.sessions_closed[reason as usize])
    }

    fn send_errors(&self, kind: UdpError) -> u64 {
        self.count(|counters| counters.sent.errors.of(kind))
    }
}

/// Peers who fell silent, or whose game server broke, among all that there were.
fn lost(found: &mut Findings, minute: &Minute) {
    let closes = |reason| minute.closes(reason);
    let lost: u64 = LOSSES.into_iter().map(closes).sum();
    let were = minute.before.peers + minute.count(|counters| counters.sessions_opened);
    if lost as f64 > (LOST * were as f64).max(A_FEW) {
        let most = LOSSES.into_iter().max_by_key(|&reason| closes(reason));
        let text = format!(
            "{lost} of {were} peers were lost in the last minute, most as {}",
            most.unwrap_or(CloseReason::PeerTimeout).label()
        );
        found.add(Level::Bad, Some("TidegatePlayersLostAtOnce"), text);
    }
}

fn cannot_send(found: &mut Findings, minute: &Minute) {
    let errors = |kind| minute.send_errors(kind);
    let failed: u64 = UdpError::ALL.into_iter().map(errors).sum();
    let sent = minute.count(|counters| counters.sent.datagrams);
    if failed > sent.max(SEND_ERRORS) {
        let most = UdpError::ALL.into_iter().max_by_key(|&kind| errors(kind));
        let text = format!(
            "{failed} datagrams did not leave this host in the last minute, most as {}, and {sent} did",
            most.unwrap_or(UdpError::Other).label()
        );
        found.add(Level::Bad, Some("TidegateCannotSend"), text);
    }
}

/// Peers with a queue in front of them that is full.
fn wait(found: &mut Findings, total: &WorkerCounters) {
    let peers = total.peers as f64;
    for direction in Direction::ALL {
        let blocked = total.peers_blocked[direction as usize] as f64;
        if peers > A_FEW && blocked > BLOCKED * peers {
            let part = share(blocked / peers);
            let why = match direction {
                Direction::ToBackend => "the game server does not read its streams fast enough",
                Direction::ToPeer => "the game server writes more than their networks take",
            };
            let text = format!("{part} of the peers wait: {why}");
            found.add(Level::Warn, Some("TidegateBackpressure"), text);
        }
    }
}

/// Players who come with a token and are refused for it see nothing at all, so somebody must say it.
fn handshakes(found: &mut Findings, minute: &Minute) {
    let rejects = |reject| minute.rejects(reject);
    let early = rejects(Reject::TokenBeforeStart);
    if early > 0 {
        let text = format!(
            "{early} handshakes in the last minute had tokens from before this start: \
             clients get in with a new token, at the latest after max_token_lifetime"
        );
        found.add(Level::Info, None, text);
    }
    let accepted = minute.count(|counters| counters.handshakes_accepted);
    let refused: u64 = REFUSALS.into_iter().map(rejects).sum();
    if refused > accepted.max(30) {
        let most = REFUSALS.into_iter().max_by_key(|&reject| rejects(reject));
        let text = format!(
            "{refused} handshakes in the last minute were refused, most as {}, {accepted} accepted",
            most.unwrap_or(Reject::TokenKey).label()
        );
        found.add(Level::Warn, Some("TidegateHandshakesFailing"), text);
    }
}

/// Refusals that have a cause on this side, or of the token service. Not those that pass by themselves, or
/// that a forged address brings about.
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

/// Ends that nobody wanted: not those that a game server chose, nor those of newcomers who found no game server or no
/// descriptor.
const LOSSES: [CloseReason; 5] = [
    CloseReason::PeerTimeout,
    CloseReason::PeerStalled,
    CloseReason::BackendReset,
    CloseReason::BackendStalled,
    CloseReason::BackendProtocolError,
];
