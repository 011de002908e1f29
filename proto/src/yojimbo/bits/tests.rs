//! Widths, relative numbers, and where the bytes end.

use super::*;
use proptest::prelude::*;

#[test]
fn widths_of_the_ranges_in_use() {
    for (min, max, width) in [
        (0, 0, 0),
        (0, 1, 1),
        (0, 2, 2),
        (0, 3, 2),
        (0, 4, 3),
        (1, 256, 8),
        (1, 1024, 10),
        (0, 7000, 13),
        (1, 262_144, 18),
        (i32::MIN, i32::MAX, 32),
    ] {
        assert_eq!(width_of(min, max), width, "{min}..={max}");
    }
}

#[test]
fn a_stream_may_start_behind_other_bytes() {
    let mut out = vec![0xaa, 0xbb];
    let mut writer = BitWriter::new(&mut out);
    writer.bits(5, 3);
    writer.bytes(&[1, 2]);
    writer.bool(true);
    assert_eq!(writer.finish(), 8 + 16 + 1);
    assert_eq!(out, [0xaa, 0xbb, 5, 1, 2, 1]);
}

#[test]
fn what_is_left_is_known_to_the_bit() {
    for (bytes, zero_from) in [
        (&[0xff, 0x0f, 0][..], 12),
        (&[0xff, 0x0f, 0, 0x80], 32),
        (&[], 0),
    ] {
        let end = bytes.len() * 8;
        for at in 0..=end {
            let mut reader = BitReader::new(bytes);
            assert_eq!(reader.skip(at), Ok(()));
            assert_eq!(reader.rest_is_zero(), at >= zero_from, "{at} {bytes:?}");
            assert_eq!(reader.skip(end - at + 1), Err(BitError::PastEnd));
            assert_eq!(reader.position(), at);
        }
    }
}

#[test]
fn the_first_byte_is_amended_wherever_it_is() {
    for words in 0..4 {
        let mut out = vec![0xaa];
        let mut writer = BitWriter::new(&mut out);
        writer.bits(0, 3);
        for _ in 0..words {
            writer.bits(u32::MAX, 32);
        }
        writer.bool(true);
        writer.amend_first(5);
        writer.finish();
        let mut reader = BitReader::new(&out[1..]);
        assert_eq!((out[0], reader.bits(3)), (0xaa, Ok(5)), "{words} words");
        for _ in 0..words {
            assert_eq!(reader.bits(32), Ok(u32::MAX));
        }
        assert_eq!(reader.bool(), Ok(true));
    }
}

#[test]
fn relative_sequences_are_as_long_as_announced() {
    for previous in [0u16, 1, 500, 40_000, 65_535] {
        for distance in [1u16, 2, 6, 7, 23, 24, 280, 281, 1023, 4377, 4378, 65_535] {
            let current = previous.wrapping_add(distance);
            let mut out = Vec::new();
            let mut writer = BitWriter::new(&mut out);
            writer.sequence_relative(previous, current);
            let bits = writer.finish();
            assert_eq!(bits, sequence_relative_bits(previous, current));
            let mut reader = BitReader::new(&out);
            assert_eq!(reader.sequence_relative(previous), Ok(current));
            assert_eq!(reader.position(), bits);
        }
    }
}

/// Flags are read together with what follows them: where the bytes end is noticed all the same.
#[test]
fn a_number_that_is_cut_off_is_past_the_end() {
    for distance in [1u32, 2, 6, 7, 23, 24, 280, 281, 4377, 4378, 69_914, 69_915] {
        for before in 0..16 {
            let mut out = Vec::new();
            let mut writer = BitWriter::new(&mut out);
            writer.bits(0, before);
            writer.int_relative(9, 9 + distance);
            let end = writer.finish();
            for bytes in 0..=out.len() {
                let mut reader = BitReader::new(&out[..bytes]);
                let read = reader
                    .skip(before as usize)
                    .and_then(|()| reader.int_relative(9));
                let expected = match bytes * 8 >= end {
                    true => Ok(9 + distance),
                    false => Err(BitError::PastEnd),
                };
                assert_eq!(read, expected, "{distance} at {before} in {bytes}");
            }
        }
    }
}

