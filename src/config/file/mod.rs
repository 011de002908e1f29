//! What can be typed: every key, and its default with the reason for it.
//!
//! Only `resolve/` looks at these types. A word of a fixed set is what it stands for already: those sets are
//! where they are used from. Whole numbers are `i64` so that a negative one gets an
//! answer with the accepted range; quantities stay text until then for the same reason. An
//! `Option` here is a key whose default depends on others, or that has none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::LogFormat;
use super::units::{Size, Span};

mod backend;
mod listener;
mod protocol;
mod rate;
mod tunnel;

pub(crate) use backend::{Backend, Health, HealthKind, ProxyTlv, ProxyVersion};
pub(crate) use listener::{Ack, Bucket, Limits, Listener, Strikes};
pub(crate) use protocol::{
    ChannelKind, Gaffer, MessageBody, Netcode, Protocol, Rudp, Yojimbo, YojimboChannel,
    YojimboMessage,
};
pub(crate) use rate::{Bulk, Penalty, Rate, RateProfile};
pub(crate) use tunnel::{Tunnel, TunnelNetcode};

/// serde's own arrays ignore silently what is beyond their length.
fn two<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<[T; 2], D::Error> {
    let all = Vec::<T>::deserialize(from)?;
    let count = all.len();
    all.try_into()
        .map_err(|_| D::Error::invalid_length(count, &"a list of two"))
}

/// A list of two, for a key that may be absent.
fn maybe_two<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<[T; 2]>, D::Error> {
    two(from).map(Some)
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) version: Option<i64>,
    pub(crate) runtime: Runtime,
    pub(crate) admin: Admin,
    pub(crate) log: Log,
    pub(crate) drain: Drain,
    pub(crate) listener: BTreeMap<String, Listener>,
    pub(crate) backend: BTreeMap<String, Backend>,
    pub(crate) tunnel: BTreeMap<String, Tunnel>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Runtime {
    pub(crate) workers: i64,
    pub(crate) max_peers: i64,
    pub(crate) queue_memory: Size,
    pub(crate) udp_recv_buffer: Size,
    pub(crate) udp_send_buffer: Size,
    pub(crate) state_directory: String,
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            // As many loops as suit; sessions follow their peers from one to another.
            workers: 0,
            // At most 2 MiB a peer in the worst case, and a few KiB in the usual one.
            max_peers: 4096,
            // What that worst case may really use, all peers together.
            queue_memory: Size::of("256MiB"),
            // The kernel's 208 KiB hold 92 datagrams: one late wake-up. 4 MiB hold 1 800.
            udp_recv_buffer: Size::of("4MiB"),
            udp_send_buffer: Size::of("4MiB"),
            // What is kept there is worth nothing after a boot, so memory is the place for it:
            // $RUNTIME_DIRECTORY, which systemd makes; off where there is none.
            state_directory: "auto".to_owned(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Admin {
    pub(crate) listen: String,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) control_socket: String,
    pub(crate) control_mode: String,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            // Loopback: what is read there is nobody else's business.
            listen: "127.0.0.1:9477".to_owned(),
            // On loopback, only what no web page can make a browser say; elsewhere, whatever Prometheus knows us by.
            allowed_hosts: Vec::new(),
            // control.sock in $RUNTIME_DIRECTORY, which systemd makes; off where there is none.
            control_socket: "auto".to_owned(),
            // The file mode is the whole access control, so it starts with the owner alone.
            control_mode: "0600".to_owned(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: String,
    pub(crate) repeat_window: Span,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            level: "info".to_owned(),
            // Six lines a minute of one kind are enough to see that it goes on.
            repeat_window: Span::of("10s"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Drain {
    pub(crate) grace: Span,
    pub(crate) ready_delay: Span,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            // Below the 30 s after which Kubernetes kills, and systemd's 90 s.
            grace: Span::of("25s"),
            // Load balancers that need time to notice get it here.
            ready_delay: Span::of("0s"),
        }
    }
}
