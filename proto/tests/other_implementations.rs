//! Bit packing and reliable against other implementations of the same standards: the same inputs
//! must be written, taken, refused and acknowledged alike.

use proptest::prelude::*;
use serialize::{ReadStream, Stream, WriteStream};
use tidegate_proto::Timestamp;
use tidegate_proto::cursor::Reader;
use tidegate_proto::yojimbo::bits::{BitReader, BitWriter};
use tidegate_proto::yojimbo::reliable::{Arrival, Header, Limits, Receiver};

#[derive(Clone, Debug)]
enum Field {
    Bits(u32, u32),
    Int(i32, i32, i32),
    Bool(bool),
    Align,
    Bytes(Vec<u8>),
    IntRelative(i32, i32),
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        (1u32..=32, any::<u32>())
            .prop_map(|(width, value)| Field::Bits(value >> (32 - width), width)),
        (-5000i32..5000, 0i32..9000, any::<u32>()).prop_map(|(min, span, at)| {
            Field::Int(min + (at % (span as u32 + 1)) as i32, min, min + span)
        }),
        any::<bool>().prop_map(Field::Bool),
        Just(Field::Align),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Field::Bytes),
        (0i32..1 << 20, 1i32..1 << 20, 0u32..20).prop_map(|(previous, far, near)| {
            Field::IntRelative(previous, previous + (far >> near).max(1))
        }),
    ]
}

/// Writes `fields` as the other implementation does.
fn write_theirs(fields: &[Field]) -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let mut stream = WriteStream::new(&mut buffer);
    for field in fields {
        let written = match field.clone() {
            Field::Bits(mut value, width) => stream.serialize_bits(&mut value, width),
            Field::Int(mut value, min, max) => stream.serialize_int(&mut value, min, max),
            Field::Bool(mut value) => stream.serialize_bool(&mut value),
            Field::Align => stream.serialize_align(),
            Field::Bytes(mut bytes) => stream.serialize_bytes(&mut bytes),
            Field::IntRelative(previous, mut current) => {
                stream.serialize_int_relative(previous, &mut current)
            }
        };
        written.expect("writing cannot fail");
    }
    stream.flush();
    stream.data().to_vec()
}

fn write_ours(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = BitWriter::new(&mut out);
    for field in fields {
        match field {
            Field::Bits(value, width) => writer.bits(*value, *width),
            Field::Int(value, min, max) => writer.int(*value, *min, *max),
            Field::Bool(value) => writer.bool(*value),
            Field::Align => writer.align(),
            Field::Bytes(bytes) => writer.bytes(bytes),
            Field::IntRelative(previous, current) => {
                writer.int_relative(*previous as u32, *current as u32);
            }
        }
    }
    writer.finish();
    out
}

/// Reads the next field of the kind of `field`; `None` when it must be refused.
fn read_theirs(stream: &mut ReadStream<'_>, field: &Field) -> Option<Field> {
    match field {
        Field::Bits(_, width) => {
            let mut value = 0;
            stream.serialize_bits(&mut value, *width).ok()?;
            Some(Field::Bits(value, *width))
        }
        Field::Int(_, min, max) => {
            let mut value = *min;
            stream.serialize_int(&mut value, *min, *max).ok()?;
            Some(Field::Int(value, *min, *max))
        }
        Field::Bool(_) => {
            let mut value = false;
            stream.serialize_bool(&mut value).ok()?;
            Some(Field::Bool(value))
        }
        Field::Align => stream.serialize_align().ok().map(|()| Field::Align),
        Field::Bytes(bytes) => {
            let mut bytes = vec![0; bytes.len()];
            stream.serialize_bytes(&mut bytes).ok()?;
            Some(Field::Bytes(bytes))
        }
        Field::IntRelative(previous, _) => {
            let mut current = 0;
            stream
                .serialize_int_relative(*previous, &mut current)
                .ok()?;
            Some(Field::IntRelative(*previous, current))
        }
    }
}

