//! The netcode layer as a whole: two ends in memory, an attacker between them, and the crate of
//! the protocol's authors as the other end. Rules: docs/wire/netcode.md.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod gcm;
mod handshake;
mod link;
mod nonces;
mod official;
mod replays;
mod tampering;
mod tokens;
mod wire;
mod world;
