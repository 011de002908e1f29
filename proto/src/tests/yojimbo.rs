//! yojimbo from end to end: real handshakes, real encryption, a network that is bad.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules, client_address};
use super::scenario::{Scenario, bad_weather, path};
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, World};
use crate::yojimbo::Params;
use crate::yojimbo::channels::Layout;

pub(super) fn game(params: Params, seed: u64) -> Game {
    Game::new(Rules::Yojimbo(Arc::new(params)), seed)
}

pub(super) fn scenario(seed: u64, weather: Conditions, up: &Traffic, down: &Traffic) -> Scenario {
    Scenario::new(&mut game(Params::default(), seed), 1, weather, up, down)
}

#[test]
fn a_perfect_network_costs_no_repeats() {
    let traffic = Traffic {
        messages: 500,
        sizes: 64..=64,
        ..Traffic::default()
    };
    let weather = path(25, 0.0);
    let mut scenario = scenario(8, weather, &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(30));
    let stats = scenario.client_stats(0);
    assert_eq!(stats.messages_resent, 0, "{stats:?}");
    assert!(stats.messages_repeated <= 5, "{stats:?}");
    let latencies = scenario.latencies_up(0);
    let worst = latencies.iter().max().expect("messages were heard");
    assert!(
        *worst <= Duration::from_millis(40),
        "{worst:?} over a path of 25 ms"
    );
}

#[test]
fn frames_of_all_sizes_and_blocks_keep_their_order() {
    let up = Traffic {
        messages: 30,
        sizes: 0..=60_000,
        every: Duration::from_millis(100),
        ..Traffic::default()
    };
    let down = Traffic {
        messages: 150,
        sizes: 6_900..=7_000,
        ..Traffic::default()
    };
    let weather = path(20, 0.05);
    let mut scenario = scenario(9, weather, &up, &down);
    scenario.deliver_all_within(Duration::from_secs(300));
}

/// A path that spreads datagrams over several links of which one is dead loses the same ones of each packet, as often as
/// it goes in the same order.
#[test]
fn losses_in_turn_do_not_hit_the_same_fragment_for_ever() {
    let traffic = Traffic {
        messages: 10,
        every: Duration::from_millis(100),
        ..Traffic::default()
    };
    for (of, size) in [2, 3, 4, 5]
        .into_iter()
        .flat_map(|of| [1_200, 2_200, 4_000, 7_000].map(|size| (of, size)))
    {
        let traffic = Traffic {
            sizes: size..=size,
            ..traffic.clone()
        };
        let in_turn = Conditions {
            nth: (of, 1),
            ..path(20, 0.0)
        };
        let mut scenario = scenario(of.into(), path(20, 0.0), &traffic, &traffic);
        scenario.set_weather(in_turn, in_turn);
        scenario.deliver_all_within(Duration::from_secs(30));
        let (up, down) = scenario.network();
        for way in [up, down] {
            assert!(way.lost * 2 > way.offered / u64::from(of), "{way:?}");
        }
    }
}

/// Nor do they hold up a game of large messages: what waits is little, so each of its packets may go again under its number
/// until nothing of it is missing, however seldom the peer has a packet of its own to acknowledge with.
#[test]
fn losses_in_turn_do_not_hold_up_large_messages() {
    for (of, which, every) in [3, 4]
        .into_iter()
        .flat_map(|of| (1..=of).map(move |which| (of, which)))
        .flat_map(|(of, which)| [33, 100].map(|every| (of, which, every)))
    {
        let traffic = Traffic {
            messages: 60,
            sizes: 3_000..=4_000,
            every: Duration::from_millis(every),
            ..Traffic::default()
        };
        for (delay, down) in [5, 20]
            .into_iter()
            .flat_map(|delay| [&traffic, &Traffic::silent()].map(|down| (delay, down.clone())))
        {
            let in_turn = Conditions {
                nth: (of, which),
                ..path(delay, 0.0)
            };
            let mut scenario = scenario(900 + delay, path(delay, 0.0), &traffic, &down);
            scenario.run_for(Duration::from_secs(1));
            scenario.set_weather(in_turn, in_turn);
            scenario.deliver_all_within(Duration::from_secs(60));
            let way = scenario.network().0;
            assert!(way.lost * 2 > way.offered / u64::from(of), "{way:?}");
        }
    }
}

