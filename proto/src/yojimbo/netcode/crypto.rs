//! Keys and the standard's ciphers: ChaCha20-Poly1305 for packets and challenges, XChaCha20-Poly1305
//! for tokens.
//!
//! Rule: docs/wire/netcode.md, section 1. Two crates because ring, several times faster on small
//! packets, has no cipher with the 24-byte nonce of connect tokens.

use std::fmt;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::wire::{PRIVATE_BYTES, TAG_BYTES, TOKEN_NONCE_BYTES, VERSION};
use crate::session::Reject;

/// A 32-byte key. Wiped when dropped; never printed.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl Key {
    /// The key with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes: for writing key and token files only.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether every byte is zero: the key of samples, which protects nothing.
    pub fn is_zero(&self) -> bool {
        *self.0 == [0; 32]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key([masked])")
    }
}

/// Encrypts `out[from..]` in place and appends the tag.
pub(super) fn seal(
    key: &Key,
    sequence: u64,
    associated_data: &[u8],
    out: &mut Vec<u8>,
    from: usize,
) {
    let tag = cipher(key)
        .seal_in_place_separate_tag(
            nonce(sequence),
            Aad::from(associated_data),
            &mut out[from..],
        )
        .expect("a packet is shorter than the cipher's limit");
    out.extend_from_slice(tag.as_ref());
}

/// Decrypts ciphertext and tag in place; what is in `sealed` after a failure is unspecified.
pub(super) fn open<'a>(
    key: &Key,
    sequence: u64,
    associated_data: &[u8],
    sealed: &'a mut [u8],
) -> Result<&'a mut [u8], Reject> {
    cipher(key)
        .open_in_place(nonce(sequence), Aad::from(associated_data), sealed)
        .map_err(|_| Reject::DecryptFailed)
}

/// ring's form of a key is half a kilobyte, so it is made per packet and a link keeps 32 bytes.
fn cipher(key: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_bytes()).expect("a key has 32 bytes");
    LessSafeKey::new(key)
}

/// Four zero bytes, then the sequence: in this order, which ports get wrong first.
pub(super) fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&sequence.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Encrypts the plaintext in front of the tag, and writes the tag.
pub(super) fn seal_private(
    key: &Key,
    nonce: &[u8; TOKEN_NONCE_BYTES],
    protocol_id: u64,
    expire: u64,
    private: &mut [u8; PRIVATE_BYTES],
) {
    let (plain, tag) = private.split_at_mut(PRIVATE_BYTES - TAG_BYTES);
    let sealed = XChaCha20Poly1305::new(key.as_bytes().into())
        .encrypt_inout_detached(
            nonce.into(),
            &private_data(protocol_id, expire),
            plain.into(),
        )
        .expect("a token is shorter than the cipher's limit");
    tag.copy_from_slice(&sealed);
}

/// Decrypts in place. Unlike [`open`] this leaves the bytes alone when the tag is wrong, so that
/// another key can be tried.
pub(super) fn open_private<'a>(
    key: &Key,
    nonce: &[u8; TOKEN_NONCE_BYTES],
    protocol_id: u64,
    expire: u64,
    private: &'a mut [u8; PRIVATE_BYTES],
) -> Result<&'a [u8], Reject> {
    let (sealed, tag) = private.split_at_mut(PRIVATE_BYTES - TAG_BYTES);
    let tag = Tag::try_from(&*tag).map_err(|_| Reject::TokenKey)?;
    XChaCha20Poly1305::new(key.as_bytes().into())
        .decrypt_inout_detached(
            nonce.into(),
            &private_data(protocol_id, expire),
            (&mut *sealed).into(),
            &tag,
        )
        .map_err(|_| Reject::TokenKey)?;
    Ok(sealed)
}

fn private_data(protocol_id: u64, expire: u64) -> [u8; 29] {
    let mut data = [0; 29];
    data[..13].copy_from_slice(&VERSION);
    data[13..21].copy_from_slice(&protocol_id.to_le_bytes());
    data[21..].copy_from_slice(&expire.to_le_bytes());
    data
}
