//! Connect tokens: the public part a client holds and the private part only servers read.
//!
//! Rule: docs/wire/netcode.md, section 2. Nothing here knows the time or draws randomness.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use zeroize::Zeroizing;

use super::crypto::{self, Key};
use super::wire::{
    self, MAX_SERVERS, PRIVATE_BYTES, Request, TAG_BYTES, TOKEN_NONCE_BYTES, VERSION,
};
use crate::cursor::Reader;
use crate::session::Reject;

/// Bytes of a whole connect token.
pub const TOKEN_BYTES: usize = 2048;
/// Bytes of user data in a token.
pub const USER_DATA_BYTES: usize = 256;

/// Why bytes are not a connect token, or why one cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not exactly 2048 bytes.
    Length,
    /// Made for another version of the protocol.
    Version,
    /// Expires before it was made.
    Dates,
    /// No server address, more than 32, or an address that is neither IPv4 nor IPv6.
    Servers,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "a connect token has exactly 2048 bytes",
            Self::Version => "not a connect token of netcode 1.02",
            Self::Dates => "the connect token expires before it was created",
            Self::Servers => "the connect token needs 1 to 32 server addresses, each IPv4 or IPv6",
        })
    }
}

impl std::error::Error for TokenError {}

/// 256 bytes a token service gives a client to carry to the backend. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(Box<[u8; USER_DATA_BYTES]>);

impl UserData {
    /// All zero: nothing to say.
    pub fn empty() -> Self {
        Self::new([0; USER_DATA_BYTES])
    }

    /// These bytes.
    pub fn new(bytes: [u8; USER_DATA_BYTES]) -> Self {
        Self(Box::new(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; USER_DATA_BYTES] {
        &self.0
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserData([masked])")
    }
}

/// The private part of a connect token, opened.
#[derive(Clone, Debug)]
pub struct PrivateToken {
    /// Who the client is.
    pub client_id: u64,
    /// Seconds of silence after which the session ends; zero or less means never.
    pub timeout_seconds: i32,
    /// Public addresses of the servers this token is good for, 1 to 32.
    pub servers: Vec<SocketAddr>,
    /// Key of everything the client sends.
    pub client_to_server: Key,
    /// Key of everything the server sends to this client.
    pub server_to_client: Key,
    /// What the token service wants the backend to know.
    pub user_data: UserData,
}

impl PrivateToken {
    /// Opens the private token of a request with the first key that fits; says which.
    ///
    /// [`Reject::TokenKey`] if none does, [`Reject::TokenInvalid`] if what is inside breaks the
    /// format. Allocates nothing before the tag is proved.
    pub fn open(
        request: Request<'_>,
        protocol_id: u64,
        keys: &[Key],
    ) -> Result<(usize, Self), Reject> {
        let Request {
            expire,
            nonce,
            private,
        } = request;
        for (index, key) in keys.iter().enumerate() {
            if let Ok(plain) = crypto::open_private(key, &nonce, protocol_id, expire, private) {
                let token = Self::parse(plain).ok_or(Reject::TokenInvalid)?;
                return Ok((index, token));
            }
        }
        Err(Reject::TokenKey)
    }

    /// Reads the plaintext, 1008 bytes; what follows the user data is ignored. `None` if it ends too soon, or
    /// its list of servers makes no sense.
    pub fn parse(plain: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(plain);
        Some(Self {
            client_id: reader.u64_le().ok()?,
            timeout_seconds: reader.u32_le().ok()? as i32,
            servers: wire::parse_addresses(&mut reader)?,
            client_to_server: Key::new(reader.array().ok()?),
            server_to_client: Key::new(reader.array().ok()?),
            user_data: UserData::new(reader.array().ok()?),
        })
    }

    /// The plaintext, 1008 bytes, zero padded.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut plain = Zeroizing::new(Vec::with_capacity(PRIVATE_BYTES));
        plain.extend_from_slice(&self.client_id.to_le_bytes());
        plain.extend_from_slice(&self.timeout_seconds.to_le_bytes());
        emit_servers(&mut plain, &self.servers);
        plain.extend_from_slice(self.client_to_server.as_bytes());
        plain.extend_from_slice(self.server_to_client.as_bytes());
        plain.extend_from_slice(self.user_data.as_bytes());
        plain.resize(PRIVATE_BYTES - TAG_BYTES, 0);
        plain
    }

    /// The sealed form, as it travels.
    pub fn seal(
        &self,
        key: &Key,
        nonce: &[u8; TOKEN_NONCE_BYTES],
        protocol_id: u64,
        expire: u64,
    ) -> Box<[u8; PRIVATE_BYTES]> {
        let mut private = Box::new([0; PRIVATE_BYTES]);
        private[..PRIVATE_BYTES - TAG_BYTES].copy_from_slice(&self.to_bytes());
        crypto::seal_private(key, nonce, protocol_id, expire, &mut private);
        private
    }
}

/// A connect token as its client holds it.
#[derive(Clone, Debug)]
pub struct ConnectToken {
    /// Which game, and which version of it.
    pub protocol_id: u64,
    /// When it was made, seconds since 1970.
    pub create: u64,
    /// When it expires, seconds since 1970; all ones means never.
    pub expire: u64,
    /// Nonce of the private part.
    pub nonce: [u8; TOKEN_NONCE_BYTES],
    /// The private part, which the client cannot read.
    pub private: Box<[u8; PRIVATE_BYTES]>,
    /// Seconds of silence after which a client gives up; zero or less means never.
    pub timeout_seconds: i32,
    /// Where to dial, in this order, 1 to 32.
    pub servers: Vec<SocketAddr>,
    /// Key of everything the client sends.
    pub client_to_server: Key,
    /// Key of everything the server sends.
    pub server_to_client: Key,
}

/// What a connect token is made of. Nonce and keys are drawn by the caller, and the nonce never
/// twice under one private key.
#[derive(Clone, Debug)]
pub struct Mint {
    /// Which game, and which version of it.
    pub protocol_id: u64,
    /// Now, seconds since 1970.
    pub create: u64,
    /// Then, seconds since 1970; all ones for never.
    pub expire: u64,
    /// 24 random bytes.
    pub nonce: [u8; TOKEN_NONCE_BYTES],
    /// Where the client dials: `private.servers`, unless servers are known by other addresses from outside.
    pub servers: Vec<SocketAddr>,
    /// What only the servers see.
    pub private: PrivateToken,
}

impl Mint {
    /// For a client that dials the servers by the addresses which `private` has, in its order. `lifetime` is from when
    /// to when the token is good, in seconds since 1970.
    pub fn new(
        protocol_id: u64,
        lifetime: RangeInclusive<u64>,
        nonce: [u8; TOKEN_NONCE_BYTES],
        private: PrivateToken,
    ) -> Self {
        let (create, expire) = lifetime.into_inner();
        Self {
            protocol_id,
            create,
            expire,
            nonce,
            servers: private.servers.clone(),
            private,
        }
    }
}

impl ConnectToken {
    /// Makes a token under `key`, the private key its servers share. An error if either list of servers is empty or has
    /// more than 32, or the token expires before it is created.
    pub fn mint(mint: Mint, key: &Key) -> Result<Self, TokenError> {
        let Mint {
            protocol_id,
            create,
            expire,
            nonce,
            servers,
            private,
        } = mint;
        let is_countable = |list: &[SocketAddr]| (1..=MAX_SERVERS).contains(&list.len());
        if !is_countable(&servers) || !is_countable(&private.servers) {
            return Err(TokenError::Servers);
        }
        if create > expire {
            return Err(TokenError::Dates);
        }
        Ok(Self {
            protocol_id,
            create,
            expire,
            nonce,
            private: private.seal(key, &nonce, protocol_id, expire),
            timeout_seconds: private.timeout_seconds,
            servers,
            client_to_server: private.client_to_server,
            server_to_client: private.server_to_client,
        })
    }

