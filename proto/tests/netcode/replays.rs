//! Old packets and old tokens: what was used once is of no use again.

use tidegate_proto::session::Reject;
use tidegate_proto::time::Now;
use tidegate_proto::yojimbo::netcode::Params;

use crate::world::*;

/// A session, closed, and then everything its client ever sent comes again from the same source.
/// Before netcode 1.4.5 this seated a ghost and delivered every payload a second time.
#[test]
fn a_whole_session_replayed_seats_nobody() {
    let from = address(HOME);
    let mut server = Server::new();
    let (link, mut recorded) = connect(&mut server, 0, from, mint(7, 1, EPOCH));
    let mut link = link.unwrap();
    for n in 0..20u8 {
        recorded.push(seal(&mut link, at(300), &[n; 40]));
    }
    recorded.extend(goodbyes(&mut link, at(400)));
    for datagram in &recorded[2..] {
        server.receive(at(400), from, datagram);
    }
    assert_eq!(server.delivered.len(), 20, "the session itself worked");
    assert_eq!(server.roster.seated(), 0, "and is over");
    let delivered = server.delivered.len();

    for millis in [400, 1_400, 29_400] {
        server.rejects.clear();
        for datagram in &recorded {
            assert_eq!(server.receive(at(millis), from, datagram), None);
        }
        assert_eq!(server.seatings, 1, "no ghost after {millis} ms");
        assert_eq!(server.delivered.len(), delivered);
        let reused = server
            .rejects
            .iter()
            .filter(|r| **r == Reject::TokenReused)
            .count();
        assert_eq!(reused, 1, "the one request, refused for what it is");
        assert_eq!(server.rejects.len(), recorded.len());
    }
}

#[test]
fn a_used_token_is_refused_while_its_client_is_connected_too() {
    let mut server = Server::new();
    let (link, sent) = connect(&mut server, 0, address(HOME), mint(7, 1, EPOCH));
    assert!(link.is_some());
    server.receive(at(500), address("192.0.2.66:6"), &sent[0]);
    server.receive(at(500), address(HOME), &sent[0]);
    assert_eq!(
        server.rejects,
        [Reject::TokenReused, Reject::Unexpected],
        "from elsewhere; and from the session itself, which takes no requests"
    );
}

#[test]
fn a_token_belongs_to_the_first_address_that_presents_it() {
    let mut server = Server::new();
    let mut request = Vec::new();
    mint(7, 1, EPOCH).emit_request(&mut request);
    assert!(server.receive(at(0), address(HOME), &request).is_some());
    assert!(
        server.receive(at(100), address(HOME), &request).is_some(),
        "it may ask again"
    );
    assert!(
        server
            .receive(at(200), address("192.0.2.1:4001"), &request)
            .is_none()
    );
    assert_eq!(server.rejects, [Reject::TokenOtherAddress]);
}

/// What may have been used before we started is refused; what cannot have been is not.
#[test]
fn the_restart_rule_and_its_edges() {
    // Started at EPOCH, tokens live 30 s at most.
    let cases = [
        (
            "20 s of life, 1 s after the start",
            1,
            20,
            Err(Reject::TokenBeforeStart),
        ),
        ("the same, 11 s after", 11, 20, Ok(())),
        ("a full life, issued 1 s after the start", 1, 30, Ok(())),
        ("a full life, issued at the start", 0, 30, Ok(())),
        (
            "a full life, issued 1 s before the start",
            0,
            29,
            Err(Reject::TokenBeforeStart),
        ),
        (
            "a second more than any genuine token",
            5,
            31,
            Err(Reject::TokenFuture),
        ),
        (
            "one that never expires",
            60,
            u64::MAX,
            Err(Reject::TokenFuture),
        ),
        ("one that expires now", 60, 0, Err(Reject::TokenExpired)),
        ("one that expires in a second", 60, 1, Ok(())),
    ];
    for (what, seconds, life, expected) in cases {
        let mut server = Server::with(params(), 16, EPOCH);
        let mut parts = mint_parts(1, 1, EPOCH - 100);
        parts.expire = (EPOCH + seconds).saturating_add(life);
        let mut request = Vec::new();
        let token = tidegate_proto::yojimbo::netcode::ConnectToken::mint(parts, &private_key());
        token.unwrap().emit_request(&mut request);
        server.receive(at(seconds * 1000), address(HOME), &request);
        let got = server.rejects.first().map_or(Ok(()), |reject| Err(*reject));
        assert_eq!(got, expected, "{what}");
    }
}

#[test]
fn a_token_from_before_a_restart_is_refused_after_it() {
    let mut first = Server::with(params(), 16, EPOCH - 3600);
    let (link, sent) = connect(&mut first, 0, address(HOME), mint(7, 1, EPOCH));
    assert!(link.is_some());
    let mut second = Server::with(params(), 16, EPOCH + 2);
    second.receive(at(2_500), address(HOME), &sent[0]);
    assert_eq!(second.rejects, [Reject::TokenBeforeStart]);
}

