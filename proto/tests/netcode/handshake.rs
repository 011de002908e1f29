//! Who gets in, who does not, and what that costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::session::{CloseReason, Event, Reject, Session, StrangerClass};
use tidegate_proto::time::{Now, Timestamp};
use tidegate_proto::yojimbo::Connector;
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Packet, Proof, Role};
use tidegate_proto::yojimbo::netcode::wire::Kind;
use tidegate_proto::yojimbo::netcode::{
    Client, ClientState, ConnectToken, Key, Outcome, Params, Received, Roster, RosterParams,
    TimeoutPolicy,
};

use crate::world::*;

#[test]
fn a_client_connects_and_both_sides_talk() {
    let mut server = Server::new();
    let (link, sent) = connect(&mut server, 0, address(HOME), mint(7, 1, EPOCH));
    let mut link = link.expect("connected");
    assert_eq!(sent.len(), 2, "one request, one response");
    let peer = &server.peers[&address(HOME)];
    assert_eq!((peer.seat.client_id(), peer.seat.slot()), (7, 0));

    let up = seal(&mut link, at(300), b"hello");
    server.receive(at(320), address(HOME), &up);
    assert_eq!(server.delivered, [b"hello"]);
    let mut down = server.send(at(340), address(HOME), b"welcome");
    assert_eq!(
        down.len(),
        1,
        "a confirmed client needs no keep-alive first"
    );
    let received = link.open(at(360), &mut down[0]).unwrap();
    assert!(matches!(
        received,
        Received::Payload {
            bytes: b"welcome",
            ..
        }
    ));

    for goodbye in goodbyes(&mut link, at(400)) {
        server.receive(at(420), address(HOME), &goodbye);
    }
    assert_eq!(
        server.roster.seated(),
        0,
        "slot and client id are free again"
    );
    assert_eq!(
        server.rejects,
        [Reject::UnknownPeer; 9],
        "nobody is left to read the other nine"
    );
}

/// Late in a server's life is as good as early (once a port took clients for 5 seconds only).
#[test]
fn the_server_takes_clients_at_any_age() {
    let mut server = Server::new();
    for (n, millis) in [6_000, 3_600_000, 1 << 31, 1 << 40].into_iter().enumerate() {
        let token = mint(n as u64, n as u8, at(millis).unix_secs);
        let (link, _) = connect(&mut server, millis, address(HOME), token);
        let mut link = link.unwrap_or_else(|| panic!("at {millis} ms: {:?}", server.rejects));
        for goodbye in goodbyes(&mut link, at(millis + 500)) {
            server.receive(at(millis + 500), address(HOME), &goodbye);
        }
    }
}

/// Two round trips are what a join takes; ten packets a second are for what got lost.
#[test]
fn a_challenge_is_answered_at_once_and_again_every_tenth_of_a_second() {
    let mut server = Server::new();
    let from = address(HOME);
    let mut client = Client::new(at(0), mint(7, 1, EPOCH));
    let request = transmit(&mut client, at(0)).unwrap();
    assert!(
        transmit(&mut client, at(19)).is_none(),
        "not asked again yet"
    );
    let mut challenge = server.receive(at(10), from, &request).unwrap();
    hear(&mut client, at(20), &mut challenge);
    assert!(
        client
            .poll_timeout()
            .is_some_and(|wake| wake.at <= at(20).mono)
    );
    assert!(transmit(&mut client, at(20)).is_some());
    assert!(transmit(&mut client, at(119)).is_none());
    assert!(transmit(&mut client, at(120)).is_some());
}

