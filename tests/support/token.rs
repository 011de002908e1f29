//! Connect tokens, sealed with the key that a program left in its place.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::config::read_key_file;
use tidegate::tokens::{self, Recipe};
use tidegate_proto::yojimbo::netcode::{ConnectToken, UserData};

use super::place::Place;

/// Good for these servers for 30 s; its session times out after this silence.
pub fn mint(
    place: &Place,
    client_id: u64,
    servers: &[SocketAddr],
    timeout: Duration,
) -> ConnectToken {
    mint_for(Duration::from_secs(30), place, client_id, servers, timeout)
}

/// Good for so long, where the server's `max_token_lifetime` takes that.
pub fn mint_for(
    lifetime: Duration,
    place: &Place,
    client_id: u64,
    servers: &[SocketAddr],
    timeout: Duration,
) -> ConnectToken {
    let key = read_key_file(&place.path("netcode.key")).unwrap();
    let recipe = Recipe {
        protocol_id: u64::from_le_bytes(*b"tidegat1"),
        client_id,
        servers: servers.to_vec(),
        lifetime,
        timeout,
        user_data: UserData::empty(),
    };
    tokens::mint(recipe, &key).unwrap()
}
