//! Connect tokens outside the protocol: made with a key, read from a file, fetched by a command.
//!
//! A token holds the keys of one session: it is written to files that only their owner can read,
//! and nothing of it is ever logged.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use data_encoding::BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, Mint, PrivateToken, UserData};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::blocking;
use crate::clock;
use crate::config::TokenSource;
use crate::given_file::GivenFile;

mod inspect;

pub use inspect::{Doubt, Server, doubts, doubts_from_afar};

/// What a new token says.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Which game, and which version of it.
    pub protocol_id: u64,
    /// Who the client is.
    pub client_id: u64,
    /// The servers it is good for, in the order a client tries them; 1 to 32.
    pub servers: Vec<SocketAddr>,
    /// From now to its expiry.
    pub lifetime: Duration,
    /// Silence after which either side gives up.
    pub timeout: Duration,
    /// For the backend.
    pub user_data: UserData,
}

/// Makes a token under the servers' key. Its session keys and nonce are drawn here.
pub fn mint(recipe: Recipe, key: &Key) -> anyhow::Result<ConnectToken> {
    let create = clock::wall_secs();
    let private = PrivateToken {
        client_id: recipe.client_id,
        timeout_seconds: recipe.timeout.as_secs() as i32,
        servers: recipe.servers,
        client_to_server: Key::new(random()?),
        server_to_client: Key::new(random()?),
        user_data: recipe.user_data,
    };
    let lifetime = create..=create.saturating_add(recipe.lifetime.as_secs());
    let mint = Mint::new(recipe.protocol_id, lifetime, random()?, private);
    Ok(ConnectToken::mint(mint, key)?)
}

/// Bytes from the operating system's generator.
pub fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => bail!("the system has no random numbers"),
    }
}

/// A token for one session.
#[derive(Clone, Debug)]
pub struct Fresh {
    pub token: ConnectToken,
    /// Who its client is, where it was made here; in others that is for the server's eyes only.
    pub client_id: Option<u64>,
}

impl Fresh {
    fn given(token: ConnectToken) -> Self {
        Self {
            token,
            client_id: None,
        }
    }
}

/// A fresh token for one session with the server at `remote`.
pub async fn obtain(
    source: &TokenSource,
    protocol_id: u64,
    remote: SocketAddr,
    timeout: Duration,
) -> anyhow::Result<Fresh> {
    match source {
        TokenSource::Key(own) => {
            let client_id = match own.client_id {
                Some(id) => id,
                None => u64::from_le_bytes(random()?),
            };
            let recipe = Recipe {
                protocol_id,
                client_id,
                servers: if own.server_addresses.is_empty() {
                    vec![remote]
                } else {
                    own.server_addresses.clone()
                },
                lifetime: own.lifetime,
                timeout,
                user_data: UserData::empty(),
            };
            Ok(Fresh {
                token: mint(recipe, &own.key)?,
                client_id: Some(client_id),
            })
        }
        TokenSource::File(path) => {
            let path = path.clone();
            let read = move || read_token_file(&path, SOURCE_PATIENCE);
            let token = blocking::ask("token", &READERS, read).await??;
            Ok(Fresh::given(token))
        }
        TokenSource::Command(command) => Ok(Fresh::given(run_token_command(command).await?)),
    }
}

/// Reads a token from a file: 2048 bytes raw, or base64.
///
/// A pipe is waited for, so long at most.
pub fn read_token_file(path: &Path, patience: Duration) -> anyhow::Result<ConnectToken> {
    let reading = || format!("reading the connect token in {}", path.display());
    let file = GivenFile::open(path).with_context(reading)?;
    let bytes = file
        .read_within(TOKEN_TEXT_BYTES_MAX, patience)
        .with_context(reading)?;
    if bytes.len() > TOKEN_TEXT_BYTES_MAX {
        let what = anyhow::anyhow!("more than {TOKEN_TEXT_BYTES_MAX} bytes are no token");
        return Err(what.context(reading()));
    }
    parse_token(&bytes).with_context(reading)
}

/// A token as 2048 bytes, or as base64 with white space around it.
pub fn parse_token(bytes: &[u8]) -> anyhow::Result<ConnectToken> {
    if let Ok(token) = ConnectToken::parse(bytes) {
        return Ok(token);
    }
    let text: Option<&str> = std::str::from_utf8(bytes).ok().map(str::trim);
    let decoded = text.and_then(|text| BASE64.decode(text.as_bytes()).ok());
    match decoded.map(Zeroizing::new) {
        Some(decoded) => Ok(ConnectToken::parse(&decoded)?),
        None => Ok(ConnectToken::parse(bytes)?),
    }
}

/// A token as one line of base64.
pub fn token_text(token: &ConnectToken) -> Zeroizing<String> {
    Zeroizing::new(BASE64.encode(&token.to_bytes()))
}

/// Base64 of 2048 bytes has 2732 characters.
const TOKEN_TEXT_BYTES_MAX: usize = 4096;
/// Files that are read at a time; nobody may ever write to one that is a pipe.
static READERS: Semaphore = Semaphore::const_new(16);
/// A token service that takes longer is down.
const SOURCE_PATIENCE: Duration = Duration::from_secs(10);

async fn run_token_command(command: &str) -> anyhow::Result<ConnectToken> {
    let mut child = tokio::process::Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting the token command {command:?}"))?;
    let output = child.stdout.take().context("the command has no output")?;
    let run = async {
        let mut bytes = Zeroizing::new(Vec::new());
        let most = TOKEN_TEXT_BYTES_MAX as u64 + 1;
        output.take(most).read_to_end(&mut bytes).await?;
        let status = child.wait().await?;
        anyhow::Ok((bytes, status))
    };
    let finished = tokio::time::timeout(SOURCE_PATIENCE, run).await;
    let (bytes, status) = finished
        .with_context(|| format!("the token command {command:?} took over 10 s"))?
        .with_context(|| format!("running the token command {command:?}"))?;
    if !status.success() {
        bail!("the token command {command:?} ended with {status}");
    }
    parse_token(&bytes).with_context(|| format!("what the token command {command:?} printed"))
}

#[cfg(test)]
mod tests;
