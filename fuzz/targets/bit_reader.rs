// The bit reader under any sequence of operations: never past the end, never a panic, and what it
// reads it reads again when written back.

use tidegate_proto::yojimbo::bits::{BitReader, BitWriter, padding_after};

pub fn run(data: &[u8]) {
    let split = data.len() / 2;
    let (plan, stream) = data.split_at(split);
    let mut reader = BitReader::new(stream);
    let mut out = Vec::new();
    let mut writer = BitWriter::new(&mut out);
    for step in plan {
        let before = reader.position();
        let argument = u32::from(step >> 3);
        let read = match step % 8 {
            0 | 1 => reader
                .bits(argument + 1)
                .map(|v| writer.bits(v, argument + 1)),
            2 => {
                let max = ((1i64 << argument) - 1) as i32;
                let (min, max) = (-7i32.min(max), max.max(-7));
                reader.int(min, max).map(|v| writer.int(v, min, max))
            }
            3 => reader.bool().map(|v| writer.bool(v)),
            4 => reader.align().map(|()| writer.align()),
            5 => reader.bytes(argument as usize).map(|v| writer.bytes(v)),
            6 => {
                let previous = argument * 99_991;
                reader.int_relative(previous).map(|current| {
                    assert!(current > previous);
                    writer.int_relative(previous, current);
                })
            }
            _ => {
                let previous = (argument * 2003) as u16;
                let full = { reader }.int_relative(u32::from(previous));
                let current = reader.sequence_relative(previous);
                if full.is_ok_and(|full| full >= u32::from(previous) + 65536) {
                    // More than a lap ahead: writers have no such form.
                    return;
                }
                current.map(|v| writer.sequence_relative(previous, v))
            }
        };
        assert!(reader.position() <= stream.len() * 8);
        if read.is_err() {
            assert!(before <= reader.position());
            break;
        }
        // A relative number may come in a longer form than ours; after one of those the two
        // streams no longer run side by side.
        if writer.position() != reader.position() {
            return;
        }
    }
    let bits = writer.finish();
    assert_eq!(out.len(), (bits + padding_after(bits)) / 8);
    let whole = bits / 8;
    assert_eq!(out[..whole], stream[..whole]);
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![
            0, 9, 3, 4, 0x2d, 6, 7, 0xff, 0xff, 0x03, 0x55, 1, 2, 3, 4, 5,
        ],
        vec![0x16, 0x17, 0x1e, 0x3f, 0x12, 0x34, 0x56, 0x78],
    ]
}
