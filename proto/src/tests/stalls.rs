//! Peers that do not acknowledge, or leave a gap open: given up when they are heard, and not for what
//! could not reach them.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, World};
use crate::{gaffer, yojimbo};

/// Games whose sessions may be silent for 30 s, and wait for a silent peer's messages no less.
fn patient_games(seed: u64) -> [Game; 2] {
    let gaffer = gaffer::Params {
        idle_timeout: Duration::from_secs(30),
        ..gaffer::Params::default()
    };
    let rules = [
        Rules::Yojimbo(Arc::new(yojimbo::Params::default())),
        Rules::Gaffer(Arc::new(gaffer)),
    ];
    rules.map(|rules| Game::new(rules, seed).with_timeout(30))
}

fn chatter() -> Traffic {
    Traffic {
        messages: 400,
        every: Duration::from_millis(10),
        ..Traffic::default()
    }
}

/// Of the first packets so many are lost that both ends have gaps open and wait for acknowledgements.
fn lossy() -> Conditions {
    Conditions {
        delay: Duration::from_millis(30),
        loss: 0.4,
        ..Conditions::default()
    }
}

/// Runs until everything is delivered; nobody may have ended before.
fn assert_all_delivered(world: &mut World, traffic: &Traffic) {
    let told = |_| (traffic.clone(), traffic.clone());
    let delivered = world.run_until(Duration::from_secs(60), told, World::all_delivered);
    let outcome = world.outcome(0);
    assert!(delivered, "{outcome:?}");
    let ends = (outcome.client_closed, outcome.server_closed);
    assert_eq!(ends, (None, None), "{outcome:?}");
}

/// The stall clocks are shorter than the timeout here: what could not be heard must not count.
#[test]
fn a_path_that_was_down_costs_no_session_before_its_timeout() {
    for mut game in patient_games(61) {
        let traffic = chatter();
        let mut world = game.world(61, 1, lossy(), &traffic, &traffic);
        world.run_for(Duration::from_secs(2), |_| {
            (traffic.clone(), traffic.clone())
        });
        assert!(!world.all_delivered(), "something must be outstanding");
        let down = Conditions {
            loss: 1.0,
            ..lossy()
        };
        world.set_weather(down, down);
        world.run_for(Duration::from_secs(20), |_| {
            (traffic.clone(), traffic.clone())
        });
        world.set_weather(lossy(), lossy());
        assert_all_delivered(&mut world, &traffic);
    }
}

/// A process that was stopped, or starved, finds the clock far ahead: nobody else is late for that.
#[test]
fn a_process_that_stood_still_blames_nobody() {
    for mut game in patient_games(62) {
        let traffic = chatter();
        let mut world = game.world(62, 1, lossy(), &traffic, &traffic);
        world.run_for(Duration::from_secs(2), |_| {
            (traffic.clone(), traffic.clone())
        });
        assert!(!world.all_delivered(), "something must be outstanding");
        world.pause_server(Duration::from_secs(20));
        assert_all_delivered(&mut world, &traffic);
    }
}

/// where nine datagrams of ten fall out of a client's full socket buffer, ten seconds are a few packets:
/// too few to say that the server does not send what is missing.
#[test]
fn a_gap_is_held_against_a_peer_only_when_its_packets_arrive() {
    for seed in 0..10 {
        let [mut game, _] = patient_games(seed);
        let traffic = Traffic {
            messages: 100,
            every: Duration::from_millis(250),
            ..Traffic::default()
        };
        let starved = Conditions {
            delay: Duration::from_millis(10),
            loss: 0.9,
            ..Conditions::default()
        };
        let mut world = game.world(seed, 1, lossy(), &traffic, &traffic);
        world.run_for(Duration::from_secs(2), |_| {
            (traffic.clone(), traffic.clone())
        });
        world.set_weather(lossy(), starved);
        world.run_for(Duration::from_secs(60), |_| {
            (traffic.clone(), traffic.clone())
        });
        // What is never acknowledged may end the session, on the side that can tell.
        let closed = world.outcome(0).client_closed;
        assert_ne!(closed, Some(CloseReason::PeerGapStall), "seed {seed}");
    }
}
