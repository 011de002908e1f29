//! What the program runs with: addresses, durations and keys, checked, nothing optional that must
//! be there.
//!
//! ```text
//!   defaults ◀ file ◀ TIDEGATE__A__B=value ◀ flags        each later one wins
//!        └──────┴────────────┴───────────────┘
//!                 file.rs: as typed, unknown keys refused
//!                            │ resolve.rs: every mistake at once
//!                            ▼
//!                 Config (this file)
//! ```
//!
//! `config/tidegate.toml` is the reference: every key, its default, and why.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tidegate_proto::AckPolicy;
use tidegate_proto::rate::Penalty;
use tidegate_proto::yojimbo::channels::Profile;
use tidegate_proto::yojimbo::netcode::Key;

use crate::framing::FrameCodec;
use crate::proxy_protocol::ProxyHeader;

mod file;
mod flags;
mod load;
mod mistake;
mod resolve;
mod schema;
mod secret;
mod units;

pub use flags::{BadUrl, ConnectFlags, ServeFlags};
pub use load::{Effective, Input, Loaded, Override, Source, load, load_recorded};
pub use mistake::{Excerpt, Mistake, Place, Refusal};
pub use schema::schema;
pub use secret::{
    KeyFileError, KeyFiles, fingerprint, generate_key, read_key_file, write_new_secret,
    write_secret,
};
pub use units::{parse_duration, parse_id, parse_size, show_duration, show_size};

/// Everything one process runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// What all listeners and tunnels share.
    pub runtime: Runtime,
    /// What operators talk to.
    pub admin: Admin,
    /// Lines on standard error.
    pub log: Log,
    /// How to stop.
    pub drain: Drain,
    /// UDP sides of `tidegate serve`, by name.
    pub listeners: Vec<Listener>,
    /// Local sides of `tidegate connect`, by name.
    pub tunnels: Vec<Tunnel>,
}

/// What all listeners and tunnels share.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// UDP loops per listener, at least 1.
    pub workers: usize,
    /// Peers over all listeners.
    pub max_peers: usize,
    /// Bytes in all queues together.
    pub queue_memory: usize,
    /// Receive buffer asked of the kernel for each UDP socket.
    pub udp_recv_buffer: usize,
    /// Send buffer, likewise.
    pub udp_send_buffer: usize,
}

/// What operators talk to.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Read-only HTTP; `None` is off.
    pub listen: Option<SocketAddr>,
    /// What changes state; `None` is off.
    pub control_socket: Option<PathBuf>,
    /// File mode of the control socket.
    pub control_mode: u32,
}

/// Lines on standard error.
#[derive(Clone, Debug)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// A level, or directives such as `info,tidegate::listener=debug`.
    pub level: String,
    /// One line per event and reason in this time, the rest is counted.
    pub repeat_window: Duration,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// How to stop.
#[derive(Clone, Debug)]
pub struct Drain {
    /// What is accepted may take this long to be delivered.
    pub grace: Duration,
    /// Not ready, but still taking peers, for this long first.
    pub ready_delay: Duration,
}

/// One UDP port (or several) in front of one backend.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its name: metric label, log field, PROXY TLV.
    pub name: String,
    /// Sockets. Port 0 only on loopback.
    pub bind: Vec<SocketAddr>,
    /// The addresses a connect token may name.
    pub public_addresses: PublicAddresses,
    /// Where its peers' messages go.
    pub backend: Arc<Backend>,
    /// Seats.
    pub max_peers: usize,
    /// Silence after which a peer is gone (yojimbo: unless its token says otherwise).
    pub idle_timeout: Duration,
    /// When a packet counts as received.
    pub ack: AckPolicy,
    /// Whether a session follows its peer to a new port.
    pub follow_address_change: FollowAddress,
    /// What peers and strangers may use.
    pub limits: Limits,
    /// When to send what.
    pub rate: Rate,
    /// What it speaks.
    pub protocol: Protocol,
    /// It and its backend as a configuration file of their own, every value in force and no key:
    /// what a recording of its sessions begins with.
    pub recorded: Arc<str>,
}

/// The addresses a connect token may name for a server to take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicAddresses {
    /// The addresses the sockets are bound to (none of them a wildcard).
    Bound,
    /// These.
    Listed(Vec<SocketAddr>),
    /// Any: the key alone decides. For a server that shares its key with no other.
    Any,
}

/// Whether a session follows its peer when a NAT gives it another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowAddress {
    /// No.
    Off,
    /// To another port of the same IP.
    Port,
}

/// What peers and strangers of one listener may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Datagrams of one peer.
    pub peer_packets: Bucket,
    /// Bytes of one peer.
    pub peer_bytes: Bucket,
    /// Messages of one peer.
    pub peer_messages: Bucket,
    /// Handshake datagrams of one address, before any cryptography.
    pub ip_handshakes: Bucket,
    /// Handshake datagrams of the whole listener.
    pub handshakes: Bucket,
    /// Entries of the address table; addresses beyond it share.
    pub table_size: usize,
    /// How often peers of one address may break the protocol before it is banned; `None` is for ever,
    /// and where nothing proves who sent a datagram.
    pub strikes: Option<Strikes>,
    /// When not empty, only these may come. For gaffer and rudp it is empty only when somebody
    /// wrote `allow_any_source`.
    pub allow: Vec<IpNet>,
    /// These may not come.
    pub deny: Vec<IpNet>,
}

