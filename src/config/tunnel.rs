//! What `tidegate connect` listens on, and where its connect tokens come from.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::Key;

use crate::framing::FrameCodec;

use super::{Protocol, Rate};

/// One local port of `tidegate connect`, and the server its streams go to.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its name: metric label, log field.
    pub name: String,
    /// At least one.
    pub listen: Vec<LocalAddress>,
    /// Host name or address of the server, without brackets.
    pub remote_host: String,
    pub remote_port: u16,
    /// How messages are told apart on the local streams.
    pub codec: FrameCodec,
    /// Local connections at a time.
    pub max_streams: usize,
    /// A handshake.
    pub connect_timeout: Duration,
    /// Silence after which the server is gone.
    pub idle_timeout: Duration,
    /// Bytes waiting for the local stream: above it the server is no longer acknowledged.
    pub queue_to_stream: usize,
    /// Bytes waiting for the server: above it the local stream is no longer read.
    pub queue_to_remote: usize,
    /// How long the local end may take to close after we have.
    pub linger: Duration,
    pub rate: Rate,
    pub protocol: Protocol,
    /// Where connect tokens come from; `None` for protocols without.
    pub tokens: Option<TokenSource>,
}

/// Where `tidegate connect` takes local streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// Port 0 only on loopback.
    Tcp(SocketAddr),
    /// A socket in the file system, made with mode 0600.
    Unix(PathBuf),
}

/// Where connect tokens come from. Each session needs a fresh one.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// Made here, with the server's key.
    Key(TokenMint),
    /// Read from this file for each session.
    File(PathBuf),
    /// Printed by this shell command for each session.
    Command(String),
}

/// How own connect tokens are made.
#[derive(Clone, Debug)]
pub struct TokenMint {
    pub key: Key,
    /// Random for each session when `None`.
    pub client_id: Option<u64>,
    /// The server addresses in the token; what `remote` resolves to when empty.
    pub server_addresses: Vec<SocketAddr>,
    /// From making to expiry.
    pub lifetime: Duration,
}
