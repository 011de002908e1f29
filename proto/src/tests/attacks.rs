//! Attacks that are in no list we know of: each a few lines, and what it shows.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::games::{self, Game, Rules, client_address};
use super::liars::{Liar, Lie};
use crate::endpoint::Handled;
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, Way, World};
use crate::yojimbo::Params;

type Tape = Rc<RefCell<Vec<(usize, Way, Vec<u8>)>>>;

fn game(seed: u64) -> Game {
    Game::new(Rules::Yojimbo(Arc::new(Params::default())), seed)
}

/// Records everything that is sent, also what is lost on its way.
fn record(world: &mut World) -> Tape {
    let tape = Tape::default();
    let copy = tape.clone();
    world.set_watch(Box::new(move |client, way, datagram| {
        copy.borrow_mut().push((client, way, datagram.to_vec()));
    }));
    tape
}

fn recorded(tape: &Tape, wanted: Way) -> Vec<Vec<u8>> {
    let tape = tape.borrow();
    let of_way = tape.iter().filter(|(_, way, _)| *way == wanted);
    of_way.map(|(_, _, datagram)| datagram.clone()).collect()
}

fn chatter() -> Traffic {
    Traffic {
        messages: 400,
        every: Duration::from_millis(20),
        ..Traffic::default()
    }
}

fn cut() -> Conditions {
    Conditions {
        loss: 1.0,
        ..Conditions::default()
    }
}

/// A dead player's seat cannot be kept warm, neither with what the player said nor with what the
/// server said: only what is new and sealed for that direction counts as a sign of life.
#[test]
fn no_echo_and_no_recording_keeps_a_dead_session_alive() {
    for way in [Way::Up, Way::Down] {
        let traffic = chatter();
        let mut world = game(41).world(41, 1, Conditions::default(), &traffic, &traffic);
        let told = |_| (traffic.clone(), traffic.clone());
        let tape = record(&mut world);
        world.run_for(Duration::from_secs(2), told);
        world.set_weather(cut(), cut());
        world.run_for(Duration::from_millis(50), told);
        let old = tape.borrow().len();
        for _ in 0..60 {
            world.run_for(Duration::from_millis(100), told);
            let from = if way == Way::Up { 0 } else { old };
            // What the client says now never arrives; what arrived before comes again.
            let datagrams: Vec<_> = tape.borrow()[from..].to_vec();
            let is_known = |index: usize| way == Way::Down || index < old;
            for (index, (_, sent, datagram)) in datagrams.into_iter().enumerate() {
                if sent == way && is_known(from + index) {
                    world.inject(client_address(0), &datagram);
                }
            }
        }
        let outcome = world.outcome(0);
        assert_eq!(
            outcome.server_closed,
            Some(CloseReason::PeerTimeout),
            "{way:?}"
        );
        assert!(world.server().is_empty(), "{way:?}: its seat is free");
    }
}