/// The client is told nothing until its backend is there, and may be told no.
#[test]
fn seating_waits_for_the_backend() {
    for is_backend_there in [true, false] {
        let mut server = Server::new();
        let from = address(HOME);
        let mut client = Client::new(at(0), mint(7, 1, EPOCH));
        let request = transmit(&mut client, at(0)).unwrap();
        let mut challenge = server.receive(at(10), from, &request).unwrap();
        hear(&mut client, at(20), &mut challenge);
        let mut response = transmit(&mut client, at(20)).unwrap();
        let mut reply = Vec::new();
        let outcome = server.judge(at(30), from, &mut response, &mut reply);
        let Ok(Outcome::Seated(mut seated)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(reply.is_empty(), "seated, and not yet told so");
        assert_eq!(server.roster.seated(), 1, "the slot is taken all the same");

        // It keeps asking, which keeps it alive and does nothing else.
        let mut again = transmit(&mut client, at(5_000)).unwrap();
        assert_eq!(
            seated.link.open(at(5_000), &mut again),
            Ok(Received::Handshake)
        );
        assert!(!seated.link.is_timed_out(at(9_999)));
        assert!(seated.link.is_timed_out(at(10_000)));
        assert!(
            !seated.link.is_keep_alive_due(at(9_000)),
            "nothing is sent while it waits"
        );

        let mut answer = Vec::new();
        if is_backend_there {
            seated.link.admit(at(5_100), None, &mut answer);
            hear(&mut client, at(5_110), &mut answer);
            assert_eq!(client.state(), ClientState::Connected);
            assert!(!seated.link.deny(&mut answer), "too late to deny");
        } else {
            assert!(seated.link.deny(&mut answer));
            let first = answer.clone();
            hear(&mut client, at(5_110), &mut answer);
            client.handle_timeout(at(5_110));
            assert_eq!(client.state(), ClientState::Denied);
            answer.clear();
            seated.link.deny(&mut answer);
            assert_eq!(answer, first, "a nonce says one thing only, however often");
        }
        drop(seated);
        assert_eq!(server.roster.seated(), 0);
    }
}

/// What a client says behind its answer is taken, and nothing else before it is admitted; that is good afterwards.
#[test]
fn who_answered_may_speak_before_it_is_told() {
    let mut server = Server::new();
    let (token, from) = (mint(7, 1, EPOCH), address(HOME));
    let mut client = challenged_client(&mut server, at(0), from, token.clone());
    let mut response = transmit(&mut client, at(100)).unwrap();
    let outcome = server.judge(at(100), from, &mut response, &mut Vec::new());
    let Ok(Outcome::Seated(mut seated)) = outcome else {
        panic!("{outcome:?}");
    };
    let says = |kind, sequence, what: &[u8]| {
        let mut said = Vec::new();
        let key = &token.client_to_server;
        packet::emit(&mut said, key, PROTOCOL, kind, sequence, what);
        said
    };
    let mut early = says(Kind::Payload, 9, b"early");
    let opened = seated.link.open(at(105), &mut early);
    let (sequence, bytes) = (9, b"early".as_slice());
    assert_eq!(opened, Ok(Received::Payload { sequence, bytes }));
    assert!(
        !seated.link.is_confirmed(),
        "it was not told yet that it is in"
    );
    let mut keep_alive = says(Kind::KeepAlive, 10, &[0; 8]);
    let mut copy = keep_alive.clone();
    let refused = seated.link.open(at(110), &mut copy);
    assert_eq!(refused, Err(Reject::Unexpected));
    seated.link.admit(at(120), None, &mut Vec::new());
    assert!(!seated.link.is_confirmed());
    assert!(
        seated.link.open(at(130), &mut keep_alive).is_ok(),
        "its sequence was not used up"
    );
    assert!(seated.link.is_confirmed());
}

/// Responses count only with a challenge that was given to this very handshake.
#[test]
fn a_challenge_belongs_to_its_token_its_address_and_its_handshake() {
    let (alice, bob) = (address("192.0.2.1:1"), address("192.0.2.2:2"));
    let mut server = Server::new();
    let (first, second, third) = (mint(1, 1, EPOCH), mint(2, 2, EPOCH), mint(3, 3, EPOCH));
    let mut ask = |now, from, token: &ConnectToken| -> (u64, [u8; 300]) {
        let mut request = Vec::new();
        token.emit_request(&mut request);
        let mut reply = server.receive(now, from, &request).expect("a challenge");
        let opened = packet::open(
            Role::Client,
            &token.server_to_client,
            PROTOCOL,
            &mut Beyond::default(),
            None,
            &mut reply,
        );
        let Ok(Packet::Challenge(Proof { sequence, token })) = opened else {
            panic!("{opened:?}");
        };
        (sequence, *token)
    };
    let for_first = ask(at(0), alice, &first);
    let for_second = ask(at(0), bob, &second);
    let for_third = ask(at(0), alice, &third); // replaces the first handshake of this address

    let respond = |(sequence, challenge): (u64, [u8; 300]), token: &ConnectToken| {
        let mut out = Vec::new();
        let plain = packet::proof_bytes(sequence, &challenge);
        packet::emit(
            &mut out,
            &token.client_to_server,
            PROTOCOL,
            Kind::Response,
            5,
            &plain,
        );
        out
    };
    let altered = (for_third.0, for_second.1);
    for (what, from, answer, token, reject) in [
        (
            "of another token",
            bob,
            for_third,
            &second,
            Reject::ChallengeFailed,
        ),
        (
            "of an earlier token of this address",
            alice,
            for_first,
            &third,
            Reject::ChallengeFailed,
        ),
        (
            "with its contents exchanged",
            alice,
            altered,
            &third,
            Reject::ChallengeFailed,
        ),
        (
            "sealed with the earlier token",
            alice,
            for_first,
            &first,
            Reject::DecryptFailed,
        ),
        (
            "from an address that never asked",
            address(HOME),
            for_third,
            &third,
            Reject::UnknownPeer,
        ),
        (
            "from the other's address",
            bob,
            for_third,
            &third,
            Reject::DecryptFailed,
        ),
    ] {
        server.rejects.clear();
        server.receive(at(100), from, &respond(answer, token));
        assert_eq!(server.rejects, [reject], "a challenge {what}");
    }
    assert_eq!(server.seatings, 0);
    server.rejects.clear();
    server.receive(at(5_001), alice, &respond(for_third, &third));
    assert_eq!(
        server.rejects,
        [Reject::UnknownPeer],
        "after its handshake ran out"
    );
    server.receive(at(5_000), bob, &respond(for_second, &second));
    assert_eq!(server.seatings, 0, "everybody's ran out");
    assert_eq!(server.handshake.pending(), 0);
}

/// The nearest valid case to the test above: in time, the same response is good.
#[test]
fn the_last_moment_of_a_handshake_is_its_timeout() {
    for (millis, seatings) in [(5_000, 1), (5_001, 0)] {
        let mut server = Server::new();
        let token = mint(1, 1, EPOCH);
        let mut client = challenged_client(&mut server, at(0), address(HOME), token);
        let response = transmit(&mut client, at(4_000)).unwrap();
        server.receive(at(millis), address(HOME), &response);
        assert_eq!(server.seatings, seatings, "at {millis} ms");
    }
}

/// A server under a flood gives the way on to those who have begun, and pays nothing for nonsense.
#[test]
fn a_class_tells_whose_handshake_is_under_way() {
    let mut server = Server::new();
    let mut client = Client::new(at(0), mint(7, 1, EPOCH));
    let request = transmit(&mut client, at(0)).unwrap();
    let mut garbled = request.clone();
    garbled[500] ^= 1;
    server.receive(at(0), address(HOME), &garbled);
    let mut challenge = server.receive(at(1), address(HOME), &request).unwrap();
    hear(&mut client, at(2), &mut challenge);
    let response = transmit(&mut client, at(200)).unwrap();
    let elsewhere = address("192.0.2.66:6");
    let mut other_game = request.clone();
    other_game[14] ^= 1;
    let [mut short, mut other_token, late] = [(); 3].map(|()| request.clone());
    short.pop();
    other_token[1077] ^= 1;
    for (now, from, datagram) in [
        (at(3), address(HOME), &request),
        (at(3), address(HOME), &other_token),
        (at(3), elsewhere, &response),
        (at(3), elsewhere, &other_game),
        (at(3), elsewhere, &short),
        (at(3), address(HOME), &vec![1; 40]),
        (at(3), address(HOME), &vec![0x15; 40]),
        (at(3), address(HOME), &vec![0x14; 40]),
        (at(3), elsewhere, &vec![1; 40]),
        (at(200), address(HOME), &response),
        (at(40_000), elsewhere, &late),
    ] {
        server.receive(now, from, datagram);
    }
    assert_eq!(
        server.classes,
        [
            Ok(StrangerClass::Unproven),
            Ok(StrangerClass::Unproven),
            Ok(StrangerClass::Awaited),
            Ok(StrangerClass::Unproven),
            Ok(StrangerClass::Stray),
            Err(Reject::WrongProtocol),
            Err(Reject::Malformed),
            Err(Reject::Malformed),
            Ok(StrangerClass::Early),
            Err(Reject::Unexpected),
            Ok(StrangerClass::Stray),
            Ok(StrangerClass::Awaited),
            Err(Reject::TokenExpired),
        ]
    );
    assert_eq!(server.seatings, 1);
}

/// A client that asks for longer than it has fresh challenges gets the last one again.
#[test]
fn challenges_are_bounded_and_any_of_them_may_be_answered() {
    for answered in [0, 15, 39] {
        let mut server = Server::new();
        let token = mint(1, 1, EPOCH);
        let mut request = Vec::new();
        token.emit_request(&mut request);
        let challenges: Vec<_> = (0..40)
            .map(|n| {
                server
                    .receive(at(n * 100), address(HOME), &request)
                    .unwrap()
            })
            .collect();
        let mut client = Client::new(at(0), token);
        let mut challenge = challenges[answered].clone();
        hear(&mut client, at(4_000), &mut challenge);
        let response = transmit(&mut client, at(4_000)).unwrap();
        server.receive(at(4_000), address(HOME), &response);
        assert_eq!(server.seatings, 1, "challenge {answered}");
    }
}

#[test]
fn a_full_server_denies_before_and_after_the_challenge() {
    let mut server = Server::with(params(), 1, EPOCH - 3600);
    let late = address("192.0.2.2:2");
    let mut client = challenged_client(&mut server, at(0), late, mint(2, 2, EPOCH));
    let (first, _) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    assert!(first.is_some());

    let response = transmit(&mut client, at(100)).unwrap();
    let mut denied = server.receive(at(100), late, &response).unwrap();
    assert_eq!(denied.len(), 25);
    hear(&mut client, at(110), &mut denied);
    client.handle_timeout(at(110));
    assert_eq!(client.state(), ClientState::Denied);

    let (third, sent) = connect(&mut server, 200, address("192.0.2.3:3"), mint(3, 3, EPOCH));
    assert!(third.is_none());
    assert_eq!(sent.len(), 1);
    assert_eq!(server.denials, [Reject::Full, Reject::Full]);
    server.handshake.handle_timeout(at(5_001));
    let left = (server.handshake.pending(), server.roster.seated());
    assert_eq!(left, (0, 1), "who was refused leaves nothing behind");
}

#[test]
fn a_refusing_listener_denies_whoever_has_a_genuine_token() {
    let mut server = Server::new();
    server.refusing = Some(Reject::Draining);
    let (link, sent) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    assert!(link.is_none());
    assert_eq!(
        (sent.len(), server.denials.as_slice()),
        (1, [Reject::Draining].as_slice())
    );
    server.refusing = None;
    let from = address("192.0.2.2:2");
    let mut late = challenged_client(&mut server, at(100), from, mint(2, 2, EPOCH));
    server.refusing = Some(Reject::Draining);
    let response = transmit(&mut late, at(200)).unwrap();
    let denied = server.receive(at(200), from, &response).unwrap();
    assert_eq!(denied.len(), 25, "whoever was on the way is denied too");
    server.refusing = None;
    let (link, _) = connect(&mut server, 300, address(HOME), mint(1, 1, EPOCH));
    assert!(link.is_some(), "a denied token was not consumed");
}

#[test]
fn one_session_for_each_client_id() {
    let mut server = Server::new();
    let (first, _) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    let (again, _) = connect(&mut server, 300, address("192.0.2.9:9"), mint(1, 2, EPOCH));
    assert!(first.is_some() && again.is_none());
    assert!(server.rejects.iter().all(|r| *r == Reject::ClientIdInUse));
    assert!(!server.rejects.is_empty());
}

/// Two handshakes of one client id race; the second response finds the seat taken.
#[test]
fn the_client_id_is_checked_again_when_the_response_comes() {
    let mut server = Server::new();
    let mut slow = challenged_client(&mut server, at(0), address(HOME), mint(1, 1, EPOCH));
    let (fast, _) = connect(&mut server, 0, address("192.0.2.9:9"), mint(1, 2, EPOCH));
    assert!(fast.is_some());
    let response = transmit(&mut slow, at(200)).unwrap();
    assert_eq!(server.receive(at(200), address(HOME), &response), None);
    assert_eq!(server.rejects, [Reject::ClientIdInUse]);
}

#[test]
fn handshakes_are_bounded_and_make_room_in_time() {
    let mut params = params();
    params.max_pending = 3;
    let mut server = Server::with(params, 16, EPOCH - 3600);
    let mut ask = |now: Now, number: u8| {
        let mut request = Vec::new();
        mint(number.into(), number, EPOCH).emit_request(&mut request);
        let from = address(&format!("192.0.2.{number}:1"));
        server.receive(now, from, &request).is_some()
    };
    assert_eq!(
        [1, 2, 3, 4].map(|n| ask(at(0), n)),
        [true, true, true, false]
    );
    assert!(ask(at(1_000), 1), "a known handshake goes on");
    assert!(
        !ask(at(5_000), 4),
        "exactly at the timeout they still count"
    );
    assert!(ask(at(5_001), 4));
    assert_eq!(
        server.handshake.pending(),
        2,
        "one was renewed, two ran out, one is new"
    );
    assert_eq!(server.rejects, [Reject::HandshakesFull; 2]);
    let wake = server.handshake.poll_timeout().unwrap();
    assert_eq!(
        wake.at,
        Timestamp::from_millis(6_000) + Duration::from_nanos(1)
    );
}

/// A player whose first token was lost on the way, or is too old by now, dials from the same port.
#[test]
fn a_new_token_starts_over_in_the_place_of_its_address() {
    let mut params = params();
    params.max_pending = 2;
    let mut server = Server::with(params, 16, EPOCH - 3600);
    let mut ask = |now: Now, number: u8, host: u8| {
        let mut request = Vec::new();
        mint(number.into(), number, EPOCH).emit_request(&mut request);
        let from = address(&format!("192.0.2.{host}:1"));
        server.receive(now, from, &request).is_some()
    };
    assert!(ask(at(0), 1, 1) && ask(at(0), 2, 2));
    assert!(ask(at(3_000), 3, 1), "there is no other place");
    assert!(!ask(at(3_000), 4, 4));
    assert_eq!(server.handshake.pending(), 2);
    server.handshake.handle_timeout(at(5_001));
    assert_eq!(server.handshake.pending(), 1, "it lasts as long as any");
    server.handshake.handle_timeout(at(8_001));
    assert_eq!(server.handshake.pending(), 0);
}

#[test]
fn timeouts_are_clamped_and_never_is_refused() {
    for (seconds, policy, expected) in [
        (5, TimeoutPolicy::Clamp(1..=60), Ok(Some(5))),
        (3600, TimeoutPolicy::Clamp(1..=60), Ok(Some(60))),
        (1, TimeoutPolicy::Clamp(3..=60), Ok(Some(3))),
        (0, TimeoutPolicy::Clamp(1..=60), Err(Reject::TokenInvalid)),
        (-1, TimeoutPolicy::Clamp(1..=60), Err(Reject::TokenInvalid)),
        (-1, TimeoutPolicy::AsIssued, Ok(None)),
        (3600, TimeoutPolicy::AsIssued, Ok(Some(3600))),
    ] {
        let params = Params {
            timeout: policy.clone(),
            ..params()
        };
        let mut server = Server::with(params, 16, EPOCH - 3600);
        let mut parts = mint_parts(1, 1, EPOCH);
        parts.private.timeout_seconds = seconds;
        let token = ConnectToken::mint(parts, &private_key()).unwrap();
        let (link, _) = connect(&mut server, 0, address(HOME), token);
        match expected {
            Err(reject) => assert_eq!(server.rejects.first(), Some(&reject), "{seconds} s"),
            Ok(limit) => {
                let mut up = link.expect("connected");
                let hello = seal(&mut up, at(1_000), b"hello");
                server.receive(at(1_000), address(HOME), &hello);
                let link = &server.peers[&address(HOME)].link;
                let Some(limit) = limit else {
                    assert!(!link.is_timed_out(at(1 << 40)));
                    continue;
                };
                assert!(
                    !link.is_timed_out(at(1_000 + limit * 1000 - 1)),
                    "{seconds} s"
                );
                assert!(link.is_timed_out(at(1_000 + limit * 1000)), "{seconds} s");
            }
        }
    }
}

/// A client that takes a slot and then never says a word does not hold it for long.
#[test]
fn an_unconfirmed_client_is_given_up() {
    let mut parts = mint_parts(1, 1, EPOCH);
    parts.private.timeout_seconds = 60;
    let token = ConnectToken::mint(parts, &private_key()).unwrap();
    let mut server = Server::new();
    let (link, _) = connect(&mut server, 0, address(HOME), token);
    let seated_at = 100; // the response's moment
    let peer = &server.peers[&address(HOME)].link;
    assert!(!peer.is_timed_out(at(seated_at + 4_999)));
    assert!(peer.is_timed_out(at(seated_at + 5_000)));
    let hello = seal(&mut link.unwrap(), at(seated_at + 4_000), b"hello");
    server.receive(at(seated_at + 4_000), address(HOME), &hello);
    let peer = &server.peers[&address(HOME)].link;
    assert!(
        !peer.is_timed_out(at(seated_at + 60_000)),
        "one word and it has its 60 s"
    );
}

/// Neither another server of the same machine nor one on the same port elsewhere takes it.
#[test]
fn a_token_is_for_an_address_and_its_port() {
    for elsewhere in [
        "198.51.100.7:40001",
        "198.51.100.8:40000",
        "[::ffff:198.51.100.7]:40000",
    ] {
        let mut server = Server::new();
        let mut parts = mint_parts(1, 1, EPOCH);
        parts.private.servers = vec![address(elsewhere)];
        let token = ConnectToken::mint(parts, &private_key()).unwrap();
        let (link, sent) = connect(&mut server, 0, address(HOME), token);
        assert!(link.is_none(), "{elsewhere}");
        assert_eq!(server.rejects, vec![Reject::TokenAddress; sent.len()]);
    }
}

/// Old and new private key both count while the token service changes over; which one is told.
#[test]
fn private_keys_are_rotated() {
    let old = Key::new([0x99; 32]);
    let mut params = params();
    params.private_keys.push(old.clone());
    params.public_addresses.push(address("[2001:db8::7]:40000"));
    let keys = params.private_keys.clone();
    let mut server = Server::with(params, 16, EPOCH - 3600);
    let mut parts = mint_parts(1, 1, EPOCH);
    parts.private.servers = vec![address("203.0.113.1:1"), address("[2001:db8::7]:40000")];
    for (key, index) in [
        (old, Ok(1)),
        (private_key(), Ok(0)),
        (Key::new([7; 32]), Err(Reject::TokenKey)),
    ] {
        parts.nonce[0] += 1;
        parts.private.client_id += 1;
        let token = ConnectToken::mint(parts.clone(), &key).unwrap();
        let told = token.open_private(&keys).map(|(index, _)| index);
        assert_eq!(told, index);
        let mut client = Client::new(at(0), token);
        let mut request = transmit(&mut client, at(0)).unwrap();
        let mut reply = Vec::new();
        let from = address(HOME);
        match server.judge(at(0), from, &mut request, &mut reply) {
            Err(reject) => assert_eq!(Err(reject), index),
            Ok(_) => {
                hear(&mut client, at(0), &mut reply);
                let mut response = transmit(&mut client, at(100)).unwrap();
                let outcome = server.judge(at(100), from, &mut response, &mut reply);
                assert!(matches!(outcome, Ok(Outcome::Seated(_))), "{outcome:?}");
            }
        }
    }
}

/// Slots and client ids are the listener's, not the worker's.
#[test]
fn workers_share_one_roster() {
    let roster = Roster::new(
        RosterParams {
            slots: 2,
            history: 100,
            ..RosterParams::default()
        },
        EPOCH - 3600,
    );
    let mut workers: Vec<_> = (0..3)
        .map(|n| Server::worker(params(), roster.clone(), n, EPOCH - 3600))
        .collect();
    for (n, worker) in workers.iter_mut().enumerate().take(2) {
        let (link, _) = connect(worker, 0, address(HOME), mint(n as u64, n as u8, EPOCH));
        assert!(link.is_some());
        assert_eq!(worker.peers[&address(HOME)].seat.slot(), n as u32);
    }
    let (link, _) = connect(&mut workers[2], 0, address(HOME), mint(5, 5, EPOCH));
    assert!(link.is_none());
    assert_eq!(workers[2].denials, [Reject::Full]);
    workers.remove(0);
    let (link, _) = connect(&mut workers[1], 0, address(HOME), mint(6, 6, EPOCH));
    assert!(link.is_some(), "a worker that ends gives its slots back");
}

/// A client goes through its token's servers and keeps counting, so that no nonce comes twice.
#[test]
fn the_next_server_is_tried_with_the_next_sequence() {
    let mut parts = mint_parts(1, 1, EPOCH);
    parts.servers = vec![address("203.0.113.1:1"), server_address()];
    let token = ConnectToken::mint(parts, &private_key()).unwrap();
    let mut client = Client::new(at(0), token);
    assert_eq!(client.server(), address("203.0.113.1:1"));
    let mut requests = 0;
    for millis in (0..5_001).step_by(100) {
        requests += u64::from(transmit(&mut client, at(millis)).is_some());
        client.handle_timeout(at(millis));
    }
    assert_eq!(
        client.poll_timeout().unwrap().at,
        Timestamp::from_millis(5_000) + Duration::from_nanos(1)
    );
    client.handle_timeout(at(5_001));
    assert_eq!(
        (client.state(), client.server()),
        (ClientState::Requesting, server_address())
    );

    let mut server = Server::new();
    let request = transmit(&mut client, at(5_001)).unwrap();
    let mut challenge = server.receive(at(5_001), address(HOME), &request).unwrap();
    let from = address("203.0.113.1:1");
    let late = client.handle_datagram(at(5_002), from, &mut challenge.clone());
    assert_eq!(
        late,
        Err(Reject::UnknownPeer),
        "the first server has nothing to say any more"
    );
    hear(&mut client, at(5_002), &mut challenge);
    let response = transmit(&mut client, at(5_101)).unwrap();
    assert_eq!(u64::from(response[1]), requests + 1, "requests count too");
}

/// What comes too early uses up sequences of the server that sent it, and none of the next server's.
#[test]
fn the_next_server_finds_an_empty_window() {
    let mut parts = mint_parts(1, 1, EPOCH);
    let first_address = address("203.0.113.1:1");
    parts.servers = vec![first_address, server_address()];
    let token = ConnectToken::mint(parts, &private_key()).unwrap();
    let mut client = Client::new(at(0), token);
    let (mut first, mut second) = (Server::new(), Server::new());
    let request = transmit(&mut client, at(0)).unwrap();
    let mut challenge = first.receive(at(0), address(HOME), &request).unwrap();
    client
        .handle_datagram(at(0), first_address, &mut challenge)
        .unwrap();
    let response = transmit(&mut client, at(100)).unwrap();
    // Every keep-alive gets lost, which alone would tell the client that it is in.
    first.receive(at(100), address(HOME), &response).unwrap();
    for _ in 0..300 {
        let mut payload = first.send(at(200), address(HOME), b"early").remove(1);
        let early = client.handle_datagram(at(200), first_address, &mut payload);
        assert_eq!(early, Err(Reject::Unexpected));
    }
    client.handle_timeout(at(5_001));
    for millis in [5_001, 5_101] {
        let datagram = transmit(&mut client, at(millis)).unwrap();
        let mut answer = second
            .receive(at(millis), address(HOME), &datagram)
            .unwrap();
        hear(&mut client, at(millis), &mut answer);
    }
    assert_eq!(client.state(), ClientState::Connected);
}

/// A connector whose request is answered, with these servers in its token.
fn challenged(server: &mut Server, servers: Vec<SocketAddr>) -> Connector {
    let mut parts = mint_parts(1, 1, EPOCH);
    parts.servers = servers;
    let token = ConnectToken::mint(parts, &private_key()).unwrap();
    let mut client = Connector::roaming(at(0), Arc::default(), token, 1);
    assert!(!client.has_room(), "nobody has answered");
    let request = transmit_all(&mut client, at(0)).remove(0);
    let mut challenge = server.receive(at(1), address(HOME), &request).unwrap();
    client.handle_datagram(at(2), &mut challenge).unwrap();
    client
}

fn transmit_all(client: &mut Connector, now: Now) -> Vec<Vec<u8>> {
    let next = || {
        let mut datagram = Vec::new();
        client.poll_transmit(now, &mut datagram).then_some(datagram)
    };
    std::iter::from_fn(next).collect()
}

/// What one server was told is not for the next: only the last one is told anything before it lets the client in.
#[test]
fn only_the_last_server_is_told_something_early() {
    let elsewhere = address("203.0.113.1:1");
    for (servers, speaks) in [
        (vec![server_address()], true),
        (vec![server_address(), elsewhere], false),
    ] {
        let mut client = challenged(&mut Server::new(), servers);
        assert_eq!(client.has_room(), speaks);
        assert_eq!(client.send(at(2), 0, b"hello").is_ok(), speaks);
        let left = transmit_all(&mut client, at(2));
        assert_eq!(left[0].len(), 326, "the response goes first");
        assert_eq!(left.len(), 1 + usize::from(speaks));
        assert_eq!(client.poll_event(), None, "it is not in");
    }
}

/// A goodbye in front of the backend would be the end of what is said behind the answer, also of what nobody acknowledges.
#[test]
fn who_leaves_at_once_says_goodbye_when_it_is_in() {
    let mut server = Server::new();
    let mut client = challenged(&mut server, vec![server_address()]);
    client.send(at(2), 1, b"last words").unwrap();
    client.finish(at(2), CloseReason::BackendClosed, Duration::from_secs(5));
    let left = transmit_all(&mut client, at(2));
    assert_eq!(left.len(), 2, "a response and a payload");
    let mut seated = server.receive(at(3), address(HOME), &left[0]).unwrap();
    server.receive(at(3), address(HOME), &left[1]);
    assert_eq!(server.delivered.len(), 1);
    client.handle_datagram(at(4), &mut seated).unwrap();
    assert_eq!(client.poll_event(), Some(Event::Connected));
    for goodbye in transmit_all(&mut client, at(4)) {
        server.receive(at(5), address(HOME), &goodbye);
    }
    assert!(server.peers.is_empty());
    let closed = Event::Closed(CloseReason::BackendClosed);
    assert_eq!(client.poll_event(), Some(closed));
}

/// A server that challenges and then says nothing: who wants to leave does not wait for it longer than asked.
#[test]
fn who_leaves_does_not_wait_for_ever_to_be_let_in() {
    let mut client = challenged(&mut Server::new(), vec![server_address()]);
    client.send(at(2), 0, b"last words").unwrap();
    client.finish(at(2), CloseReason::Shutdown, Duration::from_secs(1));
    transmit_all(&mut client, at(2));
    for millis in (10..1_000).step_by(10) {
        client.handle_timeout(at(millis));
        transmit_all(&mut client, at(millis));
        assert_eq!(client.poll_event(), None, "after {millis} ms");
    }
    let due = client.poll_timeout().unwrap().at;
    assert!(due <= at(1_002).mono, "{due:?}");
    client.handle_timeout(at(1_002));
    let closed = Event::Closed(CloseReason::Shutdown);
    assert_eq!(client.poll_event(), Some(closed));
    assert!(!transmit_all(&mut client, at(1_002)).is_empty(), "goodbyes");
}
