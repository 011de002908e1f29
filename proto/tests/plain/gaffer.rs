//! gaffer between two of our own sessions, and against forgers.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::gaffer::wire::{self, Header, Record};
use tidegate_proto::gaffer::{Acceptor, Late, Params, Payload, Session};
use tidegate_proto::random::Random;
use tidegate_proto::sender;
use tidegate_proto::sim::Conditions;
use tidegate_proto::{Acceptor as _, CloseReason, Event, Reject, Stranger, Verdict};

use crate::link::{
    CLIENT, Pair, START, assert_same, calm, judge, judge_from, numbered, refusal, storm,
};

pub(crate) fn pair(params: &Params, weather: Conditions, seed: u64) -> Pair {
    let client = Box::new(Session::dial(START, params, seed));
    let acceptor = Acceptor::new(Arc::new(params.clone()), [7; 16]);
    Pair::new(client, Box::new(acceptor), weather, seed)
}

pub(crate) fn connected(params: &Params, weather: Conditions, seed: u64) -> Pair {
    let mut pair = pair(params, weather, seed);
    let ready = pair.run(10, |pair| pair.ends.iter().all(|end| end.connected));
    assert!(ready, "seed {seed}: not connected");
    pair
}

/// Everything arrives once and in order, both ways, although a quarter of the packets is lost.
#[test]
fn a_storm_delays_but_loses_nothing() {
    for seed in 1..=6 {
        let params = Params {
            sender: if seed % 2 == 0 {
                sender::Params::default()
            } else {
                sender::Params::article()
            },
            ..Params::default()
        };
        let mut pair = pair(&params, storm(), seed);
        // Some are longer than a packet.
        let mut sent = [numbered(1_200, 200), numbered(800, 90)];
        for (index, payload) in sent[0].iter_mut().enumerate() {
            if index % 100 == 7 {
                payload.resize(1025 + index * 12, index as u8);
            }
        }
        pair.exchange(seed, 600, &sent);
        let (damage, overtaken) = (pair.done(), pair.overtaken);
        assert!(
            damage.lost * 5 > damage.offered
                && damage.duplicated * 12 > damage.offered
                && overtaken * 25 > damage.offered
                && damage.offered > 300,
            "seed {seed}: the link was too kind to prove anything: {damage:?}"
        );
        let stats = pair.ends[0].session().stats();
        assert!(
            stats.messages_resent > 20 && stats.fragments_received == 0,
            "seed {seed}"
        );
        assert!(
            pair.ends[1].session().stats().fragments_received > 20,
            "seed {seed}"
        );
    }
}

/// The article takes a packet for lost after a second. Over a longer path all messages would go again for ever, and be
/// acknowledged by nobody who counts.
#[test]
fn a_round_trip_may_take_longer_than_the_articles_second() {
    for (seed, delay) in [(1, 510), (2, 700), (3, 1_200), (4, 1_900)] {
        for (sender, again_max) in [
            (sender::Params::default(), 20),
            // It sends everything again after a tenth of a second.
            (sender::Params::article(), u64::MAX),
        ] {
            let params = Params {
                sender,
                ..Params::default()
            };
            let conditions = Conditions {
                loss: 0.02,
                delay: Duration::from_millis(delay),
                ..calm()
            };
            let mut pair = pair(&params, conditions, seed);
            for end in &mut pair.ends {
                end.pace = Duration::from_millis(50);
            }
            pair.exchange(seed, 60, &[numbered(600, 200), numbered(600, 200)]);
            for end in &pair.ends {
                let again = end.session().stats().messages_resent;
                assert!(again < again_max, "{delay} ms: {again} of 600 went again");
            }
        }
    }
}

