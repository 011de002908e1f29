//! Making and reading connect tokens, and what must never be printed.

use tidegate_proto::session::Reject;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, TokenError};

use crate::world::*;

#[test]
fn a_token_reads_back_as_it_was_made() {
    let mut parts = mint_parts(77, 9, EPOCH);
    parts.servers = (0..32)
        .map(|n| address(&format!("[2001:db8::{n:x}]:{n}")))
        .collect();
    parts.private.servers = vec![address("10.0.0.1:1"), address("[::1]:65535")];
    let token = ConnectToken::mint(parts.clone(), &private_key()).unwrap();
    let bytes = token.to_bytes();
    assert_eq!(bytes.len(), 2048);
    let read = ConnectToken::parse(&bytes).unwrap();
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(read.servers, parts.servers);
    let (index, private) = read.open_private(&[private_key()]).unwrap();
    assert_eq!(
        (index, private.client_id, private.timeout_seconds),
        (0, 77, 5)
    );
    assert_eq!(private.servers, parts.private.servers);
    assert_eq!(private.user_data, parts.private.user_data);
    let wrong = read.open_private(&[Key::new([0; 32])]).unwrap_err();
    assert_eq!(wrong, Reject::TokenKey);
}

#[test]
fn tokens_that_cannot_work_are_not_made() {
    let mut none = mint_parts(1, 1, EPOCH);
    none.servers.clear();
    let mut none_inside = mint_parts(1, 1, EPOCH);
    none_inside.private.servers.clear();
    let mut too_many = mint_parts(1, 1, EPOCH);
    too_many.servers = vec![server_address(); 33];
    let mut backwards = mint_parts(1, 1, EPOCH);
    backwards.expire = EPOCH - 1;
    for (parts, error) in [
        (none, TokenError::Servers),
        (none_inside, TokenError::Servers),
        (too_many, TokenError::Servers),
        (backwards, TokenError::Dates),
    ] {
        assert_eq!(
            ConnectToken::mint(parts, &private_key()).unwrap_err(),
            error
        );
    }
    let mut at_once = mint_parts(1, 1, EPOCH);
    at_once.expire = EPOCH;
    assert!(
        ConnectToken::mint(at_once, &private_key()).is_ok(),
        "equal dates are legal"
    );
}

/// A client refuses a token that expired before it was made; equal dates are legal.
#[test]
fn tokens_with_impossible_dates_are_not_read() {
    for (lifetime, expected) in [(0, None), (-1, Some(TokenError::Dates))] {
        let mut token = mint(1, 1, EPOCH);
        token.expire = token.create.wrapping_add_signed(lifetime);
        let read = ConnectToken::parse(&token.to_bytes());
        assert_eq!(read.err(), expected, "good for {lifetime} s");
    }
}

/// The expiry travels in the clear, and is sealed into the private part all the same.
#[test]
fn a_token_cannot_be_prolonged() {
    let mut token = mint(1, 1, EPOCH);
    token.expire += 1;
    assert_eq!(
        token.open_private(&[private_key()]).unwrap_err(),
        Reject::TokenKey
    );
    let mut server = Server::new();
    let mut request = Vec::new();
    token.emit_request(&mut request);
    server.receive(at(5_000), address(HOME), &request);
    assert_eq!(server.rejects, [Reject::TokenKey]);
}

/// Keys and user data never reach a log through `Debug`, by whatever type they are held.
#[test]
fn secrets_are_not_printed() {
    let token = mint(1, 0xab, EPOCH);
    let mut server = Server::new();
    let mut request = Vec::new();
    token.emit_request(&mut request);
    server.receive(at(0), address(HOME), &request);
    let (_, private) = token.open_private(&[private_key()]).unwrap();
    let printed = format!("{private:?} {:?} {:?}", private_key(), server.handshake);
    for byte in [0xab, 0x42u8] {
        for canary in [
            format!("{byte}, {byte}, {byte}"),
            format!("{byte:02x}{byte:02x}"),
        ] {
            assert!(!printed.contains(&canary), "{canary} in {printed}");
        }
    }
    assert!(printed.contains("[masked]"));
}
