//! Challenge tokens: what a server hands out to see who can send it back.
//!
//! Rule: docs/wire/netcode.md, section 3. The server puts client id and user data in, because the
//! reference does, and never takes them out again: who a client is comes from its connect token.

use super::crypto::{self, Key};
use super::token::UserData;
use super::wire::{CHALLENGE_BYTES, TAG_BYTES};
use crate::session::Reject;

/// Seals a challenge token with its sequence as nonce. A sequence is used once per key, or with
/// the same contents.
pub fn seal(
    key: &Key,
    sequence: u64,
    client_id: u64,
    user_data: &UserData,
) -> [u8; CHALLENGE_BYTES] {
    let mut plain = Vec::with_capacity(CHALLENGE_BYTES);
    plain.extend_from_slice(&client_id.to_le_bytes());
    plain.extend_from_slice(user_data.as_bytes());
    plain.resize(CHALLENGE_BYTES - TAG_BYTES, 0);
    crypto::seal(key, sequence, &[], &mut plain, 0);
    let mut token = [0; CHALLENGE_BYTES];
    token.copy_from_slice(&plain);
    token
}

/// Opens a challenge token in place; its 284 plaintext bytes.
pub fn open<'a>(
    key: &Key,
    sequence: u64,
    token: &'a mut [u8; CHALLENGE_BYTES],
) -> Result<&'a [u8], Reject> {
    crypto::open(key, sequence, &[], token)
        .map(|plain| &*plain)
        .map_err(|_| Reject::ChallengeFailed)
}
