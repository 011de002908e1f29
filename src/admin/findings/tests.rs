//! What is found on a board that a test made unwell.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::{Now, Timestamp};

use super::*;
use crate::backend::Pool;
use crate::board::{Board, ListenerInfo, WorkerSocket};
use crate::capacity::Capacity;
use crate::capture::Order;
use crate::clock::{Clock, Pause};
use crate::counters::ConnectFailure;

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
    let runbook = include_str!("../../../docs/RUNBOOK.md");
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
    let open = |count| {
        with_usage(Usage {
            open_fds: Some(count),
            max_fds: Some(100),
            ..Usage::default()
        })
    };
    assert_eq!(open(90), []);
    assert_eq!(alerts(&open(91)), ["TidegateDescriptorsAlmostUsed"]);
}

/// The warning at the start is long gone when a game server hangs and what waits for it fills the memory in seconds.
#[test]
fn memory_is_missed_before_the_kernel_ends_the_process() {
    let taken = |mib: u64, limit: Option<u64>| {
        with_usage(Usage {
            resident_bytes: Some(mib << 20),
            memory_limit_bytes: limit.map(|mib| mib << 20),
            ..Usage::default()
        })
    };
    assert_eq!(taken(57, Some(64)), []);
    assert_eq!(taken(5_700, None), [], "there is no limit");
    let found = taken(58, Some(64));
    assert_eq!(alerts(&found), ["TidegateMemoryAlmostUsed"]);
    let text = &found[0].text;
    assert!(text.contains("58") && text.contains("of the 64"), "{text}");
}

fn with_usage(usage: Usage) -> Vec<Finding> {
    let start = Clock::start().now();
    let board = Board::new(start, Capacity::new(100, 1000).into());
    board.update_process(|process| process.state = State::Serving);
    findings(&board.snapshot(start), &History::default(), &usage)
}

/// Who is about to restart the process looks here, and a single failure, mended since, is none.
#[test]
fn a_restart_that_would_refuse_players_is_announced() {
    let given_up = |histories| {
        after(|board, _| {
            board.update_process(|process| {
                process.token_history_failures = 1;
                process.token_histories_given_up = histories;
            });
        })
    };
    assert_eq!(given_up(0), []);
    assert_eq!(alerts(&given_up(1)), ["TidegateTokenHistoryFailing"]);
}

#[test]
fn a_log_that_loses_lines_is_found() {
    let losing = |loses| {
        after(|board, _| {
            board.update_process(|process| {
                (process.log_lines_dropped, process.log_loses_lines) = (1234, loses);
            });
        })
    };
    assert_eq!(losing(false), [], "long ago");
    let found = losing(true);
    assert_eq!(alerts(&found), ["TidegateLogLinesLost"]);
    assert!(found[0].text.contains("1234"), "{found:?}");
}

