//! reliable_*.json: headers, acks both ways, fragments, and what must not be taken.

use std::collections::VecDeque;

use serde_json::Value;
use tidegate_proto::Timestamp;
use tidegate_proto::cursor::Reader;
use tidegate_proto::yojimbo::reliable::{Arrival, DatagramError, Header, Limits, Receiver, acked};

use crate::compare::{assert_bytes, assert_same};
use crate::vectors::{bytes, each_case, int, items};

const NOW: Timestamp = Timestamp::ZERO;

/// Reads a datagram and takes it.
fn receive<'a>(
    receiver: &'a mut Receiver,
    datagram: &'a [u8],
) -> Result<Arrival<'a>, DatagramError> {
    let datagram = receiver.parse(datagram)?;
    receiver.receive(NOW, datagram)
}

fn limits(case: &Value) -> Limits {
    Limits {
        packet_bytes_max: int(&case["max_packet_size"]) as usize,
        fragment_size: int(&case["fragment_size"]) as usize,
        fragments_max: int(&case["max_fragments"]) as usize,
        fragment_above: case["fragment_above"].as_u64().unwrap_or(1024) as usize,
    }
}

fn header(case: &Value) -> Header {
    Header {
        sequence: int(&case["sequence"]) as u16,
        ack: int(&case["ack"]) as u16,
        ack_bits: int(&case["ack_bits"]) as u32,
    }
}

/// Payload byte i = (i * mul + add) & 255.
fn payload(case: &Value) -> Vec<u8> {
    let (mul, add) = (int(&case["mul"]), int(&case["add"]));
    (0..int(&case["payload_bytes"]))
        .map(|i| (i * mul + add) as u8)
        .collect()
}

/// `ack` and `ack_bits` of our next header, as the files write them.
fn assert_acks(receiver: &Receiver, ack: &Value, ack_bits: &Value, what: &str) {
    let expected = (int(ack) as u16, int(ack_bits) as u32);
    assert_same(receiver.ack(), expected, what);
}

#[test]
fn headers() {
    each_case("reliable_headers.json", "cases", |case| {
        let expected = bytes(&case["header"]);
        let mut out = Vec::new();
        header(case).emit(&mut out);
        assert_bytes(&out, &expected, "written");
        let mut reader = Reader::new(&expected);
        assert_same(Header::parse(&mut reader), Ok(header(case)), "read");
        assert_bytes(reader.rest(), &[], "after the header");
    });
}

#[test]
fn acks_we_send() {
    each_case("reliable_acks.json", "receive", |case| {
        let mut receiver = Receiver::default();
        for (index, step) in items(case, "steps").iter().enumerate() {
            let what = format!("step {index}: {step}");
            let sequence = int(&step[0]) as u16;
            let mut datagram = Vec::new();
            let header = Header {
                sequence,
                ack: 65535,
                ack_bits: 0,
            };
            header.emit(&mut datagram);
            datagram.push(1);
            let verdict = match receive(&mut receiver, &datagram) {
                Ok(Arrival::Packet { .. }) => "delivered",
                Ok(Arrival::Stored) => "stored",
                Err(DatagramError::Stale) => "stale",
                Err(DatagramError::Duplicate) => "duplicate",
                Err(DatagramError::Malformed | DatagramError::BadFragment) => "reject",
            };
            assert_same(Some(verdict), step[1].as_str(), &what);
            if verdict == "delivered" {
                receiver.accept(sequence);
            }
            assert_acks(&receiver, &step[2], &step[3], &what);
        }
    });
}

/// The last 256 packets sent, and which of them were reported: the sender's half, as small as it
/// can be.
struct Sent(VecDeque<(u16, bool)>);

impl Sent {
    fn new(case: &Value) -> Self {
        let (first, count) = (int(&case["first_sent"]), int(&case["sent_count"]));
        let all = (first..first + count).map(|sequence| (sequence as u16, false));
        Self(all.skip(count.saturating_sub(256) as usize).collect())
    }

    fn newly_acked(&mut self, header: Header) -> Vec<u64> {
        let mut newly = Vec::new();
        for acked in acked(header.ack, header.ack_bits) {
            for (sequence, reported) in &mut self.0 {
                if *sequence == acked && !*reported {
                    *reported = true;
                    newly.push(u64::from(acked));
                }
            }
        }
        newly
    }
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .expect("an array")
        .iter()
        .map(int)
        .collect()
}