/// Raw packets: at most once, and old ones by choice.
#[test]
fn raw_packets_come_at_most_once() {
    for late in [Late::Drop, Late::Pass] {
        let params = Params {
            payload: Payload::Raw { late },
            ..Params::default()
        };
        let weather = Conditions {
            loss: 0.05,
            ..storm()
        };
        let mut pair = connected(&params, weather, 5);
        let sent = numbered(600, 100);
        pair.ends[0].to_send.extend(sent.iter().cloned());
        pair.ends[0].pace = Duration::from_millis(35);
        pair.run(40, |_| false);
        let received = &pair.ends[1].received;
        let numbers: Vec<_> = received
            .iter()
            .map(|payload| u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]))
            .collect();
        let mut unique = numbers.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), numbers.len(), "{late:?}: a packet came twice");
        assert!(received.iter().all(|payload| sent.contains(payload)));
        let is_ordered = numbers.is_sorted();
        assert_eq!(is_ordered, late == Late::Drop, "{late:?}");
        let share = numbers.len() as f64 / sent.len() as f64;
        assert!(share > 0.6, "{late:?}: {share}");
        assert!(pair.overtaken > 20 && pair.done().duplicated > 20);
    }
}

/// A datagram that is longer than the path takes is lost each time.
#[test]
fn datagrams_are_filled_and_no_longer_than_they_may_be() {
    for datagram_bytes_max in [1_100, 1_200, 1_472] {
        let params = Params {
            datagram_bytes_max,
            ..Params::default()
        };
        let mut pair = connected(&params, calm(), 1);
        let now = pair.now;
        let server = pair.ends[1].session_mut();
        (0..800).for_each(|_| server.send(now, 0, &[7; 10]).unwrap());
        let mut longest = 0;
        for millis in 0..500 {
            let now = now.after(Duration::from_millis(millis));
            server.handle_timeout(now);
            let mut out = Vec::new();
            while server.poll_transmit(now, &mut out) {
                longest = longest.max(out.len());
                out.clear();
            }
        }
        let filled = datagram_bytes_max - 20..=datagram_bytes_max;
        assert!(
            filled.contains(&longest),
            "{longest} of {datagram_bytes_max}"
        );
    }
}

/// To every receiver such a packet is a sign of life and no message.
#[test]
fn raw_payloads_that_mean_nothing_are_not_sent() {
    let params = Params {
        payload: Payload::Raw { late: Late::Drop },
        ..Params::default()
    };
    let mut pair = connected(&params, calm(), 1);
    let meant = [vec![0, 0], vec![1]];
    pair.ends[0].to_send.extend([vec![], vec![0]]);
    pair.ends[0].to_send.extend(meant.clone());
    pair.run(5, |_| false);
    assert_same(&pair.ends[1].received, &meant);
    assert_eq!(pair.ends[0].session().stats().unreliable_dropped, 2);
}

/// What has the protocol's id is a sign of life, however much it lacks. The id alone is not.
#[test]
fn a_packet_that_is_cut_off_is_a_sign_of_life() {
    let mut pair = connected(&Params::default(), calm(), 1);
    pair.weather.loss = 1.0;
    let id = Params::default().protocol_id.to_be_bytes();
    let mut hear = |datagram: &[u8]| {
        for _ in 0..20 {
            pair.forge(1, datagram);
            pair.run(1, |_| false);
        }
        pair.ends[1].closed
    };
    assert_eq!(hear(&[&id[..], &[0]].concat()), None);
    assert_eq!(hear(&id), Some(CloseReason::PeerTimeout));
}

pub(crate) fn acceptor() -> Acceptor {
    Acceptor::new(Arc::default(), [7; 16])
}

pub(crate) fn packet(sequence: u32, ack: u32, ack_bits: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = Header {
        protocol_id: Params::default().protocol_id,
        sequence,
        ack,
        ack_bits,
    };
    header.emit(&mut out);
    out.extend_from_slice(payload);
    out
}

/// While nobody is taken, what a session left behind that is over is no newcomer.
#[test]
fn only_who_wants_in_is_refused() {
    let mut acceptor = acceptor();
    for (datagram, expected) in [
        (packet(0, 0, 0, &[0]), Reject::Full),
        (packet(900, 800, 7, &[0]), Reject::UnknownPeer),
        (vec![1; 30], Reject::WrongProtocol),
    ] {
        let (reject, reply) = refusal(&mut acceptor, START, &datagram);
        assert_eq!((reject, reply.len()), (expected, 0));
    }
}

