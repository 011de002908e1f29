//! A ledger of every (key, nonce) pair that was ever sealed: each may seal one thing only.

use std::collections::BTreeMap;

use tidegate_proto::yojimbo::netcode::wire::Prefix;
use tidegate_proto::yojimbo::netcode::{
    Client, ConnectToken, Key, Outcome, Params, Roster, RosterParams,
};

use crate::world::*;

/// What each pair sealed. The same bytes twice say nothing new and are allowed.
#[derive(Default)]
struct Ledger {
    sealed: BTreeMap<([u8; 32], u64), Vec<u8>>,
}

impl Ledger {
    fn enter(&mut self, key: &Key, datagram: &[u8]) {
        if datagram[0] == 0 {
            return; // a request is not sealed
        }
        let sequence = Prefix::parse(datagram).unwrap().sequence;
        let entry = self.sealed.entry((*key.as_bytes(), sequence));
        let before = entry.or_insert_with(|| datagram.to_vec());
        assert_eq!(
            before, datagram,
            "sequence {sequence} sealed two things under one key"
        );
    }
}

/// One life of one token against one server: ask a few times, connect if possible, talk, leave.
fn live(ledger: &mut Ledger, server: &mut Server, start: u64, token: &ConnectToken, say: u64) {
    let (from, already) = (address(HOME), server.sent.len());
    let mut request = Vec::new();
    token.emit_request(&mut request);
    for n in 0..say % 20 {
        server.receive(at(start + n), from, &request);
    }
    let (link, sent) = connect(server, start + 50, from, token.clone());
    for datagram in &sent {
        ledger.enter(&token.client_to_server, datagram);
    }
    if let Some(mut link) = link {
        for n in 0..say {
            let up = seal(&mut link, at(start + 300 + n), &n.to_le_bytes());
            ledger.enter(&token.client_to_server, &up);
            if n % 3 == 0 {
                server.receive(at(start + 300 + n), from, &up);
            }
            server.send(at(start + 300 + n), from, &n.to_le_bytes());
        }
        for goodbye in goodbyes(&mut link, at(start + 900)) {
            ledger.enter(&token.client_to_server, &goodbye);
            server.receive(at(start + 900), from, &goodbye);
        }
    }
    for datagram in &server.sent[already..] {
        ledger.enter(&token.server_to_client, datagram);
    }
}

/// Tokens are used, used again, and used after a restart that has no restart rule to lean on:
/// challenges and denials of the next run must not repeat nonces either.
#[test]
fn no_nonce_comes_twice_across_reconnects_and_restarts() {
    let params = Params {
        max_token_lifetime: None,
        ..params()
    };
    let mut ledger = Ledger::default();
    let mut seated = 0;
    for run in 0..4u64 {
        let start = run * 5_000;
        let mut server = Server::with(params.clone(), 16, at(start).unix_secs);
        for number in 0..20u8 {
            let token = mint(number.into(), number + 20 * run as u8, at(start).unix_secs);
            live(
                &mut ledger,
                &mut server,
                start,
                &token,
                u64::from(number) * 7,
            );
            live(&mut ledger, &mut server, start + 1_000, &token, 40);
        }
        seated += server.seatings;
        // Tokens of the run before were asked for there; here they get challenges again, and
        // with the restart rule on they would not even get those.
        server.refusing = Some(tidegate_proto::session::Reject::Full);
        for number in 0..20u8 {
            let token = mint(number.into(), number, EPOCH);
            live(&mut ledger, &mut server, start + 2_000, &token, 5);
        }
    }
    assert_eq!(seated, 4 * 20, "each token was seated once");
    assert!(
        ledger.sealed.len() > 10_000,
        "{} entries",
        ledger.sealed.len()
    );
}

/// One token, asked for at two workers, as happens when a router moves a flow.
#[test]
fn workers_do_not_share_nonces() {
    let roster = Roster::new(RosterParams::default(), EPOCH - 3600);
    let mut ledger = Ledger::default();
    let token = mint(1, 1, EPOCH);
    for worker in [0, 1, 2, 511] {
        let mut server = Server::worker(params(), roster.clone(), worker, EPOCH - 3600);
        let mut request = Vec::new();
        token.emit_request(&mut request);
        for n in 0..50 {
            let reply = server.receive(at(n), address(HOME), &request).unwrap();
            ledger.enter(&token.server_to_client, &reply);
        }
    }
    assert_eq!(ledger.sealed.len(), 4 * 50);
}

/// A denial after the handshake has a number of its own, which no challenge and no packet of the
/// session can reach.
#[test]
fn a_denied_seat_uses_its_own_nonce() {
    let mut server = Server::new();
    let (mut ledger, token, from) = (Ledger::default(), mint(1, 1, EPOCH), address(HOME));
    let mut client = Client::new(at(0), token.clone());
    let request = transmit(&mut client, at(0)).unwrap();
    for n in 0..3 {
        let mut challenge = server.receive(at(n), from, &request).unwrap();
        ledger.enter(&token.server_to_client, &challenge);
        client
            .handle_datagram(at(n), server_address(), &mut challenge)
            .ok();
    }
    let mut response = transmit(&mut client, at(100)).unwrap();
    let outcome = server.judge(at(100), from, &mut response, &mut Vec::new());
    let Ok(Outcome::Seated(mut seated)) = outcome else {
        panic!("{outcome:?}");
    };
    for _ in 0..3 {
        let mut denied = Vec::new();
        assert!(seated.link.deny(&mut denied));
        assert_eq!(Prefix::parse(&denied).unwrap().sequence >> 62, 0b11);
        ledger.enter(&token.server_to_client, &denied);
    }
    assert_eq!(ledger.sealed.len(), 4, "three challenges and one denial");
}
