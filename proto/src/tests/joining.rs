//! How players of yojimbo are let in: what is said meanwhile, what gets lost, and who is not.

use std::time::Duration;

use super::games::{self, START, client_address, server_address};
use super::scenario::{Scenario, dead, path};
use super::yojimbo::{game, scenario};
use crate::endpoint::Handled;
use crate::session::{CloseReason, Event};
use crate::sim::{Conditions, Traffic};
use crate::time::Now;
use crate::yojimbo::Params;

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
