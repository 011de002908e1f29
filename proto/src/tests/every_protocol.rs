//! What all three protocols promise, told once and played with each.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, bad_weather, path};
use crate::session::{CloseReason, Held};
use crate::sim::{Conditions, Traffic, World};
use crate::{gaffer, rudp, yojimbo};

/// Each protocol as it comes.
fn defaults() -> [Rules; 3] {
    [
        Rules::Yojimbo(Arc::default()),
        Rules::Gaffer(Arc::default()),
        Rules::Rudp(rudp::Params::default()),
    ]
}

#[test]
fn loss_reordering_and_duplicates_are_invisible_to_both_ends() {
    for rules in defaults() {
        let traffic = Traffic {
            messages: 300,
            sizes: 0..=600,
            unreliable: !matches!(rules, Rules::Rudp(_)),
            ..Traffic::default()
        };
        let mut game = Game::new(rules, 21);
        let mut scenario = Scenario::new(&mut game, 3, bad_weather(), &traffic, &traffic);
        scenario.deliver_all_within(Duration::from_secs(60));
        let (up, down) = scenario.network();
        assert!(
            up.lost > 30 && down.lost > 30 && up.duplicated > 20,
            "too kind a network: {up:?} {down:?}"
        );
    }
}

#[test]
fn a_backend_that_sleeps_slows_its_peer_and_loses_nothing() {
    let inbox_max = 64 * 1024;
    let yojimbo = yojimbo::Params {
        inbox_max,
        ..yojimbo::Params::default()
    };
    let gaffer = gaffer::Params {
        inbox_max,
        ..gaffer::Params::default()
    };
    let rudp = rudp::Params {
        inbox_max,
        ..rudp::Params::default()
    };
    let up = Traffic {
        messages: 2_000,
        sizes: 400..=500,
        every: Duration::from_millis(2),
        ..Traffic::default()
    };
    let down = Traffic {
        reader_sleeps: Some(Duration::from_secs(3)),
        ..Traffic::silent()
    };
    for rules in [
        Rules::Yojimbo(Arc::new(yojimbo)),
        Rules::Gaffer(Arc::new(gaffer)),
        Rules::Rudp(rudp),
    ] {
        let mut game = Game::new(rules, 23);
        let mut scenario = Scenario::new(&mut game, 1, path(10, 0.02), &up, &down);
        scenario.deliver_all_within(Duration::from_secs(300));
        let peer = scenario.server_peers_of(0)[0];
        let stats = scenario.server().stats(peer);
        let refused = stats.map_or(0, |stats| stats.packets_refused);
        assert!(refused > 0, "the backend was never slow enough");
    }
}

#[test]
fn silence_ends_a_session_on_both_sides() {
    let busy = Traffic {
        messages: 100_000,
        ..Traffic::default()
    };
    for traffic in [Traffic::silent(), busy] {
        for rules in defaults() {
            let mut game = Game::new(rules.clone(), 24);
            let mut scenario = Scenario::new(&mut game, 1, path(0, 0.0), &traffic, &traffic);
            scenario.run_for(Duration::from_secs(20));
            assert_eq!(scenario.ends(), [None, None], "idle is not dead: {rules:?}");
            scenario.cut();
            scenario.run_for(Duration::from_secs(11));
            let silent = Some(CloseReason::PeerTimeout);
            assert_eq!(scenario.ends(), [silent, silent], "{rules:?}");
            let (said, heard) = scenario.outcome(0).up;
            assert!(heard <= said, "{heard} of {said}");
        }
    }
}

/// rudp is left out: on its wire nobody knows what the other received.
#[test]
fn a_peer_that_leaves_is_heard_out_and_forgotten() {
    let traffic = Traffic {
        messages: 50,
        ..Traffic::default()
    };
    for rules in &defaults()[..2] {
        let mut game = Game::new(rules.clone(), 26);
        let mut scenario = Scenario::new(&mut game, 1, path(0, 0.0), &traffic, &traffic);
        scenario.deliver_all_within(Duration::from_secs(10));
        scenario.leave();
        scenario.run_for(Duration::from_secs(1));
        let expected = [CloseReason::BackendClosed, CloseReason::PeerDisconnect];
        assert_eq!(scenario.ends(), expected.map(Some), "{rules:?}");
        assert!(scenario.server().is_empty(), "its slot is free");
    }
}

/// What an ended session can still be asked for is what the peer was told we have. All else is memory
/// that somebody who plays could have.
#[test]
fn a_session_that_is_over_holds_its_inbox_and_nothing_else() {
    let much = Traffic {
        messages: 100_000,
        burst: 100,
        sizes: 400..=500,
        ..Traffic::default()
    };
    let deaf = Traffic {
        reader_sleeps: Some(Duration::from_secs(3_600)),
        ..much.clone()
    };
    for rules in defaults() {
        let mut game = Game::new(rules.clone(), 27);
        let mut scenario = Scenario::new(&mut game, 1, path(20, 0.3), &much, &deaf);
        scenario.run_for(Duration::from_secs(2));
        let now = scenario.now();
        let peer = scenario.server_peers_of(0)[0];
        let server = scenario.server();
        let (before, unsent) = (server.held(peer), server.stats(peer));
        assert!(before.outbox > 0, "{rules:?}: {before:?}");
        server.close(now, peer, CloseReason::Kicked);
        let after = server.held(peer);
        let inbox_only = Held {
            inbox: before.inbox,
            ..Held::default()
        };
        assert_eq!(after, inbox_only, "{rules:?}: {before:?}");
        let left = |stats: Option<crate::Stats>| stats.map(|stats| stats.outbox_messages);
        assert_eq!(left(server.stats(peer)), left(unsent), "{rules:?}");
    }
}

/// A megabyte said in the last moment, over a path that needs far longer than the linger for it. (rudp
/// is never told what arrived, and so cannot wait for it.)
#[test]
fn a_slow_path_gets_the_time_it_needs_to_hear_the_end() {
    for rules in [
        Rules::Yojimbo(Arc::default()),
        Rules::Gaffer(Arc::default()),
    ] {
        let up = Traffic {
            messages: 900,
            sizes: 1_000..=1_000,
            every: Duration::from_millis(1),
            burst: 900,
            ..Traffic::default()
        };
        let thin = Conditions {
            delay: Duration::from_millis(30),
            rate: 400_000,
            ..Conditions::default()
        };
        let mut game = Game::new(rules, 17);
        let mut scenario = Scenario::new(&mut game, 1, thin, &up, &Traffic::silent());
        let all_said = |world: &World| world.outcome(0).up.0 == 900;
        assert!(scenario.run_until(Duration::from_secs(10), all_said));
        let began = scenario.now().mono;
        scenario.leave();
        let over = |world: &World| world.outcome(0).client_closed.is_some();
        assert!(scenario.run_until(Duration::from_secs(120), over));
        let lasted = scenario.now().mono.since(began);
        assert!(
            lasted > Duration::from_secs(6),
            "too quick a path: {lasted:?}"
        );
        assert_eq!(scenario.outcome(0).up, (900, 900), "after {lasted:?}");
    }
}
