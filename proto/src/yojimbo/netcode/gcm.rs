//! The second cipher of payloads, which two tidegates agree on: AES-256-GCM, for which processors have
//! instructions.
//!
//! Rule: docs/wire/netcode.md, section 13. Its keys are derived from a session's keys, one for each
//! direction and [`EPOCH_PACKETS`] sequences, so that a key seals little enough however long the session.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, UnboundKey};
use ring::hkdf;

use super::crypto::{Key, nonce};
use crate::session::Reject;

/// Sequences in a row whose packets have one key. Of 8226 bytes each they are 2^29 blocks, so an attacker
/// tells them from noise with a chance of 2^-71; QUIC allows 2^-57 (RFC 9001, appendix B.1).
pub const EPOCH_PACKETS: u64 = 1 << 20;

/// What makes derived keys ours.
const SALT: &[u8] = b"tidegate AES-256-GCM";

/// The key of one direction, for the epoch it was last used in.
///
/// ring's form of a key takes half a kilobyte, so there is none before the first packet.
#[derive(Default)]
pub struct EpochKey(Option<Box<(u64, LessSafeKey)>>);

impl EpochKey {
    /// Encrypts `out[from..]` in place and appends the tag. `key` is the session's.
    pub(super) fn seal(
        &mut self,
        key: &Key,
        sequence: u64,
        associated_data: &[u8],
        out: &mut Vec<u8>,
        from: usize,
    ) {
        let data = Aad::from(associated_data);
        let tag = self
            .at(key, sequence / EPOCH_PACKETS)
            .seal_in_place_separate_tag(nonce(sequence), data, &mut out[from..])
            .expect("a packet is shorter than the cipher's limit");
        out.extend_from_slice(tag.as_ref());
    }

    /// Decrypts ciphertext and tag in place; what is in `sealed` after a failure is unspecified. A key
    /// of another epoch is kept only when the tag is right: a forged sequence drives no key out.
    pub(super) fn open<'a>(
        &mut self,
        key: &Key,
        sequence: u64,
        associated_data: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Reject> {
        let epoch = sequence / EPOCH_PACKETS;
        let data = Aad::from(associated_data);
        let fail = |_| Reject::DecryptFailed;
        if let Some(derived) = self.of(epoch) {
            return derived
                .open_in_place(nonce(sequence), data, sealed)
                .map_err(fail);
        }
        let derived = derive(key, epoch);
        let plain = derived
            .open_in_place(nonce(sequence), data, sealed)
            .map_err(fail)?;
        self.keep(epoch, derived);
        Ok(plain)
    }

    /// The key of this epoch, which is kept for the next packet.
    fn at(&mut self, key: &Key, epoch: u64) -> &LessSafeKey {
        let kept = self.0.take().filter(|kept| kept.0 == epoch);
        let kept = kept.unwrap_or_else(|| Box::new((epoch, derive(key, epoch))));
        &self.0.insert(kept).1
    }

    fn of(&self, epoch: u64) -> Option<&LessSafeKey> {
        let (kept, key) = self.0.as_deref()?;
        (*kept == epoch).then_some(key)
    }

    fn keep(&mut self, epoch: u64, key: LessSafeKey) {
        self.0 = Some(Box::new((epoch, key)));
    }
}

impl fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochKey([masked])")
    }
}

/// HKDF-SHA256 (RFC 5869): the salt above, the session's key, the epoch in 8 bytes.
fn derive(key: &Key, epoch: u64) -> LessSafeKey {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT);
    let derived: UnboundKey = salt
        .extract(key.as_bytes())
        .expand(&[&epoch.to_le_bytes()], &AES_256_GCM)
        .expect("32 bytes are less than HKDF's limit")
        .into();
    LessSafeKey::new(derived)
}

/// Whether this processor has the instructions that make it the faster cipher. Without them it is the
/// slower one by far, and not used.
pub fn has_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
        && std::arch::is_x86_feature_detected!("avx");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}
