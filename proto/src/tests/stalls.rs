//! Peers that do not acknowledge, or leave a gap open: given up when they are heard, and not for what
//! could not reach them.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, dead, path};
use crate::sender;
use crate::session::{AckPolicy, CloseReason};
use crate::sim::{Conditions, Traffic};
use crate::{gaffer, yojimbo};

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

/// A server whose backend closed takes nothing more, and goes on delivering what was queued: its client waits for that.
#[test]
fn a_server_delivers_a_long_tail_although_it_takes_nothing_more() {
    // Half a minute's.
    let tail = Traffic {
        messages: 900,
        sizes: 900..=1100,
        burst: 900,
        ..Traffic::default()
    };
    let clear = path(30, 0.0);
    let thin = Conditions {
        rate: 256_000,
        ..clear
    };
    for mut game in patient_games(68) {
        let mut scenario = Scenario::new(&mut game, 1, clear, &chatter(), &tail);
        scenario.set_weather(clear, thin);
        scenario.run_for(Duration::from_secs(2));
        let (now, peer) = (scenario.now(), scenario.server_peers_of(0)[0]);
        let (reason, linger) = (CloseReason::BackendClosed, Duration::from_secs(5));
        scenario.server().finish(now, peer, reason, linger);
        let heard = scenario.outcome(0).up.1;
        scenario.run_for(Duration::from_secs(20));
        assert_eq!(scenario.ends(), [None, None], "it takes longer");
        scenario.run_for(Duration::from_secs(100));
        let outcome = scenario.outcome(0);
        assert_eq!(outcome.down, (900, 900));
        assert_eq!(outcome.up.1, heard, "nobody is there to hear more");
        let ends = [Some(CloseReason::PeerDisconnect), Some(reason)];
        assert_eq!(scenario.ends(), ends);
    }
}

/// A tunnel whose program closed takes nothing more, and goes on delivering what that said: its server waits for that,
/// although it has something to say itself.
#[test]
fn a_client_delivers_a_long_tail_although_it_takes_nothing_more() {
    // Half a minute's; at the article's rate more than one.
    let tail = Traffic {
        messages: 900,
        sizes: 900..=1100,
        burst: 900,
        ..Traffic::default()
    };
    let answers = Traffic {
        messages: 6_000,
        every: Duration::from_millis(10),
        ..Traffic::default()
    };
    let clear = path(30, 0.0);
    let thin = Conditions {
        rate: 256_000,
        ..clear
    };
    for mut game in patient_games(69) {
        let mut scenario = Scenario::new(&mut game, 1, clear, &tail, &answers);
        scenario.set_weather(thin, clear);
        scenario.run_for(Duration::from_secs(2));
        scenario.leave();
        let heard = scenario.outcome(0).down.1;
        scenario.run_for(Duration::from_secs(20));
        assert_eq!(scenario.ends(), [None, None], "it takes longer");
        scenario.run_for(Duration::from_secs(100));
        let outcome = scenario.outcome(0);
        assert_eq!(outcome.up, (900, 900));
        assert_eq!(outcome.down.1, heard, "nobody is there to hear more");
        let ends = [
            Some(CloseReason::BackendClosed),
            Some(CloseReason::PeerDisconnect),
        ];
        assert_eq!(scenario.ends(), ends);
    }
}

/// A backend that reads nothing for most of a minute holds its client back, and costs no session: whether its server has
/// something to say itself, and whatever that acknowledges.
#[test]
fn who_dials_waits_for_a_backend_that_reads_nothing() {
    let nap = Duration::from_secs(45);
    let says = Traffic {
        messages: 1_500,
        sizes: 900..=1000,
        begins: nap,
        every: Duration::from_millis(10),
        ..Traffic::default()
    };
    let answers = |messages| Traffic {
        messages,
        every: Duration::from_millis(100),
        reader_sleeps: Some(nap),
        ..Traffic::default()
    };
    let strict = yojimbo::Params {
        ack: AckPolicy::Strict,
        ..yojimbo::Params::default()
    };
    let fast = gaffer::Params {
        sender: sender::Params::default(),
        ..gaffer::Params::default()
    };
    for rules in [
        Rules::Yojimbo(Arc::default()),
        Rules::Yojimbo(Arc::new(strict)),
        Rules::Gaffer(Arc::new(fast)),
        Rules::Gaffer(Arc::default()),
    ] {
        for (messages, loss, seed) in [(0, 0.0, 1), (0, 0.2, 2), (1_000, 0.0, 3), (1_000, 0.2, 4)] {
            let mut game = Game::new(rules.clone(), seed);
            let answers = answers(messages);
            let mut scenario = Scenario::new(&mut game, 1, path(25, loss), &says, &answers);
            scenario.run_for(2 * nap);
            let what = format!("{rules:?}, seed {seed}");
            assert_eq!(scenario.ends(), [None, None], "{what}");
            assert!(!scenario.all_delivered(), "it held nothing back: {what}");
            scenario.deliver_all_within(4 * nap);
        }
    }
}
