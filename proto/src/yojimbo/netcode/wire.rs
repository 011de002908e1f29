//! Offsets live here and nowhere else: the packet prefix, the connection request, addresses.
//!
//! Rule: docs/wire/netcode.md, sections 1, 2 and 4. Nothing here knows a key.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::cursor::{PastEnd, Reader};
use crate::session::Reject;

/// What every token, request and associated data begins with: the version, zero byte included.
pub const VERSION: [u8; 13] = *b"NETCODE 1.02\0";
/// Bytes of the authentication tag after each ciphertext.
pub const TAG_BYTES: usize = 16;
/// Bytes of a connection request, the only length a server takes.
pub const REQUEST_BYTES: usize = 1078;
/// Bytes of the sealed private part of a connect token.
pub const PRIVATE_BYTES: usize = 1024;
/// Bytes of a connect token's nonce.
pub const TOKEN_NONCE_BYTES: usize = 24;
/// Bytes of a sealed challenge token.
pub const CHALLENGE_BYTES: usize = 300;
/// Server addresses in one token, at most (and at least 1).
pub const MAX_SERVERS: usize = 32;

/// How large an encrypted packet may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes one payload packet carries at most (and at least 1).
    pub payload: u16,
    /// Largest datagram a reader takes.
    pub datagram: u16,
}

impl Sizes {
    /// The standard's.
    pub const STANDARD: Self = Self {
        payload: 1200,
        datagram: 1300,
    };

    /// Those of a reader that takes payloads of so many bytes, and never less than the standard.
    pub fn with_payload(payload: u16) -> Self {
        let standard = Self::STANDARD;
        Self {
            payload: payload.max(standard.payload),
            datagram: (payload + (1 + 8 + TAG_BYTES) as u16).max(standard.datagram),
        }
    }

    /// Whether no peer of the standard would send or take this datagram.
    pub fn is_beyond_standard(datagram: &[u8]) -> bool {
        datagram.len() > usize::from(Self::STANDARD.datagram)
    }
}

/// The kind of a packet: the low four bits of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Carries the sealed private token; the only kind that is not encrypted itself.
    Request = 0,
    /// The server has no room for this client.
    Denied = 1,
    /// Carries a challenge token for the client to send back.
    Challenge = 2,
    /// Carries the challenge token back.
    Response = 3,
    /// Says "still here", and, from the server, which slot this is.
    KeepAlive = 4,
    /// Carries what the layer above sends.
    Payload = 5,
    /// Goodbye.
    Disconnect = 6,
    /// A payload under the second cipher, which is not the standard's: docs/wire/netcode.md,
    /// section 13. The highest number, so that the standard may go on counting.
    GcmPayload = 15,
}

impl Kind {
    /// The kind with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Request,
            1 => Self::Denied,
            2 => Self::Challenge,
            3 => Self::Response,
            4 => Self::KeepAlive,
            5 => Self::Payload,
            6 => Self::Disconnect,
            15 => Self::GcmPayload,
            _ => return None,
        })
    }

    /// Whether packets of this kind go through the replay window. The handshake kinds do not: they
    /// are repeated on purpose, and what they may do once is limited elsewhere.
    pub const fn is_replay_protected(self) -> bool {
        matches!(
            self,
            Self::KeepAlive | Self::Payload | Self::Disconnect | Self::GcmPayload
        )
    }
}

/// What stands in clear before an encrypted packet: kind and sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The packet's kind; never [`Kind::Request`] after a parse.
    pub kind: Kind,
    /// The number its nonce is made of.
    pub sequence: u64,
    /// First byte as it came; it is part of the associated data.
    pub byte: u8,
}

impl Prefix {
    /// The shortest form of `kind` and `sequence`.
    pub const fn new(kind: Kind, sequence: u64) -> Self {
        let significant = 8 - sequence.leading_zeros() as u8 / 8;
        let length = if significant == 0 { 1 } else { significant };
        Self {
            kind,
            sequence,
            byte: (length << 4) | kind as u8,
        }
    }

    /// Bytes it takes on the wire.
    pub const fn size(&self) -> usize {
        1 + (self.byte >> 4) as usize
    }

    /// Appends it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.byte);
        out.extend_from_slice(&self.sequence.to_le_bytes()[..self.size() - 1]);
    }

    /// Reads the prefix of an encrypted packet and checks that a tag fits behind it.
    ///
    /// A sequence written with more bytes than it needs is taken, as the reference does; the prefix
    /// is authenticated, so nobody but the peer can have written it so.
    pub fn parse(datagram: &[u8]) -> Result<Self, Reject> {
        let (&byte, rest) = datagram.split_first().ok_or(Reject::Malformed)?;
        if datagram.len() < 1 + 1 + TAG_BYTES {
            return Err(Reject::Malformed);
        }
        let kind = match Kind::from_number(byte & 0x0f) {
            None => return Err(Reject::Malformed),
            Some(Kind::Request) => return Err(Reject::Unexpected),
            Some(kind) => kind,
        };
        let length = usize::from(byte >> 4);
        if !(1..=8).contains(&length) || rest.len() < length + TAG_BYTES {
            return Err(Reject::Malformed);
        }
        // A tag follows, so that eight bytes are there in any case.
        let eight = rest.first_chunk().ok_or(Reject::Malformed)?;
        Ok(Self {
            kind,
            sequence: u64::from_le_bytes(*eight) & u64::MAX >> (64 - 8 * length),
            byte,
        })
    }

    /// The associated data of an encrypted packet.
    pub fn associated_data(&self, protocol_id: u64) -> [u8; 22] {
        let mut data = [0; 22];
        data[..13].copy_from_slice(&VERSION);
        data[13..21].copy_from_slice(&protocol_id.to_le_bytes());
        data[21] = self.byte;
        data
    }
}

