// A rudp session under any sequence of datagrams, sends, reads and waits: bounded, silent to
// strangers, never a heartbeat, at most one goodbye.

use std::time::Duration;

use tidegate_proto::rudp::wire::{self, Record};
use tidegate_proto::rudp::{Acceptor, OnMissing, Params};
use tidegate_proto::{Acceptor as _, Event, Now, Session, Stats, Stranger, Timestamp, Verdict};

pub fn run(data: &[u8]) {
    play(data);
}

/// What the session counted in the end.
pub fn play(data: &[u8]) -> Stats {
    let Some((&config, mut data)) = data.split_first() else {
        return Stats::default();
    };
    let params = Params {
        probe: config & 1 != 0,
        on_missing: if config & 2 != 0 { OnMissing::Skip } else { OnMissing::Close },
        mtu: if config & 4 != 0 { 128 } else { 512 },
        inbox_max: 4096,
        send_queue_bytes_max: 8192,
        history_bytes_max: 8192,
        ..Params::default()
    };
    let mut acceptor = Acceptor::new(params, [5; 16]);
    let mut now = Now { mono: Timestamp::from_millis(1000), unix_secs: 0 };
    let mut session: Option<Box<dyn Session>> = None;
    let mut closed = false;
    while let Some((&op, rest)) = data.split_first() {
        let (&length, rest) = rest.split_first().unwrap_or((&0, rest));
        let length = usize::from(length).min(rest.len());
        let (argument, rest) = rest.split_at(length);
        data = rest;
        let mut datagram = argument.to_vec();
        match (op % 8, &mut session) {
            (0..=2, None) => {
                let mut reply = Vec::new();
                let from = "192.0.2.1:9".parse().expect("an address");
                let offered = datagram.len();
                let stranger = Stranger { from, datagram: &mut datagram, reply: &mut reply };
                match acceptor.handle_unknown(now, stranger) {
                    Verdict::Accept(accepted) => session = Some(accepted),
                    Verdict::Reply => assert!((reply.len() + 28) * 10 <= (offered + 28) * 12),
                    Verdict::Deny(_) | Verdict::Reject(_) => assert!(reply.is_empty()),
                }
            }
            (0..=2, Some(session)) => {
                session.handle_datagram(now, &mut datagram).ok();
            }
            (3, Some(session)) => {
                session.send(now, 0, argument).ok();
            }
            (4, Some(session)) => {
                session.poll_message();
            }
            (5, Some(session)) => session.admit(now),
            (_, session) => {
                now = now.after(Duration::from_millis(u64::from(op) + length as u64));
                if let Some(session) = session {
                    session.handle_timeout(now);
                }
            }
        }
        if let Some(session) = &mut session {
            drain(session.as_mut(), now, &mut closed);
        }
    }
    session.map_or_else(Stats::default, |session| session.stats())
}

fn drain(session: &mut dyn Session, now: Now, closed: &mut bool) {
    while let Some(event) = session.poll_event() {
        assert!(!*closed, "{event:?} after the end");
        *closed = matches!(event, Event::Closed(_));
    }
    let mut out = Vec::new();
    let mut datagrams = 0;
    while session.poll_transmit(now, &mut out) {
        let mut records = wire::parse(&out).expect("own bytes are well-formed");
        assert!(records.all(|record| record != Record::Heartbeat) && !out.is_empty());
        out.clear();
        datagrams += 1;
        assert!(datagrams <= 32, "one output is bounded");
    }
    assert!(session.inbox_bytes() < 300 * 1024);
    assert_eq!(session.poll_timeout().is_none(), *closed);
    if let Some(deadline) = session.poll_timeout() {
        assert!(deadline.at > now.mono || session.stats().outbox_messages > 0, "{deadline:?}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        vec![0, 0, 4, 4, 0, 0, 5, 0, 5, 0, 3, 2, 7, 7, 7, 0, 0, 3, 2, 0, 0, 4, 0],
        vec![2, 0, 4, 4, 0, 3, 5, 7, 0, 0, 6, 3, 0, 1, 3, 0, 2, 7, 250, 0, 6, 4, 0, 0, 4, 0, 1],
        vec![1, 0, 1, 0, 7, 0, 0, 6, 3, 0x40, 0, 3, 0x41, 0],
    ];
    seeds.extend([0, 2, 4, 6].map(conversation));
    seeds
}

/// What makes the session do this with these bytes.
fn step(op: u8, argument: &[u8]) -> Vec<u8> {
    [&[op, argument.len() as u8], argument].concat()
}

/// Messages both ways, a gap that is filled, one whose message is gone, what we said asked for again, more than the inbox
/// takes, and the end.
fn conversation(config: u8) -> Vec<u8> {
    let records = |records: &[Record<'_>]| {
        let mut datagram = Vec::new();
        records.iter().for_each(|record| wire::emit(*record, &mut datagram));
        step(0, &datagram)
    };
    let message = |id| Record::Message { id, payload: b"said" };
    let said = |ids: &[u16]| records(&ids.iter().copied().map(message).collect::<Vec<_>>());
    let time = [247, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    let (say, read, admit) = (step(3, b"and heard"), step(4, &[]), step(5, &[]));
    let asks = records(&[Record::Request(1), Record::Request(0), Record::Request(700)]);
    let gone = records(&[Record::Missing(10), Record::Missing(11)]);
    let end = records(&[Record::Corrupt]);
    let full: Vec<u16> = (13..43).collect();
    [
        vec![config],
        said(&[0]),
        admit,
        said(&[1, 2]),
        say.repeat(3),
        time.repeat(2),
        said(&[5, 6]),
        time.repeat(2),
        said(&[3, 4, 4]),
        read.repeat(8),
        asks,
        time.repeat(2),
        said(&[9, 12]),
        said(&[7, 8]),
        gone,
        time.repeat(20),
        said(&full),
        said(&full.iter().map(|id| id + 30).collect::<Vec<_>>()),
        said(&full.iter().map(|id| id + 60).collect::<Vec<_>>()),
        read.repeat(100),
        time.to_vec(),
        end.repeat(2),
    ]
    .concat()
}