/// So many broken rules in so much time ban an address for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// At least 1.
    pub limit: u32,
    /// See above.
    pub window: Duration,
    /// How long nobody new may come from there.
    pub ban: Duration,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens a second, at least 1.
    pub rate: u32,
    /// Tokens it holds, at least 1.
    pub burst: u32,
}

/// When to send what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The rule that tells good from bad.
    pub profile: RateProfile,
    /// Packets a second in good mode.
    pub good_rate: u32,
    /// Packets a second in bad mode.
    pub bad_rate: u32,
    /// Packets that may leave at once after a pause.
    pub burst: u32,
    /// How long conditions must be good before good mode returns.
    pub penalty: Penalty,
    /// Whether messages are sent again before any loss is known.
    pub redundancy: bool,
}

/// The rule that tells good from bad, with what only it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateProfile {
    /// By the rise over the peer's own base RTT, and by loss.
    Adaptive(Adaptive),
    /// By a fixed RTT, as the 2008 article says.
    Article(Article),
}

/// When a path is bad by its own measure, and what bulk may take. Bytes are a second's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// Rise over the base that is a queue while bulk is sent.
    pub queue_max: Duration,
    /// And while only messages are.
    pub queue_max_messages: Duration,
    /// How long the base is believed.
    pub base_window: Duration,
    /// Share of the packets above which loss may be bad.
    pub loss_max: f64,
    /// Bulk on a path that was not measured yet.
    pub bulk_start: f64,
    /// Bulk at least.
    pub bulk_min: f64,
    /// Bulk at most.
    pub bulk_max: f64,
}

/// The 2008 article's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Article {
    /// Bad above this smoothed round trip.
    pub rtt_max: Duration,
    /// A message is due again after this.
    pub resend_after: Duration,
}

/// What a listener or tunnel speaks.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// netcode, reliable, yojimbo.
    Yojimbo(Yojimbo),
    /// The 2008 article's packets.
    Gaffer(Gaffer),
    /// cloudwu/rudp.
    Rudp(Rudp),
}

impl Protocol {
    /// The word for it in configuration, logs, metrics and PROXY headers.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Yojimbo(_) => "yojimbo",
            Self::Gaffer(_) => "gaffer",
            Self::Rudp(_) => "rudp",
        }
    }
}

/// The yojimbo stack.
#[derive(Clone, Debug)]
pub struct Yojimbo {
    /// Keys and tokens.
    pub netcode: Netcode,
    /// What both ends must have in common.
    pub profile: Profile,
}

/// Keys and tokens of a listener.
#[derive(Clone, Debug)]
pub struct Netcode {
    /// Both ends must have the same.
    pub protocol_id: u64,
    /// Connect tokens are sealed with the first; the others are still accepted. Empty for a tunnel
    /// that is given its tokens.
    pub keys: Vec<Key>,
    /// The longest lifetime that a genuine token can have.
    pub max_token_lifetime: Duration,
    /// By how much the clocks of token service and server may differ.
    pub clock_skew: Duration,
    /// Whether the all-zero key was asked for.
    pub insecure: bool,
}

/// The 2008 article's packets.
#[derive(Clone, Debug)]
pub struct Gaffer {
    /// First four bytes of every datagram.
    pub protocol_id: u32,
    /// What a payload is.
    pub mode: GafferMode,
    /// The longest message.
    pub max_message: usize,
}

/// What the payload of a gaffer packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GafferMode {
    /// One message, at most once, as in the article.
    Raw,
    /// Reliable ordered messages.
    Reliable,
}

/// cloudwu/rudp.
#[derive(Clone, Debug)]
pub struct Rudp {
    /// Records are gathered into datagrams up to this size.
    pub mtu: usize,
    /// The longest message.
    pub max_message: usize,
    /// Output is built this often at most.
    pub send_delay: Duration,
    /// A sent message can be asked for again for this long.
    pub expired_time: Duration,
    /// What to do about a message the peer has forgotten.
    pub on_missing: OnMissing,
    /// Whether a new address must answer a request before it becomes a peer.
    pub probe: bool,
}

/// What to do about a message the peer has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// The stream is broken: close.
    Close,
    /// Go on with the next one.
    Skip,
}

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
    /// Host names are looked up again this often, and at every failed connect.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The one with the fewest sessions.
    LeastPeers,
    /// One after the other.
    RoundRobin,
    /// The first that is up; the others are spares.
    First,
    /// The same client id, the same target.
    HashClientId,
}

/// What a full queue does to unreliable messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// One local port of `tidegate connect`, and the server its streams go to.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its name: metric label, log field.
    pub name: String,
    /// At least one.
    pub listen: Vec<LocalAddress>,
    /// Host name or address of the server, without brackets.
    pub remote_host: String,
    /// Its UDP port.
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
    /// When to send what.
    pub rate: Rate,
    /// What it speaks.
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
    /// The server's key.
    pub key: Key,
    /// Random for each session when `None`.
    pub client_id: Option<u64>,
    /// The server addresses in the token; what `remote` resolves to when empty.
    pub server_addresses: Vec<SocketAddr>,
    /// From making to expiry.
    pub lifetime: Duration,
}