#[test]
fn padding_is_zero() {
    for at in 0..24 {
        for set in 0..24 {
            let bytes = (1u32 << set).to_le_bytes();
            let mut reader = BitReader::new(&bytes[..3]);
            assert_eq!(reader.skip(at), Ok(()));
            let whole = at.next_multiple_of(8);
            let expected = match (at..whole).contains(&set) {
                true => Err(BitError::Padding),
                false => Ok(()),
            };
            assert_eq!(reader.align(), expected, "{set} set, {at} read");
            assert!(expected.is_err() || reader.position() == whole);
        }
    }
}

#[derive(Clone, Debug)]
enum Field {
    Bits(u32, u32),
    Int(i32, i32, i32),
    Align,
    Bytes(Vec<u8>),
    IntRelative(u32, u32),
    SequenceRelative(u16, u16),
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        (1u32..=32, any::<u32>())
            .prop_map(|(width, value)| Field::Bits(value >> (32 - width), width)),
        (any::<i32>(), any::<i32>(), any::<u32>()).prop_map(|(a, b, at)| {
            let (min, max) = (a.min(b), a.max(b));
            let span = (i64::from(max) - i64::from(min)) as u64;
            let value = i64::from(min) + (u64::from(at) % (span + 1)) as i64;
            Field::Int(value as i32, min, max)
        }),
        Just(Field::Align),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Field::Bytes),
        (any::<u32>(), 0u32..40).prop_map(|(seed, shift)| {
            let previous = seed / 2;
            let distance = (seed.rotate_left(7) >> shift.min(31)).max(1);
            Field::IntRelative(
                previous,
                previous.saturating_add(distance).max(previous + 1),
            )
        }),
        (any::<u16>(), 1u16..).prop_map(|(previous, distance)| {
            Field::SequenceRelative(previous, previous.wrapping_add(distance))
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(fields in prop::collection::vec(field(), 0..40)) {
        let mut out = Vec::new();
        let mut writer = BitWriter::new(&mut out);
        for field in &fields {
            match field {
                Field::Bits(value, width) => writer.bits(*value, *width),
                Field::Int(value, min, max) => writer.int(*value, *min, *max),
                Field::Align => writer.align(),
                Field::Bytes(bytes) => writer.bytes(bytes),
                Field::IntRelative(previous, current) => writer.int_relative(*previous, *current),
                Field::SequenceRelative(previous, current) => {
                    writer.sequence_relative(*previous, *current);
                }
            }
        }
        let bits = writer.finish();
        prop_assert_eq!(out.len(), bits.div_ceil(8));
        let mut reader = BitReader::new(&out);
        for field in &fields {
            match field {
                Field::Bits(value, width) => prop_assert_eq!(reader.bits(*width), Ok(*value)),
                Field::Int(value, min, max) => prop_assert_eq!(reader.int(*min, *max), Ok(*value)),
                Field::Align => prop_assert_eq!(reader.align(), Ok(())),
                Field::Bytes(bytes) => {
                    prop_assert_eq!(reader.bytes(bytes.len()), Ok(bytes.as_slice()));
                }
                Field::IntRelative(previous, current) => {
                    prop_assert_eq!(reader.int_relative(*previous), Ok(*current));
                }
                Field::SequenceRelative(previous, current) => {
                    prop_assert_eq!(reader.sequence_relative(*previous), Ok(*current));
                }
            }
        }
        prop_assert_eq!(reader.position(), bits);
        prop_assert_eq!(reader.bits(padding_after(bits) as u32), Ok(0));
        prop_assert_eq!(reader.bits(1), Err(BitError::PastEnd));
    }
}
