//! Of the process.

use tidegate_proto::{Now, Timestamp};

use super::*;
use crate::admin::findings::process::recorded;
use crate::capture::{Order, Recording};
use crate::clock::Pause;
use crate::sizing::cpu;

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
        (false, None, 3, "`tidegate ctl undrain`"),
        (false, None, 0, "`tidegate ctl undrain`"),
        (false, None, 0, "the process stays until it is stopped"),
    ] {
        let text = draining(stopping, ends, peers);
        assert!(text.contains(expected), "{text}");
    }
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