/// No session, and never a byte more than came in, before our number comes back.
#[test]
fn a_stranger_gets_a_session_only_by_acknowledging() {
    let mut acceptor = acceptor();
    let empty = acceptor.classify(START, CLIENT, &[]);
    assert_eq!(empty, Err(Reject::Malformed), "no packet of this protocol");
    let mut judge = |now, datagram: &[u8]| judge(&mut acceptor, now, datagram);
    let hello = packet(0, 0, 0, &[0]);
    for length in 0..hello.len() {
        let (verdict, reply) = judge(START, &hello[..length]);
        let is_answered = matches!(verdict, Verdict::Reply);
        assert_eq!(is_answered, length == 16, "{length} bytes");
        assert!(reply.is_empty() || Stranger::may_reply(length, reply.len()));
    }
    let (verdict, reply) = judge(START, &hello);
    assert!(matches!(verdict, Verdict::Reply));
    assert!(reply.len() <= hello.len());
    let (answer, payload) = Header::parse(&reply).expect("a header");
    assert_eq!(payload, [0]);
    assert!(
        wire::is_more_recent(answer.sequence, 0),
        "a fresh peer takes it"
    );
    assert!(
        !answer.acknowledges(0),
        "nothing was kept, so nothing is acknowledged"
    );

    let near = (1..=32).map(|behind| (answer.sequence + behind, u32::MAX));
    for (ack, ack_bits) in near.chain([(answer.sequence ^ 1, 0)]) {
        let (verdict, _) = judge(START, &packet(1, ack, ack_bits, &[0]));
        assert!(
            matches!(verdict, Verdict::Reject(Reject::UnknownPeer)),
            "a guess"
        );
    }
    let message = [1, 0, 0, 0, 2, b'h', b'i'];
    let proof = packet(1, answer.sequence, 0, &message);
    let late = START.after(Duration::from_secs(61));
    assert!(
        !matches!(judge(late, &proof).0, Verdict::Accept(_)),
        "too late"
    );
    let (Verdict::Accept(mut session), _) = judge(START, &proof) else {
        panic!("the number came back");
    };
    assert_eq!(session.poll_event(), Some(Event::Authenticated));
    assert_eq!(session.poll_message().expect("a message").payload, b"hi");
}

/// One that comes in spoils no number that another was told, though a few of so many share an entry of the table.
#[test]
fn numbers_that_many_were_told_all_count_once() {
    let mut acceptor = acceptor();
    let mut judge = |number: u8, datagram: &[u8]| {
        let from = ([192, 0, 2, number], 4000).into();
        judge_from(&mut acceptor, START, from, datagram)
    };
    let hello = packet(0, 0, 0, &[0]);
    let mut proofs = Vec::new();
    for number in 0..200 {
        let (_, reply) = judge(number, &hello);
        let (answer, _) = Header::parse(&reply).expect("a header");
        proofs.push((number, packet(1, answer.sequence, 0, &[0])));
    }
    for (number, proof) in proofs {
        let (verdict, _) = judge(number, &proof);
        assert!(matches!(verdict, Verdict::Accept(_)), "{number}");
        let (again, _) = judge(number, &proof);
        assert!(!matches!(again, Verdict::Accept(_)), "{number} again");
    }
}

/// The newest packet a session has received, from what its next one acknowledges.
fn newest(pair: &mut Pair, end: usize) -> (u32, u32) {
    let now = pair.now.after(Duration::from_millis(400));
    let mut out = Vec::new();
    assert!(pair.ends[end].session_mut().poll_transmit(now, &mut out));
    let (header, _) = Header::parse(&out).expect("a header");
    (header.ack, header.sequence)
}