    /// Reads a token from its 2048 bytes. Its private part stays sealed, and is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokenError> {
        if bytes.len() != TOKEN_BYTES {
            return Err(TokenError::Length);
        }
        let mut reader = Reader::new(bytes);
        if reader.array() != Ok(VERSION) {
            return Err(TokenError::Version);
        }
        let token = Self::parse_fields(&mut reader).ok_or(TokenError::Servers)?;
        if token.create > token.expire {
            return Err(TokenError::Dates);
        }
        Ok(token)
    }

    fn parse_fields(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            protocol_id: reader.u64_le().ok()?,
            create: reader.u64_le().ok()?,
            expire: reader.u64_le().ok()?,
            nonce: reader.array().ok()?,
            private: Box::new(reader.array().ok()?),
            timeout_seconds: reader.u32_le().ok()? as i32,
            servers: wire::parse_addresses(reader)?,
            client_to_server: Key::new(reader.array().ok()?),
            server_to_client: Key::new(reader.array().ok()?),
        })
    }

    /// The 2048 bytes a client is given. They hold its keys.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES));
        bytes.extend_from_slice(&VERSION);
        bytes.extend_from_slice(&self.protocol_id.to_le_bytes());
        bytes.extend_from_slice(&self.create.to_le_bytes());
        bytes.extend_from_slice(&self.expire.to_le_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&*self.private);
        bytes.extend_from_slice(&self.timeout_seconds.to_le_bytes());
        emit_servers(&mut bytes, &self.servers);
        bytes.extend_from_slice(self.client_to_server.as_bytes());
        bytes.extend_from_slice(self.server_to_client.as_bytes());
        bytes.resize(TOKEN_BYTES, 0);
        bytes
    }

    /// Opens the private part, as a server with one of `keys` would: for inspection.
    pub fn open_private(&self, keys: &[Key]) -> Result<(usize, PrivateToken), Reject> {
        let mut private = self.private.clone();
        let request = Request {
            expire: self.expire,
            nonce: self.nonce,
            private: &mut private,
        };
        PrivateToken::open(request, self.protocol_id, keys)
    }

    /// Appends the connection request that presents this token.
    pub fn emit_request(&self, out: &mut Vec<u8>) {
        wire::emit_request(
            out,
            self.protocol_id,
            self.expire,
            &self.nonce,
            &self.private,
        );
    }
}

fn emit_servers(out: &mut Vec<u8>, servers: &[SocketAddr]) {
    out.extend_from_slice(&(servers.len() as u32).to_le_bytes());
    for server in servers {
        wire::emit_address(out, server);
    }
}
