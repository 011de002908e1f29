//! rudp from end to end: what holds without acknowledgements, and what ends when it cannot hold.

use std::time::Duration;

use super::games::{Game, Rules, client_address};
use crate::endpoint::Handled;
use crate::rudp::{Params, wire};
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, World};

fn world(seed: u64, params: Params, weather: Conditions, up: &Traffic, down: &Traffic) -> World {
    Game::new(Rules::Rudp(params), seed).world(seed, 1, weather, up, down)
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
        messages: 500,
        sizes: 0..=1_400,
        ..Traffic::default()
    };
    let mut world = world(31, Params::default(), bad_weather(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    let delivered = world.run_until(Duration::from_secs(60), told, World::all_delivered);
    assert!(delivered, "{:?}", world.outcome(0));
    let (up, down) = world.network();
    assert!(up.lost > 10 && down.lost > 10, "too kind: {up:?} {down:?}");
}

#[test]
fn a_lost_last_message_arrives_without_anything_behind_it() {
    // One message a second: each is the last one for a long time, and one in three is lost.
    let up = Traffic {
        messages: 30,
        every: Duration::from_secs(1),
        ..Traffic::default()
    };
    let weather = Conditions {
        loss: 0.33,
        delay: Duration::from_millis(20),
        ..Conditions::default()
    };
    let down = Traffic::silent();
    let mut world = world(32, Params::default(), weather, &up, &down);
    let told = |_| (up.clone(), down.clone());
    assert!(world.run_until(Duration::from_secs(40), told, World::all_delivered));
    let worst = world.latencies_up(0).into_iter().max();
    assert!(worst < Some(Duration::from_secs(3)), "{worst:?}");
}

#[test]
fn a_backend_that_sleeps_slows_its_peer_and_loses_nothing() {
    let up = Traffic {
        messages: 1_500,
        sizes: 900..=1_000,
        every: Duration::from_millis(2),
        ..Traffic::default()
    };
    let down = Traffic {
        reader_sleeps: Some(Duration::from_secs(2)),
        ..Traffic::silent()
    };
    let weather = Conditions {
        delay: Duration::from_millis(10),
        loss: 0.02,
        ..Conditions::default()
    };
    let params = Params {
        inbox_refuse_above: 64 * 1024,
        inbox_accept_below: 16 * 1024,
        ..Params::default()
    };
    let mut world = world(33, params, weather, &up, &down);
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

#[test]
fn silence_ends_a_session_on_both_sides() {
    let silent = Traffic::silent();
    let mut world = world(
        34,
        Params::default(),
        Conditions::default(),
        &silent,
        &silent,
    );
    let told = |_| (silent.clone(), silent.clone());
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
    let weather = Conditions {
        delay: Duration::from_millis(20),
        ..Conditions::default()
    };
    let mut world = world(35, params, weather, &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    world.run_for(Duration::from_secs(2), told);
    let dead = Conditions {
        loss: 1.0,
        ..weather
    };
    world.set_weather(dead, dead);
    world.run_for(Duration::from_secs(5), told);
    world.set_weather(weather, weather);
    world.run_for(Duration::from_secs(5), told);
    let outcome = world.outcome(0);
    let ends = [outcome.client_closed, outcome.server_closed];
    assert!(
        ends.contains(&Some(CloseReason::PeerHistoryExpired)),
        "{outcome:?}"
    );
    assert!(ends.iter().all(Option::is_some), "{outcome:?}");
}

#[test]
fn no_backend_is_opened_for_an_address_that_was_not_probed() {
    let silent = Traffic::silent();
    let mut world = world(
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
        let handled = world.inject(client_address(7), &datagram);
        assert!(
            matches!(handled, Handled::Replied | Handled::Rejected(_)),
            "{handled:?}"
        );
    }
    assert!(world.server().is_empty());
}
