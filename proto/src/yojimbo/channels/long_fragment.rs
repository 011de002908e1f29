//! A long fragment: a piece of a block that fills its datagram, from another tidegate.
//!
//! ```text
//!   channel  id      length of the block  size    index   its bytes, to the end of the packet
//!   1 byte   2 bytes 4 bytes              2 bytes 2 bytes
//! ```
//!
//! It has a packet to itself. Every field follows from the others or is checked against the layout, so that a block in long
//! fragments has no more of them, and no more bytes, than one in the wire's own.
//! Rule: docs/wire/reliable.md, section 7.5.

use super::connection_packet::{ConnectionPacket, Items, PacketError};
use super::item::{BlockFragment, FragmentPlace};
use super::layout::Layout;
use crate::cursor::{PastEnd, Reader};
use crate::ring::Split;
use crate::sender::LongFragment;
use crate::yojimbo::bits::BitError;

/// Bytes before those of the block.
pub const LONG_FRAGMENT_HEADER_BYTES: u16 = 11;

/// Reads a packet that is a long fragment.
///
/// # Errors
/// A field is missing or out of range; there are no blocks on its channel; it has not the bytes that its place in the
/// block says.
pub fn parse_long_fragment<'a>(
    bytes: &'a [u8],
    layout: &'a Layout,
    items: &'a mut Items<'a>,
) -> Result<ConnectionPacket<'a>, PacketError> {
    let fragment = read(bytes, layout)?;
    Ok(ConnectionPacket::alone(fragment, items))
}

fn read<'a>(bytes: &'a [u8], layout: &Layout) -> Result<BlockFragment<'a>, PacketError> {
    let mut reader = Reader::new(bytes);
    let channel = reader.u8()?;
    let id = reader.u16_le()?;
    let length = reader.u32_le()?;
    let size = reader.u16_le()?;
    let index = reader.u16_le()?;
    let data = reader.rest();
    let rules = layout.channel(channel).filter(|rules| rules.is_reliable());
    let (Some(rules), Some(_)) = (rules, layout.blocks(channel)) else {
        return Err(PacketError::BlocksDisabled);
    };
    if length > rules.block_bytes_max {
        return Err(PacketError::BlockTooLarge);
    }
    let before = u32::from(index) * u32::from(size);
    if size < rules.block_fragment_size || before >= length {
        return Err(BitError::OutOfRange.into());
    }
    if data.len() != (length - before).min(size.into()) as usize {
        return Err(PacketError::ShortFragment);
    }
    let count = length.div_ceil(size.into()) as u16;
    Ok(BlockFragment {
        place: FragmentPlace {
            channel,
            id,
            count,
            index,
        },
        kind: None,
        size,
        whole_max: length,
        data,
    })
}

impl From<PastEnd> for PacketError {
    fn from(PastEnd: PastEnd) -> Self {
        Self::Field(BitError::PastEnd)
    }
}

/// Appends a long fragment.
pub fn emit_long_fragment(
    place: FragmentPlace,
    LongFragment { length, size }: LongFragment,
    (head, tail): Split<'_>,
    out: &mut Vec<u8>,
) {
    out.push(place.channel);
    out.extend_from_slice(&place.id.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&place.index.to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yojimbo::channels::Item;

    /// The second of three fragments, of 1100 bytes, of a block of 3000.
    fn second() -> Vec<u8> {
        let place = FragmentPlace {
            channel: 0,
            id: 0x1234,
            count: 3,
            index: 1,
        };
        let long = LongFragment {
            length: 3_000,
            size: 1_100,
        };
        let mut out = Vec::new();
        emit_long_fragment(place, long, (&[7; 1_000], &[8; 100]), &mut out);
        out
    }

    #[test]
    fn what_it_looks_like() {
        let bytes = second();
        let header = [0, 0x34, 0x12, 0xb8, 0x0b, 0, 0, 0x4c, 0x04, 1, 0];
        assert_eq!(bytes[..LONG_FRAGMENT_HEADER_BYTES.into()], header);
        let (layout, mut items) = (Layout::default(), Items::default());
        let packet = parse_long_fragment(&bytes, &layout, &mut items).expect("it is legal");
        assert!(packet.is_reliable() && !packet.is_empty() && !packet.is_misread());
        assert_eq!(packet.channels().collect::<Vec<_>>(), [0]);
        let items: Vec<_> = packet.items().collect();
        let [Item::Fragment(fragment)] = items[..] else {
            panic!("{items:?}");
        };
        assert_eq!((fragment.place.count, fragment.place.index), (3, 1));
        assert_eq!((fragment.size, fragment.whole_max), (1_100, 3_000));
        assert_eq!(fragment.data, &bytes[11..]);
    }

    /// One that changes these bytes at this place.
    fn changed(at: usize, to: &[u8]) -> Result<(), PacketError> {
        let mut bytes = second();
        bytes[at..at + to.len()].copy_from_slice(to);
        read(&bytes, &Layout::default()).map(drop)
    }

    #[test]
    fn fields_that_do_not_agree_are_refused() {
        let out_of_range = Err(BitError::OutOfRange.into());
        assert_eq!(changed(0, &[0]), Ok(()));
        assert_eq!(changed(0, &[1]), Err(PacketError::BlocksDisabled));
        assert_eq!(changed(0, &[2]), Err(PacketError::BlocksDisabled), "none");
        let length = |length: u32| changed(3, &length.to_le_bytes());
        assert_eq!(length(2_200), Ok(()), "it is the last");
        assert_eq!(length(2_199), Err(PacketError::ShortFragment));
        assert_eq!(length(1_100), out_of_range, "there is no second");
        assert_eq!(length(0), out_of_range);
        assert_eq!(length(262_144), Ok(()));
        assert_eq!(length(262_145), Err(PacketError::BlockTooLarge));
        assert_eq!(length(u32::MAX), Err(PacketError::BlockTooLarge));
        let size = |size: u16| changed(7, &size.to_le_bytes());
        for wrong in [1_099, 1_101, 1_899, 2_999] {
            assert_eq!(size(wrong), Err(PacketError::ShortFragment), "{wrong}");
        }
        for wrong in [0, 1, 1_023, 3_000, u16::MAX] {
            assert_eq!(size(wrong), out_of_range, "{wrong}");
        }
        assert_eq!(changed(9, &[2]), Err(PacketError::ShortFragment));
        assert_eq!(changed(9, &[3]), out_of_range);
        assert_eq!(changed(9, &[255, 255]), out_of_range);
        for length in 0..LONG_FRAGMENT_HEADER_BYTES.into() {
            let cut = &second()[..length];
            let read = read(cut, &Layout::default()).map(drop);
            assert_eq!(read, Err(BitError::PastEnd.into()));
        }
        let with_more = [second(), vec![0]].concat();
        let read = read(&with_more, &Layout::default()).map(drop);
        assert_eq!(read, Err(PacketError::ShortFragment));
    }
}
