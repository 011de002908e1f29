//! Of the backends.

use super::*;
use crate::counters::ConnectFailure;

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
    let rules = include_str!("../../../../grafana/alerts.yaml");
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