/// T-A11: one forged packet with the largest jump per second, and genuine ones still count.
#[test]
fn far_sequences_do_not_move_the_window() {
    let mut pair = connected(&Params::default(), calm(), 3);
    let sent = numbered(3000, 60);
    pair.ends[0].to_send.extend(sent.iter().cloned());
    pair.ends[0].pace = Duration::from_millis(200);
    for _ in 0..600 {
        let (seen, own) = newest(&mut pair, 1);
        for jump in [0x7fff_ffff, 2000] {
            pair.forge(1, &packet(seen.wrapping_add(jump), own, 0, &[0]));
        }
        pair.run(1, |_| false);
    }
    pair.run(5, |_| false);
    assert_eq!(pair.ends[1].closed, None);
    assert!(pair.ends[1].rejects >= 1200);
    assert_same(&pair.ends[1].received, &sent);
}

/// T-A12: acknowledging what was never sent frees nothing. Anybody may have forged it, so it ends nothing either, and a
/// peer that says nothing else is silent.
#[test]
fn false_acks_free_nothing() {
    let mut pair = connected(&Params::default(), calm(), 4);
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    let now = pair.now;
    pair.ends[1]
        .session_mut()
        .send(now, 0, b"not yet")
        .expect("room");
    pair.run(1, |_| false);
    for (step, ahead) in [1u32, 33, 1000, 1 << 30].into_iter().enumerate() {
        let forged = packet(seen + 1 + step as u32, own + 100 + ahead, u32::MAX, &[0]);
        let result = pair.ends[1]
            .session_mut()
            .handle_datagram(now, &mut forged.clone());
        assert_eq!(result, Err(Reject::BadAck), "{ahead} ahead");
    }
    assert_eq!(pair.ends[1].session().stats().messages_acked, 0);
    for _ in 0..8 {
        for _ in 0..200 {
            pair.forge(1, &packet(seen + 9, own + 5000, 0, &[0]));
        }
        pair.run(1, |_| false);
        assert_eq!(pair.ends[1].closed, None);
    }
    assert!(pair.ends[1].rejects >= 1600);
    pair.run(3, |_| false);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::PeerTimeout));
}

/// Off the path nobody sees our packets, but a client of the article counts its own from 0, thirty a second: whoever knows
/// its address and port knows about where it is.
#[test]
fn a_forger_off_the_path_ends_no_session() {
    let mut pair = connected(&Params::default(), calm(), 4);
    pair.run(1, |_| false);
    let (mut goodbye, mut nonsense) = (Vec::new(), Vec::new());
    wire::emit(Record::Goodbye, &mut goodbye);
    wire::emit(Record::Unreliable(b"nonsense"), &mut nonsense);
    let mut random = Random::new(4);
    for end in 0..2 {
        let (seen, _) = newest(&mut pair, end);
        let acks = [(0, 0)].into_iter().chain((0..2000).map(|_| {
            let ack = random.next();
            (ack as u32, (ack >> 32) as u32)
        }));
        for (step, (ack, bits)) in acks.enumerate() {
            let sequence = seen + 1 + step as u32 % 20;
            pair.forge(end, &packet(sequence, ack, bits, &goodbye));
            pair.forge(end, &packet(sequence, ack, bits, &nonsense));
        }
        pair.run(1, |_| false);
        assert_eq!(pair.ends[end].closed, None);
        assert_eq!(pair.ends[end].received.len(), 0);
    }
    let sent = numbered(100, 60);
    pair.exchange(4, 20, &[sent.clone(), sent]);
}

/// A peer that acknowledges everything in advance is found out by a number that was left out.
#[test]
fn acks_in_advance_are_found_out() {
    let mut pair = connected(&Params::default(), calm(), 4);
    let (mut seen, _) = newest(&mut pair, 1);
    pair.now = pair.now.after(Duration::from_millis(400));
    pair.weather.loss = 1.0;
    let mut packets = 0;
    while pair.ends[1].closed.is_none() && packets < 2000 {
        let (_, own) = newest(&mut pair, 1);
        pair.now = pair.now.after(Duration::from_millis(400));
        seen += 1;
        packets += 1;
        pair.forge(1, &packet(seen, own, u32::MAX, &[0]));
        pair.run(0, |_| false);
    }
    assert_eq!(pair.ends[1].closed, Some(CloseReason::ProtocolViolation));
    assert!(packets <= 192, "{packets} packets");
}

