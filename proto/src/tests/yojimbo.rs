//! yojimbo from end to end: real handshakes, real encryption, a network that is bad.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::games::{self, Game, Rules, START, client_address, server_address};
use super::scenario::{Scenario, bad_weather, dead, path};
use crate::endpoint::Handled;
use crate::sender::QueueLimits;
use crate::session::{AckPolicy, CloseReason, Event};
use crate::sim::{Conditions, Traffic, World};
use crate::time::Now;
use crate::yojimbo::Params;
use crate::yojimbo::channels::{ChannelLayout, Delivery, Layout, MessageType};
use crate::yojimbo::reliable::Limits;

fn game(params: Params, seed: u64) -> Game {
    Game::new(Rules::Yojimbo(Arc::new(params)), seed)
}

fn scenario(seed: u64, weather: Conditions, up: &Traffic, down: &Traffic) -> Scenario {
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

/// Both ways over a little loss, between two ends with this layout.
fn deliver(channel: ChannelLayout, messages: Vec<MessageType>, traffic: &Traffic) {
    let layout = Layout::new(vec![channel], messages, Limits::default()).unwrap();
    let params = Params::new(layout, crate::sender::Params::default());
    let weather = path(20, 0.05);
    let mut scenario = Scenario::new(&mut game(params, 17), 1, weather, traffic, traffic);
    scenario.deliver_all_within(Duration::from_secs(100));
    assert!(scenario.network().0.lost > 0);
}

/// As yojimbo 1.2.1 has it. Nothing of what tidegates tell each other has a place behind it, so nobody asks.
#[test]
fn packets_with_a_check_word_carry_frames_of_all_sizes_and_blocks() {
    let layout = Layout::default().with_check_word().unwrap();
    let params = Params::new(layout, crate::sender::Params::default()).with_path_mtu(9_000, true);
    let traffic = Traffic {
        messages: 60,
        sizes: 0..=20_000,
        ..Traffic::default()
    };
    for seed in 0..4 {
        let mut game = game(params.clone(), seed);
        let mut scenario = Scenario::new(&mut game, 1, bad_weather(), &traffic, &traffic);
        scenario.deliver_all_within(Duration::from_secs(200));
        let stats = scenario.client_stats(0);
        assert!(stats.datagram_bytes <= 1_186, "{stats:?}");
    }
    let frames = Traffic {
        sizes: 0..=3_000,
        ..traffic
    };
    let mut game = game(params, 4).with_library_clients();
    let mut scenario = Scenario::new(&mut game, 1, path(20, 0.02), &frames, &frames);
    scenario.deliver_all_within(Duration::from_secs(200));
}

/// A client whose code has this layout, before a server of the default one: how the session ends.
fn misfit(layout: Layout, says: &Traffic) -> [Option<CloseReason>; 2] {
    let client = Params::new(layout, crate::sender::Params::default());
    let mut game = game(Params::default(), 23).dialled_by(Rules::Yojimbo(Arc::new(client)));
    let silent = Traffic::silent();
    let mut scenario = Scenario::new(&mut game, 1, path(5, 0.0), says, &silent);
    scenario.run_for(Duration::from_secs(2));
    scenario.ends()
}

/// The fields of its packets shift in such a way that most can be read, and say nothing.
#[test]
fn another_number_of_channels_is_noticed() {
    let default = Layout::default();
    for count in [1, 3, 4] {
        let mut channels = default.channels().to_vec();
        channels.resize(count, default.channels()[1]);
        let messages = default.messages().to_vec();
        let layout = Layout::new(channels, messages, Limits::default()).unwrap();
        let ends = misfit(layout, &Traffic::default());
        let violation = Some(CloseReason::ProtocolViolation);
        assert!(ends.contains(&violation), "{count} channels: {ends:?}");
    }
}

/// Of yojimbo 1.2.1, whose first packet in most games carries nothing yet; and the other way round.
#[test]
fn a_check_word_on_one_side_only_is_noticed() {
    let with = || Layout::default().with_check_word().unwrap();
    let violation = Some(CloseReason::ProtocolViolation);
    let ends = misfit(with(), &Traffic::default());
    assert!(ends.contains(&violation), "{ends:?}");
    let plain = |layout| Arc::new(Params::new(layout, crate::sender::Params::default()));
    for (client, server) in [(with(), Layout::default()), (Layout::default(), with())] {
        let mut game = Game::new(Rules::Yojimbo(plain(server)), 5)
            .dialled_by(Rules::Yojimbo(plain(client)))
            .with_library_clients();
        let silent = Traffic::silent();
        let mut scenario = Scenario::new(&mut game, 1, path(5, 0.0), &silent, &silent);
        scenario.run_for(Duration::from_secs(2));
        let [_, server] = scenario.ends();
        assert_eq!(server, violation);
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
        queues: QueueLimits {
            outbox_bytes_max: 4096,
            ..QueueLimits::default()
        },
        ..crate::sender::Params::default()
    };
    let mut game = game(Params::new(Layout::default(), sender), 19);
    let mut scenario = Scenario::new(&mut game, 1, path(5, 0.0), &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(60));
}

/// A message between the lengths of two types is a block, although a longer one is none.
#[test]
fn what_no_type_of_message_takes_is_a_block() {
    let short = MessageType::Bytes { min: 0, max: 20 };
    let long = MessageType::Bytes {
        min: 200,
        max: 1000,
    };
    let traffic = Traffic {
        messages: 100,
        sizes: 0..=1500,
        ..Traffic::default()
    };
    let channel = ChannelLayout::new(Delivery::ReliableOrdered);
    deliver(channel, vec![short, MessageType::Block, long], &traffic);
}

/// Two bytes whose upper four bits are not zero are no message of 12 bits.
#[test]
fn bits_that_do_not_travel_are_not_cut_off() {
    let traffic = Traffic {
        messages: 200,
        sizes: 2..=2,
        ..Traffic::default()
    };
    let bytes = MessageType::Bytes { min: 0, max: 9 };
    let channel = ChannelLayout::new(Delivery::ReliableOrdered);
    deliver(channel, vec![MessageType::Bits(12), bytes], &traffic);
}

/// A client with a short `messageReceiveQueueSize` ends the connection when an id goes beyond it.
#[test]
fn a_short_receive_queue_is_not_run_over() {
    let channel = ChannelLayout {
        receive_window: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let traffic = Traffic {
        messages: 2_000,
        burst: 500,
        sizes: 0..=4,
        ..Traffic::default()
    };
    let frame = MessageType::Bytes { min: 0, max: 7000 };
    deliver(channel, vec![frame], &traffic);
}

#[test]
fn a_block_may_have_more_than_256_fragments() {
    let channel = ChannelLayout {
        block_fragment_size: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let traffic = Traffic {
        messages: 5,
        sizes: 20_000..=40_000,
        ..Traffic::default()
    };
    deliver(channel, vec![MessageType::Block], &traffic);
}

#[test]
fn a_fragment_of_a_block_may_be_longer_than_a_datagram() {
    let channel = ChannelLayout {
        block_fragment_size: 3000,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let traffic = Traffic {
        messages: 10,
        sizes: 100..=20_000,
        ..Traffic::default()
    };
    let frame = MessageType::Bytes { min: 0, max: 100 };
    deliver(channel, vec![frame, MessageType::Block], &traffic);
}

#[test]
fn strict_acknowledgements_wait_for_the_write() {
    let params = Params {
        ack: AckPolicy::Strict,
        ..Params::default()
    };
    let traffic = Traffic {
        messages: 300,
        sizes: 0..=300,
        ..Traffic::default()
    };
    let mut game = game(params, 11);
    let mut scenario = Scenario::new(&mut game, 1, bad_weather(), &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(60));
    assert!(scenario.network().0.lost > 10);
}

/// What is said first leaves behind the answer to the challenge, and waits for the backend to be opened.
#[test]
fn who_speaks_first_is_answered_after_two_round_trips() {
    let once = Traffic {
        messages: 1,
        sizes: 64..=64,
        ..Traffic::default()
    };
    for library_server in [false, true] {
        let mut game = game(Params::default(), 5);
        if library_server {
            game = game.with_library_server();
        }
        let mut scenario = Scenario::echoed(&mut game, path(25, 0.0), &once);
        // The library looks at its socket sixty times a second.
        let span = Duration::from_millis(if library_server { 130 } else { 105 });
        scenario.run_for(span);
        let answered = (scenario.outcome(0).up, scenario.outcome(0).down);
        assert_eq!(answered, ((1, 1), (1, 1)), "{library_server}");
    }
}

/// Where the answer got lost, so did what was said behind it. It goes again, and that is no sign of the path.
#[test]
fn what_is_said_behind_an_answer_that_got_lost_goes_again() {
    for ends in [60, 100, 250] {
        let often = Traffic {
            messages: 100,
            sizes: 400..=800,
            ..Traffic::default()
        };
        let mut scenario = scenario(9, path(25, 0.0), &often, &often);
        let there = path(25, 0.0);
        scenario.run_for(Duration::from_millis(40));
        scenario.set_weather(dead(), there);
        scenario.run_for(Duration::from_millis(ends));
        let lost = scenario.network().0.lost;
        assert!(lost > 3, "{lost} were lost");
        scenario.set_weather(there, there);
        scenario.deliver_all_within(Duration::from_secs(5));
        let stats = scenario.client_stats(0);
        assert_eq!((stats.packets_lost, stats.loss), (0, 0.0), "{ends} ms");
    }
}

/// Over a long path the answer goes again before it can have been heard. What was said behind it does not.
#[test]
fn what_is_said_early_over_a_long_path_goes_once() {
    for millis in [40, 75, 150, 400] {
        let says = Traffic {
            messages: 60,
            sizes: 100..=200,
            ..Traffic::default()
        };
        let mut scenario = scenario(4, path(millis, 0.0), &says, &says);
        scenario.deliver_all_within(Duration::from_secs(10));
        let stats = scenario.client_stats(0);
        let went = (stats.messages_acked, stats.messages_resent);
        assert_eq!(went, (60, 0), "{millis} ms");
    }
}

/// To a client that was heard no keep-alive goes in front of payloads. Where the first one got lost, a server that speaks
/// all the time says no other, so its payloads tell the client that it is in.
#[test]
fn a_client_whose_keep_alive_got_lost_is_in_all_the_same() {
    let says = Traffic {
        messages: 120,
        unreliable: true,
        ..Traffic::default()
    };
    for library_server in [false, true] {
        for seed in 0..100 {
            let mut game = game(Params::default(), seed);
            if library_server {
                game = game.with_library_server();
            }
            let mut scenario = Scenario::new(&mut game, 1, path(25, 0.1), &says, &says);
            scenario.deliver_all_within(Duration::from_secs(20));
            assert!(scenario.network().1.lost > 0);
        }
    }
}

/// A program that says something and is gone before its session is let in.
#[test]
fn last_words_that_are_the_first_arrive() {
    let once = Traffic {
        messages: 1,
        sizes: 3_000..=3_000,
        ..Traffic::default()
    };
    let mut early = 0;
    for seed in 0..20 {
        let mut scenario = scenario(seed, path(25, 0.2), &once, &Traffic::silent());
        scenario.run_for(Duration::from_millis(60));
        let outcome = scenario.outcome(0);
        if outcome.connected || outcome.up.0 == 0 {
            continue;
        }
        early += 1;
        scenario.leave();
        scenario.deliver_all_within(Duration::from_secs(5));
        scenario.run_for(Duration::from_secs(1));
        let ends = [CloseReason::BackendClosed, CloseReason::PeerDisconnect];
        assert_eq!(scenario.ends(), ends.map(Some), "seed {seed}");
    }
    assert!(early > 10, "{early} were early");
}

#[test]
fn nobody_is_seated_in_front_of_a_dead_backend() {
    let traffic = Traffic::default();
    let mut scenario = scenario(14, Conditions::default(), &traffic, &traffic);
    scenario.set_backend_up(false);
    scenario.run_for(Duration::from_secs(3));
    let outcome = scenario.outcome(0);
    assert!(!outcome.connected);
    assert_eq!(outcome.client_closed, Some(CloseReason::Denied));
}

/// A backend that takes the connection and closes it in the same turn, before the client was told that it is in, having
/// said `said` or nothing. What the client hears and how its session ends, and what the server knows to have arrived.
fn behind_a_backend_that_is_gone_at_once(
    said: Option<&[u8]>,
) -> (Vec<Vec<u8>>, Option<CloseReason>, u64) {
    let mut game = game(Params::default(), 19);
    let mut time = Now {
        mono: crate::Timestamp::from_millis(1),
        unix_secs: START,
    };
    let mut server = game.server(START - 100);
    let (mut client, peer) = game.dial(time, 0);
    let (mut heard, mut ended, mut acked) = (Vec::new(), None, 0);
    let (mut out, mut reply) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        time = time.after(Duration::from_millis(20));
        client.handle_timeout(time);
        server.handle_timeout(time);
        while client.poll_transmit(time, &mut out).is_some() {
            let mut datagram = std::mem::take(&mut out);
            let handled =
                server.handle_datagram(time, client_address(0), &mut datagram, &mut reply);
            if let Handled::Accepted(id) = handled {
                server.admit(time, id);
                if let Some(message) = said {
                    server.send(time, id, 0, message).expect("there is room");
                }
                let linger = Duration::from_secs(5);
                server.finish(time, id, CloseReason::BackendClosed, linger);
            }
            if !reply.is_empty() {
                client.handle_datagram(time, server_address(), &mut reply.clone(), &mut Vec::new());
            }
        }
        while server.poll_transmit(time, &mut out).is_some() {
            let mut datagram = std::mem::take(&mut out);
            client.handle_datagram(time, server_address(), &mut datagram, &mut Vec::new());
        }
        for (_, _, session) in server.peers() {
            acked = session.stats().messages_acked;
        }
        while let Some(message) = client.poll_message(peer) {
            heard.push(message.payload.to_vec());
        }
        while let Some((_, event)) = client.poll_event() {
            if let Event::Closed(reason) = event {
                ended = Some(reason);
            }
        }
    }
    (heard, ended, acked)
}

/// The client that still asks to be let in does not listen to goodbyes, and would ask until its token expired.
#[test]
fn a_client_whose_backend_is_gone_at_once_is_denied() {
    let (heard, ended, _) = behind_a_backend_that_is_gone_at_once(None);
    assert!(heard.is_empty());
    assert_eq!(ended, Some(CloseReason::Denied));
}

/// "This match is full", say. It was delivered, but what the client acknowledged was not taken, and so the goodbye came
/// after the whole linger.
#[test]
fn the_last_words_of_a_backend_that_is_gone_at_once_arrive() {
    let (heard, ended, acked) = behind_a_backend_that_is_gone_at_once(Some(b"full"));
    assert_eq!(heard, [b"full"]);
    assert_eq!(ended, Some(CloseReason::PeerDisconnect));
    assert_eq!(acked, 1);
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

#[test]
fn a_recorded_session_seats_nobody_when_it_is_played_again() {
    let mut game = game(Params::default(), 16);
    let now = Now {
        mono: crate::Timestamp::from_millis(1),
        unix_secs: START,
    };
    let mut server = game.server(START - 100);
    let (mut client, peer) = game.dial(now, 0);
    let (mut recorded, mut out, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    let mut time = now;
    for _ in 0..200 {
        time = time.after(Duration::from_millis(20));
        client.handle_timeout(time);
        server.handle_timeout(time);
        if client.has_room(peer) {
            client
                .send(time, peer, 0, b"deliver me once")
                .expect("there is room");
        }
        while client.poll_transmit(time, &mut out).is_some() {
            recorded.push(out.clone());
            if let Handled::Accepted(id) = server.handle_datagram(
                time,
                client_address(0),
                &mut std::mem::take(&mut out),
                &mut reply,
            ) {
                server.admit(time, id);
            }
            if !reply.is_empty() {
                client.handle_datagram(time, server_address(), &mut reply.clone(), &mut Vec::new());
            }
        }
        while server.poll_transmit(time, &mut out).is_some() {
            client.handle_datagram(
                time,
                server_address(),
                &mut std::mem::take(&mut out),
                &mut Vec::new(),
            );
        }
    }
    let peers: Vec<_> = server.peers().map(|(id, ..)| id).collect();
    assert_eq!(peers.len(), 1, "the session was real");
    server.close(time, peers[0], CloseReason::Kicked);
    server.let_go(peers[0]);
    while server.poll_transmit(time, &mut out).is_some() {}
    for pause in [0, 1, 28] {
        time = time.after(Duration::from_secs(pause));
        for datagram in &recorded {
            let handled =
                server.handle_datagram(time, client_address(0), &mut datagram.clone(), &mut reply);
            assert!(matches!(handled, Handled::Rejected(_)), "{handled:?}");
            assert!(reply.is_empty(), "nothing is said to a recording");
        }
    }
    assert!(server.is_empty());
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

/// Players whose program was killed say no goodbye. Whoever comes next does not wait for that, and
/// their seats are free after the timeout.
#[test]
fn clients_that_vanish_delay_nobody() {
    let silent = Traffic::silent();
    let mut game = game(Params::default(), 19);
    let mut scenario = Scenario::new(&mut game, 30, path(20, 0.0), &silent, &silent);
    scenario.run_for(Duration::from_secs(2));
    for client in 0..30 {
        assert!(scenario.outcome(client).connected, "client {client}");
        *scenario.client(client).0 = games::nobody();
    }
    for client in 30..60 {
        let (endpoint, peer) = game.dial(scenario.now(), client);
        let address = client_address(client);
        scenario.add_client(endpoint, peer, address, silent.clone(), &silent);
    }
    scenario.run_for(Duration::from_secs(1));
    assert_eq!(scenario.server().len(), 60, "nobody timed out yet");
    for client in 30..60 {
        assert!(scenario.outcome(client).connected, "client {client}");
    }
    scenario.run_for(Duration::from_secs(6));
    assert_eq!(scenario.server().len(), 30);
}