/// Nor a game of small ones, which has copies: where every second packet is lost, the oldest message soon goes twice in a
/// row.
#[test]
fn losses_in_turn_hold_up_no_game_for_seconds() {
    for (delay, every) in [10, 25]
        .into_iter()
        .flat_map(|delay| [17, 50].map(|every| (delay, every)))
    {
        let says = Traffic {
            messages: u64::MAX,
            sizes: 64..=64,
            every: Duration::from_millis(every),
            ..Traffic::default()
        };
        let in_turn = Conditions {
            nth: (2, 1),
            jitter: Duration::from_millis(5),
            ..path(delay, 0.0)
        };
        let mut took = Vec::new();
        for seed in 0..4 {
            let mut game = game(Params::default(), seed);
            let mut scenario = Scenario::echoed(&mut game, path(delay, 0.0), &says);
            scenario.run_for(Duration::from_secs(1));
            scenario.set_weather(in_turn, in_turn);
            scenario.run_for(Duration::from_secs(20));
            for way in <[_; 2]>::from(scenario.network()) {
                assert!(way.lost * 5 > way.offered * 2, "{way:?}");
            }
            took.extend(scenario.round_trips(0));
        }
        took.sort_unstable();
        let most = took[took.len() * 99 / 100];
        assert!(
            most < Duration::from_secs(1),
            "{delay} ms, each {every} ms: {most:?}"
        );
    }
}

/// Who plays a game of large messages on a bad radio link hears most of its answers within a few repeats.
#[test]
fn large_messages_come_back_soon_where_one_datagram_in_four_is_lost() {
    let says = Traffic {
        messages: u64::MAX,
        sizes: 3_000..=3_500,
        every: Duration::from_millis(100),
        ..Traffic::default()
    };
    let mut took = Vec::new();
    for seed in 0..12 {
        let mut game = game(Params::default(), seed);
        let mut scenario = Scenario::echoed(&mut game, path(5, 0.25), &says);
        scenario.run_for(Duration::from_secs(20));
        for way in <[_; 2]>::from(scenario.network()) {
            assert!(way.lost * 5 > way.offered, "{way:?}");
        }
        took.extend(scenario.round_trips(0));
    }
    assert!(took.len() > 12 * 190, "{} messages back", took.len());
    took.sort_unstable();
    let [median, p90] = [50, 90].map(|percent| took[took.len() * percent / 100]);
    assert!(median < Duration::from_millis(120), "{median:?}");
    assert!(p90 < Duration::from_millis(450), "{p90:?}");
}

/// A peer with nothing to say is probed ever more rarely, until keep-alives leave between: every other datagram is one.
#[test]
fn probes_do_not_keep_step_with_keep_alives() {
    for (delay, which, messages) in [60, 70, 80, 90, 100]
        .into_iter()
        .flat_map(|delay| [1, 2].map(|which| (delay, which)))
        .flat_map(|(delay, which)| (1..8).map(move |messages| (delay, which, messages)))
    {
        let traffic = Traffic {
            messages,
            sizes: 600..=600,
            // The session has lasted by then, so that its keep-alives are as rare as they get.
            begins: Duration::from_secs(20),
            every: Duration::from_millis(300),
            ..Traffic::default()
        };
        let in_turn = Conditions {
            nth: (2, which),
            ..path(delay, 0.0)
        };
        let mut scenario = scenario(messages, path(delay, 0.0), &traffic, &Traffic::silent());
        scenario.run_for(Duration::from_secs(20));
        scenario.set_weather(in_turn, path(delay, 0.0));
        scenario.deliver_all_within(Duration::from_secs(30));
    }
}

