//! Attacks that are in no list we know of: each a few lines, and what it shows.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::games::{self, Game, Rules, client_address};
use super::liars::{Liar, Lie};
use super::scenario::{Scenario, dead};
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

/// One player and the server chat, over a path that is good and short.
fn scenario(game: &mut Game) -> Scenario {
    Scenario::new(game, 1, Conditions::default(), &chatter(), &chatter())
}

/// A dead player's seat cannot be kept warm, neither with what the player said nor with what the
/// server said: only what is new and sealed for that direction counts as a sign of life.
#[test]
fn no_echo_and_no_recording_keeps_a_dead_session_alive() {
    for way in [Way::Up, Way::Down] {
        let mut scenario = scenario(&mut game(41));
        let tape = record(&mut scenario);
        scenario.run_for(Duration::from_secs(2));
        scenario.cut();
        scenario.run_for(Duration::from_millis(50));
        let old = tape.borrow().len();
        for _ in 0..60 {
            scenario.run_for(Duration::from_millis(100));
            let from = if way == Way::Up { 0 } else { old };
            // What the client says now never arrives; what arrived before comes again.
            let datagrams: Vec<_> = tape.borrow()[from..].to_vec();
            let is_known = |index: usize| way == Way::Down || index < old;
            for (index, (_, sent, datagram)) in datagrams.into_iter().enumerate() {
                if sent == way && is_known(from + index) {
                    scenario.inject(client_address(0), &datagram);
                }
            }
        }
        let [_, server] = scenario.ends();
        assert_eq!(server, Some(CloseReason::PeerTimeout), "{way:?}");
        assert!(scenario.server().is_empty(), "{way:?}: its seat is free");
    }
}

/// Somebody behind the player's NAT swallows a datagram and sends it from another port, so that the
/// session follows the thief. The thief has no second datagram: the player gets the session back.
#[test]
fn a_session_that_was_lured_to_another_port_comes_back() {
    let mut scenario = scenario(&mut game(42));
    let tape = record(&mut scenario);
    scenario.run_for(Duration::from_secs(2));
    scenario.set_weather(dead(), Conditions::default());
    scenario.run_for(Duration::from_secs(2));
    let swallowed = recorded(&tape, Way::Up).pop().expect("the client speaks");
    let thief = SocketAddr::new(client_address(0).ip(), 6_666);
    let handled = scenario.inject(thief, &swallowed);
    assert!(matches!(handled, Handled::Moved(_)), "{handled:?}");
    let again = scenario.inject(thief, &swallowed);
    assert!(matches!(again, Handled::PeerRejected(..)), "{again:?}");
    scenario.set_weather(Conditions::default(), Conditions::default());
    scenario.deliver_all_within(Duration::from_secs(20));
    let address = scenario
        .server()
        .peers()
        .next()
        .map(|(_, address, _)| address);
    assert_eq!(address, Some(client_address(0)));
}

/// A NAT gives the player another port in the very moment in which it leaves: its goodbyes, ten in one instant and
/// never again, end the session, and its place is not held until the timeout.
#[test]
fn a_goodbye_right_behind_a_new_port_is_heard() {
    let mut scenario = scenario(&mut game(44));
    scenario.run_for(Duration::from_secs(1));
    scenario.move_client(0, SocketAddr::new(client_address(0).ip(), 6_667));
    let now = scenario.now();
    let (endpoint, peer) = scenario.client(0);
    endpoint.close(now, peer, CloseReason::Shutdown);
    scenario.run_for(Duration::from_millis(200));
    assert!(scenario.server().is_empty(), "the goodbye was heard");
}

/// Goodbyes of an earlier session, played from the same address while the player comes back with a
/// new token: neither the handshake nor the new session ends of them.
#[test]
fn an_old_goodbye_does_not_end_the_next_session() {
    let mut game = game(43);
    let mut scenario = scenario(&mut game);
    let tape = record(&mut scenario);
    scenario.run_for(Duration::from_secs(1));
    let now = scenario.now();
    let (endpoint, peer) = scenario.client(0);
    endpoint.close(now, peer, CloseReason::Shutdown);
    scenario.run_for(Duration::from_millis(200));
    assert!(scenario.server().is_empty(), "the first session is over");
    let goodbyes: Vec<_> = recorded(&tape, Way::Up)
        .into_iter()
        .rev()
        .take(10)
        .collect();
    let (endpoint, peer) = game.dial(scenario.now(), 1);
    scenario.add_client(endpoint, peer, client_address(0), chatter(), &chatter());
    for _ in 0..200 {
        scenario.run_for(Duration::from_millis(100));
        for goodbye in &goodbyes {
            scenario.inject(client_address(0), goodbye);
        }
        if scenario.is_delivered(1) {
            break;
        }
    }
    let outcome = scenario.outcome(1);
    assert!(scenario.is_delivered(1), "{outcome:?}");
    assert_eq!(outcome.server_closed, None);
}

/// All that a player said, played from its address when its session is over: at once, a moment later, and as its token
/// expires.
#[test]
fn a_recorded_session_seats_nobody_when_it_is_played_again() {
    let mut scenario = scenario(&mut game(16));
    let tape = record(&mut scenario);
    scenario.run_for(Duration::from_secs(4));
    let now = scenario.now();
    let peers = scenario.server_peers_of(0);
    assert_eq!(peers.len(), 1, "the session was real");
    scenario.server().close(now, peers[0], CloseReason::Kicked);
    *scenario.client(0).0 = games::nobody();
    scenario.run_for(Duration::from_millis(100));
    let said = scenario.network().1.offered;
    for pause in [0, 1, 28] {
        scenario.run_for(Duration::from_secs(pause));
        for datagram in recorded(&tape, Way::Up) {
            let handled = scenario.inject(client_address(0), &datagram);
            assert!(matches!(handled, Handled::Rejected(_)), "{handled:?}");
        }
    }
    let answers = scenario.network().1.offered - said;
    assert_eq!(answers, 0, "nothing is said to a recording");
    assert!(scenario.server().is_empty());
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
