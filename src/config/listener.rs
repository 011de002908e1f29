//! What `tidegate serve` listens on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_proto::AckPolicy;
use tidegate_proto::yojimbo::netcode::Key;

use super::{Backend, Protocol, Rate};

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
    pub max_peers: usize,
    /// Silence after which a peer is gone (yojimbo: unless its token says otherwise).
    pub idle_timeout: Duration,
    /// When a packet counts as received.
    pub ack: AckPolicy,
    /// Whether a session follows its peer to a new port.
    pub follow_address_change: FollowAddress,
    /// What peers and strangers may use.
    pub limits: Limits,
    pub rate: Rate,
    pub protocol: Protocol,
    /// It and its backend as a configuration file of their own, every value in force and no key:
    /// what a recording of its sessions begins with.
    pub recorded: Arc<str>,
}

impl Listener {
    /// Whether there are connect tokens that both take.
    pub(super) fn shares_tokens(&self, other: &Self) -> bool {
        let (Protocol::Yojimbo(ours), Protocol::Yojimbo(theirs)) =
            (&self.protocol, &other.protocol)
        else {
            return false;
        };
        let (ours, theirs) = (&ours.netcode, &theirs.netcode);
        let is_theirs = |key: &Key| theirs.keys.iter().any(|k| k.as_bytes() == key.as_bytes());
        ours.protocol_id == theirs.protocol_id
            && ours.keys.iter().any(is_theirs)
            && self.may_be_named_as(other)
    }

    /// Whether a token can name both by one address.
    fn may_be_named_as(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.names(), other.names());
        let any = ours.contains(&None) || theirs.contains(&None);
        any || ours.iter().any(|name| theirs.contains(name))
    }

    /// What tokens may name it by; `None` is anything. A port that the kernel chooses is nobody else's.
    pub(super) fn names(&self) -> Vec<Option<SocketAddr>> {
        let Some(addresses) = self.named() else {
            return vec![None];
        };
        let chosen = addresses.iter().filter(|address| address.port() != 0);
        chosen.copied().map(Some).collect()
    }

    /// How tokens may name it; `None` is any way.
    fn named(&self) -> Option<&[SocketAddr]> {
        match &self.public_addresses {
            PublicAddresses::Bound => Some(&self.bind),
            PublicAddresses::Listed(listed) => Some(listed),
            PublicAddresses::Any => None,
        }
    }
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

/// Whether a session follows its peer when a NAT gives it another address. Nothing in a packet of gaffer or rudp proves
/// whose it is: their sessions follow nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FollowAddress {
    /// No.
    Off,
    /// To another port of the same IP.
    Port,
}

/// What peers and strangers of one listener may use.
#[derive(Clone, Debug)]
pub struct Limits {
    pub peer_packets: Bucket,
    pub peer_bytes: Bucket,
    /// Messages of one peer that are shorter than 64 bytes.
    pub peer_messages: Bucket,
    /// Datagrams and bytes beyond these are dropped even when nobody else waits.
    pub strict: bool,
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

/// More than `limit` broken rules ban an address for `ban`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// One more at once is a ban. At least 1.
    pub limit: u32,
    /// In which `limit` of them are forgotten, one by one.
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

impl Bucket {
    /// One worker's part, so that the workers of a listener keep to its rate together. At least 1.
    #[must_use]
    pub fn share_of(self, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        Self {
            rate: self.rate.div_ceil(workers),
            burst: self.burst.div_ceil(workers),
        }
    }
}
