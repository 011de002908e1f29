//! `tidegate token mint`: makes a connect token.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use data_encoding::HEXLOWER_PERMISSIVE;
use tidegate_proto::yojimbo::netcode::UserData;

use super::super::{cannot_write, is_standard_output, print, write_while_read};
use super::{DEFAULT_PROTOCOL_ID, read_key};
use crate::config::{Netcode, parse_duration, parse_id, parse_whole_seconds, write_secret};
use crate::exit::{Exit, Misused};
use crate::given_file::{GivenFile, Occasion};
use crate::tokens::{self, Recipe};

#[derive(Args, Debug)]
pub(in crate::cli) struct MintArgs {
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

pub(super) fn mint(args: MintArgs) -> anyhow::Result<Exit> {
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
