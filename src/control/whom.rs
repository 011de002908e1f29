//! How operators name a peer: by session, client id or address.

use std::net::{IpAddr, SocketAddr};

use anyhow::{anyhow, bail};
use ipnet::IpNet;

use crate::admission::canonical;
use crate::config::parse_id;
use crate::listener::Whom;

/// Everybody whom a word can name, likeliest first. More than one, because some ids look like each other: a
/// client's of sixteen decimal digits, as consoles have them, could be a session's.
pub(super) fn peers_called(word: &str) -> anyhow::Result<Vec<Whom>> {
    let mut meant = Vec::new();
    if word.len() == 16
        && let Ok(session) = u64::from_str_radix(word, 16)
    {
        meant.push(Whom::Session(session));
    }
    meant.extend(parse_id(word).ok().map(Whom::Client));
    meant.extend(word.parse::<SocketAddr>().ok().map(Whom::Address));
    meant.extend(word.parse::<IpAddr>().ok().map(host));
    if meant.is_empty() {
        bail!("{word:?} is no session (16 hexadecimal digits), no client id and no address");
    }
    Ok(meant)
}

/// A network or an address, else a client by its id.
pub(super) fn range_or_client(word: &str) -> anyhow::Result<Whom> {
    if let Ok(range) = word.parse::<IpNet>() {
        return Ok(Whom::Range(canonical(range)));
    }
    if let Ok(ip) = word.parse::<IpAddr>() {
        return Ok(host(ip));
    }
    let client = parse_id(word)
        .map_err(|_| anyhow!("{word:?} is no network, no address and no client id"))?;
    Ok(Whom::Client(client))
}

fn host(ip: IpAddr) -> Whom {
    Whom::Range(IpNet::from(ip.to_canonical()))
}
