//! The servers behind a listener.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::framing::FrameCodec;
use crate::proxy_protocol::ProxyHeader;

/// The local TCP or Unix servers behind listeners.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Its name: metric label, log field.
    pub name: String,
    /// At least one.
    pub targets: Vec<Target>,
    /// Which target a new session gets.
    pub balance: Balance,
    /// How messages are told apart.
    pub codec: FrameCodec,
    /// What a full queue does to unreliable messages.
    pub unreliable: UnreliablePolicy,
    /// What each stream starts with.
    pub proxy: Option<ProxyHeader>,
    /// One connect.
    pub connect_timeout: Duration,
    /// Connects tried for one session, over different targets where there are some.
    pub connect_attempts: u32,
    /// Pauses between them.
    pub retry_backoff: Backoff,
    /// Bytes waiting for the backend, per peer: above it the peer is no longer acknowledged.
    pub queue_to_backend: usize,
    /// Bytes waiting for the peer: above it the backend is no longer read.
    pub queue_to_peer: usize,
    /// A backend that takes nothing for this long is given up.
    pub stall: Duration,
    /// Send small frames at once.
    pub tcp_nodelay: bool,
    /// Probes of the kernel on a silent connection; `None` is off.
    pub tcp_keepalive: Option<Duration>,
    /// How long the far end may take to close after we have.
    pub linger: Duration,
    /// Host names are looked up again this often, and at every failed connect or check.
    pub dns_refresh: Duration,
    /// Checks while nobody connects; `None` is off.
    pub health: Option<Health>,
}

/// Where a backend listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A host name or address, and a port.
    Tcp {
        /// As typed, without brackets.
        host: String,
        /// Never 0.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Target {
    /// Whether it has to be looked up.
    pub fn has_name(&self) -> bool {
        matches!(self, Self::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
    }
}

/// As typed: `tcp://host:port` or `unix:/path`.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Which target a new session gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The one with the fewest sessions.
    LeastPeers,
    /// One after the other.
    RoundRobin,
    /// The first that is up; the others are spares.
    First,
    /// Each client id always has the same target, while that is up.
    HashClientId,
}

/// What a full queue does to unreliable messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnreliablePolicy {
    /// Makes room for the newest.
    DropOldest,
    /// Keeps what it has.
    DropNewest,
    /// Holds the peer's packet back, as for reliable ones.
    Refuse,
}

/// Growing pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
}

/// Checks of a target by connecting to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// One check.
    pub interval: Duration,
    /// Its time.
    pub timeout: Duration,
    /// Good checks in a row until a target is up.
    pub up_after: u32,
    /// Failed checks in a row until it is down.
    pub down_after: u32,
}
