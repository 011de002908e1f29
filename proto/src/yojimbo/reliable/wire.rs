//! The two headers of reliable 1.0: one before each packet, one before each fragment of a packet.
//!
//! Layouts: docs/wire/reliable.md, sections 1 and 5.

use crate::cursor::{PastEnd, Reader};

/// Longest header of a packet.
pub const HEADER_BYTES_MAX: usize = 9;
/// What every fragment begins with; the first fragment of a packet adds the packet's header.
pub const FRAGMENT_HEADER_BYTES: usize = 5;

const FRAGMENT: u8 = 1;
const ACK_IS_NEAR: u8 = 1 << 5;

/// What precedes a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// This packet's number.
    pub sequence: u16,
    /// The newest of the peer's packets its sender knows of.
    pub ack: u16,
    /// Bit `n` says that `ack - n` was received. Bit 0 is `ack` itself.
    pub ack_bits: u32,
}

impl Header {
    /// Reads a header off the front of a datagram whose prefix says that it is no fragment.
    ///
    /// Longer forms than needed are taken: only the header inside a fragment must be canonical.
    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, PastEnd> {
        let prefix = reader.u8()?;
        let sequence = reader.u16_le()?;
        let ack = if prefix & ACK_IS_NEAR != 0 {
            sequence.wrapping_sub(u16::from(reader.u8()?))
        } else {
            reader.u16_le()?
        };
        let mut bytes = [0xff; 4];
        for (index, byte) in bytes.iter_mut().enumerate() {
            if prefix & 2 << index != 0 {
                *byte = reader.u8()?;
            }
        }
        Ok(Self {
            sequence,
            ack,
            ack_bits: u32::from_le_bytes(bytes),
        })
    }

    /// Appends the shortest form, 4 to 9 bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let distance = self.sequence.wrapping_sub(self.ack);
        let mut prefix = 0;
        if distance < 256 {
            prefix |= ACK_IS_NEAR;
        }
        let bytes = self.ack_bits.to_le_bytes();
        for (index, byte) in bytes.iter().enumerate() {
            if *byte != 0xff {
                prefix |= 2 << index;
            }
        }
        let [low, high] = self.sequence.to_le_bytes();
        if distance < 256 {
            out.extend_from_slice(&[prefix, low, high, distance as u8]);
        } else {
            let [ack_low, ack_high] = self.ack.to_le_bytes();
            out.extend_from_slice(&[prefix, low, high, ack_low, ack_high]);
        }
        // Most often nothing is missing.
        if self.ack_bits != u32::MAX {
            out.extend(bytes.into_iter().filter(|byte| *byte != 0xff));
        }
    }

    /// The packets of ours this header says were received, newest first: 32 at most.
    pub fn acked(&self) -> impl DoubleEndedIterator<Item = u16> + use<> {
        acked(self.ack, self.ack_bits)
    }
}

/// The packets that `ack` and `ack_bits` say were received: newest first, in the reference's order.
pub fn acked(ack: u16, ack_bits: u32) -> impl DoubleEndedIterator<Item = u16> {
    let left = ack_bits;
    Acked { ack, left }
}

struct Acked {
    ack: u16,
    /// Bits not told yet.
    left: u32,
}

impl Iterator for Acked {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let behind = self.left.trailing_zeros();
        self.left = self.left.checked_sub(1)? & self.left;
        Some(self.ack.wrapping_sub(behind as u16))
    }
}

impl DoubleEndedIterator for Acked {
    fn next_back(&mut self) -> Option<u16> {
        let behind = self.left.checked_ilog2()?;
        self.left &= !(1 << behind);
        Some(self.ack.wrapping_sub(behind as u16))
    }
}

/// Whether a datagram is a fragment: the lowest bit of its first byte.
pub fn is_fragment(datagram: &[u8]) -> bool {
    datagram
        .first()
        .is_some_and(|prefix| prefix & FRAGMENT != 0)
}

/// One datagram's part of a packet that needs several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Number of the whole packet.
    pub sequence: u16,
    /// Position in the packet.
    pub index: u8,
    /// Fragments of the packet, 1 to 256.
    pub count: u16,
    /// The header of the whole packet, in the fragment at index 0 only.
    pub header: Option<Header>,
    /// This fragment's share of the payload.
    pub data: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Reads a fragment; `None` when it is none that a correct sender could have made: the checks
    /// of docs/wire/reliable.md, section 5, that need no state.
    pub fn parse(datagram: &'a [u8], fragment_size: usize, count_max: usize) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let prefix = reader.u8().ok()?;
        let sequence = reader.u16_le().ok()?;
        let [index, last] = reader.array().ok()?;
        if prefix != FRAGMENT || usize::from(last) >= count_max || index > last {
            return None;
        }
        let header = match index {
            0 => Some(Self::parse_inner_header(&mut reader, sequence)?),
            _ => None,
        };
        let data = reader.rest();
        if data.len() > fragment_size || (index != last && data.len() != fragment_size) {
            return None;
        }
        Some(Self {
            sequence,
            index,
            count: u16::from(last) + 1,
            header,
            data,
        })
    }

    /// The header inside the first fragment has to be the very bytes we would write: whatever else
    /// differs between two readers of it, its length may not.
    fn parse_inner_header(reader: &mut Reader<'_>, sequence: u16) -> Option<Header> {
        let before = reader.rest();
        if is_fragment(before) {
            return None;
        }
        let header = Header::parse(reader).ok()?;
        let mut canonical = Vec::with_capacity(HEADER_BYTES_MAX);
        header.emit(&mut canonical);
        let read = &before[..before.len() - reader.rest().len()];
        (header.sequence == sequence && read == canonical).then_some(header)
    }

    /// Appends the fragment as a datagram.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(FRAGMENT);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.push(self.index);
        out.push((self.count - 1) as u8);
        if let Some(header) = &self.header {
            header.emit(out);
        }
        out.extend_from_slice(self.data);
    }
}

