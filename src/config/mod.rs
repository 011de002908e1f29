//! What the program runs with: addresses, durations and keys, checked, nothing optional that must
//! be there.
//!
//! ```text
//!   defaults ◀ file ◀ TIDEGATE__A__B=value ◀ flags        each later one wins
//!        └──────┴────────────┴───────────────┘
//!                 file/: as typed; unknown keys and values of another kind, all at once
//!                            │ resolve/: then what the values say, all at once
//!                            ▼
//!                 Config (this file, and a file for each kind of table)
//! ```
//!
//! A table keeps its name on the way: a key of `[listener.*]` is typed in `file/listener.rs`, checked
//! in `resolve/listener.rs`, and used as `listener.rs` has it.
//!
//! `config/tidegate.toml` is the reference: every key, its default, and why.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod backend;
mod elsewhere;
mod file;
mod flags;
mod layers;
mod listener;
mod load;
mod mistake;
mod origins;
mod protocol;
mod rate;
mod resolve;
mod schema;
mod secret;
mod tunnel;
mod units;

pub use backend::{Backend, Backoff, Balance, Health, Target, UnreliablePolicy};
pub use flags::{BadUrl, ConnectFlags, ServeFlags};
pub use listener::{Bucket, FollowAddress, Limits, Listener, PublicAddresses, Strikes};
pub use load::{Input, Loaded, Override, load, load_recorded};
pub use mistake::{Excerpt, Mistake, Place, Refusal};
pub use origins::{Effective, Source};
pub use protocol::{Gaffer, GafferMode, Netcode, OnMissing, Protocol, Rudp, Yojimbo};
pub use rate::{Adaptive, Article, Rate, RateProfile};
pub use schema::schema;
pub use secret::{
    KeyFileError, KeyFiles, fingerprint, generate_key, read_key_file, write_new_secret,
    write_secret,
};
pub use tunnel::{LocalAddress, TokenMint, TokenSource, Tunnel};
pub use units::{
    parse_duration, parse_id, parse_size, parse_whole_seconds, show_duration, show_size,
};

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
    /// Where a start finds what an earlier process knew; `None` is nowhere.
    pub state_directory: Option<PathBuf>,
}

/// What operators talk to.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Read-only HTTP; `None` is off.
    pub listen: Option<SocketAddr>,
    /// Names that it may be asked by. None: on loopback, none but `localhost`; elsewhere, any.
    pub allowed_hosts: Vec<String>,
    /// What changes state; `None` is off.
    pub control_socket: Option<PathBuf>,
    /// Whether somebody chose its place; if so, it must be had.
    pub control_named: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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
