//! `tidegate token mint` and `tidegate token inspect`.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::json;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, UserData};

use super::{cannot_write, input, is_standard_output, print, write_while_read};
use crate::clock;
use crate::config::{
    KeyFileError, Listener, Netcode, Protocol, PublicAddresses, fingerprint, parse_duration,
    parse_id, parse_whole_seconds, read_key_file, write_secret,
};
use crate::exit::{Exit, Misused, Unavailable};
use crate::given_file::{GivenFile, Occasion};
use crate::tokens::{self, Doubt, Recipe, Server};

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create a connect token, as a matchmaker would
    Mint(MintArgs),
    /// Show what a token says, and why a server would refuse it
    Inspect(InspectArgs),
}

#[derive(Args, Debug)]
pub(super) struct MintArgs {
    /// Client id
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    client_id: u64,
    /// Server address, as the client dials it; up to 32 times
    #[arg(long, value_name = "ADDRESS", required = true, value_parser = parse_dialled)]
    server: Vec<SocketAddr>,
    /// The servers' key
    #[arg(long, value_name = "FILE", default_value = "netcode.key")]
    key: PathBuf,
    /// Protocol id: the game, and its version
    #[arg(long, value_name = "ID", default_value = DEFAULT_PROTOCOL_ID, value_parser = parse_id)]
    protocol_id: u64,
    /// Lifetime; give the server's max_token_lifetime. With less, a server that keeps no token history refuses the token
    /// for the difference after each start
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_lifetime)]
    lifetime: Duration,
    /// Silence after which a session ends
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_timeout)]
    timeout: Duration,
    /// User data for the backend, up to 256 bytes, from a file
    #[arg(long, value_name = "FILE", conflicts_with = "user_data")]
    user_data_file: Option<PathBuf>,
    /// User data for the backend, up to 256 bytes, in hex
    #[arg(long, value_name = "HEX")]
    user_data: Option<String>,
    /// Output file, raw, created with mode 0600; - is standard output, raw [default: standard output, in base64]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct InspectArgs {
    /// The token: 2048 bytes, or base64
    file: PathBuf,
    /// Compare with a listener of this configuration
    #[arg(short, long, value_name = "FILE", group = "compared", conflicts_with_all = ["key", "server", "protocol_id"])]
    config: Option<PathBuf>,
    /// Listener of that configuration [default: the only one]
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

/// "tidegat1".
const DEFAULT_PROTOCOL_ID: &str = "0x3174616765646974";

pub(super) fn run(command: TokenCommand) -> anyhow::Result<Exit> {
    match command {
        TokenCommand::Mint(args) => mint(args),
        TokenCommand::Inspect(args) => inspect(&args),
    }
}

/// An address that a client can send to: a token that names another one lets nobody in, and nothing else would say so.
fn parse_dialled(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        "no IP address with a port, such as 203.0.113.7:40000 or [2001:db8::7]:40000; names are not looked up here"
    })?;
    let ip = address.ip();
    if address.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
        return Err("nobody can dial that: name the address and port that players use".to_owned());
    }
    if matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
        return Err("a token cannot say on which interface a link-local address is".to_owned());
    }
    Ok(address)
}

/// Tokens count in seconds, and none is good for no time.
fn parse_token_seconds(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        short if short < Duration::from_secs(1) => Err("less than 1s".to_owned()),
        _ => parse_whole_seconds(text),
    }
}

/// A server takes no token that lives longer than its `max_token_lifetime`, whose own bound this is.
fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let longest = *Netcode::LIFETIMES.end();
    match parse_token_seconds(text)? {
        longer if longer > longest => Err(format!(
            "more than {} s, the most that a server's max_token_lifetime can be",
            longest.as_secs()
        )),
        lifetime => Ok(lifetime),
    }
}

/// In a token it has 32 bits and a sign: a longer one would be read as none at all, which servers refuse.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_token_seconds(text)?;
    match i32::try_from(timeout.as_secs()) {
        Ok(_) => Ok(timeout),
        Err(_) => Err(format!(
            "more than {} s, the most that a token can hold",
            i32::MAX
        )),
    }
}

fn mint(args: MintArgs) -> anyhow::Result<Exit> {
    let key = read_key(&args.key)?;
    let recipe = Recipe {
        protocol_id: args.protocol_id,
        client_id: args.client_id,
        servers: args.server,
        lifetime: args.lifetime,
        timeout: args.timeout,
        user_data: user_data(args.user_data_file.as_deref(), args.user_data.as_deref())?,
    };
    let token = tokens::mint(recipe, &key)?;
    match args.out {
        None => print(&format!("{}\n", &*tokens::token_text(&token))),
        Some(path) if is_standard_output(&path) => {
            write_while_read(&token.to_bytes()).map(|_| Exit::Done)
        }
        Some(path) => {
            write_secret(&path, &token.to_bytes()).map_err(|error| cannot_write(&path, &error))?;
            Ok(Exit::Done)
        }
    }
}

fn user_data(file: Option<&Path>, hex: Option<&str>) -> anyhow::Result<UserData> {
    let bytes = match (file, hex) {
        (Some(path), _) => {
            let reading = || format!("reading {}", path.display());
            let file = GivenFile::open(path).with_context(reading)?;
            let bytes = file.read(USER_DATA_BYTES_MAX, Occasion::Start);
            bytes.with_context(reading)?.to_vec()
        }
        (None, Some(hex)) => match HEXLOWER_PERMISSIVE.decode(hex.as_bytes()) {
            Ok(bytes) => bytes,
            Err(_) => bail!(Misused(format!(
                "--user-data {hex}: not an even number of hex digits"
            ))),
        },
        (None, None) => Vec::new(),
    };
    let mut padded = [0; USER_DATA_BYTES_MAX];
    match padded.get_mut(..bytes.len()) {
        Some(start) => start.copy_from_slice(&bytes),
        None => bail!(Misused(format!(
            "user data of more than {USER_DATA_BYTES_MAX} bytes: no more fit"
        ))),
    }
    Ok(UserData::new(padded))
}

/// What netcode has room for.
const USER_DATA_BYTES_MAX: usize = 256;

fn inspect(args: &InspectArgs) -> anyhow::Result<Exit> {
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
        let listener = choose(&loaded.config.listeners, args.listener.as_deref())?;
        let Protocol::Yojimbo(yojimbo) = &listener.protocol else {
            bail!(Misused(format!(
                "listener {} speaks {}, which has no tokens",
                listener.name,
                listener.protocol.label()
            )));
        };
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

fn choose<'a>(listeners: &'a [Listener], name: Option<&str>) -> anyhow::Result<&'a Listener> {
    let names: Vec<_> = listeners
        .iter()
        .map(|listener| listener.name.as_str())
        .collect();
    let found = match (name, listeners) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), _) => listeners.iter().find(|listener| listener.name == name),
    };
    found.ok_or_else(|| Misused(format!("choose one with --listener: {}", names.join(", "))).into())
}

fn read_key(path: &Path) -> anyhow::Result<Key> {
    read_key_file(path).map_err(|error| {
        let text = format!("{error}\n help: {}", error.help());
        match error {
            KeyFileError::Unreadable(_, why) if why.is_unavailable() => Unavailable(text).into(),
            _ => anyhow::anyhow!(text),
        }
    })
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
    lines.push(("client's key", fingerprint(&token.client_to_server)));
    lines.push(("server's key", fingerprint(&token.server_to_client)));
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
