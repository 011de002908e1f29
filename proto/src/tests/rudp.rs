//! rudp from end to end: what holds without acknowledgements, and what ends when it cannot hold.

use std::time::Duration;

use super::games::{Game, Rules, client_address};
use super::scenario::{Scenario, path};
use crate::endpoint::Handled;
use crate::rudp::{Params, wire};
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, World};

fn scenario(
    seed: u64,
    params: Params,
    weather: Conditions,
    up: &Traffic,
    down: &Traffic,
) -> Scenario {
    let mut game = Game::new(Rules::Rudp(params), seed);
    Scenario::new(&mut game, 1, weather, up, down)
}

#[test]
fn a_lost_last_message_arrives_without_anything_behind_it() {
    // One message a second: each is the last one for a long time, and one in three is lost.
    let up = Traffic {
        messages: 30,
        every: Duration::from_secs(1),
        ..Traffic::default()
    };
    let weather = path(20, 0.33);
    let down = Traffic::silent();
    let mut scenario = scenario(32, Params::default(), weather, &up, &down);
    scenario.deliver_all_within(Duration::from_secs(40));
    let worst = scenario.latencies_up(0).into_iter().max();
    assert!(worst < Some(Duration::from_secs(3)), "{worst:?}");
}

/// There is room until the queue's bytes are reached, so a message longer than all of them gets its turn.
#[test]
fn a_queue_shorter_than_a_message_of_rudp_is_no_dead_end() {
    let params = Params {
        send_queue_bytes_max: 512,
        ..Params::default()
    };
    let traffic = Traffic {
        messages: 100,
        sizes: 0..=params.message_bytes_max,
        ..Traffic::default()
    };
    assert!(params.message_bytes_max > params.send_queue_bytes_max);
    let mut scenario = scenario(33, params, path(5, 0.02), &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(60));
}

/// A backend says much and closes: its server delivers that for as long as it gets on, and takes nothing more, which
/// nobody would read.
#[test]
fn a_long_tail_of_rudp_is_delivered_although_nothing_more_is_taken() {
    let chatter = Traffic {
        messages: 400,
        every: Duration::from_millis(10),
        ..Traffic::default()
    };
    // Seven seconds' and more.
    let tail = Traffic {
        messages: 900,
        sizes: 900..=1_100,
        burst: 900,
        ..Traffic::default()
    };
    let clear = path(30, 0.0);
    let thin = Conditions {
        rate: 1_000_000,
        ..clear
    };
    let mut scenario = scenario(37, Params::default(), clear, &chatter, &tail);
    scenario.set_weather(clear, thin);
    scenario.run_for(Duration::from_secs(2));
    let (now, peer) = (scenario.now(), scenario.server_peers_of(0)[0]);
    let (reason, linger) = (CloseReason::BackendClosed, Duration::from_secs(2));
    scenario.server().finish(now, peer, reason, linger);
    let heard = scenario.outcome(0).up.1;
    scenario.run_for(Duration::from_secs(4));
    assert_eq!(scenario.ends(), [None, None], "it takes longer");
    scenario.run_for(Duration::from_secs(60));
    let outcome = scenario.outcome(0);
    assert_eq!(outcome.down, (900, 900));
    assert_eq!(outcome.up.1, heard, "nobody is there to hear more");
    let acked = scenario.client_stats(0).messages_acked;
    assert!(acked <= heard, "{acked} of {heard} messages");
    let ends = [Some(CloseReason::PeerDisconnect), Some(reason)];
    assert_eq!(scenario.ends(), ends);
}

/// A storm longer than a message is kept. The wire cannot repair that; it must not hide it either.
#[test]
fn a_storm_longer_than_the_history_ends_the_session_with_its_reason() {
    let params = Params {
        // One second, and half a second of grace.
        expired_time: 100,
        ..Params::default()
    };
    let traffic = Traffic {
        messages: 2_000,
        ..Traffic::default()
    };
    let weather = path(20, 0.0);
    let mut scenario = scenario(35, params, weather, &traffic, &traffic);
    scenario.run_for(Duration::from_secs(2));
    scenario.cut();
    scenario.run_for(Duration::from_secs(5));
    scenario.set_weather(weather, weather);
    scenario.run_for(Duration::from_secs(5));
    let ends = scenario.ends();
    assert!(
        ends.contains(&Some(CloseReason::PeerHistoryExpired)),
        "{ends:?}"
    );
    assert!(ends.iter().all(Option::is_some), "{ends:?}");
}

/// Of what was said into an outage nothing is left but its last message, which says that there was more.
#[test]
fn what_was_lost_for_good_is_told_though_nothing_follows() {
    let params = Params {
        expired_time: 100,
        ..Params::default()
    };
    for seed in 0..8 {
        let up = Traffic {
            messages: 40,
            begins: Duration::from_secs(2),
            ..Traffic::default()
        };
        let weather = path(20, 0.05);
        let mut scenario = scenario(seed, params, weather, &up, &Traffic::silent());
        scenario.run_for(Duration::from_millis(2_300));
        scenario.cut();
        scenario.run_for(Duration::from_secs(6));
        assert_eq!(scenario.ends(), [None, None], "seed {seed}");
        scenario.set_weather(weather, weather);
        scenario.run_for(Duration::from_secs(5));
        let (said, heard) = scenario.outcome(0).up;
        assert!(said == 40 && (1..40).contains(&heard), "{heard} of {said}");
        let [_, server] = scenario.ends();
        let gone = Some(CloseReason::PeerHistoryExpired);
        assert_eq!(server, gone, "seed {seed}: {heard} of {said}");
    }
}

