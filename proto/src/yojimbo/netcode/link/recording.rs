//! What a recording keeps of a link, and the link that a replay makes of it.

use std::time::Duration;

use super::{Link, LinkParams};
use crate::session::Way;
use crate::time::Now;
use crate::yojimbo::netcode::crypto::Key;
use crate::yojimbo::netcode::gcm::EpochKey;
use crate::yojimbo::netcode::packet::{self, Role};
use crate::yojimbo::netcode::wire::{Prefix, TAG_BYTES};

/// What a server's link is made of, but for its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::yojimbo) struct LinkOrigin {
    protocol_id: u64,
    timeout: Option<Duration>,
    client_index: u32,
    max_clients: u32,
}

/// In the words of an origin: a timeout that never comes.
const NEVER: u64 = u64::MAX;

impl LinkOrigin {
    /// As a recording has it.
    pub(in crate::yojimbo) fn from_words(words: [u64; 4]) -> Self {
        let [protocol_id, timeout, client_index, max_clients] = words;
        Self {
            protocol_id,
            timeout: (timeout != NEVER).then(|| Duration::from_nanos(timeout)),
            client_index: client_index as u32,
            max_clients: max_clients as u32,
        }
    }

    /// For a recording.
    pub(in crate::yojimbo) fn to_words(self) -> [u64; 4] {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(NEVER);
        [
            self.protocol_id,
            self.timeout.map_or(NEVER, nanos),
            self.client_index.into(),
            self.max_clients.into(),
        ]
    }
}

impl Link {
    /// A server's link for a replay, under keys that are all zeros. What it seals is for nobody else.
    pub(in crate::yojimbo) fn replayed(now: Now, origin: LinkOrigin) -> Self {
        let params = LinkParams {
            role: Role::Server,
            protocol_id: origin.protocol_id,
            receive_key: Key::new([0; 32]),
            send_key: Key::new([0; 32]),
            timeout: origin.timeout,
        };
        Self::waiting(now, params, origin.client_index, origin.max_clients)
    }

    /// What [`Link::replayed`] makes a link like this one from.
    pub(in crate::yojimbo) fn origin(&self) -> LinkOrigin {
        LinkOrigin {
            protocol_id: self.protocol_id,
            timeout: self.timeout,
            client_index: self.client_index,
            max_clients: self.max_clients,
        }
    }

    /// Appends a packet as it would be without encryption: prefix, plaintext, and zeros for the
    /// tag. False when its tag is wrong. Changes nothing.
    pub(in crate::yojimbo) fn reveal(
        &self,
        way: Way,
        datagram: &[u8],
        clear: &mut Vec<u8>,
    ) -> bool {
        let Ok(prefix) = Prefix::parse(datagram) else {
            return false;
        };
        let key = match way {
            Way::FromPeer => &self.receive_key,
            Way::ToPeer => &self.send_key,
        };
        let from = clear.len();
        clear.extend_from_slice(datagram);
        let sealed = &mut clear[from + prefix.size()..];
        let tag = sealed.len() - TAG_BYTES;
        let gcm = &mut EpochKey::default();
        let opened = packet::unseal(&prefix, key, gcm, self.protocol_id, sealed).is_ok();
        if opened {
            sealed[tag..].fill(0);
        } else {
            clear.truncate(from);
        }
        opened
    }

    /// Appends the packet that [`Link::reveal`] reads as `clear`, as the peer would seal it.
    pub(in crate::yojimbo) fn conceal(&self, clear: &[u8], datagram: &mut Vec<u8>) -> bool {
        let Ok(prefix) = Prefix::parse(clear) else {
            return false;
        };
        let from = datagram.len() + prefix.size();
        datagram.extend_from_slice(&clear[..clear.len() - TAG_BYTES]);
        let (key, gcm) = (&self.receive_key, &mut EpochKey::default());
        packet::seal(&prefix, key, gcm, self.protocol_id, datagram, from);
        true
    }
}
