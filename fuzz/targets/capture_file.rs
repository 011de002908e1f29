// Whatever a file holds: reading ends, packets lie inside it, and each record taken is the same
// bytes when it is written again.

use tidegate::capture::pcapng::{self, Packets};
use tidegate::capture::record::{Record, What};
use tidegate_proto::{Allowance, CloseReason, Event, Reject, Timestamp};

pub fn run(data: &[u8]) {
    again(data);
    let Ok(mut packets) = Packets::new(data) else {
        return;
    };
    let mut bytes = 0;
    while let Ok(Some(packet)) = packets.read() {
        bytes += packet.bytes.len();
        assert!(bytes <= data.len(), "packets do not overlap");
        again(packet.bytes);
    }
}

fn again(bytes: &[u8]) {
    let Some(record) = Record::parse(bytes) else {
        return;
    };
    let mut written = Vec::new();
    record.emit(&mut written);
    assert_eq!(Record::parse(&written), Some(record));
    assert!(bytes.starts_with(&written), "nothing was made up");
}

pub fn seeds() -> Vec<Vec<u8>> {
    let calls = [
        What::Begin { origin: [1, 2, 3, 4, 5], rules: "version = 1" },
        What::Datagram { opened: true, outcome: Some(Ok(())), bytes: b"abc" },
        What::Datagram { opened: false, outcome: Some(Err(Reject::Replayed)), bytes: b"" },
        What::Timeout,
        What::Admit,
        What::Send { channel: 1, outcome: 0, payload: b"hello" },
        What::Finish { reason: CloseReason::BackendClosed, linger: 7 },
        What::Close { reason: CloseReason::Kicked },
        What::Written,
        What::Transmit(None),
        What::Transmit(Some(b"xyz")),
        What::Event(Event::Connected),
        What::Event(Event::Closed(CloseReason::PeerTimeout)),
        What::Message(None),
        What::Message(Some((0, true, b"hello"))),
        What::Allowance(Allowance { inbox: 4096, ahead: 0, pieces: 9 }),
    ];
    let mut file = Vec::new();
    pcapng::begin(&mut file);
    let mut seeds = Vec::new();
    for (session, what) in (0..).zip(calls) {
        let mut bytes = Vec::new();
        let at = Timestamp::from_millis(5);
        Record { session, at, what }.emit(&mut bytes);
        pcapng::packet(&mut file, pcapng::RECORDS, 9, &bytes, "a comment");
        seeds.push(bytes);
    }
    seeds.push(file);
    seeds
}