/// Setting the clock, wildly, never brings a used token back and never panics.
#[test]
fn clock_steps_bring_no_token_back() {
    let steps: [i64; 8] = [3600, -3600, 315_360_000, -315_360_000, 1, -1, -100, 40];
    for step in steps {
        let mut server = Server::new();
        let (_, sent) = connect(&mut server, 0, address(HOME), mint(7, 1, EPOCH));
        server.peers.clear();
        // Another client's token makes the history forget what it may.
        let jumped = Now {
            unix_secs: EPOCH.saturating_add_signed(step),
            ..at(1_000)
        };
        let mut other = Vec::new();
        mint(8, 2, jumped.unix_secs).emit_request(&mut other);
        server.receive(jumped, address("192.0.2.8:8"), &other);
        for back in [at(2_000), at(10_000), at(29_000)] {
            assert_eq!(
                server.receive(back, address(HOME), &sent[0]),
                None,
                "step {step}"
            );
        }
        assert_eq!(server.seatings, 1);
    }
}

/// A time server that is wrong for a moment costs that moment: whoever has not been here is let in as soon as the
/// clock is right again, not when it has caught up.
#[test]
fn a_clock_set_forward_and_back_keeps_nobody_out() {
    for step in [10, 7200, 315_360_000] {
        let mut server = Server::new();
        let (_, used) = connect(&mut server, 0, address(HOME), mint(7, 1, EPOCH));
        server.peers.clear();
        let jumped = Now {
            unix_secs: EPOCH + 1 + step,
            ..at(1_000)
        };
        // The history forgets what it may, with a token of a service whose clock jumped as well.
        let (_, ahead) = connect_at(
            &mut server,
            jumped,
            address(HOME),
            mint(8, 2, jumped.unix_secs),
        );
        server.peers.clear();
        let back = at(3_000);
        let (link, _) = connect_at(&mut server, back, address(HOME), mint(9, 3, EPOCH + 3));
        assert!(link.is_some(), "{step}: {:?}", server.rejects);
        for before in [&used[0], &ahead[0]] {
            server.receive(back, address("192.0.2.9:9"), before);
        }
        assert_eq!(server.seatings, 3, "{step}");
    }
}

/// A board without a battery for its clock starts in another year, and the network tells it which one it is: what
/// was used before the start stays refused, and nobody waits longer than after any start.
#[test]
fn a_clock_set_after_the_start_changes_nothing() {
    for wrong in [1_000, EPOCH + 126_230_400] {
        let mut server = Server::with(params(), 16, wrong);
        let start = Now {
            unix_secs: wrong,
            ..at(0)
        };
        server.roster.restore(&[], start);
        // Issued a second before the start, and at it.
        for (number, issued, expected) in [
            (1, EPOCH - 1, Some(Reject::TokenBeforeStart)),
            (2, EPOCH, None),
        ] {
            server.rejects.clear();
            connect_at(
                &mut server,
                at(5_000),
                address(HOME),
                mint(number.into(), number, issued),
            );
            assert_eq!(server.rejects.first().copied(), expected, "{wrong}");
        }
    }
}

#[test]
fn a_full_history_refuses_until_tokens_expire() {
    let roster = tidegate_proto::yojimbo::netcode::RosterParams {
        slots: 16,
        history: 2,
        tells_used: false,
    };
    let roster = tidegate_proto::yojimbo::netcode::Roster::new(roster, EPOCH - 3600);
    let params = Params {
        max_pending: 100,
        ..params()
    };
    let mut server = Server::worker(params, roster, 0, EPOCH - 3600);
    for (seconds, number, expected) in [
        (0, 1, None),
        (1, 2, None),
        (2, 3, Some(Reject::TokenHistoryFull)),
        (29, 4, Some(Reject::TokenHistoryFull)),
        (30, 5, None),
    ] {
        server.rejects.clear();
        let mut request = Vec::new();
        mint(number.into(), number, EPOCH + seconds).emit_request(&mut request);
        let from = address(&format!("192.0.2.{number}:1"));
        server.receive(at(seconds * 1000), from, &request);
        assert_eq!(server.rejects.first().copied(), expected, "token {number}");
    }
}

/// Where tokens are held to no lifetime, some never expire. Those do not fill the history for ever, and in the meantime
/// are good once.
#[test]
fn tokens_that_never_expire_are_forgotten_where_nobody_holds_them_to_a_lifetime() {
    let roster = tidegate_proto::yojimbo::netcode::RosterParams {
        slots: 16,
        history: 2,
        tells_used: false,
    };
    let roster = tidegate_proto::yojimbo::netcode::Roster::new(roster, EPOCH);
    let params = Params {
        max_pending: 100,
        max_token_lifetime: None,
        ..params()
    };
    let mut server = Server::worker(params, roster, 0, EPOCH);
    for (seconds, number, host, expected) in [
        (0, 1, 1, None),
        (1, 2, 2, None),
        (299, 1, 3, Some(Reject::TokenOtherAddress)),
        (299, 3, 3, Some(Reject::TokenHistoryFull)),
        (300, 3, 3, None),
        (302, 4, 4, None),
    ] {
        server.rejects.clear();
        let mut parts = mint_parts(number.into(), number, EPOCH);
        parts.expire = u64::MAX;
        let mut request = Vec::new();
        let token = tidegate_proto::yojimbo::netcode::ConnectToken::mint(parts, &private_key());
        token.unwrap().emit_request(&mut request);
        let from = address(&format!("192.0.2.{host}:1"));
        server.receive(at(seconds * 1000), from, &request);
        assert_eq!(
            server.rejects.first().copied(),
            expected,
            "token {number} after {seconds} s"
        );
    }
}