/// A connection request, its private token still sealed.
#[derive(Debug)]
pub struct Request<'a> {
    /// When the token expires, seconds since 1970.
    pub expire: u64,
    /// Nonce of the private token.
    pub nonce: [u8; TOKEN_NONCE_BYTES],
    /// The sealed private token.
    pub private: &'a mut [u8; PRIVATE_BYTES],
}

impl<'a> Request<'a> {
    /// Reads a request of this version and protocol.
    pub fn parse(datagram: &'a mut [u8], protocol_id: u64) -> Result<Self, Reject> {
        let (expire, nonce) = parse_clear(datagram, protocol_id)?;
        let private = datagram.last_chunk_mut().ok_or(Reject::Malformed)?;
        Ok(Self {
            expire,
            nonce,
            private,
        })
    }

    /// What of it a server judges before it decrypts anything.
    pub fn head(&self) -> RequestHead {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&self.private[PRIVATE_BYTES - TAG_BYTES..]);
        RequestHead {
            expire: self.expire,
            tag,
        }
    }
}

/// What a connection request says in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// When the token expires, seconds since 1970.
    pub expire: u64,
    /// The tag of the sealed private token: by it a used token is recognised.
    pub tag: [u8; TAG_BYTES],
}

impl RequestHead {
    /// Reads it from a whole request of this version and protocol, which stays as it is.
    pub fn parse(datagram: &[u8], protocol_id: u64) -> Result<Self, Reject> {
        let (expire, _nonce) = parse_clear(datagram, protocol_id)?;
        let tag = *datagram.last_chunk().ok_or(Reject::Malformed)?;
        Ok(Self { expire, tag })
    }
}

/// A request's expiry and nonce; its length, version and protocol id are right.
fn parse_clear(
    datagram: &[u8],
    protocol_id: u64,
) -> Result<(u64, [u8; TOKEN_NONCE_BYTES]), Reject> {
    if is_of_other_version(datagram) {
        return Err(Reject::WrongProtocol);
    }
    if datagram.len() != REQUEST_BYTES || datagram[0] != Kind::Request as u8 {
        return Err(Reject::Malformed);
    }
    let mut clear = Reader::new(&datagram[1..]);
    let (version, protocol) = (clear.array(), clear.u64_le());
    if version != Ok(VERSION) || protocol != Ok(protocol_id) {
        return Err(Reject::WrongProtocol);
    }
    let expire = clear.u64_le().map_err(|PastEnd| Reject::Malformed)?;
    let nonce = clear.array().map_err(|PastEnd| Reject::Malformed)?;
    Ok((expire, nonce))
}

/// Whether this is a request that names another version of netcode. One of 1.01 is shorter as well: its token has
/// a sequence of eight bytes where 1.02 has the nonce.
fn is_of_other_version(datagram: &[u8]) -> bool {
    match *datagram {
        [request, ref rest @ ..] if request == Kind::Request as u8 => {
            let version = rest.first_chunk();
            rest.starts_with(b"NETCODE ") && version.is_some_and(|version| *version != VERSION)
        }
        _ => false,
    }
}

/// Appends a connection request.
pub fn emit_request(
    out: &mut Vec<u8>,
    protocol_id: u64,
    expire: u64,
    nonce: &[u8; TOKEN_NONCE_BYTES],
    private: &[u8; PRIVATE_BYTES],
) {
    out.push(Kind::Request as u8);
    out.extend_from_slice(&VERSION);
    out.extend_from_slice(&protocol_id.to_le_bytes());
    out.extend_from_slice(&expire.to_le_bytes());
    out.extend_from_slice(nonce);
    out.extend_from_slice(private);
}

/// Appends one address: type, groups in reading order, port. IPv6 groups are little-endian each.
pub fn emit_address(out: &mut Vec<u8>, address: &SocketAddr) {
    match address {
        SocketAddr::V4(v4) => {
            out.push(1);
            out.extend_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            out.push(2);
            for group in v6.ip().segments() {
                out.extend_from_slice(&group.to_le_bytes());
            }
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
}

/// Reads a count and that many addresses; `None` if the count or a type is not legal.
pub fn parse_addresses(reader: &mut Reader<'_>) -> Option<Vec<SocketAddr>> {
    let count = reader.u32_le().ok()? as usize;
    if !(1..=MAX_SERVERS).contains(&count) {
        return None;
    }
    (0..count).map(|_| parse_address(reader)).collect()
}

fn parse_address(reader: &mut Reader<'_>) -> Option<SocketAddr> {
    let ip = match reader.u8().ok()? {
        1 => Ipv4Addr::from(reader.array::<4>().ok()?).into(),
        2 => {
            let mut groups = [0; 8];
            for group in &mut groups {
                *group = reader.u16_le().ok()?;
            }
            Ipv6Addr::from(groups).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, reader.u16_le().ok()?))
}

/// Whether two addresses are one in netcode's sense: family, groups and port; an IPv6 scope or
/// flow label does not travel in tokens.
pub fn is_same_address(a: &SocketAddr, b: &SocketAddr) -> bool {
    a.ip() == b.ip() && a.port() == b.port()
}
