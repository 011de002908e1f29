use proptest::prelude::*;

use super::*;

fn codec(framing: Framing, max_message: usize) -> FrameCodec {
    FrameCodec::new(framing, false, false, max_message)
}

/// Each framing, by its bytes: with and without header in the length, with and without channel.
#[test]
fn frames_have_these_bytes() {
    let rows: &[(Framing, bool, bool, &[u8])] = &[
        (Framing::U16Be, false, false, b"\x00\x03abc"),
        (Framing::U16Le, false, false, b"\x03\x00abc"),
        (Framing::U32Be, false, false, b"\x00\x00\x00\x03abc"),
        (Framing::U32Le, false, false, b"\x03\x00\x00\x00abc"),
        (Framing::U16Be, true, false, b"\x00\x05abc"),
        (Framing::U32Le, true, false, b"\x07\x00\x00\x00abc"),
        (Framing::U16Be, false, true, b"\x00\x04\x01abc"),
        (Framing::U32Be, true, true, b"\x00\x00\x00\x08\x01abc"),
        (Framing::Varint, false, false, b"\x03abc"),
        (Framing::Varint, false, true, b"\x04\x01abc"),
        (Framing::Line, false, false, b"abc\n"),
        (Framing::Line, false, true, b"\x01abc\n"),
        (Framing::Raw, false, false, b"abc"),
    ];
    for (framing, includes_header, channel_byte, bytes) in rows {
        let codec = FrameCodec::new(*framing, *includes_header, *channel_byte, 1000);
        let mut out = Vec::new();
        codec.encode(1, b"abc", &mut out).unwrap();
        assert_eq!(&out, bytes, "{framing:?}");
        let decoded = codec.decode(bytes).unwrap().unwrap();
        assert_eq!(decoded.consumed, bytes.len(), "{framing:?}");
        assert_eq!(&bytes[decoded.payload], b"abc", "{framing:?}");
        assert_eq!(decoded.channel, u8::from(*channel_byte), "{framing:?}");
    }
}