/// A queue that is shorter than the longest message takes that one too, and the backend is read.
#[test]
fn a_queue_shorter_than_a_message_is_no_dead_end() {
    let traffic = Traffic {
        messages: 60,
        sizes: 0..=20_000,
        ..Traffic::default()
    };
    let sender = crate::sender::Params {
        outbox_bytes_max: 4096,
        ..crate::sender::Params::default()
    };
    let mut game = game(Params::new(Layout::default(), sender), 19);
    let mut scenario = Scenario::new(&mut game, 1, path(5, 0.0), &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(60));
}

#[test]
fn a_session_follows_its_peer_through_a_new_nat_port() {
    let traffic = Traffic {
        messages: 1_000,
        ..Traffic::default()
    };
    let mut scenario = scenario(15, bad_weather(), &traffic, &traffic);
    for port in 50_001..50_005 {
        scenario.run_for(Duration::from_secs(2));
        scenario.move_client(0, SocketAddr::new(client_address(0).ip(), port));
    }
    scenario.deliver_all_within(Duration::from_secs(60));
    assert_eq!(
        scenario
            .server()
            .peers()
            .next()
            .map(|(_, address, _)| address.port()),
        Some(50_004)
    );
}

/// A router that was restarted gives out its ports anew: players get each other's, two of them or three in a ring.
#[test]
fn sessions_follow_peers_who_got_each_others_ports() {
    let traffic = Traffic {
        messages: 1_000,
        ..Traffic::default()
    };
    let mut game = game(Params::default(), 17);
    let mut world = game.world(17, 0, bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    let at = |port| SocketAddr::new(client_address(0).ip(), port);
    for (client, port) in (0..5).zip(50_001..) {
        let (endpoint, peer) = game.dial(world.now(), client);
        world.add_client(endpoint, peer, at(port), traffic.clone(), &traffic);
    }
    for ports in [
        [50_002, 50_001, 50_005, 50_003, 50_004],
        [50_003, 50_004, 50_001, 50_002, 50_005],
    ] {
        world.run_for(Duration::from_secs(2), told);
        for (client, port) in ports.into_iter().enumerate() {
            world.move_client(client, at(port));
        }
    }
    assert!(
        world.run_until(Duration::from_secs(60), told, World::all_delivered),
        "{:?}",
        [0, 1, 2, 3, 4].map(|client| world.outcome(client))
    );
    let mut ports: Vec<u16> = world
        .server()
        .peers()
        .map(|(_, address, _)| address.port())
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [50_001, 50_002, 50_003, 50_004, 50_005]);
}

/// A netcode goodbye acknowledges nothing, so what was heard just before it is acknowledged first:
/// otherwise the other end counts messages as lost that were delivered.
#[test]
fn what_was_heard_is_acknowledged_before_the_goodbye() {
    let down = Traffic {
        messages: 50,
        ..Traffic::default()
    };
    let weather = path(5, 0.0);
    let silent = Traffic::silent();
    let mut scenario = scenario(9, weather, &silent, &down);
    scenario.deliver_all_within(Duration::from_secs(10));
    scenario.leave();
    scenario.run_for(Duration::from_millis(100));
    assert_eq!(scenario.ends()[1], Some(CloseReason::PeerDisconnect));
    assert_eq!(scenario.server().retired().messages_acked, 50);
}

/// What says nothing back has to be acknowledged all the same, and soon: the outbox is bounded.
#[test]
fn blocks_one_way_are_acknowledged_as_they_come() {
    let up = Traffic {
        messages: 100,
        sizes: 7_001..=7_100,
        every: Duration::from_millis(200),
        ..Traffic::default()
    };
    let mut scenario = scenario(18, path(20, 0.0), &up, &Traffic::silent());
    scenario.deliver_all_within(Duration::from_secs(30));
    let latencies = scenario.latencies_up(0);
    let worst = latencies.iter().max().expect("blocks were heard");
    assert!(*worst < Duration::from_millis(500), "{worst:?}");
    scenario.run_for(Duration::from_millis(500));
    let stats = scenario.client_stats(0);
    let left = (stats.messages_acked, stats.outbox_messages);
    assert_eq!(left, (100, 0), "{stats:?}");
}