/// A16: a peer that acknowledges nothing any more is given up, and hears why no sooner.
#[test]
fn a_peer_that_stops_acknowledging_is_given_up() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    let now = pair.now;
    pair.ends[1]
        .session_mut()
        .send(now, 0, b"anybody?")
        .expect("room");
    for second in 1..=11u32 {
        pair.run(1, |_| false);
        // Alive, but its acks say nothing new.
        pair.forge(1, &packet(seen + second, own, 0, &[0]));
    }
    pair.run(1, |_| false);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::PeerStalled));
}

/// Acknowledgements of packets that carried no message are no progress, however much the peer says itself.
#[test]
fn a_peer_that_acknowledges_keep_alives_only_is_given_up() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (mut seen, mut acked) = newest(&mut pair, 1);
    pair.now = pair.now.after(Duration::from_millis(400));
    let session = pair.ends[1].session_mut();
    session.send(pair.now, 0, b"anybody?").expect("room");
    let (mut empty, mut acknowledged) = (None, 0);
    for step in 0..1_500u64 {
        let now = pair.now.after(Duration::from_millis(10 * step));
        let mut said = Vec::new();
        wire::emit(Record::Unreliable(b"still here"), &mut said);
        seen += 1;
        acknowledged += u32::from(empty.is_some());
        acked = empty.take().unwrap_or(acked);
        let mut heard = packet(seen, acked, 0, &said);
        session.handle_datagram(now, &mut heard).ok();
        let mut datagram = Vec::new();
        while session.poll_transmit(now, &mut datagram) {
            let (header, payload) = Header::parse(&datagram).expect("a header");
            if payload == [0] {
                empty = Some(header.sequence);
            }
            datagram.clear();
        }
        while session.poll_message().is_some() {}
    }
    assert!(acknowledged > 50, "{acknowledged} keep-alives");
    let closed = std::iter::from_fn(|| session.poll_event()).last();
    assert_eq!(closed, Some(Event::Closed(CloseReason::PeerStalled)));
}

/// A peer that restarted counts from elsewhere and hears us; once its old life is silent, it makes way.
/// The new life took our packets for the beginning of its own, so it is told to begin once more.
#[test]
fn a_restarted_peer_is_noticed_and_told() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    let restart = seen.wrapping_add(0x4000_0000);
    for step in 0..4 {
        pair.forge(1, &packet(restart + step, own, 0, &[0]));
    }
    pair.run(2, |_| false);
    assert_eq!(pair.ends[1].closed, None, "its old life was not silent");
    for step in 4..8 {
        pair.forge(1, &packet(restart + step, own, 0, &[0]));
    }
    pair.weather.loss = 0.0;
    pair.run(1, |_| false);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::Replaced));
    assert_eq!(pair.ends[0].closed, Some(CloseReason::PeerDisconnect));
}

/// A client of the articles begins at 0 each time. Its new packets passed for repeats of its old ones, and
/// its messages were acknowledged, as if they had come before, and lost.
#[test]
fn a_restarted_peer_that_counts_from_the_same_is_noticed() {
    let mut pair = connected(&Params::default(), calm(), 1);
    pair.run(10, |_| false);
    let before = newest(&mut pair, 0).0;
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    for (ack, closed) in [(before, None), (own, Some(CloseReason::Replaced))] {
        for behind in (4..8).rev() {
            pair.forge(1, &packet(seen - behind, ack, 0, &[0]));
        }
        pair.run(0, |_| false);
        assert_eq!(pair.ends[1].closed, closed, "acknowledging {ack} of {own}");
    }
}

/// Only packets that follow each other are another life; others from nowhere may be anything.
#[test]
fn packets_with_gaps_are_no_other_life() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    pair.run(2, |_| false);
    let mut forge = |steps: std::ops::Range<u32>, stride| {
        for step in steps {
            let restart = seen.wrapping_add(0x4000_0000 + step * stride);
            pair.forge(1, &packet(restart, own, 0, &[0]));
        }
        pair.run(0, |_| false);
        pair.ends[1].closed
    };
    assert_eq!(forge(0..20, 2), None);
    assert_eq!(forge(100..103, 1), None, "three are too few");
    assert_eq!(forge(103..104, 1), Some(CloseReason::Replaced));
}

