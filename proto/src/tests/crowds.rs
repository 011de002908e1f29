//! Thousands of messages said at once, over paths that lose some: what waits behind a lost one fills every
//! store there is.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Traffic};
use crate::{gaffer, rudp, sender};

/// As the daemon has it: as fast as the path carries.
fn gaffer() -> Rules {
    Rules::Gaffer(Arc::new(gaffer::Params {
        sender: sender::Params::default(),
        ..gaffer::Params::default()
    }))
}

/// Over 100 ms and 100 Mbit/s.
fn fast(loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(50),
        loss,
        rate: 100_000_000,
        queue: 1 << 20,
        ..Conditions::default()
    }
}

/// So many of one size, as fast as they are taken.
fn crowd(messages: u64, size: usize) -> Traffic {
    Traffic {
        messages,
        sizes: size..=size,
        burst: messages,
        ..Traffic::default()
    }
}

/// Everything arrives both ways and nobody is given up. Returns the datagrams that got lost.
fn all_arrives(rules: &Rules, link: Conditions, [up, down]: [&Traffic; 2], seed: u64) -> u64 {
    let mut game = Game::new(rules.clone(), seed);
    let mut scenario = Scenario::new(&mut game, 1, link, up, down);
    let over = scenario.run_until(Duration::from_secs(120), |world| {
        world.all_delivered() || world.outcome(0).client_closed.is_some()
    });
    let outcome = scenario.outcome(0);
    let what = format!("seed {seed}, {up:?} and {down:?} over {link:?}: {outcome:?}");
    assert!(over && scenario.all_delivered(), "{what}");
    let (up, down) = scenario.network();
    up.lost + down.lost
}

/// 1023 messages of 200 bytes are more than may wait behind a lost one. The packet that brought the lost one
/// had others with it, or copies of what was there, and was refused for them until the session ended.
#[test]
fn a_full_store_of_gaffer_takes_what_empties_it() {
    for size in [200, 250, 400, 550] {
        for loss in [0.001, 0.005, 0.02] {
            let (down, up) = (crowd(8_000, size), Traffic::silent());
            let play = |seed| all_arrives(&gaffer(), fast(loss), [&up, &down], seed);
            let lost: u64 = (0..4).map(play).sum();
            assert!(lost > 4, "too kind a path: {lost} lost of {loss}");
        }
    }
}

/// Whoever says more than the peer has room for behind a lost message left it behind, and itself, for ever: what was
/// too far ahead was forgotten, and what was missing too, before anybody asked for it.
#[test]
fn no_peer_of_rudp_is_left_behind() {
    let rules = Rules::Rudp(rudp::Params::default());
    let late = Conditions {
        reorder: (0.1, Duration::from_millis(60)),
        duplicate: 0.05,
        ..fast(0.01)
    };
    for size in [16, 60, 250, 1_000] {
        let says = crowd(4_000, size);
        for link in [fast(0.01), fast(0.2), late] {
            let play = |seed| all_arrives(&rules, link, [&says, &says], seed);
            let lost: u64 = (0..4).map(play).sum();
            assert!(lost > 4, "too kind a path: {lost} lost of {link:?}");
        }
    }
}
