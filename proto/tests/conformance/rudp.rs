//! rudp: the records of a datagram, a session beside a reference peer, whole one-way sessions.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_proto::rudp::wire::{self, Record};
use tidegate_proto::rudp::{Acceptor, OnCorrupt, OnMissing, Params};
use tidegate_proto::{Acceptor as _, Event, Now, Reject, Session, Stranger, Timestamp, Verdict};

use crate::compare::{assert_bytes, assert_each, assert_same, hex};
use crate::vectors::{bytes, each_case, int, items};

#[test]
fn records_are_read_as_the_reference_reads_them_or_not_at_all() {
    each_case("rudp_records.json", "cases", |case| {
        let datagram = bytes(&case["datagram"]);
        let expected = case["records"].as_array().expect("records");
        let is_malformed = expected.iter().any(|record| record[0] == "malformed");
        match wire::parse(&datagram) {
            // The reference applies what precedes the bad record; a whole datagram or none is ours.
            Err(wire::Malformed) => assert!(is_malformed, "refused"),
            Ok(records) => {
                assert!(!is_malformed, "not refused");
                let read: Vec<_> = records.collect();
                assert_same(read.len(), expected.len(), "records");
                for (ours, theirs) in read.iter().zip(expected) {
                    assert_same(&describe(ours), theirs, "a record");
                }
                assert_canonical(&read, &datagram);
            }
        }
    });
}

/// A record in the words of the vector files.
fn describe(record: &Record<'_>) -> Value {
    match *record {
        Record::Heartbeat => json!(["heartbeat"]),
        Record::Corrupt => json!(["corrupt"]),
        Record::Request(id) => json!(["request", id]),
        Record::Missing(id) => json!(["missing", id]),
        Record::Message { id, payload } => json!(["message", id, hex(payload)]),
    }
}