/// Whoever hears no question for a while sends what its peer has no room for. What is lost of that may be gone before
/// it is asked for, and must not end in silence.
#[test]
fn a_sleeper_whose_questions_get_lost_is_not_left_in_the_dark() {
    let up = Traffic {
        messages: u64::MAX,
        reader_sleeps: Some(Duration::from_secs(6)),
        ..Traffic::default()
    };
    let down = Traffic {
        messages: 6_000,
        sizes: 0..=1_000,
        burst: 6_000,
        begins: Duration::from_millis(6_500),
        ..Traffic::default()
    };
    for seed in 0..16 {
        let mut scenario = scenario(seed, Params::default(), path(50, 0.0), &up, &down);
        scenario.set_weather(path(50, 0.5), path(50, 0.0));
        scenario.run_for(Duration::from_secs(12));
        scenario.set_weather(path(50, 0.0), path(50, 0.0));
        let is_told = |world: &World| {
            let outcome = world.outcome(0);
            let is_over = outcome.client_closed.is_some() && outcome.server_closed.is_some();
            is_over || outcome.down.1 == 6_000
        };
        let told = scenario.run_until(Duration::from_secs(60), is_told);
        assert!(told, "seed {seed}: {:?}", scenario.outcome(0));
    }
}

/// A question that comes late is answered with what its asker has long had, in many datagrams.
#[test]
fn answers_to_late_questions_are_no_other_life() {
    let down = Traffic {
        messages: 20_000,
        sizes: 20..=300,
        burst: 1_000,
        every: Duration::from_millis(200),
        ..Traffic::default()
    };
    let late = Conditions {
        reorder: (0.2, Duration::from_millis(400)),
        ..path(1, 0.0)
    };
    let bursts = Some((Duration::from_millis(10), Duration::from_millis(90)));
    let lossy = Conditions {
        bursts,
        ..path(1, 0.0)
    };
    for seed in 0..8 {
        let (up, calm) = (Traffic::silent(), path(1, 0.0));
        let mut scenario = scenario(seed, Params::default(), calm, &up, &down);
        scenario.set_weather(late, lossy);
        scenario.deliver_all_within(Duration::from_secs(60));
    }
}

/// A client speaks when it is asked and when it asks. In turn, so that of two datagrams one only answers: where every
/// other one is lost, that is all of its answers, or none. Or each output is an answer and a message.
#[test]
fn losses_in_turn_let_a_client_in() {
    let traffic = Traffic {
        messages: 20,
        sizes: 100..=200,
        ..Traffic::default()
    };
    let usual = Params::default();
    let two_in_each_output = Params {
        tick: Duration::from_millis(50),
        send_delay: 10,
        mtu: 64,
        send_queue_messages_max: 1,
        ..usual
    };
    for (params, turn, seed) in [usual, two_in_each_output]
        .into_iter()
        .flat_map(|params| [1, 2].map(|turn| (params, turn)))
        .flat_map(|(params, turn)| (0..8).map(move |seed| (params, turn, seed)))
    {
        let calm = path(5 + 10 * seed, 0.0);
        let every_other = Conditions {
            nth: (2, turn),
            ..calm
        };
        let mut scenario = scenario(seed, params, calm, &traffic, &traffic);
        scenario.set_weather(every_other, calm);
        scenario.deliver_all_within(Duration::from_secs(30));
    }
}

#[test]
fn no_backend_is_opened_for_an_address_that_was_not_probed() {
    let silent = Traffic::silent();
    let mut scenario = scenario(
        36,
        Params::default(),
        Conditions::default(),
        &silent,
        &silent,
    );
    for id in 0..1_000u16 {
        let mut datagram = Vec::new();
        wire::emit_message_header(&mut datagram, id, 2);
        datagram.extend_from_slice(b"hi");
        // A guess at what the probe asked.
        wire::emit_missing(&mut datagram, 0x4000 | id);
        wire::emit_missing(&mut datagram, 0x4000 | id.wrapping_mul(77) & 0x3fff);
        let handled = scenario.inject(client_address(7), &datagram);
        assert!(
            matches!(handled, Handled::Replied | Handled::Rejected(_)),
            "{handled:?}"
        );
    }
    assert!(scenario.server().is_empty());
}

/// A path that spreads datagrams over several links of which one is dead loses the same datagram of each output, as long
/// as all of them have as many.
#[test]
fn losses_in_turn_do_not_hit_the_same_datagram_for_ever() {
    let traffic = Traffic {
        messages: 24,
        sizes: 100..=300,
        every: Duration::from_millis(100),
        ..Traffic::default()
    };
    // One output each half second, with nearly every record in a datagram of its own.
    let params = Params {
        tick: Duration::from_millis(50),
        send_delay: 10,
        mtu: 64,
        ..Params::default()
    };
    let [mut together, mut alone] = [params, params];
    together.send_queue_messages_max = 1_024;
    alone.send_queue_messages_max = 1;
    let clear = path(20, 0.0);
    for params in [together, alone] {
        for (of, which) in (2..=5).flat_map(|of| (1..=of).map(move |which| (of, which))) {
            let in_turn = Conditions {
                nth: (of, which),
                ..clear
            };
            for weathers in [[in_turn, clear], [clear, in_turn], [in_turn, in_turn]] {
                let mut scenario = scenario(of.into(), params, clear, &traffic, &traffic);
                scenario.set_weather(weathers[0], weathers[1]);
                scenario.deliver_all_within(Duration::from_secs(60));
            }
        }
    }
}
