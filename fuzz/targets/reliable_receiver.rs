// A long-lived receiver fed any sequence of datagrams: headers, fragments, time, refusals. It must
// stay inside its memory bound, acknowledge only what was accepted, and deliver nothing twice.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_proto::Timestamp;
use tidegate_proto::cursor::Reader;
use tidegate_proto::yojimbo::reliable::{
    Arrival, Fragment, HEADER_BYTES_MAX, Header, Limits, Receiver, acked,
};

const LIMITS: Limits = Limits {
    packet_bytes_max: 256,
    fragment_size: 32,
    fragments_max: 8,
    fragment_above: 48,
};

pub fn run(data: &[u8]) {
    headers_and_fragments(data);
    let mut receiver = Receiver::new(LIMITS);
    let mut accepted = BTreeSet::new();
    let mut now = Timestamp::ZERO;
    let mut rest = data;
    // Each step: a byte that says how long the datagram is and whether it is taken, then the bytes.
    while let Some((&step, after)) = rest.split_first() {
        let length = usize::from(step & 0x3f).min(after.len());
        let (datagram, after) = after.split_at(length);
        rest = after;
        now += Duration::from_millis(u64::from(step >> 6) * 300);
        let parsed = receiver.parse(datagram);
        let packet = match parsed.and_then(|parsed| receiver.receive(now, parsed)) {
            Ok(Arrival::Packet { header, payload }) => {
                assert!(payload.len() <= LIMITS.packet_bytes_max);
                Some(header)
            }
            Ok(Arrival::Stored) | Err(_) => None,
        };
        // What the window has left behind may come again a lap later.
        let newest = receiver.ack().0;
        accepted.retain(|n: &u16| newest.wrapping_sub(*n) < 256);
        if let Some(header) = packet
            && step & 0x40 != 0
        {
            assert!(accepted.insert(header.sequence), "delivered twice");
            receiver.accept(header.sequence);
        }
        let (ack, bits) = receiver.ack();
        assert!(acked(ack, bits).all(|sequence| accepted.contains(&sequence)));
        assert!(receiver.held() <= 16 * data.len() + 64 * 256);
        if receiver.next_expiry().is_none() {
            assert!(receiver.held() <= LIMITS.packet_bytes_max);
        }
    }
    receiver.expire(now + Duration::from_secs(3));
    assert_eq!(receiver.held(), 0);
}

/// What parses can be written, and reads the same again.
fn headers_and_fragments(data: &[u8]) {
    let mut out = Vec::new();
    if let Some(fragment) = Fragment::parse(data, 1024, 256) {
        fragment.emit(&mut out);
        assert_eq!(out, data, "fragments have one form only");
    }
    out.clear();
    if let Ok(header) = Header::parse(&mut Reader::new(data)) {
        header.emit(&mut out);
        assert!(out.len() <= HEADER_BYTES_MAX);
        assert_eq!(Header::parse(&mut Reader::new(&out)), Ok(header));
        assert!(header.acked().count() <= 32);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let header = |sequence| Header {
        sequence,
        ack: 65535,
        ack_bits: 0,
    };
    let mut whole = Vec::new();
    let mut backwards = Vec::new();
    let payload = [0x5a; 70];
    for sequence in [0u16, 1, 2, 40, 65535] {
        let count = LIMITS.datagrams(payload.len());
        for index in 0..count {
            let mut datagram = Vec::new();
            LIMITS.emit(header(sequence), &payload, index, &mut datagram);
            whole.push(0x40 | datagram.len() as u8);
            whole.extend(&datagram);
            datagram.clear();
            LIMITS.emit(header(sequence), &payload, count - 1 - index, &mut datagram);
            backwards.push(0x40 | datagram.len() as u8);
            backwards.extend(&datagram);
        }
        let mut datagram = Vec::new();
        LIMITS.emit(
            header(sequence.wrapping_add(5)),
            &payload[..9],
            0,
            &mut datagram,
        );
        whole.push(0x40 | datagram.len() as u8);
        whole.extend(&datagram);
    }
    let mut single = Vec::new();
    header(7).emit(&mut single);
    vec![whole, backwards, single]
}
