//! Peers that do not acknowledge, or leave a gap open: given up when they are heard, and not for what
//! could not reach them.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, dead, path};
use crate::gaffer;
use crate::sender;
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic};

/// Games whose sessions may be silent for 30 s: three times what a stall takes.
fn patient_games(seed: u64) -> [Game; 2] {
    let gaffer = gaffer::Params {
        idle_timeout: Duration::from_secs(30),
        ..gaffer::Params::default()
    };
    let rules = [
        Rules::Yojimbo(Arc::default()),
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
    path(30, 0.4)
}

/// Two seconds into it, with much outstanding both ways.
fn under_way(game: &mut Game) -> Scenario {
    let traffic = chatter();
    let mut scenario = Scenario::new(game, 1, lossy(), &traffic, &traffic);
    scenario.run_for(Duration::from_secs(2));
    assert!(!scenario.all_delivered(), "something must be outstanding");
    scenario
}

#[test]
fn a_path_that_was_down_costs_no_session_before_its_timeout() {
    for mut game in patient_games(61) {
        let mut scenario = under_way(&mut game);
        scenario.cut();
        scenario.run_for(Duration::from_secs(20));
        scenario.set_weather(lossy(), lossy());
        scenario.deliver_all_within(Duration::from_secs(60));
        assert_eq!(scenario.ends(), [None, None]);
    }
}

/// A process that was stopped, or starved, finds the clock far ahead: nobody else is late for that.
#[test]
fn a_process_that_stood_still_blames_nobody() {
    for mut game in patient_games(62) {
        let mut scenario = under_way(&mut game);
        scenario.pause_server(Duration::from_secs(20));
        scenario.deliver_all_within(Duration::from_secs(60));
        assert_eq!(scenario.ends(), [None, None]);
    }
}

/// Where nine datagrams of ten fall out of a client's full socket buffer, ten seconds are a few packets:
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
        let mut scenario = Scenario::new(&mut game, 1, lossy(), &traffic, &traffic);
        scenario.run_for(Duration::from_secs(2));
        scenario.set_weather(lossy(), path(10, 0.9));
        scenario.run_for(Duration::from_secs(60));
        // What is never acknowledged may end the session, on the side that can tell.
        let [client, _] = scenario.ends();
        assert_ne!(client, Some(CloseReason::PeerGapStall), "seed {seed}");
    }
}

/// Whom nothing reaches waits for its timeout. Who is heard, and does not hear, is given up sooner.
#[test]
fn loss_one_way_ends_a_session_on_both_sides() {
    let (silent, stalled) = (CloseReason::PeerTimeout, CloseReason::PeerStalled);
    for (up, down, expected) in [
        (dead(), path(30, 0.0), [stalled, silent]),
        (path(30, 0.0), dead(), [silent, stalled]),
    ] {
        for mut game in patient_games(63) {
            let mut scenario = under_way(&mut game);
            scenario.set_weather(up, down);
            scenario.run_for(Duration::from_secs(9));
            assert_eq!(scenario.ends(), [None, None]);
            scenario.run_for(Duration::from_secs(4));
            let stalls = expected.map(|reason| (reason == stalled).then_some(stalled));
            assert_eq!(scenario.ends(), stalls, "of that the other hears nothing");
            scenario.run_for(Duration::from_secs(19));
            assert_eq!(scenario.ends(), expected.map(Some));
        }
    }
}

#[test]
fn both_ends_are_silent_for_as_long_as_the_token_says() {
    for secs in [3, 12, 20] {
        let silent = Traffic::silent();
        let mut game = Game::new(Rules::Yojimbo(Arc::default()), 64).with_timeout(secs);
        let mut scenario = Scenario::new(&mut game, 1, path(30, 0.0), &silent, &silent);
        scenario.run_for(Duration::from_secs(5));
        scenario.cut();
        // The last sign of life was a keep-alive, up to a second ago.
        let timeout = Duration::from_secs(secs as u64);
        scenario.run_for(timeout - Duration::from_millis(1_500));
        assert_eq!(scenario.ends(), [None, None], "{secs} s");
        scenario.run_for(Duration::from_secs(2));
        let ended = Some(CloseReason::PeerTimeout);
        assert_eq!(scenario.ends(), [ended, ended], "{secs} s");
    }
}

/// What is refused looks like lost to who sends it, while other packets arrive: no reason to send it all again and again.
#[test]
fn who_is_refused_asks_and_does_not_flood() {
    let up = Traffic {
        messages: 20_000,
        sizes: 900..=1000,
        every: Duration::from_millis(1),
        burst: 2,
        ..Traffic::default()
    };
    let down = Traffic {
        messages: 10_000,
        every: Duration::from_millis(10),
        reader_sleeps: Some(Duration::from_secs(6)),
        ..Traffic::default()
    };
    let gaffer = gaffer::Params {
        sender: sender::Params::default(),
        ..gaffer::Params::default()
    };
    for rules in [
        Rules::Yojimbo(Arc::default()),
        Rules::Gaffer(Arc::new(gaffer)),
    ] {
        let mut game = Game::new(rules, 67);
        let mut scenario = Scenario::new(&mut game, 1, path(25, 0.0), &up, &down);
        scenario.run_for(Duration::from_secs(8));
        let peer = scenario.server_peers_of(0)[0];
        let counted = |scenario: &mut Scenario| {
            let refused = scenario
                .server()
                .stats(peer)
                .map(|stats| stats.packets_refused);
            (scenario.client_stats(0).packets_sent, refused.unwrap_or(0))
        };
        let (sent, refused) = counted(&mut scenario);
        scenario.run_for(Duration::from_secs(3));
        let (sent, refused) = {
            let now = counted(&mut scenario);
            (now.0 - sent, now.1 - refused)
        };
        assert!(refused > 20, "it was let in: {refused} refused");
        assert!(sent < 1_000, "{sent} packets in 3 s, {refused} refused");
        assert_eq!(scenario.ends(), [None, None]);
    }
}