fn read_ours(reader: &mut BitReader<'_>, field: &Field) -> Option<Field> {
    Some(match field {
        Field::Bits(_, width) => Field::Bits(reader.bits(*width).ok()?, *width),
        Field::Int(_, min, max) => Field::Int(reader.int(*min, *max).ok()?, *min, *max),
        Field::Bool(_) => Field::Bool(reader.bool().ok()?),
        Field::Align => reader.align().ok().map(|()| Field::Align)?,
        Field::Bytes(bytes) => Field::Bytes(reader.bytes(bytes.len()).ok()?.to_vec()),
        Field::IntRelative(previous, _) => {
            let current = reader.int_relative(*previous as u32).ok()?;
            // They count in 31 bits here, we in 32; the wire ids have 17.
            Field::IntRelative(*previous, i32::try_from(current).ok()?)
        }
    })
}

proptest! {
    #[test]
    fn bits_are_written_alike(fields in prop::collection::vec(field(), 1..40)) {
        prop_assert_eq!(write_ours(&fields), write_theirs(&fields));
    }

    #[test]
    fn bits_are_read_alike(
        fields in prop::collection::vec(field(), 1..40),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..8), 0..4),
        cut: prop::sample::Index,
        whole: bool,
    ) {
        let mut bytes = write_ours(&fields);
        prop_assume!(!bytes.is_empty());
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        let mut padded = bytes.clone();
        padded.resize(bytes.len() + 8, 0);
        let mut theirs = ReadStream::new(&padded, bytes.len());
        let mut ours = BitReader::new(&bytes);
        for field in &fields {
            let read = read_ours(&mut ours, field);
            prop_assert_eq!(format!("{read:?}"), format!("{:?}", read_theirs(&mut theirs, field)));
            if read.is_none() {
                break;
            }
        }
    }
}

const SMALL: Limits = Limits {
    packet_bytes_max: 300,
    fragment_size: 50,
    fragments_max: 8,
    fragment_above: 60,
};

fn endpoint() -> reliable::Endpoint {
    let config = reliable::Config {
        max_packet_size: SMALL.packet_bytes_max,
        fragment_above: SMALL.fragment_above,
        max_fragments: SMALL.fragments_max,
        fragment_size: SMALL.fragment_size,
        ..Default::default()
    };
    reliable::Endpoint::new(config, 0.0)
}

/// The ack and ack bits that an endpoint puts into its next header.
fn ack_of(endpoint: &mut reliable::Endpoint) -> (u16, u32) {
    let mut ack = None;
    endpoint.send_packet(&[0], |_, datagram| {
        let header = Header::parse(&mut Reader::new(datagram)).expect("a header");
        ack = Some((header.ack, header.ack_bits));
    });
    ack.expect("a datagram")
}

/// One packet on its way: how far its number is from the newest, and its size.
fn packet() -> impl Strategy<Value = (i16, usize)> {
    let step = prop_oneof![
        20 => 1i16..3,
        4 => -70i16..70,
        2 => -300i16..300,
        1 => any::<i16>(),
    ];
    (step, prop_oneof![2 => 0usize..61, 1 => 61usize..301])
}

#[derive(Clone, Debug)]
enum Fate {
    Once,
    Twice,
    Lost,
    Flipped(prop::sample::Index, u32),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        10 => Just(Fate::Once),
        2 => Just(Fate::Twice),
        2 => Just(Fate::Lost),
        1 => (any::<prop::sample::Index>(), 0u32..8).prop_map(|(at, bit)| Fate::Flipped(at, bit)),
    ]
}

