//! What an operator should know first: everything on the page that is not as it should be, worst
//! first. The same limits as the alert rules, of all listeners together and without the rules' patience.

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_proto::Now;

    use super::*;
    use crate::backend::Pool;
    use crate::board::{Board, ListenerInfo, WorkerSocket};
    use crate::capacity::Capacity;
    use crate::capture::Order;
    use crate::clock::Clock;

    /// What a board shows after `act` made it unwell.
    fn after(act: impl FnOnce(&Board, &mut WorkerCounters)) -> Vec<Finding> {
        with_down(&[], act)
    }

    /// What a board shows after `act` made it unwell, with these targets of its backend down.
    fn with_down(down: &[usize], act: impl FnOnce(&Board, &mut WorkerCounters)) -> Vec<Finding> {
        with(down, &[], act)
    }

    /// What a board shows after `act` made it unwell, with some targets of its backend down and some drained by hand.
    fn with(
        down: &[usize],
        drained: &[&str],
        act: impl FnOnce(&Board, &mut WorkerCounters),
    ) -> Vec<Finding> {
        let mut clock = Clock::start();
        let start = clock.now();
        let board = Arc::new(Board::new(start, Capacity::new(100, 1000).into()));
        let pool = Pool::with_two_targets();
        down.iter().for_each(|target| pool.take_down(*target));
        for target in drained {
            assert!(pool.set_draining(target, true));
        }
        board.add_backend("game", pool.into());
        let reporter = &board.add_listener(about(), &WorkerSocket::one_each(1))[0];
        board.update_process(|process| {
            process.state = State::Serving;
            process.last_reload_ok = true;
        });
        let mut counters = reporter.counters();
        let mut history = History::default();
        reporter.publish(start.mono, &counters);
        history.push(&board.snapshot(start));
        act(&board, &mut counters);
        let now = start.after(Duration::from_secs(1));
        reporter.publish(now.mono, &counters);
        let snapshot = board.snapshot(now);
        history.push(&snapshot);
        findings(&snapshot, &history, &Usage::default())
    }

    fn about() -> ListenerInfo {
        ListenerInfo {
            name: "udp".into(),
            protocol: "gaffer",
            bind: Vec::new(),
            backend: "game".into(),
            peers_max: 100,
        }
    }

    fn alerts(found: &[Finding]) -> Vec<&'static str> {
        found.iter().filter_map(|finding| finding.alert).collect()
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        let found = after(|_, counters| {
            counters.peers = 90;
            counters.peers_in_bad_mode = 27;
            counters.kernel_drops = 60;
            counters.queued_bytes = [400, 400];
            counters.peers_held_back = 0;
            counters.busy = Duration::from_millis(840);
        });
        assert_eq!(found, []);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_alert_worst_first() {
        let found = with_down(&[0, 1], |board, counters| {
            board.update_process(|process| process.last_reload_ok = false);
            counters.peers = 91;
            counters.peers_in_bad_mode = 28;
            counters.kernel_drops = 61;
            counters.peers_held_back = 1;
            counters.busy = Duration::from_millis(860);
            counters.rejects[Reject::Malformed as usize] = 10_001;
            counters.rejects[Reject::TokenHistoryFull as usize] = 1;
            counters.invariant_violations = 1;
        });
        let expected = [
            "TidegateNoBackend",
            "TidegateTokenHistoryFull",
            "TidegateReloadFailed",
            "TidegateInvariantViolated",
            "TidegateAlmostFull",
            "TidegateListenerAlmostFull",
            "TidegateKernelDropsUdp",
            "TidegateBadNetworkWidespread",
            "TidegateWorkerSaturated",
            "TidegateQueueMemory",
            "TidegateUnderAttack",
        ];
        assert_eq!(alerts(&found), expected);
        let bad = found
            .iter()
            .find(|it| it.alert == Some("TidegateBadNetworkWidespread"));
        assert!(bad.unwrap().text.starts_with("30.8 % of"), "{bad:?}");
        let runbook = include_str!("../../docs/RUNBOOK.md");
        for alert in expected {
            assert!(runbook.contains(&format!("### {alert}\n")), "{alert}");
        }
    }

    /// A client repeats a refused request ten times a second.
    #[test]
    fn tokens_that_nobody_takes_are_told_from_a_start() {
        let refused_beside = |accepted, reject: Reject, times| {
            after(|_, counters| {
                counters.handshakes_accepted = accepted;
                counters.rejects[reject as usize] = times;
            })
        };
        let refused = |reject, times| refused_beside(40, reject, times);
        assert_eq!(refused(Reject::TokenKey, 40), []);
        let found = refused(Reject::TokenKey, 41);
        assert_eq!(alerts(&found), ["TidegateHandshakesFailing"]);
        assert!(found[0].text.contains("token_key"), "{found:?}");
        assert_eq!(refused_beside(0, Reject::TokenKey, 30), [], "one client");
        let found = refused_beside(0, Reject::TokenKey, 31);
        assert_eq!(alerts(&found), ["TidegateHandshakesFailing"]);
        assert_eq!(refused(Reject::Unproven, 500), []);
        assert_eq!(refused(Reject::TokenBeforeStart, 500)[0].level, Level::Info);
    }

    /// What one player's network does says nothing about this site's.
    #[test]
    fn a_few_peers_in_bad_mode_are_no_finding() {
        let all_bad = |peers| {
            after(|_, counters| {
                counters.peers = peers;
                counters.peers_in_bad_mode = peers;
            })
        };
        assert_eq!(all_bad(10), []);
        assert_eq!(alerts(&all_bad(11)), ["TidegateBadNetworkWidespread"]);
    }

    #[test]
    fn what_waits_for_a_restart_is_named() {
        let found = after(|board, _| {
            let waits = ["runtime.workers", "drain.grace"].map(str::to_owned);
            board.update_process(|process| process.needs_restart = waits.into());
        });
        assert_eq!((found.len(), found[0].level), (1, Level::Warn));
        let text = &found[0].text;
        assert!(text.ends_with(": runtime.workers, drain.grace"), "{text}");
    }

    #[test]
    fn descriptors_are_missed_before_there_are_none() {
        let start = Clock::start().now();
        let board = Board::new(start, Capacity::new(100, 1000).into());
        board.update_process(|process| process.state = State::Serving);
        let snapshot = board.snapshot(start);
        let open = |count| {
            let usage = Usage {
                open_fds: Some(count),
                max_fds: Some(100),
                ..Usage::default()
            };
            findings(&snapshot, &History::default(), &usage)
        };
        assert_eq!(open(90), []);
        assert_eq!(alerts(&open(91)), ["TidegateDescriptorsAlmostUsed"]);
    }

    #[test]
    fn nothing_is_found_in_the_counts_of_a_listener_that_has_gone() {
        let start = Clock::start().now();
        let board = Board::new(start, Capacity::new(100, 1000).into());
        board.update_process(|process| process.state = State::Serving);
        let reporter = &board.add_listener(about(), &WorkerSocket::one_each(1))[0];
        let mut counters = reporter.counters();
        counters.handshakes_accepted = 40;
        counters.rejects[Reject::TokenHistoryFull as usize] = 1;
        reporter.publish(start.mono, &counters);
        let mut history = History::default();
        history.push(&board.snapshot(start));
        board.retire_listener("udp");
        reporter.finish();
        let snapshot = board.snapshot(start.after(Duration::from_secs(1)));
        assert!(snapshot.listeners.is_empty());
        history.push(&snapshot);
        assert_eq!(findings(&snapshot, &history, &Usage::default()), []);
    }

    /// Whoever waits for the process to end must not wait for a drain by hand to do it.
    #[test]
    fn a_drain_says_what_ends_with_it() {
        let draining = |stopping, ends: Option<u64>, peers| {
            let found = after(|board, counters| {
                counters.peers = peers;
                let now = board.snapshot(Now::default()).started_unix;
                board.update_process(|process| {
                    (process.state, process.stopping) = (State::Draining, stopping);
                    process.drain_deadline_unix = ends.map(|secs| now + secs);
                });
            });
            assert_eq!((found.len(), found[0].level), (1, Level::Info));
            found[0].text.clone()
        };
        for (stopping, ends, peers, expected) in [
            (true, Some(26), 3, "the process ends in 25 s at the latest"),
            (false, Some(26), 3, "those who are left in 25 s are told"),
            (false, Some(0), 3, "those who are left are told to go"),
            (false, None, 3, "those who are here stay"),
            (false, None, 0, "the process stays until it is stopped"),
        ] {
            let text = draining(stopping, ends, peers);
            assert!(text.contains(expected), "{text}");
        }
    }

    /// The rules count what the page counts.
    #[test]
    fn the_rules_know_the_same_refusals() {
        let rules = include_str!("../../grafana/alerts.yaml");
        let label = |reject: &Reject| reject.label();
        let (tokens, others): (Vec<_>, Vec<_>) = REFUSALS
            .iter()
            .map(label)
            .partition(|label| label.starts_with("token_"));
        let tokens: Vec<_> = tokens
            .iter()
            .map(|label| &label["token_".len()..])
            .collect();
        let these = format!("\"token_({})|{}\"", tokens.join("|"), others.join("|"));
        assert_eq!(rules.matches(&these).count(), 2, "{these}");
    }

    /// Decrypted messages of players on a disk are nothing to forget.
    #[test]
    fn a_recording_is_seen_while_it_runs() {
        let file = std::env::temp_dir().join(format!("tidegate-found-{}", std::process::id()));
        let order = Order {
            file: file.clone(),
            listener: None,
            peer: None,
            content: true,
            bytes_max: 1 << 20,
        };
        let found = after(|board, _| {
            board.tap().start(order, Now::default()).unwrap();
        });
        std::fs::remove_file(&file).unwrap();
        assert_eq!((found.len(), found[0].level), (1, Level::Info), "{found:?}");
        for part in ["decrypted", file.to_str().unwrap(), "0 so far"] {
            assert!(found[0].text.contains(part), "{found:?}");
        }
        let found = after(|board, _| assert_eq!(board.tap().stop(), None));
        assert_eq!(found, [], "nobody asked");

        // Whoever waits for a player's bug to come again must not wait for a file that is closed.
        let ended = recorded(&Recording {
            file,
            content: true,
            sessions: 3,
            bytes: 4096,
            ended: Some("no room".into()),
        });
        assert_eq!(ended.level, Level::Warn);
        assert!(ended.text.ends_with("by itself: no room"), "{ended:?}");
    }

    #[test]
    fn one_target_down_is_not_all_of_them() {
        let found = with_down(&[1], |_, _| {});
        assert_eq!(alerts(&found), ["TidegateBackendDown"]);
        assert!(found[0].text.contains("game.sock"), "{found:?}");
    }

    /// A game server is drained to be stopped: that it is gone then is as somebody wanted it.
    #[test]
    fn a_drained_target_that_is_down_is_no_trouble() {
        let unix = "unix:/run/game.sock";
        let found = with(&[1], &[unix], |_, _| {});
        assert_eq!((found.len(), found[0].level), (1, Level::Info), "{found:?}");
        let text = format!("target {unix} of backend game is drained by hand, and down");
        assert_eq!((&found[0].text, found[0].alert), (&text, None));
    }

    /// Nobody gets to a target that is drained, although it is up.
    #[test]
    fn the_last_target_that_is_not_drained_counts() {
        let (tcp, unix) = ("tcp://127.0.0.1:7000", "unix:/run/game.sock");
        let found = with(&[], &[tcp], |_, _| {});
        assert_eq!((found.len(), found[0].level), (1, Level::Info));
        for (down, drained) in [(&[1][..], &[tcp][..]), (&[], &[tcp, unix])] {
            let found = with(down, drained, |_, _| {});
            assert_eq!(alerts(&found), ["TidegateNoBackend"]);
            assert_eq!(found[0].level, Level::Bad);
            assert!(found[0].text.contains("drained by hand"), "{found:?}");
        }
    }
}
