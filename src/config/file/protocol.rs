//! What a listener or tunnel speaks, as typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{Size, Span, show_duration};
use super::super::{GafferMode, OnMissing};
use crate::config;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    Yojimbo,
    Gaffer,
    Rudp,
}

impl Protocol {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Yojimbo => "yojimbo",
            Self::Gaffer => "gaffer",
            Self::Rudp => "rudp",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Netcode {
    pub(crate) protocol_id: String,
    pub(crate) key_file: String,
    pub(crate) previous_key_files: Vec<String>,
    pub(crate) max_token_lifetime: Span,
    pub(crate) clock_skew: Span,
    pub(crate) insecure: bool,
}

impl Default for Netcode {
    fn default() -> Self {
        Self {
            // "tidegat1": the layout that stands in the defaults of [listener.*.yojimbo].
            protocol_id: "0x3174616765646974".to_owned(),
            key_file: "netcode.key".to_owned(),
            previous_key_files: Vec::new(),
            max_token_lifetime: Span::of(&show_duration(config::Netcode::LIFETIME)),
            clock_skew: Span::of(&show_duration(config::Netcode::CLOCK_SKEW)),
            insecure: false,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Yojimbo {
    pub(crate) max_packet_size: Size,
    pub(crate) fragment_above: Size,
    pub(crate) packet_fragment_size: Size,
    pub(crate) path_mtu_max: Size,
    pub(crate) check_word: bool,
    pub(crate) channel: Vec<YojimboChannel>,
    pub(crate) message: Vec<YojimboMessage>,
}

impl Default for Yojimbo {
    fn default() -> Self {
        Self {
            // The library's.
            max_packet_size: Size::of("8KiB"),
            // The library's 1024 cuts every full block fragment in two.
            fragment_above: Size::of("1152B"),
            // The library's; another size is dropped in silence.
            packet_fragment_size: Size::of("1KiB"),
            // Jumbo frames, and loopback.
            path_mtu_max: Size::of("9000B"),
            // The library has none since 1.2.3.
            check_word: false,
            channel: vec![
                YojimboChannel::default(),
                YojimboChannel {
                    kind: ChannelKind::UnreliableUnordered,
                    disable_blocks: true,
                    ..YojimboChannel::default()
                },
            ],
            message: vec![
                YojimboMessage {
                    name: "Frame".to_owned(),
                    body: MessageBody::Bytes,
                    // The longest that always fits a packet beside everything else.
                    length: Some([0, 7000]),
                    bits: None,
                },
                YojimboMessage {
                    name: "BlockFrame".to_owned(),
                    body: MessageBody::Block,
                    length: None,
                    bits: None,
                },
            ],
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct YojimboChannel {
    #[serde(rename = "type")]
    pub(crate) kind: ChannelKind,
    pub(crate) max_messages_per_packet: i64,
    pub(crate) max_block_size: Size,
    pub(crate) block_fragment_size: Size,
    pub(crate) disable_blocks: bool,
    pub(crate) receive_queue: i64,
}

/// The defaults of yojimbo's library.
impl Default for YojimboChannel {
    fn default() -> Self {
        Self {
            kind: ChannelKind::ReliableOrdered,
            max_messages_per_packet: 256,
            max_block_size: Size::of("256KiB"),
            block_fragment_size: Size::of("1KiB"),
            disable_blocks: false,
            receive_queue: 1024,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChannelKind {
    ReliableOrdered,
    UnreliableUnordered,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct YojimboMessage {
    pub(crate) name: String,
    pub(crate) body: MessageBody,
    #[serde(default, deserialize_with = "super::maybe_two")]
    pub(crate) length: Option<[i64; 2]>,
    pub(crate) bits: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MessageBody {
    Bytes,
    Block,
    Bits,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Gaffer {
    pub(crate) protocol_id: String,
    pub(crate) mode: GafferMode,
    pub(crate) max_message: Size,
}

impl Default for Gaffer {
    fn default() -> Self {
        Self {
            // "tide".
            protocol_id: "0x74696465".to_owned(),
            mode: GafferMode::Reliable,
            max_message: Size::of("16KiB"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rudp {
    pub(crate) mtu: Size,
    pub(crate) max_message: Size,
    pub(crate) send_delay: Span,
    pub(crate) expired_time: Span,
    pub(crate) on_missing: OnMissing,
    pub(crate) probe: bool,
}

impl Default for Rudp {
    fn default() -> Self {
        Self {
            // Four times the library's: fewer datagrams, and still far from any fragmentation.
            mtu: Size::of("512B"),
            // Longer ones depend on IP fragments.
            max_message: Size::of("1468B"),
            // The library's users tick every 10 ms.
            send_delay: Span::of("10ms"),
            // Half of what a peer may be silent; a message lives for one to two of these.
            expired_time: Span::of("5s"),
            // A reliable stream with a hole is not one.
            on_missing: OnMissing::Close,
            // A forged source gets one small datagram, and never a session.
            probe: true,
        }
    }
}