#[test]
fn acks_we_receive() {
    each_case("reliable_acks.json", "acked", |case| {
        let mut receiver = Receiver::default();
        let mut sent = Sent::new(case);
        for step in items(case, "steps") {
            let what = format!("{step}");
            let datagram = bytes(&step["packet"]);
            let header = match receive(&mut receiver, &datagram) {
                Ok(Arrival::Packet { header, .. }) => header,
                other => panic!("{what}: {other:?}"),
            };
            assert_same(u64::from(header.ack), int(&step["ack"]), &what);
            assert_same(u64::from(header.ack_bits), int(&step["ack_bits"]), &what);
            receiver.accept(header.sequence);
            let newly_acked = sent.newly_acked(header);
            assert_same(newly_acked, numbers(&step["newly_acked"]), &what);
        }
    });
}

/// A refused packet is not acknowledged and may come again. The reference ignores the acks in it;
/// we take them, since they are true all the same, so everything is reported no later than there.
#[test]
fn refused_packets() {
    each_case("reliable_acks.json", "refused", |case| {
        let mut receiver = Receiver::default();
        let mut sent = Sent::new(case);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for step in items(case, "steps") {
            let what = format!("{step}");
            let datagram = bytes(&step["packet"]);
            let arrival = receive(&mut receiver, &datagram);
            let header = match arrival {
                Ok(Arrival::Packet { header, .. }) => Some(header),
                _ => None,
            };
            let accepts = step["upper_layer_accepts"].as_bool().expect("a bool");
            let delivered = step["delivered"].as_bool().expect("a bool");
            assert_same(header.is_some() && accepts, delivered, &what);
            if let Some(header) = header {
                if accepts {
                    receiver.accept(header.sequence);
                }
                ours.extend(sent.newly_acked(header));
            }
            theirs.extend(numbers(&step["newly_acked"]));
            assert!(theirs.iter().all(|n| ours.contains(n)), "{what}");
            assert_acks(&receiver, &step["ack"], &step["ack_bits"], &what);
        }
    });
}

#[test]
fn splitting() {
    each_case("reliable_fragments.json", "split", |case| {
        let (limits, payload) = (limits(case), payload(case));
        let expected = items(case, "datagrams");
        assert_same(limits.datagrams(payload.len()), expected.len(), "datagrams");
        for (index, datagram) in expected.iter().enumerate() {
            let mut out = Vec::new();
            limits.emit(header(case), &payload, index, &mut out);
            assert_bytes(&out, &bytes(datagram), &format!("datagram {index}"));
        }
    });
}

#[test]
fn reassembly() {
    each_case("reliable_fragments.json", "reassemble", |case| {
        let mut receiver = Receiver::new(limits(case));
        let packets = items(case, "packets");
        for (index, step) in items(case, "steps").iter().enumerate() {
            let what = format!("step {index}");
            let datagram = bytes(&step["in"]);
            let mut delivered = Vec::new();
            if let Ok(Arrival::Packet {
                header,
                payload: got,
            }) = receive(&mut receiver, &datagram)
            {
                let packet = packets
                    .iter()
                    .find(|packet| int(&packet["sequence"]) as u16 == header.sequence)
                    .unwrap_or_else(|| panic!("{what}: {header:?} was not sent"));
                assert_bytes(got, &payload(packet), &what);
                delivered.push(u64::from(header.sequence));
                receiver.accept(header.sequence);
            }
            assert_same(delivered, numbers(&step["delivered"]), &what);
            assert_acks(&receiver, &step["ack"], &step["ack_bits"], &what);
        }
    });
}

#[test]
fn negative() {
    each_case("reliable_negative.json", "cases", |case| {
        let mut receiver = Receiver::new(limits(case));
        let datagram = bytes(&case["packet"]);
        let verdict = match receive(&mut receiver, &datagram) {
            Ok(Arrival::Packet { header, payload }) => {
                assert_same(
                    u64::from(header.sequence),
                    int(&case["sequence"]),
                    "sequence",
                );
                assert_same(payload.len() as u64, int(&case["payload_bytes"]), "length");
                // Long payloads are given by their beginning.
                let theirs = bytes(&case["payload"]);
                let ours = &payload[..theirs.len().min(payload.len())];
                assert_bytes(ours, &theirs, "beginning of the payload");
                "delivered"
            }
            Ok(Arrival::Stored) => "fragment_stored",
            Err(_) => "reject",
        };
        assert_same(Some(verdict), case["verdict"].as_str(), "verdict");
    });
}
