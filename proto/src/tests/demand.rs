//! Games that say much: more than a path that nobody has measured is trusted with, and as much as one that
//! loses packets still carries.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Done, Traffic};
use crate::yojimbo;

/// 8000 bytes, 30 times a second: 2 Mbit/s.
fn says() -> Traffic {
    Traffic {
        messages: u64::MAX,
        sizes: 8_000..=8_000,
        every: Duration::from_secs(1) / 30,
        ..Traffic::default()
    }
}

/// 1000 bytes, 90 times a second: 0.7 Mbit/s.
fn says_evenly() -> Traffic {
    Traffic {
        sizes: 1_000..=1_000,
        every: Duration::from_secs(1) / 90,
        ..says()
    }
}

fn path(loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(5),
        loss,
        mtu: 1_500,
        ..Conditions::default()
    }
}

fn game(seed: u64) -> Game {
    let params = yojimbo::Params::default().with_path_mtu(1_500, true);
    Game::new(Rules::Yojimbo(Arc::new(params)), seed)
}

/// What gets lost anyway is no reason to send less than what is said.
#[test]
fn losses_hold_up_no_game() {
    for loss in [0.05, 0.1, 0.2] {
        for seed in 0..4 {
            let (mut game, says) = (game(seed), says());
            let mut scenario = Scenario::new(&mut game, 1, path(loss), &says, &says);
            scenario.run_for(Duration::from_secs(20));
            let done = scenario.network().0;
            assert!(done.lost as f64 > 0.8 * loss * done.offered as f64);
            let (said, heard) = scenario.outcome(0).up;
            let mut took = scenario.latencies_up(0);
            took.sort_unstable();
            let p99 = took[took.len() * 99 / 100];
            assert!(
                heard + 20 > said && p99 < Duration::from_millis(600),
                "seed {seed}, {loss}: {heard} of {said} heard, {p99:?}"
            );
        }
    }
}

/// A session that begins there was cut for its losses before it ever got rid of its backlog, and then never learned
/// what it needs: half of these had messages that were many seconds late.
#[test]
fn who_begins_among_losses_gets_what_is_said() {
    // Nothing of it waits for the handshake.
    let says = Traffic {
        begins: Duration::from_millis(500),
        every: Duration::from_secs(1) / 60,
        ..says()
    };
    let is_late = |seed: &u64| {
        let mut game = game(*seed);
        let mut scenario = Scenario::new(&mut game, 1, path(0.2), &says, &says);
        scenario.run_for(Duration::from_secs(10));
        let done = scenario.network().0;
        assert!(done.lost as f64 > 0.15 * done.offered as f64);
        let mut took = scenario.latencies_up(0);
        took.sort_unstable();
        took[took.len() * 99 / 100] > Duration::from_secs(2)
    };
    let late: Vec<_> = (0..16).filter(is_late).collect();
    assert!(late.len() <= 4, "seeds {late:?}");
}

/// Nor is a delay that swings. Each time that it looked like a queue the rate was cut, and what waited then was bulk, which
/// is cut for less: five of these sixteen had messages that were more than a second late.
#[test]
fn swings_hold_up_no_game() {
    let path = Conditions {
        jitter: Duration::from_millis(25),
        ..path(0.01)
    };
    let says = Traffic {
        sizes: 1_000..=1_000,
        every: Duration::from_secs(1) / 120,
        ..says()
    };
    let is_late = |seed: &u64| {
        let mut game = game(*seed);
        let mut scenario = Scenario::new(&mut game, 1, path, &says, &says);
        scenario.run_for(Duration::from_secs(20));
        let mut took = scenario.latencies_up(0);
        took.sort_unstable();
        let [least, half, most] = [0, 50, 99].map(|percent| took[took.len() * percent / 100]);
        assert!(half > least + path.jitter / 2, "{least:?}, {half:?}");
        most > Duration::from_secs(1)
    };
    let late: Vec<_> = (0..16).filter(is_late).collect();
    assert!(late.len() <= 1, "seeds {late:?}");
}

