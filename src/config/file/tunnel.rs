//! `[tunnel.*]` as typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{Size, Span};
use super::{Backend, Gaffer, Netcode, Protocol, Rate, Rudp, Yojimbo};
use crate::framing::Framing;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tunnel {
    pub(crate) listen: Vec<String>,
    pub(crate) remote: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) framing: Option<Framing>,
    pub(crate) length_includes_header: bool,
    pub(crate) max_message: Size,
    pub(crate) channel_byte: bool,
    pub(crate) max_streams: i64,
    pub(crate) connect_timeout: Span,
    pub(crate) idle_timeout: Span,
    pub(crate) queue_to_stream: Size,
    pub(crate) queue_to_remote: Size,
    pub(crate) linger: Span,
    pub(crate) rate: Option<Rate>,
    pub(crate) netcode: Option<TunnelNetcode>,
    pub(crate) yojimbo: Option<Yojimbo>,
    pub(crate) gaffer: Option<Gaffer>,
    pub(crate) rudp: Option<Rudp>,
}

impl Default for Tunnel {
    fn default() -> Self {
        let backend = Backend::default();
        Self {
            listen: Vec::new(),
            remote: None,
            protocol: Protocol::Yojimbo,
            framing: None,
            length_includes_header: false,
            max_message: backend.max_message,
            channel_byte: false,
            // Each is a UDP socket and a session of its own.
            max_streams: 4096,
            connect_timeout: Span::of("5s"),
            idle_timeout: Span::of("10s"),
            queue_to_stream: backend.queue_to_backend,
            queue_to_remote: backend.queue_to_peer,
            linger: backend.linger,
            rate: None,
            netcode: None,
            yojimbo: None,
            gaffer: None,
            rudp: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TunnelNetcode {
    pub(crate) protocol_id: String,
    pub(crate) key_file: Option<String>,
    pub(crate) token_file: Option<String>,
    pub(crate) token_command: Option<String>,
    pub(crate) token_lifetime: Span,
    pub(crate) client_id: Option<String>,
    pub(crate) server_addresses: Vec<String>,
    pub(crate) insecure: bool,
}

impl Default for TunnelNetcode {
    fn default() -> Self {
        let server = Netcode::default();
        Self {
            protocol_id: server.protocol_id,
            key_file: None,
            token_file: None,
            token_command: None,
            token_lifetime: server.max_token_lifetime,
            client_id: None,
            server_addresses: Vec::new(),
            insecure: false,
        }
    }
}
