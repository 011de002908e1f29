//! The packet header of the 2008 articles, and our layout of messages behind it.
//!
//! Rules: docs/wire/gaffer.md, section 1 for the header, section 4 for the records.

use crate::ring::Split;

/// Protocol id, sequence, ack, ack bits.
pub const HEADER_BYTES: usize = 16;

/// Bytes of a large message in one fragment; only the last one is shorter.
pub const FRAGMENT_BYTES: usize = 1024;

/// Fragments of one message: their number less one fills a byte.
pub const FRAGMENTS_MAX: usize = 256;

/// What a reliable message costs beside its payload.
pub const MESSAGE_OVERHEAD: usize = 5;

/// What a fragment costs beside its bytes.
pub const FRAGMENT_OVERHEAD: usize = 7;

/// What every packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tells this game's packets from anything else. Not a secret.
    pub protocol_id: u32,
    /// Number of this packet.
    pub sequence: u32,
    /// Most recent packet received from the other side.
    pub ack: u32,
    /// Bit n - 1 stands for packet `ack - n`, n from 1 to 32.
    pub ack_bits: u32,
}

impl Header {
    /// Splits a datagram; `None` when it is shorter than a header.
    pub fn parse(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let field = |index: usize| {
            let at = index * 4;
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let header = Self {
            protocol_id: field(0),
            sequence: field(1),
            ack: field(2),
            ack_bits: field(3),
        };
        Some((header, payload))
    }

    /// Appends the header.
    pub fn emit(self, out: &mut Vec<u8>) {
        for field in [self.protocol_id, self.sequence, self.ack, self.ack_bits] {
            out.extend_from_slice(&field.to_be_bytes());
        }
    }

    /// Whether this packet says that `sequence` arrived.
    pub fn acknowledges(&self, sequence: u32) -> bool {
        match self.ack.wrapping_sub(sequence) {
            0 => true,
            behind @ 1..=32 => self.ack_bits >> (behind - 1) & 1 == 1,
            _ => false,
        }
    }
}

/// Whether `a` is newer than `b`. At a distance of exactly half the circle the smaller one is, as in
/// the article's 32-bit comparison.
pub const fn is_more_recent(a: u32, b: u32) -> bool {
    let half = u32::MAX / 2;
    (a > b && a - b <= half) || (b > a && b - a > half)
}

/// One record of a payload of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Nothing; the packet is for its header.
    KeepAlive,
    /// A message of the reliable channel.
    Reliable {
        /// Its number.
        id: u16,
        /// What the application sent.
        payload: &'a [u8],
    },
    /// A message of the unreliable channel.
    Unreliable(&'a [u8]),
    /// A piece of a message of the reliable channel.
    Fragment {
        /// The message's number.
        id: u16,
        /// Which piece.
        index: u8,
        /// Number of the last piece: one less than there are.
        last: u8,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The sender is gone.
    Goodbye,
}

/// All that a packet says which is for its header only, with records or without. A keep-alive needs one
/// byte: the article's code ignores the acks of a packet without payload.
pub const KEEP_ALIVE: u8 = 0;
const RELIABLE: u8 = 1;
const UNRELIABLE: u8 = 2;
const FRAGMENT: u8 = 3;
const GOODBYE: u8 = 4;

/// The payload is not a list of whole, known records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The records of a payload, in order.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

/// Checks a payload from end to end and hands out its records.
pub fn parse(payload: &[u8]) -> Result<Records<'_>, Malformed> {
    let mut rest = payload;
    while !rest.is_empty() {
        let (record, after) = split(rest).ok_or(Malformed)?;
        if let Record::Fragment {
            index, last, bytes, ..
        } = record
        {
            let is_whole = if index == last {
                (1..=FRAGMENT_BYTES).contains(&bytes.len())
            } else {
                index < last && bytes.len() == FRAGMENT_BYTES
            };
            if !is_whole {
                return Err(Malformed);
            }
        }
        rest = after;
    }
    Ok(Records { rest: payload })
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = split(self.rest)?;
        self.rest = rest;
        Some(record)
    }
}

