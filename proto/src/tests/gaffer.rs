//! gaffer from end to end, in its reliable mode: the promises of yojimbo that need no keys.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules, client_address, server_address};
use crate::endpoint::Handled;
use crate::gaffer::Params;
use crate::gaffer::wire::Header;
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, World};
use crate::time::{Now, Timestamp};

fn world(seed: u64, weather: Conditions, up: &Traffic, down: &Traffic) -> World {
    let rules = Rules::Gaffer(Arc::new(Params::default()));
    Game::new(rules, seed).world(seed, 1, weather, up, down)
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
    let mut world = world(21, bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    let delivered = world.run_until(Duration::from_secs(60), told, World::all_delivered);
    assert!(delivered, "{:?}", world.outcome(0));
    let (up, down) = world.network();
    assert!(up.lost > 10 && down.lost > 10, "too kind: {up:?} {down:?}");
}

#[test]
fn messages_of_many_fragments_keep_their_order() {
    let traffic = Traffic {
        messages: 30,
        sizes: 900..=16_000,
        every: Duration::from_millis(100),
        ..Traffic::default()
    };
    let mut world = world(22, bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    assert!(
        world.run_until(Duration::from_secs(200), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
}

#[test]
fn a_backend_that_sleeps_slows_its_peer_and_loses_nothing() {
    let up = Traffic {
        messages: 3_000,
        sizes: 400..=500,
        every: Duration::from_millis(2),
        ..Traffic::default()
    };
    let down = Traffic {
        reader_sleeps: Some(Duration::from_secs(5)),
        ..Traffic::silent()
    };
    let weather = Conditions {
        delay: Duration::from_millis(10),
        loss: 0.02,
        ..Conditions::default()
    };
    let mut params = Params::default();
    (params.inbox_refuse_above, params.inbox_accept_below) = (64 * 1024, 16 * 1024);
    let rules = Rules::Gaffer(Arc::new(params));
    let mut world = Game::new(rules, 23).world(23, 1, weather, &up, &down);
    let told = |_| (up.clone(), down.clone());
    assert!(
        world.run_until(Duration::from_secs(300), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
    let peer = world.server_peers_of(0)[0];
    let refused = world
        .server()
        .stats(peer)
        .map_or(0, |stats| stats.packets_refused);
    assert!(refused > 0, "the backend was never slow enough");
}

/// A lost message of more than half a packet has to be sent again although others wait behind it.
#[test]
fn a_large_lost_message_is_sent_again_before_fresh_ones() {
    let up = Traffic {
        messages: 1_000,
        sizes: 900..=1_000,
        every: Duration::from_millis(2),
        ..Traffic::default()
    };
    let weather = Conditions {
        delay: Duration::from_millis(10),
        loss: 0.02,
        ..Conditions::default()
    };
    let down = Traffic::silent();
    let mut world = world(28, weather, &up, &down);
    let told = |_| (up.clone(), down.clone());
    assert!(
        world.run_until(Duration::from_secs(120), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
}

#[test]
fn silence_ends_a_session_on_both_sides() {
    // The client says nothing, so silence is what ends it and not what it waits for.
    let traffic = Traffic::silent();
    let mut world = world(24, Conditions::default(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    world.run_for(Duration::from_secs(20), told);
    assert!(world.outcome(0).client_closed.is_none(), "idle is not dead");
    let dead = Conditions {
        loss: 1.0,
        ..Conditions::default()
    };
    world.set_weather(dead, dead);
    world.run_for(Duration::from_secs(11), told);
    let outcome = world.outcome(0);
    assert_eq!(outcome.client_closed, Some(CloseReason::PeerTimeout));
    assert_eq!(outcome.server_closed, Some(CloseReason::PeerTimeout));
}

#[test]
fn no_backend_is_opened_for_an_address_that_was_not_probed() {
    let silent = Traffic::silent();
    let mut world = world(25, Conditions::default(), &silent, &silent);
    for sequence in 0..1_000u32 {
        let mut datagram = Vec::new();
        let header = Header {
            protocol_id: Params::default().protocol_id,
            sequence,
            // Half of them guess a number that was never told.
            ack: if sequence % 2 == 0 { 0 } else { sequence << 12 },
            ack_bits: if sequence % 2 == 0 { 0 } else { u32::MAX },
        };
        header.emit(&mut datagram);
        datagram.push(0);
        let handled = world.inject(client_address(7), &datagram);
        assert!(
            matches!(handled, Handled::Replied | Handled::Rejected(_)),
            "{handled:?}"
        );
    }
    assert!(world.server().is_empty());
}

#[test]
fn a_peer_that_leaves_is_heard_out_and_forgotten() {
    let traffic = Traffic {
        messages: 50,
        ..Traffic::default()
    };
    let mut world = world(26, Conditions::default(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    assert!(world.run_until(Duration::from_secs(10), told, World::all_delivered));
    let now = world.now();
    let (endpoint, peer) = world.client(0);
    let linger = Duration::from_secs(5);
    endpoint.finish(now, peer, CloseReason::BackendClosed, linger);
    world.run_for(Duration::from_secs(1), told);
    let outcome = world.outcome(0);
    assert_eq!(outcome.client_closed, Some(CloseReason::BackendClosed));
    assert_eq!(outcome.server_closed, Some(CloseReason::PeerDisconnect));
    assert!(world.server().is_empty(), "its slot is free");
}

/// A packet that was under way when its session ended proved its address once more and opened
/// another session, which lacked what the first one had acknowledged.
#[test]
fn what_is_under_way_when_a_session_ends_opens_no_other() {
    let params = Arc::new(Params::default());
    let mut game = Game::new(Rules::Gaffer(params), 27);
    let mut now = Now {
        mono: Timestamp::from_millis(1),
        unix_secs: 0,
    };
    let mut server = game.server(0);
    let (mut client, peer) = game.dial(now, 0);
    let (mut under_way, mut out, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..10 {
        now = now.after(Duration::from_millis(40));
        client.handle_timeout(now);
        client.send(now, peer, 0, b"once").ok();
        while client.poll_transmit(now, &mut out).is_some() {
            under_way.push(out.clone());
            let (from, mut datagram) = (client_address(0), std::mem::take(&mut out));
            if let Handled::Accepted(id) =
                server.handle_datagram(now, from, &mut datagram, &mut reply)
            {
                server.admit(now, id);
            }
            if !reply.is_empty() {
                client.handle_datagram(now, server_address(), &mut reply.clone(), &mut out);
            }
        }
    }
    let peers: Vec<_> = server.peers().map(|(id, ..)| id).collect();
    assert_eq!(peers.len(), 1, "the session was real");
    server.close(now, peers[0], CloseReason::Kicked);
    server.remove(peers[0]);
    while server.poll_transmit(now, &mut out).is_some() {}
    for datagram in &under_way {
        let from = client_address(0);
        let handled = server.handle_datagram(now, from, &mut datagram.clone(), &mut reply);
        assert!(!matches!(handled, Handled::Accepted(_)), "{handled:?}");
    }
    assert!(server.is_empty());
    // Nor is the address shut out: who dials again gets in.
    let (mut client, _) = game.dial(now, 0);
    for _ in 0..10 {
        now = now.after(Duration::from_millis(40));
        client.handle_timeout(now);
        while client.poll_transmit(now, &mut out).is_some() {
            let mut datagram = std::mem::take(&mut out);
            server.handle_datagram(now, client_address(0), &mut datagram, &mut reply);
            if !reply.is_empty() {
                client.handle_datagram(now, server_address(), &mut reply.clone(), &mut out);
            }
        }
    }
    assert_eq!(server.len(), 1);
}