#[test]
fn varint_lengths_grow_by_seven_bits() {
    for (size, header) in [
        (0, &[0][..]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (16_383, &[0xff, 0x7f]),
        (16_384, &[0x80, 0x80, 0x01]),
    ] {
        let mut out = Vec::new();
        codec(Framing::Varint, 1 << 20)
            .encode(0, &vec![7; size], &mut out)
            .unwrap();
        assert_eq!(&out[..header.len()], header);
        assert_eq!(out.len(), header.len() + size);
    }
    let varint = codec(Framing::Varint, 1 << 20);
    assert_eq!(
        varint
            .decode(&[0x83, 0x80, 0x00, 1, 2, 3])
            .unwrap()
            .unwrap()
            .payload,
        3..6,
        "a padded length is taken"
    );
    let longest = varint.decode(&[0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap_err();
    assert!(matches!(longest, FrameError::TooLong { size, .. } if size == u64::from(u32::MAX)));
    for endless in [&[0x80; 5][..], &[0xff, 0xff, 0xff, 0xff, 0x1f]] {
        assert_eq!(varint.decode(endless), Err(FrameError::VarintTooLong));
    }
}

/// The largest message passes, one byte more does not, in both directions and with the reason.
#[test]
fn the_limit_is_exact() {
    let channelled = |framing| [(framing, false), (framing, true)];
    for (framing, channel_byte) in Framing::ALL.into_iter().flat_map(channelled) {
        if framing == Framing::Raw {
            continue;
        }
        let codec = FrameCodec::new(framing, false, channel_byte, 300);
        let mut out = Vec::new();
        codec.encode(0, &[b'x'; 300], &mut out).unwrap();
        let decoded = codec.decode(&out).unwrap().unwrap();
        assert_eq!((decoded.consumed, decoded.payload.len()), (out.len(), 300));
        assert!(out.len() <= codec.max_frame());

        let mut refused = Vec::new();
        let error = codec.encode(0, &[b'x'; 301], &mut refused).unwrap_err();
        let expected = FrameError::TooLong {
            size: 301,
            max: 300,
            framing,
            by_field: false,
        };
        assert_eq!(error, expected);
        assert!(
            refused.is_empty(),
            "nothing of a refused message is written"
        );

        let mut announced = Vec::new();
        FrameCodec::new(framing, false, channel_byte, 1000)
            .encode(0, &[b'x'; 301], &mut announced)
            .unwrap();
        assert_eq!(codec.decode(&announced), Err(expected));
    }
}

/// A 16-bit length cannot say 65 536, whatever `max_message` allows.
#[test]
fn the_length_field_sets_a_limit_too() {
    let plain = codec(Framing::U16Be, 1 << 20);
    assert_eq!(plain.max_message(), 65_535);
    let tight = FrameCodec::new(Framing::U16Le, true, true, 1 << 20);
    assert_eq!(tight.max_message(), 65_532);
    let mut out = Vec::new();
    tight.encode(0, &vec![1; 65_532], &mut out).unwrap();
    assert_eq!(out[..2], [0xff, 0xff]);
    let error = tight.encode(0, &vec![1; 65_533], &mut out).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a message of 65533 bytes, and u16le frames can say at most 65532: choose a 32-bit framing"
    );
}

/// A gigabyte announced is refused by its length alone, before a buffer could be made for it.
#[test]
fn an_announced_length_is_checked_before_the_message_comes() {
    let error = codec(Framing::U32Be, 65_536)
        .decode(&[0x40, 0, 0, 0])
        .unwrap_err();
    assert!(matches!(
        error,
        FrameError::TooLong {
            size: 0x4000_0000,
            ..
        }
    ));
    let endless = [b'x'; 12];
    for channel_byte in [false, true] {
        let line = FrameCodec::new(Framing::Line, false, channel_byte, 10);
        let longest = 10 + usize::from(channel_byte);
        assert_eq!(line.decode(&endless[..longest]), Ok(None));
        let error = line.decode(&endless[..longest + 1]);
        let error = error.expect_err("no newline can make this one shorter");
        assert!(matches!(error, FrameError::TooLong { size: 11, .. }));
    }
}

#[test]
fn broken_frames_say_what_is_broken() {
    let includes = FrameCodec::new(Framing::U16Be, true, false, 100);
    assert_eq!(
        includes.decode(&[0, 1]),
        Err(FrameError::LengthBelowHeader {
            length: 1,
            header: 2
        })
    );
    assert_eq!(includes.decode(&[0, 2]).unwrap().unwrap().payload, 2..2);

    for framing in [Framing::U16Be, Framing::Varint, Framing::Line] {
        let channelled = FrameCodec::new(framing, false, true, 100);
        let empty: &[u8] = match framing {
            Framing::Line => b"\n",
            Framing::Varint => &[0],
            _ => &[0, 0],
        };
        assert_eq!(channelled.decode(empty), Err(FrameError::MissingChannel));
        let mut nothing_said = Vec::new();
        channelled.encode(7, b"", &mut nothing_said).unwrap();
        let decoded = channelled.decode(&nothing_said).unwrap().unwrap();
        assert_eq!((decoded.channel, decoded.payload.len()), (7, 0));
    }

    let line = FrameCodec::new(Framing::Line, false, true, 100);
    let mut out = Vec::new();
    assert_eq!(
        line.encode(0, b"one\ntwo", &mut out),
        Err(FrameError::NewlineInLine { at: 3 })
    );
    assert!(
        line.encode(b'\n', b"one", &mut out).is_err(),
        "channel 10 is a newline"
    );
    assert!(out.is_empty());
}

#[test]
fn raw_is_cut_into_pieces_and_joined() {
    let raw = codec(Framing::Raw, 4);
    assert_eq!(raw.decode(b""), Ok(None));
    assert_eq!(raw.decode(b"ab").unwrap().unwrap().payload, 0..2);
    assert_eq!(raw.decode(b"abcdef").unwrap().unwrap().payload, 0..4);
    let mut out = Vec::new();
    raw.encode(0, b"abcdefgh", &mut out).unwrap();
    assert_eq!(
        out, b"abcdefgh",
        "joining has no limit: the piece was cut elsewhere"
    );
}

/// Reads a stream that arrives in pieces of the given sizes, as a backend's reader does: without looking twice for the
/// end of a frame in what it has.
fn decode_split(codec: &FrameCodec, stream: &[u8], sizes: &[usize]) -> Vec<(Channel, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut buffer = Vec::new();
    let mut searched = 0;
    let mut rest = stream;
    let mut sizes = sizes.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        buffer.extend_from_slice(piece);
        while let Some(frame) = codec.decode_from(searched, &buffer).unwrap() {
            messages.push((frame.channel, buffer[frame.payload].to_vec()));
            buffer.drain(..frame.consumed);
            searched = 0;
        }
        searched = buffer.len();
        assert!(
            buffer.len() <= codec.max_frame(),
            "an incomplete frame is at most one frame"
        );
    }
    assert!(
        buffer.is_empty(),
        "nothing is left when the last frame is complete"
    );
    messages
}

#[test]
fn a_raw_stream_is_read_in_whole_pieces() {
    assert_eq!(codec(Framing::Raw, 1000).read_bytes(16_384), 16_000);
    assert_eq!(codec(Framing::Raw, 16_384).read_bytes(16_384), 16_384);
    assert_eq!(
        codec(Framing::Raw, 16_385).read_bytes(16_384),
        16_384,
        "less than a piece"
    );
    assert_eq!(
        codec(Framing::U16Be, 1000).read_bytes(16_384),
        16_384,
        "frames end anywhere"
    );
}

proptest! {
    /// Whatever is written comes out again, wherever the stream happens to be cut.
    #[test]
    fn any_split_gives_the_same_messages(
        messages in prop::collection::vec((0u8..4, prop::collection::vec(any::<u8>(), 0..400)), 1..12),
        sizes in prop::collection::vec(1usize..700, 1..8),
        framing in prop::sample::select(&Framing::ALL[..6]),
        includes_header: bool,
        channel_byte: bool,
    ) {
        let codec = FrameCodec::new(framing, includes_header, channel_byte, 400);
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (channel, mut payload) in messages {
            if framing == Framing::Line {
                payload.retain(|&byte| byte != b'\n');
            }
            codec.encode(channel, &payload, &mut stream).unwrap();
            expected.push((if channel_byte { channel } else { 0 }, payload));
        }
        prop_assert_eq!(&decode_split(&codec, &stream, &sizes), &expected);
        prop_assert_eq!(&decode_split(&codec, &stream, &[1]), &expected, "byte by byte");
    }

    /// A raw stream is the same bytes in the same order, whatever the pieces.
    #[test]
    fn raw_pieces_join_to_the_stream(
        stream in prop::collection::vec(any::<u8>(), 0..3000),
        sizes in prop::collection::vec(1usize..700, 1..8),
        piece in 1usize..500,
    ) {
        let codec = FrameCodec::new(Framing::Raw, false, false, piece);
        let pieces = decode_split(&codec, &stream, &sizes);
        prop_assert!(pieces.iter().all(|(_, bytes)| (1..=piece).contains(&bytes.len())));
        let joined: Vec<u8> = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        prop_assert_eq!(joined, stream);
    }
}