fn split(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    match kind {
        KEEP_ALIVE => Some((Record::KeepAlive, rest)),
        RELIABLE => {
            let (id, rest) = take_u16(rest)?;
            let (payload, rest) = take_counted(rest)?;
            Some((Record::Reliable { id, payload }, rest))
        }
        UNRELIABLE => {
            let (payload, rest) = take_counted(rest)?;
            Some((Record::Unreliable(payload), rest))
        }
        FRAGMENT => {
            let (id, rest) = take_u16(rest)?;
            let (&[index, last], rest) = rest.split_first_chunk::<2>()?;
            let (bytes, rest) = take_counted(rest)?;
            let fragment = Record::Fragment {
                id,
                index,
                last,
                bytes,
            };
            Some((fragment, rest))
        }
        GOODBYE => Some((Record::Goodbye, rest)),
        _ => None,
    }
}

fn take_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (value, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*value), rest))
}

fn take_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = take_u16(bytes)?;
    rest.split_at_checked(usize::from(length))
}

/// Appends a record; its content is at most 65,535 bytes.
pub fn emit(record: Record<'_>, out: &mut Vec<u8>) {
    match record {
        Record::KeepAlive => out.push(KEEP_ALIVE),
        Record::Goodbye => out.push(GOODBYE),
        Record::Reliable { id, payload } => emit_reliable(id, (payload, &[]), out),
        Record::Unreliable(payload) => emit_unreliable((payload, &[]), out),
        Record::Fragment {
            id,
            index,
            last,
            bytes,
        } => emit_fragment(id, index, last, (bytes, &[]), out),
    }
}

/// Appends a message of the reliable channel, given in two pieces.
pub fn emit_reliable(id: u16, payload: Split<'_>, out: &mut Vec<u8>) {
    out.push(RELIABLE);
    out.extend_from_slice(&id.to_be_bytes());
    emit_counted(payload, out);
}

/// Appends a message of the unreliable channel, given in two pieces.
pub fn emit_unreliable(payload: Split<'_>, out: &mut Vec<u8>) {
    out.push(UNRELIABLE);
    emit_counted(payload, out);
}

/// Appends one piece of a large message, itself given in two pieces.
pub fn emit_fragment(id: u16, index: u8, last: u8, bytes: Split<'_>, out: &mut Vec<u8>) {
    out.push(FRAGMENT);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&[index, last]);
    emit_counted(bytes, out);
}

fn emit_counted((front, back): Split<'_>, out: &mut Vec<u8>) {
    let length = u16::try_from(front.len() + back.len())
        .expect("the sender's limits keep records below 64 KiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(front);
    out.extend_from_slice(back);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_trip_and_no_cut_does() {
        let large = [7; FRAGMENT_BYTES];
        let all = [
            Record::KeepAlive,
            Record::Reliable {
                id: 0xfffe,
                payload: b"hello",
            },
            Record::Unreliable(b""),
            Record::Fragment {
                id: 3,
                index: 0,
                last: 1,
                bytes: &large,
            },
            Record::Fragment {
                id: 3,
                index: 1,
                last: 1,
                bytes: b"x",
            },
            Record::Goodbye,
        ];
        let mut bytes = Vec::new();
        let mut borders = vec![0];
        for record in all {
            emit(record, &mut bytes);
            borders.push(bytes.len());
        }
        assert!(parse(&bytes).expect("whole").eq(all));
        for cut in 0..bytes.len() {
            assert_eq!(
                parse(&bytes[..cut]).is_ok(),
                borders.contains(&cut),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn impossible_fragments_are_refused() {
        for (index, last, length, fits) in [
            (0, 0, 1, true),
            (0, 0, 0, false),
            (0, 0, FRAGMENT_BYTES, true),
            (0, 0, FRAGMENT_BYTES + 1, false),
            (0, 1, FRAGMENT_BYTES, true),
            (0, 1, FRAGMENT_BYTES - 1, false),
            (2, 1, FRAGMENT_BYTES, false),
            (255, 255, 9, true),
        ] {
            let mut bytes = Vec::new();
            emit_fragment(1, index, last, (&vec![0; length], &[]), &mut bytes);
            assert_eq!(
                parse(&bytes).is_ok(),
                fits,
                "{index} of {last}, {length} bytes"
            );
        }
        assert_eq!(parse(&[5]).err(), Some(Malformed), "an unknown kind");
    }
}
