//! `tidegate token inspect`: what a connect token says, and why a server would refuse it.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key};

use super::super::{input, print};
use super::{DEFAULT_PROTOCOL_ID, read_key};
use crate::clock;
use crate::config::{Listener, Netcode, Protocol, PublicAddresses, Yojimbo, fingerprint, parse_id};
use crate::exit::{Exit, Misused};
use crate::given_file::Occasion;
use crate::tokens::{self, Doubt, Server};

#[derive(Args, Debug)]
pub(in crate::cli) struct InspectArgs {
    /// The token: 2048 bytes, or base64
    file: PathBuf,
    /// Compare with a listener of this configuration
    #[arg(short, long, value_name = "FILE", group = "compared", conflicts_with_all = ["key", "server", "protocol_id"])]
    config: Option<PathBuf>,
    /// Listener of that configuration [default: the only one with tokens]
    #[arg(long, value_name = "NAME", requires = "config")]
    listener: Option<String>,
    /// Compare with this key
    #[arg(long, value_name = "FILE", group = "compared")]
    key: Option<PathBuf>,
    /// Compare with a server of this address
    #[arg(long, value_name = "ADDRESS", requires = "key")]
    server: Vec<SocketAddr>,
    /// Compare with a server of this protocol id
    #[arg(long, value_name = "ID", default_value = DEFAULT_PROTOCOL_ID, value_parser = parse_id)]
    protocol_id: u64,
    /// Start of the server, in seconds since 1970: it refuses tokens from before
    #[arg(long, value_name = "SECONDS", requires = "compared")]
    started: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn inspect(args: &InspectArgs) -> anyhow::Result<Exit> {
    let token = tokens::read_token_file(&args.file, Occasion::START_PATIENCE)?;
    let now = clock::wall_secs();
    let server = server(args, &token)?;
    let keys = server.as_ref().map_or(&[][..], |server| &server.keys);
    let doubts = server
        .as_ref()
        .map(|server| tokens::doubts(&token, server, now));
    let report = if args.json {
        as_json(&token, keys, doubts.as_deref(), now)
    } else {
        let text = as_text(&token, keys, doubts.as_deref(), now)?;
        let is_good = doubts.as_ref().is_some_and(Vec::is_empty);
        let good_for = server.as_ref().filter(|_| is_good);
        let mut verdict =
            good_for.map_or_else(String::new, |server| as_verdict(&token, server, now));
        let is_held = good_for.is_some_and(|server| server.max_token_lifetime.is_some());
        if is_held && args.config.is_none() && lifetime(&token) > Netcode::LIFETIME.as_secs() {
            verdict += &format!(
                " where max_token_lifetime is {} s or more\n",
                lifetime(&token)
            );
        }
        text + &verdict
    };
    print(&report)?;
    match doubts {
        Some(doubts) if !doubts.is_empty() => Ok(Exit::Failure),
        Some(_) | None => Ok(Exit::Done),
    }
}

/// The server to compare with, where one was given.
///
/// Of one whose file is not here, the longest lifetime is not known, and the token's own is taken for good.
fn server(args: &InspectArgs, token: &ConnectToken) -> anyhow::Result<Option<Server>> {
    if let Some(config) = &args.config {
        let loaded = input::load(Some(config), Vec::new())?;
        let (listener, yojimbo) = choose(&loaded.config.listeners, args.listener.as_deref())?;
        return Ok(Some(Server {
            protocol_id: yojimbo.netcode.protocol_id,
            keys: yojimbo.netcode.keys.clone(),
            public_addresses: match &listener.public_addresses {
                PublicAddresses::Any => None,
                PublicAddresses::Bound => Some(listener.bind.clone()),
                PublicAddresses::Listed(listed) => Some(listed.clone()),
            },
            max_token_lifetime: yojimbo
                .netcode
                .lifetime_max()
                .map(|lifetime| lifetime.as_secs()),
            clock_skew: yojimbo.netcode.clock_skew.as_secs(),
            started: args.started,
        }));
    }
    let Some(key) = &args.key else {
        return Ok(None);
    };
    let key = read_key(key)?;
    let longest = lifetime(token).clamp(
        Netcode::LIFETIME.as_secs(),
        Netcode::LIFETIMES.end().as_secs(),
    );
    Ok(Some(Server {
        protocol_id: args.protocol_id,
        max_token_lifetime: (!key.is_zero()).then_some(longest),
        keys: vec![key],
        public_addresses: (!args.server.is_empty()).then(|| args.server.clone()),
        clock_skew: Netcode::CLOCK_SKEW.as_secs(),
        started: args.started,
    }))
}

/// Seconds from when a token was made to when it expires.
fn lifetime(token: &ConnectToken) -> u64 {
    token.expire.saturating_sub(token.create)
}

/// The listener to compare with: the one of this name, or the only one with tokens.
fn choose<'a>(
    listeners: &'a [Listener],
    name: Option<&str>,
) -> Result<(&'a Listener, &'a Yojimbo), Misused> {
    let with_tokens: Vec<_> = (listeners.iter())
        .filter_map(|listener| match &listener.protocol {
            Protocol::Yojimbo(yojimbo) => Some((listener, yojimbo)),
            Protocol::Gaffer(_) | Protocol::Rudp(_) => None,
        })
        .collect();
    let names: Vec<_> = with_tokens
        .iter()
        .map(|(listener, _)| &*listener.name)
        .collect();
    let names = names.join(", ");
    let Some(name) = name else {
        return match with_tokens[..] {
            [only] => Ok(only),
            [] => Err(Misused("no listener of this file has tokens".to_owned())),
            _ => Err(Misused(format!("choose one with --listener: {names}"))),
        };
    };
    if let Some(found) = with_tokens
        .iter()
        .find(|(listener, _)| listener.name == name)
    {
        return Ok(*found);
    }
    Err(Misused(
        match listeners.iter().find(|other| other.name == name) {
            Some(other) => {
                let protocol = other.protocol.label();
                format!("listener {name} speaks {protocol}, which has no tokens")
            }
            None if names.is_empty() => {
                format!("no listener is called {name}, and none has tokens")
            }
            None => format!("no listener is called {name}; with tokens there are: {names}"),
        },
    ))
}