/// Three packets from nowhere and later one more are no four in a row: the peer was heard in between.
#[test]
fn a_packet_of_the_peer_ends_what_looked_like_another_life() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    pair.run(2, |_| false);
    let restart = seen.wrapping_add(0x4000_0000);
    for step in 0..3 {
        pair.forge(1, &packet(restart + step, own, 0, &[0]));
    }
    pair.forge(1, &packet(seen + 1, own, 0, &[0]));
    pair.run(2, |_| false);
    pair.forge(1, &packet(restart + 3, own, 0, &[0]));
    pair.run(0, |_| false);
    assert_eq!(pair.ends[1].closed, None);
    for step in 4..7 {
        pair.forge(1, &packet(restart + step, own, 0, &[0]));
    }
    pair.run(0, |_| false);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::Replaced), "four");
}

/// Four packets in a row from nowhere ended the session of whoever was not heard for a second.
#[test]
fn a_forger_does_not_pass_for_another_life() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    pair.weather.loss = 1.0;
    pair.run(3, |_| false);
    for ack in [0, own + (1 << 20), own.wrapping_sub(1 << 20)] {
        for step in 0..20 {
            let restart = seen.wrapping_add(0x4000_0000);
            pair.forge(1, &packet(restart + step, ack, u32::MAX, &[0]));
        }
    }
    pair.weather.loss = 0.0;
    pair.ends[0].to_send.push_back(b"still here".to_vec());
    pair.run(3, |pair| !pair.ends[1].received.is_empty());
    assert_same(&pair.ends[1].received, &[b"still here".to_vec()]);
}

/// Message 0, or a piece of it, never comes, and what is behind it waits: such a peer could hold its
/// place, and the memory, for ever.
#[test]
fn a_gap_that_stays_open_ends_the_session() {
    let behind = |id: u16| {
        let mut payload = Vec::new();
        wire::emit_reliable(id, (b"behind", &[]), &mut payload);
        payload
    };
    let mut piece = Vec::new();
    wire::emit_fragment(0, 3, 9, (&[7; 1024], &[]), &mut piece);
    for (what, first, then) in [
        ("a message", behind(1), behind(2)),
        ("a piece", piece.clone(), piece),
    ] {
        for is_reading in [true, false] {
            let params = Params {
                inbox_max: if is_reading { 64 * 1024 } else { 0 },
                ..Params::default()
            };
            let mut pair = connected(&params, calm(), 1);
            let (seen, own) = newest(&mut pair, 1);
            pair.ends[1].is_reading = false;
            pair.weather.loss = 1.0;
            pair.forge(1, &packet(seen + 1, own, 0, &first));
            if !is_reading {
                // What fills the inbox: now it is we whom the peer waits for.
                let mut payload = Vec::new();
                wire::emit(Record::Unreliable(b"unread"), &mut payload);
                pair.forge(1, &packet(seen + 2, own, 0, &payload));
            }
            let opened = pair.now;
            for step in 3..63 {
                pair.now = pair.now.after(Duration::from_millis(200));
                pair.forge(1, &packet(seen + step, own, 0, &then));
                pair.run(0, |_| false);
                if pair.ends[1].closed.is_some() {
                    break;
                }
            }
            let open_for = pair.now.mono.since(opened.mono);
            let reason = is_reading.then_some(CloseReason::PeerGapStall);
            assert_eq!(pair.ends[1].closed, reason, "{what}, after {open_for:?}");
            assert!(open_for >= Duration::from_secs(10), "{what}: {open_for:?}");
        }
    }
}

