// A gaffer session under any sequence of packets, sends, reads and waits: bounded, one end.

use std::time::Duration;

use tidegate_proto::gaffer::wire::{self, FRAGMENT_BYTES, Header, Record};
use tidegate_proto::gaffer::{Late, Params, Payload, Session};
use tidegate_proto::{Event, Now, Session as _, Stats, Timestamp};

pub fn run(data: &[u8]) {
    play(data);
}

/// What the session counted in the end.
pub fn play(data: &[u8]) -> Stats {
    let Some((&config, mut data)) = data.split_first() else {
        return Stats::default();
    };
    let params = Params {
        payload: match config % 4 {
            0 => Payload::Raw { late: Late::Drop },
            1 => Payload::Raw { late: Late::Pass },
            _ => Payload::Messages,
        },
        inbox_max: 4096,
        ..Params::default()
    };
    let mut now = Now {
        mono: Timestamp::from_millis(1000),
        unix_secs: 0,
    };
    let mut session = Session::dial(now, &params, 77);
    let mut closed = false;
    // Our newest packet, so that the input can acknowledge it, and the peer's.
    let (mut own, mut peer) = (0u32, 0u32);
    while let Some((&op, rest)) = data.split_first() {
        let (&length, rest) = rest.split_first().unwrap_or((&0, rest));
        let (argument, rest) = rest.split_at(usize::from(length).min(rest.len()));
        data = rest;
        match op % 8 {
            // A packet near the window, whose payload is the input.
            0..=2 => {
                peer = peer.wrapping_add(u32::from(op / 8));
                let mut datagram = Vec::new();
                let header = Header {
                    protocol_id: params.protocol_id,
                    sequence: peer,
                    ack: own.wrapping_sub(u32::from(op >> 6)),
                    ack_bits: u32::from(length).wrapping_mul(0x0101_0101),
                };
                header.emit(&mut datagram);
                match *argument {
                    // A fragment that is not the last has more bytes than an input.
                    [id, index, last, byte, ..] if op % 8 == 2 => {
                        let whole = [byte; FRAGMENT_BYTES];
                        let bytes = if index < last { &whole } else { &argument[3..] };
                        let id = id.into();
                        wire::emit(Record::Fragment { id, index, last, bytes }, &mut datagram);
                    }
                    _ => datagram.extend_from_slice(argument),
                }
                session.handle_datagram(now, &mut datagram).ok();
            }
            // The input as it is.
            3 => {
                let mut datagram = params.protocol_id.to_be_bytes().to_vec();
                datagram.extend_from_slice(argument);
                session.handle_datagram(now, &mut datagram).ok();
            }
            4 => {
                session.send(now, op >> 7, argument).ok();
            }
            5 => {
                session.poll_message();
            }
            _ => {
                now = now.after(Duration::from_millis(u64::from(op) * u64::from(length) / 8));
                session.handle_timeout(now);
            }
        }
        while let Some(event) = session.poll_event() {
            assert!(!closed, "{event:?} after the end");
            closed = matches!(event, Event::Closed(_));
        }
        let mut out = Vec::new();
        let mut packets = 0;
        while session.poll_transmit(now, &mut out) {
            let (header, payload) = Header::parse(&out).expect("a header");
            assert!(out.len() <= 1200 && !payload.is_empty());
            if params.payload == Payload::Messages {
                assert!(wire::parse(payload).is_ok());
            }
            own = header.sequence;
            out.clear();
            packets += 1;
            assert!(packets <= 16, "one turn is bounded");
        }
        assert!(session.inbox_bytes() < 4096 + 512 * 1024);
        match session.poll_timeout() {
            None => assert!(closed),
            Some(deadline) => assert!(deadline.at > now.mono, "{deadline:?}"),
        }
    }
    session.stats()
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![2, 8, 1, 0, 8, 7, 1, 0, 0, 0, 2, 9, 9, 5, 0, 4, 3, 1, 2, 3, 6, 200, 8, 1, 0],
        vec![2, 8, 6, 1, 0, 1, 0, 1, 7, 8, 6, 1, 0, 0, 0, 1, 8, 5, 0, 5, 0, 8, 1, 4],
        vec![0, 8, 3, 1, 2, 3, 0, 3, 4, 5, 6, 4, 2, 8, 8, 7, 255, 7, 255],
        // A message in three fragments, out of order, one of them twice; and one in an ordinary record.
        vec![
            2, 10, 4, 0, 1, 2, 7, 10, 4, 0, 0, 2, 7, 10, 4, 0, 0, 2, 7, 10, 5, 0, 2, 2, 7, 8, 5, 0, 8, 6, 1, 0, 1, 0,
            1, 9, 5, 0,
        ],
    ]
}