fn as_text(
    token: &ConnectToken,
    keys: &[Key],
    doubts: Option<&[Doubt]>,
    now: u64,
) -> Result<String, std::fmt::Error> {
    let at = |time: u64| match time.checked_sub(now) {
        None | Some(0) => format!("{time} ({} s ago)", now - time),
        Some(left) => format!("{time} ({left} s from now)"),
    };
    let mut lines = vec![
        ("protocol id", format!("{:#018x}", token.protocol_id)),
        ("made", at(token.create)),
        match token.expire {
            u64::MAX => ("expires", "never".to_owned()),
            expire => ("expires", at(expire)),
        },
        ("timeout", format!("{} s", token.timeout_seconds)),
    ];
    let servers = token.servers.iter();
    lines.extend(servers.map(|server| ("dial", server.to_string())));
    let session = [&token.client_to_server, &token.server_to_client].map(fingerprint);
    lines.push((
        "session's keys",
        format!("{}, made with it", session.join(" ")),
    ));
    if let Ok((index, private)) = token.open_private(keys) {
        lines.push(("opened with key", fingerprint(&keys[index])));
        lines.push(("client id", format!("{0} ({0:#018x})", private.client_id)));
        let servers = private.servers.iter();
        lines.extend(servers.map(|server| ("good for", server.to_string())));
        let user_data = private.user_data.as_bytes();
        let used = user_data.iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |last| last + 1);
        lines.push(("user data", format!("{used} bytes")));
    } else if keys.is_empty() {
        let sealed = "sealed; give --key or --config to open it";
        lines.push(("private part", sealed.to_owned()));
    }
    let mut out = String::new();
    for (name, value) in lines {
        writeln!(out, "{name:<17}{value}")?;
    }
    for doubt in doubts.into_iter().flatten() {
        writeln!(out, "refused ({}): {}", doubt.reject.label(), doubt.why)?;
        writeln!(out, " help: {}", doubt.help)?;
    }
    Ok(out)
}

/// Of a token without doubts: the latest start after which a server takes it is its expiry less the longest lifetime.
fn as_verdict(token: &ConnectToken, server: &Server, now: u64) -> String {
    let mut verdict = "a server with this key would take it, once\n".to_owned();
    if let (None, Some(longest)) = (server.started, server.max_token_lifetime) {
        let start = token.expire.saturating_sub(longest);
        verdict += &format!(
            " unless it was started after {start} ({} s ago), and keeps no token history: --started looks at that\n",
            now.saturating_sub(start)
        );
    }
    verdict
}

fn as_json(token: &ConnectToken, keys: &[Key], doubts: Option<&[Doubt]>, now: u64) -> String {
    let private = token.open_private(keys).ok().map(|(index, private)| {
        json!({
            "key": fingerprint(&keys[index]),
            "client_id": private.client_id.to_string(),
            "servers": private.servers,
        })
    });
    let doubts = doubts.map(|doubts| {
        let object = |doubt: &Doubt| {
            json!({"reason": doubt.reject.label(), "why": doubt.why, "help": doubt.help})
        };
        doubts.iter().map(object).collect::<Vec<_>>()
    });
    let object = json!({
        "protocol_id": format!("{:#018x}", token.protocol_id),
        "create": token.create,
        "expire": token.expire.to_string(),
        "now": now,
        "timeout_s": token.timeout_seconds,
        "servers": token.servers,
        "client_to_server_key": fingerprint(&token.client_to_server),
        "server_to_client_key": fingerprint(&token.server_to_client),
        "private": private,
        "refusals": doubts,
    });
    format!("{object}\n")
}