/// The last fragment of a large message says where it ends, not what to reserve.
#[test]
fn a_claimed_message_costs_what_was_received() {
    let params = Params {
        message_bytes_max: 256 * 1024,
        ..Params::default()
    };
    let mut pair = connected(&params, calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    let mut payload = Vec::new();
    wire::emit_fragment(0, 255, 255, (b"x", &[]), &mut payload);
    let now = pair.now;
    let server = pair.ends[1].session_mut();
    let taken = server.handle_datagram(now, &mut packet(seen + 1, own, 0, &payload));
    assert_eq!(taken, Ok(()));
    let held = pair.ends[1].session().held().pieces;
    assert!((1..100).contains(&held), "{held} bytes for one");
}

/// A packet that is not whole changes nothing and is not acknowledged.
#[test]
fn malformed_payloads_are_not_half_applied() {
    let mut pair = connected(&Params::default(), calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    let now = pair.now;
    let mut good = Vec::new();
    wire::emit(
        Record::Reliable {
            id: 0,
            payload: b"whole",
        },
        &mut good,
    );
    for tail in [&[1u8][..], &[9], &[3, 0, 1, 0, 0, 0, 0], &[2, 0, 9, 1]] {
        let payload = [&good, tail].concat();
        let mut datagram = packet(seen + 1, own, 0, &payload);
        let result = pair.ends[1]
            .session_mut()
            .handle_datagram(now, &mut datagram);
        assert_eq!(result, Err(Reject::Malformed), "{tail:?}");
    }
    assert!(pair.ends[1].session_mut().poll_message().is_none());
    let mut datagram = packet(seen + 1, own, 0, &good);
    let result = pair.ends[1]
        .session_mut()
        .handle_datagram(now, &mut datagram);
    assert_eq!(result, Ok(()));
    let message = pair.ends[1]
        .session_mut()
        .poll_message()
        .expect("a message");
    assert_eq!(message.payload, b"whole");
}

/// A reliable message that the other end never takes keeps back all that follow. Both ends are told at once, not when
/// somebody has lost patience.
#[test]
fn a_message_longer_than_the_other_end_takes_ends_the_session_at_once() {
    for takes in [100, 1_024, 2_048] {
        let takes = Params {
            message_bytes_max: takes,
            ..Params::default()
        };
        let acceptor = Acceptor::new(Arc::new(takes.clone()), [7; 16]);
        let client = Session::dial(START, &Params::default(), 1);
        let mut pair = Pair::new(Box::new(client), Box::new(acceptor), calm(), 1);
        let sent = [0, 1].map(|more| vec![7; takes.message_bytes_max + more]);
        pair.ends[0].to_send.push_back(sent[0].clone());
        pair.run(2, |pair| !pair.ends[1].received.is_empty());
        assert_same(&pair.ends[1].received, &sent[..1]);
        pair.ends[0].to_send.push_back(sent[1].clone());
        let over = pair.run(2, |pair| pair.ends.iter().all(|end| end.closed.is_some()));
        assert!(over, "{} bytes", takes.message_bytes_max);
        assert_eq!(pair.ends[1].closed, Some(CloseReason::MessageTooLarge));
        assert_eq!(pair.ends[0].closed, Some(CloseReason::PeerDisconnect));
        assert_same(&pair.ends[1].received, &sent[..1]);
    }
}

/// Who has nobody to give it to goes on delivering what it was told before.
#[test]
fn a_message_that_is_too_long_cuts_off_no_tail() {
    let takes = Params {
        message_bytes_max: 100,
        ..Params::default()
    };
    let mut pair = connected(&takes, calm(), 1);
    let (seen, own) = newest(&mut pair, 1);
    let now = pair.now;
    let server = pair.ends[1].session_mut();
    server.send(now, 0, b"the last words").expect("room");
    server.finish(now, CloseReason::BackendClosed, Duration::from_secs(5));
    let mut long = Vec::new();
    wire::emit_reliable(0, (&[7; 101], &[]), &mut long);
    let refused = server.handle_datagram(now, &mut packet(seen + 1, own, 0, &long));
    assert_eq!(refused, Err(Reject::Malformed));
    pair.run(6, |pair| pair.ends.iter().all(|end| end.closed.is_some()));
    assert_same(&pair.ends[0].received, &[b"the last words".to_vec()]);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::BackendClosed));
}
