//! gaffer: headers, sequence order, acks of both sides, datagrams at a listener, and messages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_proto::gaffer::acks::{Order, Received, Sent};
use tidegate_proto::gaffer::wire::{self, Header};
use tidegate_proto::gaffer::{Acceptor, Late, Params, Payload};
use tidegate_proto::mode::ArticleRate;
use tidegate_proto::{Acceptor as _, Now, Stranger, Timestamp, Verdict};

use crate::compare::{assert_bytes, assert_same, hex};
use crate::vectors::{bytes, each_case, int, items, load};

#[test]
fn headers_are_read_and_written() {
    each_case("gaffer_headers.json", "cases", |case| {
        let datagram = bytes(&case["datagram"]);
        let (header, payload) = Header::parse(&datagram).expect("a header");
        let field = |name: &str| int(&case[name]) as u32;
        let expected = Header {
            protocol_id: field("protocol_id"),
            sequence: field("sequence"),
            ack: field("ack"),
            ack_bits: field("ack_bits"),
        };
        assert_same(header, expected, "header");
        assert_bytes(payload, &bytes(&case["payload"]), "payload");
        let mut written = Vec::new();
        expected.emit(&mut written);
        written.extend_from_slice(payload);
        assert_bytes(&written, &datagram, "written");
    });
}

#[test]
fn sequences_are_ordered_as_in_the_article() {
    each_case("gaffer_headers.json", "more_recent", |case| {
        let (a, b) = (int(&case[0]) as u32, int(&case[1]) as u32);
        let expected = case[2].as_bool().expect("a verdict");
        assert_same(
            wire::is_more_recent(a, b),
            expected,
            &format!("{a} and {b}"),
        );
    });
}

#[test]
fn received_packets_make_acks() {
    each_case("gaffer_acks.json", "receive", |case| {
        let mut received = Received::starting_at(int(&case["start_remote_sequence"]) as u32);
        for step in items(case, "steps") {
            let sequence = int(&step[0]) as u32;
            let order = received.order(sequence);
            let is_new = matches!(order, Order::Newer { .. } | Order::Late);
            assert!(is_new, "sequence {sequence}: {order:?}");
            received.insert(sequence);
            assert_eq!(received.order(sequence), Order::Duplicate, "{sequence}");
            let expected = (int(&step[1]) as u32, int(&step[2]) as u32);
            assert_same(received.acks(), expected, &format!("after {sequence}"));
        }
    });
}

#[test]
fn acks_complete_packets_measure_and_lose_them() {
    each_case("gaffer_acks.json", "acked", |case| {
        let mut sent = Sent::default();
        let mut rate = ArticleRate::default();
        let mut sent_at = Vec::new();
        let mut acked_of_all = 0;
        let mut clock = 0.0;
        for (step, what) in items(case, "steps").iter().enumerate() {
            let context = format!("step {step}");
            let now = Timestamp::ZERO + Duration::from_secs_f64(clock);
            match what["op"].as_str().expect("op") {
                "sent" => {
                    let sequence = int(&what["sequence"]) as u32;
                    sent.on_sent(now, sequence, u64::from(sequence));
                    sent_at.push(now);
                    continue;
                }
                "update" => {
                    clock += what["dt"].as_f64().expect("seconds");
                    // The article remembers nothing for longer.
                    let now = Timestamp::ZERO + Duration::from_secs_f64(clock);
                    sent.expire(now, u64::MAX);
                    let on_their_way = count_on_their_way(&sent, sent_at.len());
                    let lost = sent_at.len() - acked_of_all - on_their_way;
                    assert_same(lost as u64, int(&what["lost"]), &context);
                }
                "ack" => {
                    let header = Header {
                        protocol_id: 0,
                        sequence: 0,
                        ack: int(&what["ack"]) as u32,
                        ack_bits: int(&what["ack_bits"]) as u32,
                    };
                    let mut acked = Vec::new();
                    sent.on_header(&header, |number| acked.push(number));
                    acked_of_all += acked.len();
                    for number in &acked {
                        rate.on_rtt(now.since(sent_at[*number as usize]));
                    }
                    let expected = what["newly_acked"].as_array().expect("a list").iter();
                    assert_same(acked, expected.map(int).collect::<Vec<_>>(), &context);
                }
                other => panic!("{context}: unknown step {other}"),
            }
            let rtt = what["rtt"].as_f64().expect("seconds");
            let difference = (rate.rtt().as_secs_f64() - rtt).abs();
            assert!(difference < 1e-5, "{context}: off by {difference}");
        }
    });
}

/// How many of so many packets, numbered from 0, an acknowledgement would still complete.
fn count_on_their_way(sent: &Sent, packets: usize) -> usize {
    let (mut sent, mut completed) = (sent.clone(), 0);
    for ack in 0..packets as u32 {
        let header = Header {
            protocol_id: 0,
            sequence: 0,
            ack,
            ack_bits: 0,
        };
        sent.on_header(&header, |_| completed += 1);
    }
    completed
}

/// A listener that trusts sources, as the article's does.
#[test]
fn a_listener_takes_what_the_example_takes() {
    let protocol_id = int(&load("gaffer_negative.json")["protocol_id"]) as u32;
    each_case("gaffer_negative.json", "cases", |case| {
        let params = Params {
            protocol_id,
            payload: Payload::Raw { late: Late::Pass },
            probe: false,
            ..Params::default()
        };
        let mut acceptor = Acceptor::new(Arc::new(params), [9; 16]);
        let now = Now {
            mono: Timestamp::from_millis(100),
            unix_secs: 0,
        };
        let mut datagram = bytes(&case["datagram"]);
        let mut reply = Vec::new();
        let stranger = Stranger {
            from: "192.0.2.1:30001".parse().expect("an address"),
            datagram: &mut datagram,
            reply: &mut reply,
        };
        let verdict = acceptor.handle_unknown(now, stranger);
        assert!(reply.is_empty());
        let Verdict::Accept(mut session) = verdict else {
            assert_same(&false, &case["connected"], "connected");
            assert_same(&Value::Null, &case["payload"], "payload");
            return;
        };
        assert_same(&true, &case["connected"], "connected");
        let payload = session.poll_message().map(|message| hex(message.payload));
        assert_same(payload.as_deref(), case["payload"].as_str(), "payload");
        // What the next packet acknowledges is the remote sequence.
        let mut out = Vec::new();
        let later = now.after(Duration::from_secs(1));
        assert!(session.poll_transmit(later, &mut out));
        let (header, _) = Header::parse(&out).expect("a header");
        let remote_sequence = int(&case["remote_sequence"]);
        assert_same(u64::from(header.ack), remote_sequence, "remote sequence");
    });
}
