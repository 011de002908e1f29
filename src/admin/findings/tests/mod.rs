//! What is found on a board that a test made unwell.

mod backends;
mod process;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::backend::Pool;
use crate::board::{Board, ListenerInfo, State, WorkerSocket};
use crate::capacity::Capacity;
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
        let error = "tidegate.toml:16:18: unknown value `u32`";
        board.update_process(|process| process.reload_error = Some(error.into()));
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
    let text = |alert| {
        let found = found.iter().find(|it| it.alert == Some(alert));
        &found.unwrap().text
    };
    let bad = text("TidegateBadNetworkWidespread");
    assert!(bad.starts_with("30.8 % of"), "{bad}");
    let reload = text("TidegateReloadFailed");
    assert!(reload.ends_with(":16:18: unknown value `u32`"), "{reload}");
    let runbook = include_str!("../../../../docs/RUNBOOK.md");
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

/// With their sessions, everything else that shows on the page what hit them is gone.
#[test]
fn peers_who_were_lost_at_once_are_found_when_nobody_is_left() {
    let lost = |came, reason: CloseReason, times| {
        after(|_, counters| {
            counters.sessions_opened = came;
            counters.sessions_closed[CloseReason::PeerTimeout as usize] = 1;
            counters.sessions_closed[reason as usize] += times;
        })
    };
    let found = lost(20, CloseReason::BackendStalled, 19);
    assert_eq!(alerts(&found), ["TidegatePlayersLostAtOnce"]);
    assert_eq!(found[0].level, Level::Bad);
    let text = &found[0].text;
    assert!(text.starts_with("20 of 20 peers"), "{text}");
    // Newcomers who find no descriptor try again and again.
    assert_eq!(lost(20, CloseReason::Overload, 19), []);
    assert!(text.ends_with("most as backend_stalled"), "{text}");
    assert_eq!(lost(20, CloseReason::BackendStalled, 9), [], "a few");
    assert_eq!(lost(200, CloseReason::PeerTimeout, 59), [], "of many");
    assert_eq!(alerts(&lost(200, CloseReason::PeerTimeout, 60)).len(), 1);
    assert_eq!(lost(20, CloseReason::BackendClosed, 19), [], "as it wants");
    assert_eq!(lost(20, CloseReason::PeerDisconnect, 19), []);
}

#[test]
fn what_does_not_leave_this_host_is_found() {
    let fails = |sent, failed| {
        after(|_, counters| {
            counters.sent.datagrams = sent;
            counters.sent.errors.0[UdpError::Unreachable as usize] = failed;
            counters.sent.errors.0[UdpError::Blocked as usize] = 3;
        })
    };
    let found = fails(100, 98);
    assert_eq!(alerts(&found), ["TidegateCannotSend"]);
    assert!(found[0].text.contains("unreachable"), "{found:?}");
    assert_eq!(fails(100, 97), []);
    assert_eq!(fails(0, 57), [], "a few");
}

#[test]
fn peers_who_wait_for_the_game_server_are_found() {
    let waits = |peers, direction: Direction, blocked| {
        after(|_, counters| {
            counters.peers = peers;
            counters.peers_blocked[direction as usize] = blocked;
        })
    };
    assert_eq!(waits(10, Direction::ToBackend, 10), []);
    assert_eq!(waits(20, Direction::ToBackend, 2), []);
    let found = waits(20, Direction::ToBackend, 3);
    assert_eq!(alerts(&found), ["TidegateBackpressure"]);
    assert!(found[0].text.contains("does not read"), "{found:?}");
    let found = waits(20, Direction::ToPeer, 3);
    assert!(found[0].text.contains("writes more"), "{found:?}");
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

/// Loss that stays whatever is sent does not bring peers into bad mode.
#[test]
fn loss_of_half_the_peers_is_found() {
    let lossy = |peers, share_of_them, loss: f64| {
        after(|_, counters| {
            counters.peers = peers;
            for peer in 0..100 {
                let lossy = peer < share_of_them;
                counters.loss.record(if lossy { loss } else { 0.0 });
            }
        })
    };
    assert_eq!(alerts(&lossy(11, 60, 0.08)), ["TidegateLossHigh"]);
    assert_eq!(lossy(10, 60, 0.08), [], "too few");
    assert_eq!(lossy(11, 40, 0.3), [], "less than half");
    assert_eq!(lossy(11, 100, 0.04), []);
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

/// The rules count what the page counts.
#[test]
fn the_rules_know_the_same_refusals_and_losses() {
    let rules = include_str!("../../../../grafana/alerts.yaml");
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
    let losses = LOSSES.map(CloseReason::label).join("|");
    let these = format!("{{reason=~\"{losses}\"}}");
    assert_eq!(rules.matches(&these).count(), 1, "{these}");
}

/// Nobody is to join there any more, so it needs no slots and no game server.
#[test]
fn what_a_reload_removed_is_no_trouble() {
    let full = |counters: &mut WorkerCounters| {
        (counters.peers, counters.targets[0].connections) = (5, 5);
    };
    let found = with_down(&[0, 1], |board, counters| {
        full(counters);
        board.set_peers_max("udp", 5);
    });
    let alarms = ["TidegateNoBackend", "TidegateListenerAlmostFull"];
    assert_eq!(alerts(&found), alarms);
    let found = with_down(&[0, 1], |board, counters| {
        full(counters);
        board.set_peers_max("udp", 5);
        board.retire_listener("udp");
        board.retire_backend("game");
    });
    assert_eq!(found, []);
}
