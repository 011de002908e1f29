//! bitpack_*.json: bit streams written and read field by field.

use serde_json::{Value, json};
use tidegate_proto::yojimbo::bits::{BitError, BitReader, BitWriter};

use crate::compare::{assert_bytes, assert_same, hex};
use crate::vectors::{bytes, each_case, int, is_accepted, items};

fn number(value: &Value) -> i32 {
    let number = value
        .as_i64()
        .unwrap_or_else(|| panic!("not a number: {value}"));
    i32::try_from(number).expect("32 bits")
}

fn write(writer: &mut BitWriter<'_>, op: &Value) {
    match op[0].as_str() {
        Some("bits") => {
            let (value, width) = (int(&op[1]), int(&op[2]) as u32);
            let low = width.min(32);
            writer.bits((value & ((1u64 << low) - 1)) as u32, low);
            writer.bits((value >> low) as u32, width - low);
        }
        Some("int") => writer.int(number(&op[1]), number(&op[2]), number(&op[3])),
        Some("bool") => writer.bool(op[1].as_bool().expect("a bool")),
        Some("bytes") => writer.bytes(&bytes(&op[1])),
        Some("align") => writer.align(),
        Some("int_relative") => writer.int_relative(int(&op[2]) as u32, int(&op[1]) as u32),
        Some("sequence_relative") => {
            writer.sequence_relative(int(&op[2]) as u16, int(&op[1]) as u16);
        }
        _ => panic!("unknown operation {op}"),
    }
}

/// Reads one field and returns it in the form of the vector files.
fn read(reader: &mut BitReader<'_>, op: &Value) -> Result<Value, BitError> {
    Ok(match op[0].as_str() {
        Some("bits") => {
            let width = int(&op[2]) as u32;
            let low = width.min(32);
            let value = u64::from(reader.bits(low)?);
            let value = value | (u64::from(reader.bits(width - low)?) << low);
            // As files write numbers.
            let value = if width > 32 {
                json!(value.to_string())
            } else {
                json!(value)
            };
            json!(["bits", value, op[2]])
        }
        Some("int") => {
            let value = reader.int(number(&op[2]), number(&op[3]))?;
            json!(["int", value, op[2], op[3]])
        }
        Some("bool") => json!(["bool", reader.bool()?]),
        Some("bytes") => {
            let count = op[1].as_u64().unwrap_or_else(|| bytes(&op[1]).len() as u64);
            json!(["bytes", hex(reader.bytes(count as usize)?)])
        }
        Some("align") => {
            reader.align()?;
            json!(["align"])
        }
        Some("int_relative") => {
            let value = reader.int_relative(int(&op[2]) as u32)?;
            json!(["int_relative", value, op[2]])
        }
        Some("sequence_relative") => {
            let value = reader.sequence_relative(int(&op[2]) as u16)?;
            json!(["sequence_relative", value, op[2]])
        }
        _ => panic!("unknown operation {op}"),
    })
}

#[test]
fn primitives() {
    each_case("bitpack_primitives.json", "cases", |case| {
        let expected = bytes(&case["bytes"]);
        let mut out = Vec::new();
        let mut writer = BitWriter::new(&mut out);
        for op in items(case, "ops") {
            write(&mut writer, op);
        }
        assert_same(writer.finish() as u64, int(&case["bits"]), "bits written");
        assert_bytes(&out, &expected, "written");
        let mut reader = BitReader::new(&expected);
        for op in items(case, "ops") {
            assert_same(read(&mut reader, op).as_ref(), Ok(op), "read");
        }
        assert_same(reader.position() as u64, int(&case["bits"]), "bits read");
    });
}

#[test]
fn negative() {
    each_case("bitpack_negative.json", "cases", |case| {
        let input = bytes(&case["bytes"]);
        let mut reader = BitReader::new(&input);
        let values: Result<Vec<_>, _> = items(case, "read")
            .iter()
            .map(|op| read(&mut reader, op))
            .collect();
        if is_accepted(case) {
            assert_same(values.as_deref(), Ok(items(case, "values")), "read");
        } else {
            assert!(values.is_err(), "not refused: {values:?}");
        }
    });
}
