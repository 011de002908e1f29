// Whatever a capture's file holds, replaying it ends: with a report or a reason, in time and memory
// that its size bounds.
//
// The first byte says how the rest is read: as a file, or as calls of a session whose rules are valid,
// so that most of them get to the session.

use std::time::Duration;

use tidegate::capture::pcapng;
use tidegate::capture::record::{Record, What};
use tidegate::replay::{Report, replay};
use tidegate_proto::yojimbo::channels::{Layout, PacketWriter};
use tidegate_proto::yojimbo::netcode::wire::{Kind, Prefix, TAG_BYTES};
use tidegate_proto::yojimbo::reliable;
use tidegate_proto::{Allowance, CloseReason, Timestamp, gaffer, rudp};

pub fn run(data: &[u8]) {
    play(data);
}

/// What came of it; `None` where it was no recording of sessions.
pub fn play(data: &[u8]) -> Option<Report> {
    let (&protocol, rest) = data.split_first()?;
    let protocol = PROTOCOLS.get(usize::from(protocol % 4));
    let file = protocol.map_or_else(|| rest.to_vec(), |protocol| calls(protocol, rest));
    match replay(&file) {
        Ok(report) => {
            assert!(report.calls <= file.len() as u64, "calls that nobody recorded");
            Some(report)
        }
        // With rules that are refused, no call would get to a session.
        Err(error) => {
            assert!(protocol.is_none() || !error.to_string().contains("rules"), "{error}");
            None
        }
    }
}

const PROTOCOLS: [&str; 3] = ["yojimbo", "gaffer", "rudp"];

/// A file in which two sessions get the calls that the bytes say: kind, how long after the one before,
/// length, and so many bytes.
fn calls(protocol: &str, mut data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::begin(&mut file);
    let rules = format!(
        "version = 1\n[backend.b]\ntargets = [\"tcp://127.0.0.1:7000\"]\nframing = \"u32be\"\n[listener.l]\n\
         protocol = \"{protocol}\"\nbind = [\"127.0.0.1:40000\"]\nbackend = \"b\"\n"
    );
    let mut at = Timestamp::from_millis(1);
    let write = |file: &mut Vec<u8>, session, at, what| {
        let mut bytes = Vec::new();
        Record { session, at, what }.emit(&mut bytes);
        pcapng::packet(file, pcapng::RECORDS, at.as_nanos(), &bytes, "");
    };
    for session in 0..2 {
        // The third one is for how long a peer of yojimbo may be silent.
        let origin = [u64::from(session), 2, Duration::from_secs(10).as_nanos() as u64, 4, 5];
        write(&mut file, session, at, What::Begin { origin, rules: &rules });
    }
    while let [kind, wait, length, rest @ ..] = data {
        let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        // From microseconds to half an hour.
        at += Duration::from_micros(1 << (wait % 32));
        let reason = CloseReason::ALL[usize::from(*wait) % CloseReason::ALL.len()];
        let session = u32::from(kind >> 7);
        let what = match kind % 13 {
            0..=2 => What::Datagram { opened: true, outcome: None, bytes },
            3 => What::Datagram { opened: false, outcome: None, bytes },
            4 | 5 => What::Timeout,
            6 => What::Admit,
            7 | 8 => What::Send { channel: kind >> 6, outcome: 0, payload: bytes },
            9 => What::Finish { reason, linger: u64::from(*wait) << 32 },
            10 => What::Written,
            11 => {
                let (inbox, ahead) = (bytes.len() * 64, usize::from(*wait) * 64);
                What::Allowance(Allowance { inbox, ahead, pieces: ahead })
            }
            _ => What::Close { reason },
        };
        write(&mut file, session, at, what);
    }
    file
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for protocol in 0..3 {
        let mut seed = vec![protocol];
        for (kind, wait, bytes) in [
            (6, 3, &b""[..]),
            (0, 14, &datagram(protocol, 0)),
            (1, 12, &datagram(protocol, 1)),
            (7, 10, b"hello"),
            (4, 16, b""),
            (2, 13, &datagram(protocol, 2)),
            (8, 20, b"and again"),
            (5, 31, b""),
            (5, 31, b""),
            (9, 2, b""),
            (4, 23, b""),
        ] {
            seed.extend([kind, wait, bytes.len() as u8]);
            seed.extend(bytes);
        }
        seeds.push(seed);
    }
    let mut file = vec![3];
    file.extend(calls("rudp", &seeds[2][1..]));
    seeds.push(file);
    seeds
}

/// The peer's packet of this number, with its message of this number, opened.
fn datagram(protocol: u8, number: u16) -> Vec<u8> {
    let mut out = Vec::new();
    match protocol {
        0 => {
            Prefix::new(Kind::Payload, number.into()).emit(&mut out);
            let (sequence, ack, ack_bits) = (number, u16::MAX, 0);
            reliable::Header { sequence, ack, ack_bits }.emit(&mut out);
            let layout = Layout::default();
            let mut writer = PacketWriter::new(&layout, &mut out);
            writer.reliable(0, [number].into_iter());
            writer.message(0, (b"hello", &[]));
            writer.finish();
            out.extend([0; TAG_BYTES]);
        }
        1 => {
            let (protocol_id, sequence, ack, ack_bits) = (GAFFER_ID, number.into(), 0, 0);
            gaffer::wire::Header { protocol_id, sequence, ack, ack_bits }.emit(&mut out);
            gaffer::wire::emit_reliable(number, (b"hello", &[]), &mut out);
        }
        _ => rudp::wire::emit(rudp::wire::Record::Message { id: number, payload: b"hello" }, &mut out),
    }
    out
}

/// What `gaffer.protocol_id` is without a word about it.
const GAFFER_ID: u32 = 0x7469_6465;
