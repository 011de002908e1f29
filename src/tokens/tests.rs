use tidegate_proto::Reject;

use super::*;

const NOW_SLACK: u64 = 5;

fn key() -> Key {
    Key::new([9; 32])
}

fn token(lifetime_secs: u64) -> ConnectToken {
    mint(recipe(lifetime_secs), &key()).unwrap()
}

fn recipe(lifetime_secs: u64) -> Recipe {
    Recipe {
        protocol_id: 0x1122,
        client_id: 7,
        servers: vec!["203.0.113.7:40000".parse().unwrap()],
        lifetime: Duration::from_secs(lifetime_secs),
        timeout: Duration::from_secs(10),
        user_data: UserData::empty(),
    }
}

fn server() -> Server {
    Server {
        protocol_id: 0x1122,
        keys: vec![key()],
        public_addresses: Some(vec!["203.0.113.7:40000".parse().unwrap()]),
        max_token_lifetime: Some(30),
        clock_skew: 2,
        started: None,
    }
}

fn labels(token: &ConnectToken, server: &Server, now: u64) -> Vec<Reject> {
    let doubts = doubts(token, server, now);
    assert!(doubts.iter().all(|doubt| !doubt.help.is_empty()));
    doubts.into_iter().map(|doubt| doubt.reject).collect()
}

/// netcode's way to say that a session never times out, which no listener grants.
#[test]
fn a_token_without_a_timeout_is_refused() {
    let endless = Recipe {
        timeout: Duration::ZERO,
        ..recipe(30)
    };
    let token = mint(endless, &key()).unwrap();
    assert_eq!(
        labels(&token, &server(), token.create),
        [Reject::TokenInvalid]
    );
}

/// A good token and the nearest bad ones.
#[test]
fn each_reason_is_found() {
    let token = token(30);
    let (made, expires) = (token.create, token.expire);
    assert_eq!(labels(&token, &server(), made), []);
    assert_eq!(
        labels(&token, &server(), expires + 1),
        [],
        "within the clocks' difference"
    );
    assert_eq!(
        labels(&token, &server(), expires + 2),
        [Reject::TokenExpired]
    );
    assert_eq!(labels(&token, &server(), made - 2), []);
    assert_eq!(labels(&token, &server(), made - 3), [Reject::TokenFuture]);

    let started = |at| Server {
        started: Some(at),
        ..server()
    };
    assert_eq!(labels(&token, &started(made), made), []);
    assert_eq!(
        labels(&token, &started(made + 1), made + 1),
        [Reject::TokenBeforeStart]
    );

    let any_age = Server {
        max_token_lifetime: None,
        ..started(made + 1)
    };
    assert_eq!(labels(&token, &any_age, made - 3), []);

    let elsewhere = Server {
        public_addresses: Some(vec!["203.0.113.7:40001".parse().unwrap()]),
        ..server()
    };
    assert_eq!(labels(&token, &elsewhere, made), [Reject::TokenAddress]);
    let anywhere = Server {
        public_addresses: None,
        ..elsewhere
    };
    assert_eq!(labels(&token, &anywhere, made), []);

    let other_key = Server {
        keys: vec![Key::new([8; 32])],
        ..server()
    };
    assert_eq!(labels(&token, &other_key, made), [Reject::TokenKey]);
    let both_keys = Server {
        keys: vec![Key::new([8; 32]), key()],
        ..server()
    };
    assert_eq!(labels(&token, &both_keys, made), []);

    let other_game = Server {
        protocol_id: 0x1123,
        ..server()
    };
    assert_eq!(labels(&token, &other_game, made)[0], Reject::WrongProtocol);
}

/// A client has no key, and knows neither the server's clock nor its addresses.
#[test]
fn a_client_sees_what_is_wrong_for_everybody() {
    let token = token(30);
    let seen = |protocol_id, now| {
        let doubts = doubts_from_afar(&token, protocol_id, now).into_iter();
        doubts.map(|doubt| doubt.reject).collect::<Vec<_>>()
    };
    assert_eq!(seen(token.protocol_id, token.create), []);
    assert_eq!(
        seen(token.protocol_id, token.expire),
        [Reject::TokenExpired]
    );
    assert_eq!(
        seen(token.protocol_id + 1, token.create),
        [Reject::WrongProtocol]
    );
}

#[test]
fn tokens_are_read_raw_and_as_text() {
    let token = token(30);
    let raw = token.to_bytes();
    let text = format!("\n{}\n", &*token_text(&token));
    for form in [&raw[..], text.as_bytes()] {
        assert_eq!(parse_token(form).unwrap().expire, token.expire);
    }
    for wrong in [&raw[1..], &text.as_bytes()[3..], b""] {
        let error = parse_token(wrong).expect_err("no token");
        assert_eq!(error.to_string(), "a connect token has exactly 2048 bytes");
    }
}

#[tokio::test]
async fn commands_print_tokens() {
    let token = token(30);
    let source = |command: String| TokenSource::Command(command);
    let remote = "203.0.113.7:40000".parse().unwrap();
    let ten = Duration::from_secs(10);
    let print = source(format!("echo {}", &*token_text(&token)));
    let fetched = obtain(&print, 0x1122, remote, ten).await.unwrap();
    assert_eq!(fetched.token.expire, token.expire);
    let failing = source("exit 3".to_owned());
    let error = obtain(&failing, 0x1122, remote, ten)
        .await
        .expect_err("it failed");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    let endless = source("yes".to_owned());
    let outcome = obtain(&endless, 0x1122, remote, ten).await;
    outcome.expect_err("that is no token");
}

#[tokio::test]
async fn own_tokens_name_the_server_that_is_dialled() {
    let own = TokenSource::Key(crate::config::TokenMint {
        key: key(),
        client_id: None,
        server_addresses: Vec::new(),
        lifetime: Duration::from_secs(30),
    });
    let remote = "203.0.113.7:40000".parse().unwrap();
    let ten = Duration::from_secs(10);
    let fresh = obtain(&own, 0x1122, remote, ten).await.unwrap();
    let (one, told) = (fresh.token, fresh.client_id);
    let other = obtain(&own, 0x1122, remote, ten).await.unwrap().token;
    assert_eq!(one.servers, [remote]);
    assert_eq!(labels(&one, &server(), one.create + NOW_SLACK), []);
    assert_ne!(one.nonce, other.nonce);
    let id = |token: &ConnectToken| token.open_private(&[key()]).unwrap().1.client_id;
    assert_ne!(id(&one), id(&other), "two streams are two clients");
    assert_eq!(
        told,
        Some(id(&one)),
        "what the log says is what the token does"
    );
}