/// Nor is another route, which takes longer from one moment to the next: what is late then is no queue, which cutting would
/// shorten. Messages came up to four seconds late, the backlog of what was cut.
#[test]
fn another_route_holds_up_no_game() {
    let is_late = |seed: &u64| {
        let mut game = game(*seed);
        let mut scenario = Scenario::new(&mut game, 1, path(0.0), &says_evenly(), &says_evenly());
        scenario.run_for(Duration::from_secs(5));
        let before = scenario.latencies_up(0).len();
        let delay = Duration::from_millis(120);
        let longer = Conditions { delay, ..path(0.0) };
        scenario.set_weather(longer, longer);
        scenario.run_for(Duration::from_secs(15));
        let took = scenario.latencies_up(0).split_off(before);
        assert!(took[took.len() / 2] > Duration::from_millis(110));
        took.iter().any(|took| *took > Duration::from_millis(500))
    };
    let late: Vec<_> = (0..16).filter(is_late).collect();
    assert!(late.len() <= 1, "seeds {late:?}");
}

/// What such a game says at once soon after, as a level that is loaded, is not cut for it either. It was taken to meet
/// somebody's queue: 180 kB took six seconds and a half.
#[test]
fn another_route_holds_up_no_level() {
    let near = path(0.0);
    let far = Conditions {
        delay: Duration::from_millis(150),
        ..near
    };
    for secs in [2.0, 5.0] {
        for seed in 0..4 {
            let says = Traffic {
                sizes: 120..=120,
                every: Duration::from_secs(1) / 60,
                ..says()
            };
            let longer_at = Duration::from_secs(8);
            let surge_at = longer_at + Duration::from_secs_f64(secs);
            let up = Traffic {
                surge: Some((surge_at, 1_500)),
                ..says.clone()
            };
            let mut game = game(seed);
            let mut scenario = Scenario::new(&mut game, 1, near, &up, &says);
            scenario.run_for(longer_at);
            scenario.set_weather(far, far);
            scenario.run_for(Duration::from_secs(20) - longer_at);
            let longest = scenario.latencies_up(0).into_iter().max().unwrap();
            assert!(longest > Duration::from_millis(500), "it is much");
            assert!(
                longest < Duration::from_millis(1_200),
                "{secs} s later, seed {seed}: {longest:?}"
            );
        }
    }
}

/// Nor is the queue of a download beside it, which grows whatever we do: until that is known a game is slowed down to half
/// of what it says, and then goes on with all of it. Messages came up to five seconds late.
#[test]
fn a_download_beside_it_holds_up_no_game() {
    let is_late = |seed: &u64| {
        let mut game = game(*seed);
        let mut scenario = Scenario::new(&mut game, 1, path(0.0), &says_evenly(), &says_evenly());
        scenario.run_for(Duration::from_secs(5));
        for millis in (25..=250).step_by(5) {
            let filled = Conditions {
                delay: Duration::from_millis(millis),
                ..path(0.0)
            };
            scenario.set_weather(filled, path(0.0));
            scenario.run_for(Duration::from_millis(50));
        }
        scenario.run_for(Duration::from_secs(15));
        let took = scenario.latencies_up(0);
        took.iter().any(|took| *took > Duration::from_secs(3))
    };
    let late: Vec<_> = (0..16).filter(is_late).collect();
    assert!(late.len() <= 3, "seeds {late:?}");
}

/// Nor does what was said before make anybody flood a path that carries only half of it now.
#[test]
fn a_path_that_narrows_is_not_flooded() {
    for queue in [5_000, 20_000, 60_000] {
        for seed in 0..4 {
            let (mut game, says) = (game(seed), says());
            let mut scenario = Scenario::new(&mut game, 1, path(0.0), &says, &says);
            scenario.run_for(Duration::from_secs(10));
            let narrow = Conditions {
                rate: 1_000_000,
                queue,
                ..path(0.0)
            };
            scenario.set_weather(narrow, narrow);
            scenario.run_for(Duration::from_secs(5));
            let before = scenario.network().0;
            scenario.run_for(Duration::from_secs(20));
            let lost = share_overflowed(before, scenario.network().0);
            assert!(before.overflowed > 0, "it is narrow");
            assert!(lost < 0.15, "seed {seed}, queue {queue}: {lost:.3}");
        }
    }
}

fn share_overflowed(before: Done, after: Done) -> f64 {
    let overflowed = after.overflowed - before.overflowed;
    overflowed as f64 / (after.offered - before.offered) as f64
}