/// What was read is written as the same bytes, unless a long form or a tail was dropped.
fn assert_canonical(records: &[Record<'_>], datagram: &[u8]) {
    let mut written = Vec::new();
    for record in records {
        wire::emit(*record, &mut written);
    }
    let again: Vec<_> = wire::parse(&written).expect("own bytes").collect();
    assert_eq!(again, records);
    if written.len() == datagram.len() {
        assert_bytes(&written, datagram, "written again");
    }
}

/// One session that was opened by a heartbeat, and the clock that drives it.
struct Peer {
    session: Box<dyn Session>,
    now: Now,
}

impl Peer {
    /// One tick is a millisecond: the vectors are over before a keep-alive or a repeated last
    /// message is due.
    fn new(send_delay: u32, expired: u32) -> Self {
        let tick = Duration::from_millis(1);
        let params = Params {
            tick,
            send_delay,
            expired_time: expired,
            mtu: 128,
            message_bytes_max: wire::MESSAGE_BYTES_MAX,
            on_missing: OnMissing::Skip,
            missing_grace: Duration::ZERO,
            on_corrupt: OnCorrupt::Ignore,
            // As often as the reference asks.
            request_interval: tick,
            request_interval_max: tick,
            idle_timeout: Duration::from_secs(1000),
            probe: false,
            inbox_max: 1 << 24,
            ..Params::default()
        };
        let mut acceptor = Acceptor::new(params, [0; 16]);
        let now = Now {
            mono: Timestamp::from_millis(1000),
            unix_secs: 0,
        };
        let stranger = Stranger {
            from: "192.0.2.1:5000".parse().expect("an address"),
            datagram: &mut [0],
            reply: &mut Vec::new(),
        };
        let Verdict::Accept(mut session) = acceptor.handle_unknown(now, stranger) else {
            panic!("a heartbeat opens a session when there is no probe");
        };
        assert_eq!(session.poll_event(), Some(Event::Authenticated));
        session.admit(now);
        assert_eq!(session.poll_event(), Some(Event::Connected));
        Self { session, now }
    }

    fn update(&mut self, ticks: u64, datagram: &[u8]) -> Result<Vec<Vec<u8>>, Reject> {
        self.now = self.now.after(Duration::from_millis(ticks));
        let result = self
            .session
            .handle_datagram(self.now, &mut datagram.to_vec());
        self.session.handle_timeout(self.now);
        let mut datagrams = Vec::new();
        let mut out = Vec::new();
        while self.session.poll_transmit(self.now, &mut out) {
            datagrams.push(std::mem::take(&mut out));
        }
        result.map(|()| datagrams)
    }

    fn messages(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        while let Some(message) = self.session.poll_message() {
            messages.push(message.payload.to_vec());
        }
        messages
    }
}

/// The datagrams the reference sends, less what we never send: heartbeats and empty datagrams.
fn without_heartbeats(out: &Value) -> Vec<Vec<u8>> {
    let datagrams = out.as_array().expect("datagrams").iter().map(bytes);
    datagrams
        .filter(|datagram| !matches!(datagram.as_slice(), [] | [0]))
        .collect()
}

#[test]
fn exchanges_of_class_wire_are_reproduced() {
    each_case("rudp_exchanges.json", "cases", |case| {
        if is_quirk(case) {
            return;
        }
        let mut peer = Peer::new(
            int(&case["send_delay"]) as u32,
            int(&case["expired"]) as u32,
        );
        for (step, what) in items(case, "steps").iter().enumerate() {
            let context = format!("step {step}");
            match what["op"].as_str().expect("op") {
                "send" => {
                    let sent = peer.session.send(peer.now, 0, &bytes(&what["data"]));
                    assert_eq!(sent, Ok(()), "{context}");
                }
                "update" => {
                    let datagram = bytes(&what["in"]);
                    let result = peer.update(int(&what["tick"]), &datagram);
                    if wire::parse(&datagram).is_err() {
                        // From here on the reference has half of a datagram that we refused.
                        assert_eq!(result, Err(Reject::Malformed), "{context}");
                        assert!(peer.messages().is_empty(), "{context}");
                        break;
                    }
                    let sent = result.unwrap_or_else(|reject| panic!("{context}: {reject:?}"));
                    assert_each(&sent, &without_heartbeats(&what["out"]), &context);
                }
                "recv" => {
                    let results = what["results"].as_array().expect("results").iter();
                    let expected: Vec<_> = results.filter(|r| r.is_string()).map(bytes).collect();
                    let mut got = peer.messages();
                    // To the reference an empty message looks like none.
                    got.retain(|message| !message.is_empty());
                    assert_each(&got, &expected, &context);
                }
                "feed_ids" => feed_ids(&mut peer, what),
                other => panic!("{context}: unknown step {other}"),
            }
        }
    });
}

/// Which of the two tests an exchange is for.
fn is_quirk(case: &Value) -> bool {
    match case["class"].as_str() {
        Some("wire") => false,
        Some("quirk") => true,
        other => panic!("unknown class {other:?}"),
    }
}

fn feed_ids(peer: &mut Peer, step: &Value) {
    let first = int(&step["first"]);
    for id in first..first + int(&step["count"]) {
        let mut datagram = Vec::new();
        wire::emit_message_header(&mut datagram, id as u16, 1);
        datagram.push(id as u8);
        let result = peer.session.handle_datagram(peer.now, &mut datagram);
        assert_eq!(result, Ok(()), "id {id}");
        assert_eq!(peer.messages(), [[id as u8]], "id {id}");
    }
}

/// What the reference does wrong is survived: the session goes on, and never sends a heartbeat.
#[test]
fn exchanges_of_class_quirk_are_survived() {
    each_case("rudp_exchanges.json", "cases", |case| {
        if !is_quirk(case) {
            return;
        }
        let mut peer = Peer::new(
            int(&case["send_delay"]) as u32,
            int(&case["expired"]) as u32,
        );
        for what in items(case, "steps") {
            match what["op"].as_str().expect("op") {
                "send" => {
                    let sent = peer.session.send(peer.now, 0, &bytes(&what["data"]));
                    assert_eq!(sent, Ok(()));
                }
                "update" => {
                    // Both what the reference hears and what it answers.
                    let mut heard = vec![bytes(&what["in"])];
                    heard.extend(what["out"].as_array().into_iter().flatten().map(bytes));
                    let mut ticks = int(&what["tick"]);
                    for datagram in heard {
                        let sent = peer.update(ticks, &datagram).expect("well-formed");
                        ticks = 0;
                        assert!(sent.len() <= 1, "{} datagrams at once", sent.len());
                        for datagram in sent {
                            let mut records = wire::parse(&datagram).expect("own bytes");
                            assert!(records.all(|record| record != Record::Heartbeat));
                        }
                    }
                }
                _ => drop(peer.messages()),
            }
            assert_eq!(peer.session.poll_event(), None);
        }
    });
}

#[test]
fn one_way_sessions_deliver_what_the_reference_delivered() {
    each_case("rudp_sessions.json", "cases", |case| {
        let mut peer = Peer::new(1, 100_000);
        let mut delivered = Vec::new();
        let mut tick = 0;
        for arrival in items(case, "arrivals") {
            let at = int(&arrival[0]);
            peer.update(at - tick, &bytes(&arrival[1]))
                .expect("well-formed");
            tick = at;
            delivered.extend(peer.messages());
        }
        let expected: Vec<_> = items(case, "delivered").iter().map(bytes).collect();
        assert_each(&delivered, &expected, "delivered");
    });
}