/// What looks like this site's network then is not.
#[test]
fn a_cpu_limit_comes_before_what_it_looks_like() {
    let throttled = |lately| {
        after(|board, counters| {
            board.update_process(|process| process.cpu_throttled_lately = lately);
            (counters.peers, counters.peers_in_bad_mode) = (90, 90);
        })
    };
    let network = ["TidegateBadNetworkWidespread"];
    assert_eq!(alerts(&throttled(cpu::MANY - 1)), network);
    let both = ["TidegateCpuThrottled", "TidegateBadNetworkWidespread"];
    assert_eq!(alerts(&throttled(cpu::MANY)), both);
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

/// An operator who waits for the process to end must not wait for a drain by hand to do it.
#[test]
fn a_drain_says_what_ends_with_it() {
    let draining = |stopping, ends: Option<u64>, peers| {
        let found = after(|board, counters| {
            counters.peers = peers;
            board.update_process(|process| {
                (process.state, process.stopping) = (State::Draining, stopping);
                process.drain_deadline = ends.map(|secs| Timestamp::from_millis(secs * 1000 + 500));
            });
        });
        assert_eq!((found.len(), found[0].level), (1, Level::Info));
        found[0].text.clone()
    };
    for (stopping, ends, peers, expected) in [
        (true, Some(26), 3, "the process ends in 25 s at the latest"),
        (false, Some(26), 3, "those who are left in 25 s are told"),
        (false, Some(7200), 3, "are left in 1 h 59 min are told"),
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
fn the_rules_know_the_same_refusals_and_losses() {
    let rules = include_str!("../../../grafana/alerts.yaml");
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

    // An operator who waits for a player's bug to come again must not wait for a file that is closed.
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

/// Everybody left at once, and nothing else shows why.
#[test]
fn a_pause_of_the_process_is_shown_for_a_while() {
    let start = Clock::start().now();
    let found = |ago| {
        let board = Board::new(start, Capacity::new(100, 1000).into());
        board.update_process(|process| {
            process.state = State::Serving;
            process.last_pause = Some(Pause {
                ended: start.mono,
                took: Duration::from_secs(60),
            });
        });
        let snapshot = board.snapshot(start.after(Duration::from_secs(ago)));
        findings(&snapshot, &History::default(), &Usage::default())
    };
    let [finding] = &found(150)[..] else {
        panic!("{:?}", found(150));
    };
    assert_eq!(finding.level, Level::Warn);
    let beginning = "this process did not run for 1 min, until 2 min ago: ";
    assert!(finding.text.starts_with(beginning), "{}", finding.text);
    assert_eq!(found(899).len(), 1);
    assert_eq!(found(900), []);
}

/// It is up again before anybody looks.
#[test]
fn a_target_that_crashed_is_shown_for_as_long_as_its_alert() {
    let crashed = |drained: &[&str], times: u64, ago: u64| {
        let start = Clock::start().now().after(Duration::from_secs(3600));
        let board = Board::new(start, Capacity::new(100, 1000).into());
        board.update_process(|process| process.state = State::Serving);
        let pool = Pool::with_two_targets();
        let (tcp, _) = pool.addresses(0)[0];
        for _ in 0..times {
            assert!(pool.on_crash(start.mono, tcp));
            pool.find_up(0);
        }
        for target in drained {
            assert!(pool.set_draining(target, true));
        }
        board.add_backend("game", pool.into());
        let snapshot = board.snapshot(start.after(Duration::from_secs(ago)));
        findings(&snapshot, &History::default(), &Usage::default())
    };
    let found = crashed(&[], 1, 150);
    assert_eq!(alerts(&found), ["TidegateBackendCrashed"]);
    let text = &found[0].text;
    for part in [
        "target tcp://127.0.0.1:7000 of backend game ended many",
        "at once 2 min ago, and took",
        "Its own log",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let text = &crashed(&[], 3, 5)[0].text;
    assert!(text.contains("5 s ago, the last of 3 times"), "{text}");
    assert_eq!(crashed(&[], 1, 899).len(), 1);
    assert_eq!(crashed(&[], 1, 900), []);
    // Who drains a game server wants to stop it.
    let drained = crashed(&["tcp://127.0.0.1:7000"], 1, 5);
    assert_eq!((drained.len(), drained[0].level), (1, Level::Info));
    let rules = include_str!("../../../grafana/alerts.yaml");
    let (_, rule) = rules.split_once("- alert: TidegateBackendCrashed").unwrap();
    let (rule, _) = rule.split_once("annotations").unwrap();
    assert!(rule.contains("keep_firing_for: 15m"), "{rule}");
}

/// Since when, and why, is what somebody who was just woken asks first.
#[test]
fn a_target_that_is_down_says_since_when_and_why() {
    let found = |down: &[usize]| {
        let start = Clock::start().now().after(Duration::from_secs(3600));
        let board = Board::new(start, Capacity::new(100, 1000).into());
        board.update_process(|process| process.state = State::Serving);
        let pool = Pool::with_two_targets();
        for (&target, why) in down
            .iter()
            .zip([ConnectFailure::Refused, ConnectFailure::Dns])
        {
            let (pick, _) = pool.addresses(target)[0];
            let secs = |secs| start.after(Duration::from_secs(secs)).mono;
            pool.note_failure(secs(0), pick, Some(why));
            pool.note_failure(secs(30), pick, None);
            pool.note_failure(secs(60 * target as u64 + 60), pick, Some(why));
            pool.note_failure(secs(230), pick, Some(why));
            pool.take_down(target);
        }
        board.add_backend("game", pool.into());
        let snapshot = board.snapshot(start.after(Duration::from_secs(240)));
        findings(&snapshot, &History::default(), &Usage::default())
    };
    let one = &found(&[0])[0].text;
    assert!(
        one.ends_with("is down (not there for 3 min: refused)"),
        "{one}"
    );
    let all = &found(&[0, 1])[0].text;
    assert!(
        all.ends_with("nobody can join (not there for 2 min: dns)"),
        "{all}"
    );
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
