//! `[backend.*]` as typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{Size, Span};
use super::super::{Balance, UnreliablePolicy};
use crate::framing::Framing;
use crate::proxy_protocol::ProxyTransport;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Backend {
    pub(crate) targets: Vec<String>,
    pub(crate) balance: Balance,
    pub(crate) framing: Option<Framing>,
    pub(crate) length_includes_header: bool,
    pub(crate) max_message: Size,
    pub(crate) unreliable: UnreliablePolicy,
    pub(crate) channel_byte: bool,
    pub(crate) proxy_protocol: ProxyVersion,
    pub(crate) proxy_transport: ProxyTransport,
    pub(crate) proxy_tlvs: Vec<ProxyTlv>,
    pub(crate) connect_timeout: Span,
    pub(crate) connect_attempts: i64,
    #[serde(deserialize_with = "super::two")]
    pub(crate) retry_backoff: [Span; 2],
    pub(crate) queue_to_backend: Size,
    pub(crate) queue_to_peer: Size,
    pub(crate) stall: Span,
    pub(crate) tcp_nodelay: bool,
    pub(crate) tcp_keepalive: Span,
    pub(crate) linger: Span,
    pub(crate) dns_refresh: Span,
    pub(crate) health: Health,
}

impl Default for Backend {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            balance: Balance::LeastPeers,
            framing: None,
            length_includes_header: false,
            // The longest message that any of the protocols carries.
            max_message: Size::of("256KiB"),
            // The newest state of a game is worth more than the oldest.
            unreliable: UnreliablePolicy::DropOldest,
            channel_byte: false,
            // A backend that does not expect the header takes it for a message.
            proxy_protocol: ProxyVersion::Off,
            // Most readers refuse the other one.
            proxy_transport: ProxyTransport::Stream,
            proxy_tlvs: vec![
                ProxyTlv::UniqueId,
                ProxyTlv::Listener,
                ProxyTlv::ClientId,
                ProxyTlv::UserData,
                ProxyTlv::Protocol,
            ],
            // A peer waits in front of the door this long, and its handshake gives up after 5 s.
            connect_timeout: Span::of("2s"),
            connect_attempts: 3,
            retry_backoff: [Span::of("100ms"), Span::of("2s")],
            // What a fast path brings in ten milliseconds, which a busy backend may take to come and read;
            // what is refused meanwhile looks like a loss to its sender.
            queue_to_backend: Size::of("4MiB"),
            // Four of the largest messages.
            queue_to_peer: Size::of("2MiB"),
            // A server that takes nothing for so long is not slow, it hangs.
            stall: Span::of("10s"),
            // Messages are small and wanted now.
            tcp_nodelay: true,
            tcp_keepalive: Span::of("30s"),
            // Closing with unread input destroys data in flight.
            linger: Span::of("2s"),
            dns_refresh: Span::of("30s"),
            health: Health::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProxyVersion {
    Off,
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProxyTlv {
    UniqueId,
    Listener,
    ClientId,
    UserData,
    Protocol,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Health {
    pub(crate) kind: HealthKind,
    pub(crate) interval: Span,
    pub(crate) timeout: Span,
    pub(crate) up_after: i64,
    pub(crate) down_after: i64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            kind: HealthKind::Connect,
            interval: Span::of("5s"),
            timeout: Span::of("1s"),
            up_after: 2,
            down_after: 3,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HealthKind {
    Off,
    Connect,
}
