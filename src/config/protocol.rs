//! What is spoken, with what each protocol needs to know.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_proto::Channel;
use tidegate_proto::yojimbo::channels::{ChannelLayout, Delivery, Layout};
use tidegate_proto::yojimbo::netcode::Key;

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

    /// Whether anybody may open sessions.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Yojimbo(own) => own.netcode.is_open(),
            Self::Gaffer(_) | Self::Rudp(_) => true,
        }
    }

    /// Whether its sessions find out how long a datagram the path takes, and never need a longer one.
    pub const fn tries_longer_datagrams(&self) -> bool {
        matches!(self, Self::Yojimbo(_))
    }

    /// The first channel whose messages all arrive, once and in order, if there is one.
    pub fn reliable_channel(&self) -> Option<Channel> {
        match self {
            Self::Yojimbo(own) => {
                let is_reliable =
                    |channel: &ChannelLayout| channel.delivery == Delivery::ReliableOrdered;
                let index = own.layout.channels().iter().position(is_reliable)?;
                Channel::try_from(index).ok()
            }
            Self::Gaffer(own) => (own.mode == GafferMode::Reliable).then_some(0),
            Self::Rudp(_) => Some(0),
        }
    }
}

/// The yojimbo stack.
#[derive(Clone, Debug)]
pub struct Yojimbo {
    pub netcode: Netcode,
    /// What both ends must have in common.
    pub layout: Layout,
    /// The largest IP packet, in bytes, that one fast connection may grow to where path and peer take it.
    pub path_mtu_max: u16,
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

impl Netcode {
    /// What `max_token_lifetime` is unless the file says otherwise: netcode's own default. What a restart costs: older
    /// tokens are refused that long.
    pub const LIFETIME: Duration = Duration::from_secs(30);

    /// What it may be.
    pub const LIFETIMES: RangeInclusive<Duration> =
        Duration::from_secs(1)..=Duration::from_secs(86_400);

    /// What `clock_skew` is unless the file says otherwise: between machines that keep their time, with room for one
    /// that keeps it badly.
    pub const CLOCK_SKEW: Duration = Duration::from_secs(5);

    /// The lifetime that tokens are held to. None with the all-zero key: anybody can make tokens of any age then, and
    /// those of yojimbo's samples live for 10 s or for 60 s, depending on the version.
    pub fn lifetime_max(&self) -> Option<Duration> {
        (!self.is_open()).then_some(self.max_token_lifetime)
    }

    /// Whether anybody can make tokens.
    fn is_open(&self) -> bool {
        self.keys.iter().any(Key::is_zero)
    }
}

/// The 2008 article's packets.
#[derive(Clone, Debug)]
pub struct Gaffer {
    /// First four bytes of every datagram.
    pub protocol_id: u32,
    pub mode: GafferMode,
    pub max_message: usize,
}

/// What the payload of a gaffer packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissing {
    /// The stream is broken: close.
    Close,
    /// Go on with the next one.
    Skip,
}
