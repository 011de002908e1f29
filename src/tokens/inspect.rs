//! Why a server would refuse a token: the checks of its handshake, all of them, with what to do.
//!
//! The server itself stays silent, by design; this is where an operator looks instead.

use std::net::SocketAddr;

use tidegate_proto::Reject;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key};

/// What a server knows when a token is presented.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its protocol id.
    pub protocol_id: u64,
    /// Its keys, current first.
    pub keys: Vec<Key>,
    /// The addresses it is known by; `None` takes any.
    pub public_addresses: Option<Vec<SocketAddr>>,
    /// The longest lifetime of a genuine token, in seconds.
    pub max_token_lifetime: u64,
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
    let other = other_protocol(token, "the server", server.protocol_id);
    let expired = expired(token, server.clock_skew, now);
    let mut doubts: Vec<_> = other.into_iter().chain(expired).collect();
    let mut doubt = |reject, why, help| doubts.push(Doubt { reject, why, help });
    let skew = server.clock_skew;
    let horizon = now.saturating_add(server.max_token_lifetime);
    if token.expire > horizon.saturating_add(skew) {
        let ahead = token.expire - now;
        doubt(
            Reject::TokenFuture,
            format!(
                "the token lives for another {ahead} s, genuine ones for {} at most",
                server.max_token_lifetime
            ),
            "set max_token_lifetime to what the token service issues, or compare the clocks",
        );
    }
    if let Some(started) = server.started
        && token.expire < started.saturating_add(server.max_token_lifetime)
    {
        doubt(
            Reject::TokenBeforeStart,
            format!(
                "the server was started {} s ago, and the token may have been used before that",
                now.saturating_sub(started)
            ),
            "mint a new one; tokens must live for max_token_lifetime, not less",
        );
    }
    match token.open_private(&server.keys) {
        Err(reject) => doubt(
            reject,
            "none of the server's keys opens the token".to_owned(),
            "the token service and the server need the same key file; compare fingerprints",
        ),
        Ok((_, private)) => {
            if let Some(own) = &server.public_addresses
                && !private.servers.iter().any(|named| own.contains(named))
            {
                doubt(
                    Reject::TokenAddress,
                    format!(
                        "the token names {}, the server is known as {}",
                        list(&private.servers),
                        list(own)
                    ),
                    "set public_addresses to what the token names",
                );
            }
            if private.timeout_seconds <= 0 {
                doubt(
                    Reject::TokenInvalid,
                    format!(
                        "its timeout of {} s means that silence never ends the session",
                        private.timeout_seconds
                    ),
                    "have the token service give a timeout of 1 to 60 s",
                );
            }
        }
    }
    doubts
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

fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    texts.join(", ")
}
