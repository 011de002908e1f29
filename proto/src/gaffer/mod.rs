//! gaffer: the protocol of Glenn Fiedler's 2008 articles, and messages on top of it.
//!
//! ```text
//!   datagram ──▶ wire ──▶ session ──▶ acks ──▶ sender          what arrived of ours
//!                            └──────▶ receiver ──▶ inbox       what arrived for us
//!   datagram ◀── wire ◀── session ◀── sender ◀── send
//! ```
//!
//! The header and its rules are the articles'; the layout of messages behind it is ours, because
//! they give none. Both, and what the protocol cannot protect against: docs/wire/gaffer.md.

mod acceptor;
pub mod acks;
mod numbering;
mod receiver;
mod session;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use crate::ip::IPV4_UDP_HEADER_BYTES;
use crate::sender;

pub use acceptor::Acceptor;
pub use session::Session;

/// How a session behaves. Shared by all sessions of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// What the packets of this game begin with.
    pub protocol_id: u32,
    /// What stands behind the header.
    pub payload: Payload,
    /// Longest message. In raw mode it must fit one packet; with messages it is cut into at most
    /// 256 fragments of 1024 bytes.
    pub message_bytes_max: usize,
    /// Longest datagram sent; at least 1100.
    pub datagram_bytes_max: usize,
    /// The peer is gone after more than this silence: the article's ten seconds.
    pub idle_timeout: Duration,
    /// Strangers must acknowledge a number we made up for their address before they get a session.
    pub probe: bool,
    /// When to send: [`sender::Params::article`], unless told otherwise.
    pub sender: sender::Params,
    /// Bytes that may wait to be polled, each message charged with [`crate::inbox::MESSAGE_OVERHEAD`]; with more,
    /// packets are refused.
    pub inbox_max: usize,
}

/// What stands behind the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Our records: a reliable ordered channel (0) and an unreliable one (1).
    #[default]
    Messages,
    /// Whatever the game puts there: each packet is one message, at most once (channel 0).
    Raw {
        /// What happens to a packet that comes after a newer one.
        late: Late,
    },
}

/// A packet that comes after a newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Is dropped: the newest state is what counts.
    #[default]
    Drop,
    /// Is passed on, if it is one of the last 128.
    Pass,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            protocol_id: 0x1122_3344,
            payload: Payload::default(),
            message_bytes_max: 16 * 1024,
            datagram_bytes_max: 1200,
            idle_timeout: Duration::from_secs(10),
            probe: true,
            sender: sender::Params::article(),
            inbox_max: 256 * 1024,
        }
    }
}

impl Params {
    /// Bytes behind the header in one datagram.
    fn packet_bytes(&self) -> usize {
        self.datagram_bytes_max.clamp(1100, 1472) - wire::HEADER_BYTES
    }

    /// The longest message a session sends or takes.
    fn message_max(&self) -> usize {
        match self.payload {
            Payload::Raw { .. } => self.message_bytes_max.min(self.packet_bytes()),
            Payload::Messages => self
                .message_bytes_max
                .min(wire::FRAGMENT_BYTES * wire::FRAGMENTS_MAX),
        }
    }

    fn sender(&self) -> Arc<sender::Params> {
        let inline = match self.payload {
            Payload::Raw { .. } => self.message_max(),
            // Longer ones go in fragments.
            Payload::Messages => self.message_max().min(wire::FRAGMENT_BYTES),
        };
        Arc::new(sender::Params {
            inline_max: inline,
            ..self.sender.clone()
        })
    }

    fn framing(&self) -> sender::Framing {
        let is_raw = matches!(self.payload, Payload::Raw { .. });
        sender::Framing {
            datagram: self.packet_bytes() as u16,
            piece: self.packet_bytes() as u16,
            packet: self.packet_bytes() as u16,
            packet_overhead: 0,
            lane_overhead: 0,
            message_overhead: if is_raw {
                0
            } else {
                wire::MESSAGE_OVERHEAD as u16
            },
            fragment_overhead: wire::FRAGMENT_OVERHEAD as u16,
            wire_overhead: (IPV4_UDP_HEADER_BYTES + wire::HEADER_BYTES) as u16,
            datagram_overhead: wire::HEADER_BYTES as u16,
            again_within: 0,
        }
    }

    /// Goodbyes, in one go: at 10 % loss, one peer in a thousand hears none of them and waits out its
    /// timeout. The articles have none.
    fn goodbyes(&self) -> u8 {
        match self.payload {
            Payload::Raw { .. } => 0,
            Payload::Messages => 3,
        }
    }

    fn lanes(&self) -> Vec<sender::Lane> {
        let blocks = sender::Blocks {
            fragment: wire::FRAGMENT_BYTES as u16,
            bytes_max: self.message_max() as u32,
            together_max: 0,
        };
        let reliable = sender::Lane::Reliable {
            blocks: Some(blocks),
            window: receiver::WINDOW,
            per_packet: 255,
        };
        let unreliable = |per_packet| sender::Lane::Unreliable { per_packet };
        match self.payload {
            Payload::Raw { .. } => vec![unreliable(1)],
            Payload::Messages => vec![reliable, unreliable(255)],
        }
    }
}
