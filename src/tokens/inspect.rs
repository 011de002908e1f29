//! Why a server would refuse a token: the checks of its handshake, all of them, with what to do.
//!
//! The server itself stays silent, by design; this is where an operator looks instead.

use std::net::SocketAddr;

use tidegate_proto::Reject;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, PrivateToken};

use crate::config::fingerprint;

/// What a server knows when a token is presented.
#[derive(Clone, Debug)]
pub struct Server {
    pub protocol_id: u64,
    /// Its keys, current first.
    pub keys: Vec<Key>,
    /// The addresses it is known by; `None` takes any.
    pub public_addresses: Option<Vec<SocketAddr>>,
    /// The longest lifetime of a genuine token, in seconds; `None` takes any.
    pub max_token_lifetime: Option<u64>,
    /// Seconds by which clocks may differ.
    pub clock_skew: u64,
    /// When it was started, unix seconds.
    pub started: Option<u64>,
}

/// One reason to refuse a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Under which label the server counts it.
    pub reject: Reject,
    /// With the values that decide.
    pub why: String,
    /// What to do.
    pub help: &'static str,
}

/// Every reason for which `server` would refuse `token` at `now`, in the order it looks.
pub fn doubts(token: &ConnectToken, server: &Server, now: u64) -> Vec<Doubt> {
    let in_clear = [
        other_protocol(token, "the server", server.protocol_id),
        expired(token, server.clock_skew, now),
        future(token, server, now),
        before_start(token, server, now),
    ];
    let sealed = match token.open_private(&server.keys) {
        Err(reject) => [Some(other_key(reject, server)), None],
        Ok((_, private)) => [other_address(&private, server), endless(&private)],
    };
    in_clear.into_iter().chain(sealed).flatten().collect()
}

/// What a client of this protocol id can tell is wrong with a token. It has neither the server's keys nor its
/// addresses.
pub fn doubts_from_afar(token: &ConnectToken, protocol_id: u64, now: u64) -> Vec<Doubt> {
    let other = other_protocol(token, "this end", protocol_id);
    other.into_iter().chain(expired(token, 0, now)).collect()
}

fn other_protocol(token: &ConnectToken, whose: &str, protocol_id: u64) -> Option<Doubt> {
    (token.protocol_id != protocol_id).then(|| Doubt {
        reject: Reject::WrongProtocol,
        why: format!(
            "the token is for protocol id {:#018x}, {whose} has {protocol_id:#018x}",
            token.protocol_id
        ),
        help: "give the token service the protocol_id of the server, or this end, whichever is wrong",
    })
}

fn expired(token: &ConnectToken, skew: u64, now: u64) -> Option<Doubt> {
    (token.expire.saturating_add(skew) <= now).then(|| Doubt {
        reject: Reject::TokenExpired,
        why: format!("the token expired {} s ago", now - token.expire),
        help: "mint a new one; if it is new, compare the clocks of both machines",
    })
}

fn future(token: &ConnectToken, server: &Server, now: u64) -> Option<Doubt> {
    let longest = server.max_token_lifetime?;
    let horizon = now
        .saturating_add(longest)
        .saturating_add(server.clock_skew);
    (token.expire > horizon).then(|| Doubt {
        reject: Reject::TokenFuture,
        why: format!(
            "the token lives for another {} s, genuine ones for {longest} at most",
            token.expire - now
        ),
        help: "set max_token_lifetime to what the token service issues, or compare the clocks",
    })
}

fn before_start(token: &ConnectToken, server: &Server, now: u64) -> Option<Doubt> {
    let started = server.started?;
    (token.expire < started.saturating_add(server.max_token_lifetime?)).then(|| Doubt {
        reject: Reject::TokenBeforeStart,
        why: format!(
            "the server was started {} s ago, and the token may have been used before that",
            now.saturating_sub(started)
        ),
        help: "mint a new one; tokens must live for max_token_lifetime, not less",
    })
}

fn other_key(reject: Reject, server: &Server) -> Doubt {
    let keys: Vec<_> = server.keys.iter().map(fingerprint).collect();
    Doubt {
        reject,
        why: format!("made with none of the server's keys: {}", keys.join(" ")),
        help: "give the token service one of them; `token inspect --key FILE` says whether the key in FILE made this token",
    }
}

fn other_address(private: &PrivateToken, server: &Server) -> Option<Doubt> {
    let own = server.public_addresses.as_ref()?;
    let is_named = private.servers.iter().any(|named| own.contains(named));
    (!is_named).then(|| Doubt {
        reject: Reject::TokenAddress,
        why: format!(
            "the token names {}, the server is known as {}",
            list(&private.servers),
            list(own)
        ),
        help: "set public_addresses to what the token names",
    })
}

fn endless(private: &PrivateToken) -> Option<Doubt> {
    (private.timeout_seconds <= 0).then(|| Doubt {
        reject: Reject::TokenInvalid,
        why: format!(
            "its timeout of {} s means that silence never ends the session",
            private.timeout_seconds
        ),
        help: "have the token service give a timeout of 1 to 60 s",
    })
}

fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    texts.join(", ")
}