/// The sizes of reliable's packets. `fragment_size` must be the same on both sides: fragments of
/// another size are dropped in silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of a packet.
    pub packet_bytes_max: usize,
    /// Payload bytes of each fragment but the last.
    pub fragment_size: usize,
    /// Fragments of a packet, at most 256.
    pub fragments_max: usize,
    /// A payload above this is split. Local to the sender.
    pub fragment_above: usize,
}

impl Default for Limits {
    /// yojimbo's defaults, but for `fragment_above`: a full block fragment makes a payload of 1031
    /// bytes, and above 1024 every one of them would become two datagrams.
    fn default() -> Self {
        Self {
            packet_bytes_max: 8192,
            fragment_size: 1024,
            fragments_max: 8,
            fragment_above: 1152,
        }
    }
}

impl Limits {
    /// For a packet that is to be cut although one datagram may hold it, because the path takes none as long.
    pub fn in_pieces(&self) -> Self {
        Self {
            fragment_above: self.fragment_above.min(self.fragment_size),
            ..*self
        }
    }

    /// Datagrams that a payload of `length` bytes makes.
    pub fn datagrams(&self, length: usize) -> usize {
        if length <= self.fragment_above {
            1
        } else {
            length.div_ceil(self.fragment_size)
        }
    }

    /// Appends datagram `index` of a packet: all of it if it fits one, or one fragment.
    /// `index` is below [`Limits::datagrams`] of the payload's length.
    pub fn emit(&self, header: Header, payload: &[u8], index: usize, out: &mut Vec<u8>) {
        debug_assert!(payload.len() <= self.packet_bytes_max);
        if payload.len() <= self.fragment_above {
            header.emit(out);
            out.extend_from_slice(payload);
            return;
        }
        let start = index * self.fragment_size;
        let end = payload.len().min(start + self.fragment_size);
        Fragment {
            sequence: header.sequence,
            index: index as u8,
            count: self.datagrams(payload.len()) as u16,
            header: (index == 0).then_some(header),
            data: &payload[start..end],
        }
        .emit(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_packet_of_a_session() {
        let mut out = Vec::new();
        let header = Header {
            sequence: 0,
            ack: 65535,
            ack_bits: 0,
        };
        header.emit(&mut out);
        assert_eq!(out, [0x3e, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(header.acked().count(), 0);
    }

    #[test]
    fn bit_zero_is_the_ack_itself() {
        assert_eq!(acked(1, 0b1011).collect::<Vec<_>>(), [1, 0, 65534]);
        assert_eq!(
            acked(5, 1 << 31).collect::<Vec<_>>(),
            [5u16.wrapping_sub(31)]
        );
        assert_eq!(acked(31, u32::MAX).count(), 32);
    }

    proptest! {
        #[test]
        fn acks_are_the_same_from_both_ends(ack: u16, bits: u32) {
            let newest_first: Vec<_> = (0..32)
                .filter(|behind| bits >> behind & 1 == 1)
                .map(|behind| ack.wrapping_sub(behind))
                .collect();
            prop_assert_eq!(acked(ack, bits).collect::<Vec<_>>(), newest_first.clone());
            let oldest_first: Vec<_> = newest_first.into_iter().rev().collect();
            prop_assert_eq!(acked(ack, bits).rev().collect::<Vec<_>>(), oldest_first);
        }

        #[test]
        fn headers_survive(sequence: u16, ack: u16, near in 0u16..300, use_near: bool, bits: u32, full: u32) {
            let ack = if use_near { sequence.wrapping_sub(near) } else { ack };
            let header = Header { sequence, ack, ack_bits: bits | full };
            let mut out = Vec::new();
            header.emit(&mut out);
            prop_assert!((4..=HEADER_BYTES_MAX).contains(&out.len()));
            for cut in 0..out.len() {
                prop_assert_eq!(Header::parse(&mut Reader::new(&out[..cut])), Err(PastEnd));
            }
            out.push(0x77);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(Header::parse(&mut reader), Ok(header));
            prop_assert_eq!(reader.rest(), [0x77]);
        }
    }
}
