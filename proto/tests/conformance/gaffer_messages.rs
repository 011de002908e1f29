//! The records behind gaffer's header, by a decoder written from docs/wire/gaffer.md, section 4,
//! alone, against bytes made by this crate's encoder.
//!
//! `TIDEGATE_WRITE_VECTORS=1` writes the file again after a change of the layout; the test fails
//! whenever the file is not what the code makes.

use serde_json::{Value, json};
use tidegate_proto::gaffer::wire::{self, Record};

use crate::compare::{assert_bytes, assert_same, hex};
use crate::vectors::{bytes, directory, each_case, int, items};

const NAME: &str = "gaffer_messages.json";

/// The repository's file, which is made here.
const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/vectors/gaffer_messages.json"
);

fn file() -> Value {
    let text = std::fs::read_to_string(FILE).expect("the file in this repository");
    serde_json::from_str(&text).expect("json")
}

/// The page's table, read byte by byte. `None` for what it calls malformed.
fn decode_by_the_page(payload: &[u8]) -> Option<Vec<Value>> {
    let mut records = Vec::new();
    let mut at = 0;
    let u16_at = |at: usize| {
        let pair = payload.get(at..at + 2)?;
        Some(usize::from(pair[0]) * 256 + usize::from(pair[1]))
    };
    while at < payload.len() {
        let record = match payload[at] {
            0 => (json!(["keep_alive"]), at + 1),
            1 => {
                let (id, length) = (u16_at(at + 1)?, u16_at(at + 3)?);
                let data = payload.get(at + 5..at + 5 + length)?;
                (json!(["reliable", id, hex(data)]), at + 5 + length)
            }
            2 => {
                let length = u16_at(at + 1)?;
                let data = payload.get(at + 3..at + 3 + length)?;
                (json!(["unreliable", hex(data)]), at + 3 + length)
            }
            3 => {
                let (id, length) = (u16_at(at + 1)?, u16_at(at + 5)?);
                let (index, last) = (payload[at + 3], payload[at + 4]);
                let data = payload.get(at + 7..at + 7 + length)?;
                let fits = if index == last {
                    (1..=1024).contains(&length)
                } else {
                    index < last && length == 1024
                };
                if !fits {
                    return None;
                }
                let record = json!(["fragment", id, index, last, hex(data)]);
                (record, at + 7 + length)
            }
            4 => (json!(["goodbye"]), at + 1),
            _ => return None,
        };
        records.push(record.0);
        at = record.1;
    }
    Some(records)
}

/// Other vectors need not have this file: nobody else's implementation knows our layout.
#[test]
fn the_page_and_the_parser_agree() {
    if !directory().join(NAME).exists() {
        return;
    }
    each_case(NAME, "cases", |case| {
        let payload = bytes(&case["payload"]);
        let by_page = decode_by_the_page(&payload);
        let expected = case["records"].as_array();
        assert_same(by_page.as_ref(), expected, "the page");
        let Ok(records) = wire::parse(&payload) else {
            return assert!(expected.is_none(), "the parser refuses");
        };
        let read: Vec<_> = records.collect();
        let as_json: Vec<_> = read.iter().map(|record| describe(*record)).collect();
        assert_same(Some(&as_json), expected, "the parser");
        let mut written = Vec::new();
        for record in read {
            wire::emit(record, &mut written);
        }
        assert_bytes(&written, &payload, "written");
    });
}

/// Ids are told apart by value, not by place: the file names each record's fields in wire order.
fn describe(record: Record<'_>) -> Value {
    match record {
        Record::KeepAlive => json!(["keep_alive"]),
        Record::Reliable { id, payload } => json!(["reliable", id, hex(payload)]),
        Record::Unreliable(payload) => json!(["unreliable", hex(payload)]),
        Record::Fragment {
            id,
            index,
            last,
            bytes,
        } => json!(["fragment", id, index, last, hex(bytes)]),
        Record::Goodbye => json!(["goodbye"]),
    }
}

fn made_by_this_crate() -> Value {
    let piece: Vec<u8> = (0..wire::FRAGMENT_BYTES)
        .map(|i| (i * 7 + 3) as u8)
        .collect();
    let whole: [(&str, Vec<Record<'_>>); 7] = [
        ("keep_alive", vec![Record::KeepAlive]),
        ("goodbye", vec![Record::Goodbye]),
        (
            "one_reliable",
            vec![Record::Reliable {
                id: 0,
                payload: b"hello",
            }],
        ),
        (
            "empty_messages",
            vec![
                Record::Reliable {
                    id: 0xffff,
                    payload: b"",
                },
                Record::Unreliable(b""),
            ],
        ),
        (
            "both_lanes",
            vec![
                Record::Reliable {
                    id: 0x0102,
                    payload: &[0, 1, 2, 3],
                },
                Record::Reliable {
                    id: 0x0103,
                    payload: &[0xff; 300],
                },
                Record::Unreliable(b"state"),
            ],
        ),
        (
            "first_fragment",
            vec![Record::Fragment {
                id: 7,
                index: 0,
                last: 1,
                bytes: &piece,
            }],
        ),
        (
            "last_fragment_and_state",
            vec![
                Record::Fragment {
                    id: 7,
                    index: 1,
                    last: 1,
                    bytes: b"tail",
                },
                Record::Unreliable(b"state"),
            ],
        ),
    ];
    let mut cases = Vec::new();
    for (name, records) in &whole {
        let mut payload = Vec::new();
        for record in records {
            wire::emit(*record, &mut payload);
        }
        let records: Vec<_> = records.iter().map(|record| describe(*record)).collect();
        cases.push(json!({ "name": name, "payload": hex(&payload), "records": records }));
    }
    let mut short = vec![3, 0, 7, 0, 1, 3, 0xff];
    short.extend_from_slice(&piece[1..]);
    for (name, payload) in [
        ("unknown_kind", vec![5]),
        ("cut_length", vec![1, 0, 0, 0]),
        ("cut_payload", vec![2, 0, 3, 1, 2]),
        ("whole_then_cut", vec![2, 0, 1, 9, 1]),
        ("fragment_beyond_last", vec![3, 0, 7, 2, 1, 0, 1, 9]),
        ("short_inner_fragment", short),
        ("empty_last_fragment", vec![3, 0, 7, 1, 1, 0, 0]),
    ] {
        cases.push(json!({ "name": name, "payload": hex(&payload), "records": null }));
    }
    json!({
        "schema": "tidegate-vectors/1",
        "layer": "gaffer",
        "kind": "messages",
        "source": "tidegate's own encoder; the layout is defined in docs/wire/gaffer.md, section 4",
        "note": "payload is what follows the 16-byte header. records null: malformed, the whole packet is refused and not acknowledged.",
        "cases": cases,
    })
}

#[test]
fn the_file_is_what_the_code_makes() {
    let made = made_by_this_crate();
    if std::env::var_os("TIDEGATE_WRITE_VECTORS").is_some() {
        let text = serde_json::to_string_pretty(&made).expect("json") + "\n";
        std::fs::write(FILE, text).expect("the vectors are writable");
    }
    let file = file();
    assert_eq!(file, made);
    let ids = items(&file, "cases")
        .iter()
        .filter(|case| case["records"].is_array());
    assert!(ids.clone().count() > 5 && ids.count() < items(&file, "cases").len());
    assert_eq!(int(&file["cases"][2]["records"][0][1]), 0);
}
