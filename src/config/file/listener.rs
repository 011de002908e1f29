//! `[listener.*]` as typed, without what it speaks and how fast.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::FollowAddress;
use super::super::units::{Size, Span};
use super::{Gaffer, Netcode, Protocol, Rate, Rudp, Yojimbo};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Listener {
    pub(crate) protocol: Protocol,
    pub(crate) bind: Vec<String>,
    pub(crate) public_addresses: Vec<String>,
    pub(crate) backend: Option<String>,
    pub(crate) max_peers: i64,
    pub(crate) idle_timeout: Span,
    pub(crate) ack: Ack,
    pub(crate) follow_address_change: FollowAddress,
    pub(crate) limits: Limits,
    pub(crate) rate: Option<Rate>,
    pub(crate) netcode: Option<Netcode>,
    pub(crate) yojimbo: Option<Yojimbo>,
    pub(crate) gaffer: Option<Gaffer>,
    pub(crate) rudp: Option<Rudp>,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            // The only one with authentication and encryption.
            protocol: Protocol::Yojimbo,
            bind: Vec::new(),
            public_addresses: Vec::new(),
            backend: None,
            // What the reference server holds at most.
            max_peers: 4096,
            // Long enough for a phone to change cells, short enough to free the slot.
            idle_timeout: Span::of("10s"),
            ack: Ack::Queued,
            // What home routers do; the peer proves itself under its key.
            follow_address_change: FollowAddress::Port,
            limits: Limits::default(),
            rate: None,
            netcode: None,
            yojimbo: None,
            gaffer: None,
            rudp: None,
        }
    }
}

impl Listener {
    /// Without what is refused because it does nothing: a recording may be older than the refusal.
    pub(crate) fn forget_what_does_nothing(&mut self) {
        if self.protocol == Protocol::Rudp {
            self.rate = None;
        }
        if self.protocol != Protocol::Yojimbo {
            self.public_addresses.clear();
            self.limits.strikes = Strikes::default();
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ack {
    Queued,
    Strict,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) peer_packets: Bucket,
    pub(crate) peer_bytes: ByteBucket,
    pub(crate) peer_messages: Bucket,
    pub(crate) strict: bool,
    pub(crate) ip_handshakes: Bucket,
    pub(crate) handshakes: Bucket,
    pub(crate) table_size: i64,
    pub(crate) strikes: Strikes,
    pub(crate) allow: Vec<String>,
    pub(crate) allow_any_source: bool,
    pub(crate) deny: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A client that fills eight fragments 90 times a second sends 720 datagrams.
            peer_packets: Bucket {
                rate: 1000,
                burst: 2000,
            },
            // The same in bytes, with room for a level download.
            peer_bytes: ByteBucket {
                rate: Size::of("2MiB"),
                burst: Size::of("4MiB"),
            },
            // A message costs a queue entry however short it is.
            peer_messages: Bucket {
                rate: 10_000,
                burst: 20_000,
            },
            // What nobody waits for would be lost for nothing.
            strict: false,
            // Ten datagrams a second for each handshake: a LAN behind one address can start at once.
            ip_handshakes: Bucket {
                rate: 200,
                burst: 400,
            },
            // What token decryption may cost: under a tenth of one core. A smaller budget would hurt those
            // who join more than a flood: they draw lots with it.
            handshakes: Bucket {
                rate: 50_000,
                burst: 50_000,
            },
            // 640 KiB a table, whatever addresses are forged.
            table_size: 65_536,
            strikes: Strikes::default(),
            // Empty is everybody with yojimbo, which knows its peers by their tokens; gaffer and
            // rudp get the private networks instead.
            allow: Vec::new(),
            allow_any_source: false,
            deny: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bucket {
    pub(crate) rate: i64,
    pub(crate) burst: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByteBucket {
    pub(crate) rate: Size,
    pub(crate) burst: Size,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Strikes {
    pub(crate) limit: i64,
    pub(crate) window: Span,
    pub(crate) ban: Span,
}

impl Default for Strikes {
    fn default() -> Self {
        Self {
            // An honest client breaks the protocol never; a broken build, behind one address with
            // honest ones, once a session.
            limit: 20,
            window: Span::of("1m"),
            ban: Span::of("1m"),
        }
    }
}