proptest! {
    /// Packets of any size and number, cut, shuffled, doubled, lost and damaged: two receivers see
    /// the same packets and acknowledge the same.
    #[test]
    fn packets_are_received_alike(
        start: u16,
        packets in prop::collection::vec(packet(), 1..60),
        fates in prop::collection::vec((fate(), 0usize..12), 600),
        refusals: u64,
    ) {
        let mut sequence = start;
        let mut datagrams = Vec::new();
        let mut fates = fates.into_iter();
        for (step, size) in packets {
            sequence = sequence.wrapping_add_signed(step);
            let header = Header { sequence, ack: sequence.wrapping_mul(7), ack_bits: 0xff00_ff55 };
            let payload: Vec<u8> = (0..size).map(|at| (at as u8).wrapping_mul(sequence as u8)).collect();
            for index in 0..SMALL.datagrams(size) {
                let mut datagram = Vec::new();
                SMALL.emit(header, &payload, index, &mut datagram);
                let (fate, late) = fates.next().unwrap_or((Fate::Once, 0));
                let copies = match fate {
                    Fate::Once => 1,
                    Fate::Twice => 2,
                    Fate::Lost => 0,
                    Fate::Flipped(at, bit) => {
                        let at = at.index(datagram.len());
                        datagram[at] ^= 1 << bit;
                        1
                    }
                };
                for copy in 0..copies {
                    let at = datagrams.len().saturating_sub(late * (copy + 1));
                    datagrams.insert(at, datagram.clone());
                }
            }
        }
        let mut theirs = endpoint();
        let mut ours = Receiver::new(SMALL);
        for (turn, datagram) in datagrams.iter().enumerate() {
            let accepts = refusals.rotate_right(turn as u32) & 3 != 0;
            let mut seen = None;
            theirs.receive_packet(datagram, |sequence, payload| {
                seen = Some((sequence, payload.to_vec()));
                accepts
            });
            let parsed = ours.parse(datagram);
            let got = match parsed.and_then(|parsed| ours.receive(Timestamp::ZERO, parsed)) {
                Ok(Arrival::Packet { header, payload }) => Some((header.sequence, payload.to_vec())),
                _ => None,
            };
            prop_assert_eq!(&got, &seen, "datagram {}", turn);
            if let Some((sequence, _)) = got
                && accepts
            {
                ours.accept(sequence);
            }
            prop_assert_eq!(ours.ack(), ack_of(&mut theirs), "datagram {}", turn);
        }
    }

    /// What we send, they take; what they send, we take.
    #[test]
    fn packets_are_split_alike(sizes in prop::collection::vec(1usize..301, 1..30)) {
        let mut theirs = endpoint();
        for (sequence, size) in sizes.into_iter().enumerate() {
            let payload = vec![sequence as u8; size];
            let mut split = Vec::new();
            theirs.send_packet(&payload, |_, datagram| split.push(datagram.to_vec()));
            let header = Header { sequence: sequence as u16, ack: 65535, ack_bits: 0 };
            prop_assert_eq!(split.len(), SMALL.datagrams(size));
            for (index, datagram) in split.iter().enumerate() {
                let mut ours = Vec::new();
                SMALL.emit(header, &payload, index, &mut ours);
                prop_assert_eq!(&ours, datagram);
            }
        }
    }
}

/// What so many others overtook that a header about the newest is past it: theirs hears of it in the next.
#[test]
fn they_hear_what_came_late() {
    let mut theirs = endpoint();
    let mut ours = Receiver::new(SMALL);
    let datagrams: Vec<Vec<u8>> = (0..100)
        .map(|_| {
            let mut sent = Vec::new();
            theirs.send_packet(&[1], |_, datagram| sent = datagram.to_vec());
            sent
        })
        .collect();
    let late = [3, 4, 60];
    let in_time = (0..100).filter(|number| !late.contains(number));
    for (turn, number) in in_time.chain(late).enumerate() {
        let parsed = ours.parse(&datagrams[number]).unwrap();
        ours.receive(Timestamp::ZERO, parsed).unwrap();
        ours.accept(number as u16);
        let is_last_in_time = turn == 99 - late.len();
        if turn % 16 == 15 || is_last_in_time || turn == 99 {
            answer(&mut ours, &mut theirs);
        }
    }
    for _ in 0..3 {
        answer(&mut ours, &mut theirs);
    }
    let mut acked: Vec<u16> = theirs.drain_acks().collect();
    acked.sort_unstable();
    assert_eq!(acked, (0..100).collect::<Vec<_>>());
}

/// A packet of ours, with what it acknowledges.
fn answer(ours: &mut Receiver, theirs: &mut reliable::Endpoint) {
    let (ack, ack_bits) = ours.take_ack();
    let sequence = theirs.counters().num_packets_received as u16;
    let header = Header {
        sequence,
        ack,
        ack_bits,
    };
    let mut datagram = Vec::new();
    SMALL.emit(header, &[1], 0, &mut datagram);
    theirs.receive_packet(&datagram, |_, _| true);
}