/// Somebody behind the player's NAT swallows a datagram and sends it from another port, so that the
/// session follows the thief. The thief has no second datagram: the player gets the session back.
#[test]
fn a_session_that_was_lured_to_another_port_comes_back() {
    let traffic = chatter();
    let mut world = game(42).world(42, 1, Conditions::default(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    let tape = record(&mut world);
    world.run_for(Duration::from_secs(2), told);
    world.set_weather(cut(), Conditions::default());
    world.run_for(Duration::from_secs(2), told);
    let swallowed = recorded(&tape, Way::Up).pop().expect("the client speaks");
    let thief = SocketAddr::new(client_address(0).ip(), 6_666);
    let handled = world.inject(thief, &swallowed);
    assert!(matches!(handled, Handled::Moved(_)), "{handled:?}");
    let again = world.inject(thief, &swallowed);
    assert!(matches!(again, Handled::PeerRejected(..)), "{again:?}");
    world.set_weather(Conditions::default(), Conditions::default());
    assert!(
        world.run_until(Duration::from_secs(20), told, World::all_delivered),
        "{:?}",
        world.outcome(0)
    );
    let address = world.server().peers().next().map(|(_, address, _)| address);
    assert_eq!(address, Some(client_address(0)));
}

/// A NAT gives the player another port in the very moment in which it leaves: its goodbyes, ten in one instant and
/// never again, end the session, and its place is not held until the timeout.
#[test]
fn a_goodbye_right_behind_a_new_port_is_heard() {
    let traffic = chatter();
    let mut world = game(44).world(44, 1, Conditions::default(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    world.run_for(Duration::from_secs(1), told);
    world.move_client(0, SocketAddr::new(client_address(0).ip(), 6_667));
    let now = world.now();
    let (endpoint, peer) = world.client(0);
    endpoint.close(now, peer, CloseReason::Shutdown);
    world.run_for(Duration::from_millis(200), told);
    assert!(world.server().is_empty(), "the goodbye was heard");
}

/// Goodbyes of an earlier session, played from the same address while the player comes back with a
/// new token: neither the handshake nor the new session ends of them.
#[test]
fn an_old_goodbye_does_not_end_the_next_session() {
    let traffic = chatter();
    let mut game = game(43);
    let mut world = game.world(43, 1, Conditions::default(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    let tape = record(&mut world);
    world.run_for(Duration::from_secs(1), told);
    let now = world.now();
    let (endpoint, peer) = world.client(0);
    endpoint.close(now, peer, CloseReason::Shutdown);
    world.run_for(Duration::from_millis(200), told);
    assert!(world.server().is_empty(), "the first session is over");
    let goodbyes: Vec<_> = recorded(&tape, Way::Up)
        .into_iter()
        .rev()
        .take(10)
        .collect();
    let (endpoint, peer) = game.dial(world.now(), 1);
    world.add_client(endpoint, peer, client_address(0), traffic.clone(), &traffic);
    for _ in 0..200 {
        world.run_for(Duration::from_millis(100), told);
        for goodbye in &goodbyes {
            world.inject(client_address(0), goodbye);
        }
        if world.is_delivered(1) {
            break;
        }
    }
    let outcome = world.outcome(1);
    assert!(world.is_delivered(1), "{outcome:?}");
    assert_eq!(outcome.server_closed, None);
}

/// Players that take a seat and leave it at once, more of them than there are seats: every seat,
/// handshake and address is free again, and the last one finds the house empty.
#[test]
fn seats_taken_and_left_by_hundreds_are_all_free_again() {
    let silent = Traffic::silent();
    let mut game = game(44);
    let mut world = game.world(44, 0, Conditions::default(), &silent, &silent);
    let told = |_| (silent.clone(), silent.clone());
    for client in 0..300 {
        let (endpoint, peer) = game.dial(world.now(), client);
        let address = client_address(client % 3);
        world.add_client(endpoint, peer, address, silent.clone(), &silent);
        // A response follows its request after a tenth of a second.
        world.run_for(Duration::from_millis(150), told);
        assert!(world.outcome(client).connected, "client {client}");
        let now = world.now();
        let (endpoint, peer) = world.client(client);
        endpoint.close(now, peer, CloseReason::Shutdown);
        world.run_for(Duration::from_millis(5), told);
    }
    world.run_for(Duration::from_secs(1), told);
    assert!(world.server().is_empty());
    assert_eq!(world.server().handshakes_pending(), 0);
    world.drain_and_check();
}

/// The process is stopped for three seconds while bad clients fill its socket, and then finds all
/// of it at one point in time: honest players lose nothing, and none of them is timed out for a
/// silence that was the server's own.
#[test]
fn a_flood_found_after_a_stop_costs_honest_players_nothing() {
    let traffic = chatter();
    let mut game = game(45);
    let mut world = game.world(45, 2, Conditions::default(), &traffic, &traffic);
    let told = |_| (traffic.clone(), traffic.clone());
    for (client, lie) in (2..).zip(Lie::ALL) {
        let session = Liar::dial(&mut game, world.now(), client, lie);
        let (endpoint, peer) = games::dial(world.now(), session);
        world.add_client(
            endpoint,
            peer,
            client_address(client),
            traffic.clone(),
            &traffic,
        );
        world.distrust(client);
    }
    world.run_for(Duration::from_secs(2), told);
    world.pause_server(Duration::from_secs(3));
    world.run_for(Duration::from_secs(5), told);
    let heard = |world: &World| world.is_delivered(0) && world.is_delivered(1);
    assert!(
        world.run_until(Duration::from_secs(20), told, heard),
        "{:?} {:?}",
        world.outcome(0),
        world.outcome(1)
    );
    world.run_for(Duration::from_secs(30), told);
    for (client, lie) in (2..).zip(Lie::ALL) {
        let closed = world.outcome(client).server_closed;
        let expected = match lie {
            Lie::WindowEdge | Lie::FalseAcks | Lie::BlockCounts | Lie::Noise => {
                closed == Some(CloseReason::ProtocolViolation)
            }
            Lie::WithheldMessage | Lie::EndlessBlock => {
                closed == Some(CloseReason::PeerGapStall)
                    || closed == Some(CloseReason::PeerStalled)
            }
            // They break no rule: what they hold is bounded, and what they never acknowledge ends
            // them.
            Lie::FirstFragments | Lie::LastFragments | Lie::EmptyMessages | Lie::NoAcks => {
                closed == Some(CloseReason::PeerStalled)
            }
        };
        assert!(expected, "{lie:?} ended with {closed:?}");
    }
}
