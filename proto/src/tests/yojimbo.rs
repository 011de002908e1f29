//! yojimbo from end to end: real handshakes, real encryption, a network that is bad.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules, START, client_address, server_address};
use crate::endpoint::Handled;
use crate::session::{AckPolicy, CloseReason};
use crate::sim::{Conditions, Traffic, World};
use crate::time::Now;
use crate::yojimbo::Params;

fn game(params: Params, seed: u64) -> Game {
    Game::new(Rules::Yojimbo(Arc::new(params)), seed)
}

/// A world with `clients` that all say `up` and are told `down`.
fn world(
    seed: u64,
    clients: usize,
    params: Params,
    weather: Conditions,
    up: &Traffic,
    down: &Traffic,
) -> World {
    game(params, seed).world(seed, clients, weather, up, down)
}

fn bad_weather() -> Conditions {
    Conditions {
        delay: Duration::from_millis(40),
        jitter: Duration::from_millis(10),
        loss: 0.1,
        duplicate: 0.05,
        reorder: (0.05, Duration::from_millis(60)),
        ..Conditions::default()
    }
}

#[test]
fn loss_reordering_and_duplicates_are_invisible_to_both_ends() {
    let traffic = Traffic {
        messages: 300,
        sizes: 0..=600,
        unreliable: true,
        ..Traffic::default()
    };
    let mut world = world(7, 3, Params::default(), bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    let delivered = world.run_until(Duration::from_secs(60), told, World::all_delivered);
    assert!(
        delivered,
        "{:?}",
        (0..3).map(|c| world.outcome(c)).collect::<Vec<_>>()
    );
    let (up, down) = world.network();
    assert!(
        up.lost > 50 && down.lost > 50 && up.duplicated > 20,
        "too kind a network: {up:?} {down:?}"
    );
}

#[test]
fn a_perfect_network_costs_no_repeats() {
    let traffic = Traffic {
        messages: 500,
        sizes: 64..=64,
        ..Traffic::default()
    };
    let weather = Conditions {
        delay: Duration::from_millis(25),
        ..Conditions::default()
    };
    let mut world = world(8, 1, Params::default(), weather, &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    assert!(world.run_until(Duration::from_secs(30), told, World::all_delivered));
    let stats = world.client_stats(0);
    assert_eq!(stats.messages_resent, 0, "{stats:?}");
    assert!(stats.messages_repeated <= 5, "{stats:?}");
    let latencies = world.latencies_up(0);
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
    let weather = Conditions {
        loss: 0.05,
        delay: Duration::from_millis(20),
        ..Conditions::default()
    };
    let mut world = world(9, 1, Params::default(), weather, &up, &down);
    let told = |_| (up.clone(), down.clone());
    assert!(
        world.run_until(Duration::from_secs(300), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
}

#[test]
fn a_backend_that_sleeps_slows_its_peer_and_loses_nothing() {
    let up = Traffic {
        messages: 3_000,
        sizes: 900..=1_000,
        every: Duration::from_millis(2),
        ..Traffic::default()
    };
    let down = Traffic {
        reader_sleeps: Some(Duration::from_secs(3)),
        ..Traffic::silent()
    };
    let weather = Conditions {
        delay: Duration::from_millis(10),
        loss: 0.02,
        ..Conditions::default()
    };
    let mut world = world(10, 1, Params::default(), weather, &up, &down);
    let told = |_| (up.clone(), down.clone());
    assert!(
        world.run_until(Duration::from_secs(200), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
    let peers: Vec<_> = world
        .server()
        .peers()
        .map(|(_, _, session)| session.stats())
        .collect();
    assert!(
        peers[0].packets_refused > 0,
        "the backend was never slow enough to prove anything"
    );
}

#[test]
fn strict_acknowledgements_wait_for_the_write() {
    let params = Params {
        ack: AckPolicy::Written,
        ..Params::default()
    };
    let traffic = Traffic {
        messages: 300,
        sizes: 0..=300,
        ..Traffic::default()
    };
    let mut world = world(11, 1, params, bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    assert!(
        world.run_until(Duration::from_secs(60), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
    assert!(world.network().0.lost > 10);
}

#[test]
fn a_peer_that_leaves_is_heard_out_and_forgotten() {
    let traffic = Traffic {
        messages: 50,
        ..Traffic::default()
    };
    let mut world = world(
        12,
        1,
        Params::default(),
        Conditions::default(),
        &traffic,
        &traffic,
    );
    let told = |_| (traffic.clone(), traffic.clone());
    assert!(world.run_until(Duration::from_secs(10), told, World::all_delivered));
    let now = world.now();
    let (endpoint, peer) = world.client(0);
    endpoint.finish(
        now,
        peer,
        CloseReason::BackendClosed,
        Duration::from_secs(5),
    );
    world.run_for(Duration::from_secs(1), told);
    let outcome = world.outcome(0);
    assert_eq!(outcome.client_closed, Some(CloseReason::BackendClosed));
    assert_eq!(outcome.server_closed, Some(CloseReason::PeerDisconnect));
    assert!(world.server().is_empty(), "its slot is free");
}

/// A megabyte said in the last moment, over a path that needs far longer than the linger for it.
#[test]
fn a_slow_path_gets_the_time_it_needs_to_hear_the_end() {
    let up = Traffic {
        messages: 900,
        sizes: 1_000..=1_000,
        every: Duration::from_millis(1),
        burst: 900,
        ..Traffic::default()
    };
    let down = Traffic::silent();
    let thin = Conditions {
        delay: Duration::from_millis(30),
        rate: 400_000,
        ..Conditions::default()
    };
    let mut world = world(17, 1, Params::default(), thin, &up, &down);
    let told = |_| (up.clone(), down.clone());
    let all_said = |world: &World| world.outcome(0).up.0 == 900;
    assert!(world.run_until(Duration::from_secs(10), told, all_said));
    let now = world.now();
    let (endpoint, peer) = world.client(0);
    endpoint.finish(
        now,
        peer,
        CloseReason::BackendClosed,
        Duration::from_secs(5),
    );
    let over = |world: &World| world.outcome(0).client_closed.is_some();
    assert!(world.run_until(Duration::from_secs(120), told, over));
    let lasted = world.now().mono.since(now.mono);
    assert!(
        lasted > Duration::from_secs(6),
        "too quick a path: {lasted:?}"
    );
    assert_eq!(world.outcome(0).up, (900, 900), "after {lasted:?}");
}

#[test]
fn silence_ends_a_session_on_both_sides() {
    let traffic = Traffic {
        messages: 10_000,
        ..Traffic::default()
    };
    let mut world = world(
        13,
        1,
        Params::default(),
        Conditions::default(),
        &traffic,
        &traffic,
    );
    let told = |_| (traffic.clone(), traffic.clone());
    world.run_for(Duration::from_secs(2), told);
    let dead = Conditions {
        loss: 1.0,
        ..Conditions::default()
    };
    world.set_weather(dead, dead);
    world.run_for(Duration::from_secs(6), told);
    let outcome = world.outcome(0);
    assert_eq!(outcome.client_closed, Some(CloseReason::PeerTimeout));
    assert_eq!(outcome.server_closed, Some(CloseReason::PeerTimeout));
    assert!(
        outcome.up.1 > 0 && outcome.up.1 <= outcome.up.0,
        "{outcome:?}"
    );
}

#[test]
fn nobody_is_seated_in_front_of_a_dead_backend() {
    let traffic = Traffic::default();
    let mut world = world(
        14,
        1,
        Params::default(),
        Conditions::default(),
        &traffic,
        &traffic,
    );
    world.set_backend_up(false);
    world.run_for(Duration::from_secs(3), |_| {
        (traffic.clone(), traffic.clone())
    });
    let outcome = world.outcome(0);
    assert!(!outcome.connected);
    assert_eq!(outcome.client_closed, Some(CloseReason::Denied));
}

#[test]
fn a_session_follows_its_peer_through_a_new_nat_port() {
    let traffic = Traffic {
        messages: 1_000,
        ..Traffic::default()
    };
    let mut world = world(15, 1, Params::default(), bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    for port in 50_001..50_005 {
        world.run_for(Duration::from_secs(2), told);
        world.move_client(0, SocketAddr::new(client_address(0).ip(), port));
    }
    assert!(
        world.run_until(Duration::from_secs(60), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
    assert_eq!(
        world
            .server()
            .peers()
            .next()
            .map(|(_, address, _)| address.port()),
        Some(50_004)
    );
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
    server.remove(peers[0]);
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
    let weather = Conditions {
        delay: Duration::from_millis(5),
        ..Conditions::default()
    };
    let silent = Traffic::silent();
    let mut world = world(9, 1, Params::default(), weather, &silent, &down);
    let told = |_| (silent.clone(), down.clone());
    assert!(world.run_until(Duration::from_secs(10), told, World::all_delivered));
    let now = world.now();
    let (endpoint, peer) = world.client(0);
    endpoint.finish(
        now,
        peer,
        CloseReason::BackendClosed,
        Duration::from_secs(5),
    );
    world.run_for(Duration::from_millis(100), told);
    let closed = world.outcome(0).server_closed;
    assert_eq!(closed, Some(CloseReason::PeerDisconnect));
    assert_eq!(world.server().retired().messages_acked, 50);
}
