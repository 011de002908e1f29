//! A short keyed hash: what a stranger cannot guess and we need not remember.

use std::net::{IpAddr, SocketAddr};

/// A secret, for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key([u64; 2]);

impl Key {
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(secret);
        Self([number as u64, (number >> 64) as u64])
    }

    /// From a number that is one.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self([seed, !seed])
    }

    /// The hash of a number.
    pub(crate) fn number(self, number: u64) -> u64 {
        siphash(self.0, &number.to_be_bytes())
    }

    /// The hash of an address and a number beside it.
    pub(crate) fn address(self, address: SocketAddr, beside: u64) -> u64 {
        let mut input = [0; 26];
        match address.ip() {
            IpAddr::V4(ip) => input[..16].copy_from_slice(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => input[..16].copy_from_slice(&ip.octets()),
        }
        input[16..18].copy_from_slice(&address.port().to_be_bytes());
        input[18..].copy_from_slice(&beside.to_be_bytes());
        siphash(self.0, &input)
    }
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
fn siphash(key: [u64; 2], input: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut absorb = |word: u64| {
        v[3] ^= word;
        sip_round(&mut v);
        sip_round(&mut v);
        v[0] ^= word;
    };
    let (words, tail) = input.as_chunks();
    for word in words {
        absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    last[7] = input.len() as u8;
    absorb(u64::from_le_bytes(last));
    v[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_gives_the_published_values() {
        // The authors' test: key 00..0f, inputs of the bytes 00, 01, 02, ...
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &input), 0xa129_ca61_49be_45e5);
    }
}
