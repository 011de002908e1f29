//! One encrypted packet: opened and judged in the standard's order, or begun for sealing.
//!
//! Rule: docs/wire/netcode.md, sections 4 and 5.

use super::crypto::{self, Key};
use super::gcm::EpochKey;
use super::replay::Replay;
use super::wire::{CHALLENGE_BYTES, Kind, Prefix, Sizes};
use crate::session::Reject;

/// Which end we are; it decides which kinds we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We seat clients.
    Server,
    /// We dial.
    Client,
}

impl Role {
    /// Whether this end reads packets of `kind` at all.
    pub const fn takes(self, kind: Kind) -> bool {
        match kind {
            Kind::Request => false,
            Kind::Denied | Kind::Challenge => matches!(self, Self::Client),
            Kind::Response => matches!(self, Self::Server),
            Kind::KeepAlive | Kind::Payload | Kind::Disconnect | Kind::GcmPayload => true,
        }
    }
}

/// What a reader takes that is not the standard's; by default, nothing.
#[derive(Debug)]
pub struct Beyond {
    /// How large packets may be.
    pub(super) sizes: Sizes,
    /// Payloads under the second cipher.
    takes_gcm: bool,
    gcm: EpochKey,
}

impl Beyond {
    /// Packets of these sizes, and of the second cipher or not.
    pub fn new(sizes: Sizes, takes_gcm: bool) -> Self {
        Self {
            sizes,
            takes_gcm,
            gcm: EpochKey::default(),
        }
    }

    /// Another reader's, of these sizes and ciphers.
    pub(super) fn again(&self) -> Self {
        Self::new(self.sizes, self.takes_gcm)
    }
}

impl Default for Beyond {
    fn default() -> Self {
        Self::new(Sizes::STANDARD, false)
    }
}

/// What an encrypted packet said.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The server has no room.
    Denied,
    /// A challenge token to send back.
    Challenge(Proof<'a>),
    /// A challenge token sent back.
    Response(Proof<'a>),
    /// Still here; from the server: this slot, of so many.
    KeepAlive {
        /// Slot of the client.
        client_index: u32,
        /// Slots of the server.
        max_clients: u32,
    },
    /// What the layer above sent: 1 to 1200 bytes by the standard.
    Payload {
        /// The packet's sequence.
        sequence: u64,
        /// What it carries.
        bytes: &'a [u8],
    },
    /// Goodbye.
    Disconnect,
}

/// A sealed challenge token and the sequence it was sealed with.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof<'a> {
    /// Nonce of the token.
    pub sequence: u64,
    /// The token; opened in place by the server.
    pub token: &'a mut [u8; CHALLENGE_BYTES],
}

/// Decrypts a packet in place and reads it.
///
/// The window, if given, moves as soon as the tag is right and before the size is looked at, as in
/// the reference: a packet of the wrong size uses its sequence up. Nothing else changes anything.
pub fn open<'a>(
    role: Role,
    key: &Key,
    protocol_id: u64,
    beyond: &mut Beyond,
    replay: Option<&mut Replay>,
    datagram: &'a mut [u8],
) -> Result<Packet<'a>, Reject> {
    let prefix = Prefix::parse(datagram)?;
    let is_known = prefix.kind != Kind::GcmPayload || beyond.takes_gcm;
    if datagram.len() > usize::from(beyond.sizes.datagram) || !is_known {
        return Err(Reject::Malformed);
    }
    if !role.takes(prefix.kind) {
        return Err(Reject::Unexpected);
    }
    let replay = replay.filter(|_| prefix.kind.is_replay_protected());
    if let Some(replay) = &replay {
        replay.check(prefix.sequence)?;
    }
    let sealed = &mut datagram[prefix.size()..];
    let plain = unseal(&prefix, key, &mut beyond.gcm, protocol_id, sealed)?;
    if let Some(replay) = replay {
        replay.advance(prefix.sequence);
    }
    read(beyond.sizes, &prefix, plain).ok_or(Reject::Malformed)
}

fn read<'a>(sizes: Sizes, prefix: &Prefix, plain: &'a mut [u8]) -> Option<Packet<'a>> {
    Some(match prefix.kind {
        Kind::Request => return None,
        Kind::Denied => plain.is_empty().then_some(Packet::Denied)?,
        Kind::Disconnect => plain.is_empty().then_some(Packet::Disconnect)?,
        Kind::Challenge => Packet::Challenge(read_proof(plain)?),
        Kind::Response => Packet::Response(read_proof(plain)?),
        Kind::KeepAlive => {
            let plain: [u8; 8] = (&*plain).try_into().ok()?;
            let number = u64::from_le_bytes(plain);
            Packet::KeepAlive {
                client_index: number as u32,
                max_clients: (number >> 32) as u32,
            }
        }
        Kind::Payload | Kind::GcmPayload => {
            if !(1..=usize::from(sizes.payload)).contains(&plain.len()) {
                return None;
            }
            Packet::Payload {
                sequence: prefix.sequence,
                bytes: plain,
            }
        }
    })
}

fn read_proof(plain: &mut [u8]) -> Option<Proof<'_>> {
    let (sequence, token) = plain.split_first_chunk_mut::<8>()?;
    Some(Proof {
        sequence: u64::from_le_bytes(*sequence),
        token: token.try_into().ok()?,
    })
}

/// Appends a whole packet.
pub fn emit(
    out: &mut Vec<u8>,
    key: &Key,
    protocol_id: u64,
    kind: Kind,
    sequence: u64,
    plain: &[u8],
) {
    let prefix = Prefix::new(kind, sequence);
    prefix.emit(out);
    let from = out.len();
    out.extend_from_slice(plain);
    seal(
        &prefix,
        key,
        &mut EpochKey::default(),
        protocol_id,
        out,
        from,
    );
}

/// Encrypts `out[from..]` in place, under the cipher of the packet's kind, and appends the tag.
pub(super) fn seal(
    prefix: &Prefix,
    key: &Key,
    gcm: &mut EpochKey,
    protocol_id: u64,
    out: &mut Vec<u8>,
    from: usize,
) {
    let (sequence, data) = (prefix.sequence, prefix.associated_data(protocol_id));
    match prefix.kind {
        Kind::GcmPayload => gcm.seal(key, sequence, &data, out, from),
        _ => crypto::seal(key, sequence, &data, out, from),
    }
}

/// Decrypts in place what [`seal`] made; what is in `sealed` after a failure is unspecified.
pub(super) fn unseal<'a>(
    prefix: &Prefix,
    key: &Key,
    gcm: &mut EpochKey,
    protocol_id: u64,
    sealed: &'a mut [u8],
) -> Result<&'a mut [u8], Reject> {
    let (sequence, data) = (prefix.sequence, prefix.associated_data(protocol_id));
    match prefix.kind {
        Kind::GcmPayload => gcm.open(key, sequence, &data, sealed),
        _ => crypto::open(key, sequence, &data, sealed),
    }
}

/// Plaintext of a challenge or response.
pub fn proof_bytes(sequence: u64, token: &[u8; CHALLENGE_BYTES]) -> [u8; 8 + CHALLENGE_BYTES] {
    let mut plain = [0; 8 + CHALLENGE_BYTES];
    plain[..8].copy_from_slice(&sequence.to_le_bytes());
    plain[8..].copy_from_slice(token);
    plain
}

/// Plaintext of a keep-alive.
pub fn keep_alive_bytes(client_index: u32, max_clients: u32) -> [u8; 8] {
    (u64::from(max_clients) << 32 | u64::from(client_index)).to_le_bytes()
}
