//! rudp between two of our own sessions, and against forgers.

mod asking;
mod joining;
mod tails;

use std::time::Duration;

use tidegate_proto::rudp::wire::{self, Record};
use tidegate_proto::rudp::{Acceptor, OnCorrupt, OnMissing, Params, Session};
use tidegate_proto::sim::Conditions;
use tidegate_proto::{CloseReason, Event, Reject, Session as _, Verdict};

use crate::link::{Pair, START, assert_same, calm, judge, numbered, storm};

pub(crate) fn pair(params: Params, weather: Conditions, seed: u64) -> Pair {
    let client = Box::new(Session::dial(START, params));
    Pair::new(
        client,
        Box::new(Acceptor::new(params, [7; 16])),
        weather,
        seed,
    )
}

pub(crate) fn connected(params: Params, weather: Conditions, seed: u64) -> Pair {
    let mut pair = pair(params, weather, seed);
    let ready = pair.run(10, |pair| pair.ends.iter().all(|end| end.connected));
    assert!(ready, "seed {seed}: not connected");
    // Past the opening, in which a new session holds its own messages back.
    pair.run(1, |_| false);
    pair
}

/// The session of a peer that has answered the probe.
fn accepted() -> Box<dyn tidegate_proto::Session> {
    let mut acceptor = Acceptor::new(Params::default(), [7; 16]);
    let (_, probe) = judge(&mut acceptor, START, &[0]);
    let answer = [3, probe[1], probe[2], 3, probe[4], probe[5]];
    let (Verdict::Accept(mut session), _) = judge(&mut acceptor, START, &answer) else {
        panic!("the probe was answered");
    };
    session.admit(START);
    session
}

/// Everything arrives once and in order, both ways, although a quarter of the datagrams is lost.
#[test]
fn a_storm_delays_but_loses_nothing() {
    for seed in 1..=8 {
        let params = Params {
            mtu: if seed % 2 == 0 { 128 } else { 512 },
            ..Params::default()
        };
        let mut pair = pair(params, storm(), seed);
        let sent = [numbered(1500, 300), numbered(1200, 90)];
        for end in &mut pair.ends {
            end.pace = Duration::from_millis(8);
        }
        pair.exchange(seed, 300, &sent);
        let (damage, overtaken) = (pair.done(), pair.overtaken);
        assert!(
            damage.lost * 5 > damage.offered && damage.duplicated > 100 && overtaken > 100,
            "seed {seed}: the link was too kind to prove anything: {damage:?}"
        );
        let resent = pair.ends[0].session().stats().messages_resent;
        assert!(resent > 100, "seed {seed}: {resent} resent");
    }
}

/// The last message has no successor that would show its loss; both ends see to it.
#[test]
fn a_lost_last_message_is_found() {
    for seed in 0..40 {
        let mut pair = connected(Params::default(), storm(), seed);
        pair.ends[0].to_send.push_back(b"the only one".to_vec());
        let found = pair.run(5, |pair| !pair.ends[1].received.is_empty());
        assert!(found, "seed {seed}");
    }
}

/// What one end says in so much time, while it hears nothing.
fn outputs(pair: &mut Pair, end: usize, millis: u64) -> Vec<Vec<u8>> {
    let mut outputs = Vec::new();
    for _ in 0..millis {
        pair.now = pair.now.after(Duration::from_millis(1));
        let session = pair.ends[end].session_mut();
        session.handle_timeout(pair.now);
        let mut out = Vec::new();
        while session.poll_transmit(pair.now, &mut out) {
            outputs.push(std::mem::take(&mut out));
        }
    }
    outputs
}

/// One corrupt byte is too easy to forge; two in a second end the session, unless configured not to.
#[test]
fn one_forged_corrupt_byte_does_not_end_a_session() {
    for (on_corrupt, gap_millis, closed) in [
        (OnCorrupt::CloseOnSecond, 1200, None),
        (
            OnCorrupt::CloseOnSecond,
            900,
            Some(CloseReason::PeerDisconnect),
        ),
        (OnCorrupt::Ignore, 900, None),
    ] {
        let params = Params {
            on_corrupt,
            ..Params::default()
        };
        let mut pair = connected(params, calm(), 1);
        pair.forge(1, &[1]);
        pair.run(0, |_| false);
        pair.now = pair.now.after(Duration::from_millis(gap_millis));
        pair.forge(1, &[1]);
        pair.run(1, |_| false);
        assert_eq!(
            pair.ends[1].closed, closed,
            "{on_corrupt:?}, {gap_millis} ms apart"
        );
    }
}

/// T-A11: forged far ids do not push genuine messages out of the window.
#[test]
fn far_ids_do_not_move_the_window() {
    let mut pair = connected(Params::default(), calm(), 3);
    let sent = numbered(6000, 60);
    pair.ends[0].to_send.extend(sent.iter().cloned());
    pair.ends[0].pace = Duration::from_millis(100);
    for second in 0..600u32 {
        // The largest jumps that the 16 bits of an id can say, as seen from the server's counter.
        let next = (second * 10) as u16;
        for jump in [4200u16, 0x7fff] {
            let mut forged = Vec::new();
            wire::emit_message_header(&mut forged, next.wrapping_add(jump), 1);
            forged.push(0xee);
            pair.forge(1, &forged);
        }
        pair.run(1, |_| false);
    }
    pair.run(5, |_| false);
    assert_eq!(pair.ends[1].closed, None);
    assert_same(&pair.ends[1].received, &sent);
}

/// Whoever pretends to be the server does not make a client say *missing* for ever.
#[test]
fn probes_are_echoed_so_many_times_and_no_more() {
    let mut session = Session::dial(START, Params::default());
    let (mut echoes, mut out) = (0, Vec::new());
    for step in 1..=100u16 {
        let now = START.after(Duration::from_millis(20 * u64::from(step)));
        let mut probe = Vec::new();
        wire::emit_request(&mut probe, 0x4000 + step);
        session.handle_datagram(now, &mut probe).unwrap();
        while session.poll_transmit(now, &mut out) {
            let records = wire::parse(&out).unwrap();
            echoes += records.filter(|r| matches!(r, Record::Missing(_))).count();
            out.clear();
        }
    }
    assert_eq!(echoes, 32);
}

/// Acks do not exist here, but a request for what was never sent must not free or repeat anything.
#[test]
fn requests_for_nothing_free_nothing() {
    let mut pair = connected(Params::default(), calm(), 1);
    let now = pair.now;
    let server = pair.ends[1].session_mut();
    server.send(now, 0, b"kept").unwrap();
    outputs(&mut pair, 1, 20);
    let server = pair.ends[1].session_mut();
    for id in [2u16, 900, 0x7000, 0xffff] {
        let mut forged = Vec::new();
        wire::emit_request(&mut forged, id);
        server.handle_datagram(now, &mut forged).unwrap();
    }
    assert_eq!(server.stats().messages_acked, 0);
    server.handle_datagram(now, &mut [2, 0, 0]).unwrap();
    let sent = outputs(&mut pair, 1, 20);
    assert_eq!(sent[0], b"\x08\x00\x00kept");
}

/// A reference peer that mixed up its counters never closes the gap; the session must not hang.
#[test]
fn a_gap_that_stays_open_ends_the_session() {
    let mut pair = connected(Params::default(), calm(), 1);
    pair.ends[0].to_send.push_back(b"genuine".to_vec());
    pair.run(1, |pair| !pair.ends[1].received.is_empty());
    let opened = pair.now;
    pair.forge(1, &[5, 0, 2, 0xaa]);
    for _ in 0..9 {
        pair.run(1, |_| false);
    }
    assert_eq!(pair.ends[1].closed, None);
    pair.run(2, |pair| pair.ends[1].closed.is_some());
    assert_eq!(pair.ends[1].closed, Some(CloseReason::PeerGapStall));
    assert!(pair.now.mono.since(opened.mono) <= Duration::from_millis(10_500));
    assert_same(&pair.ends[1].received, &[b"genuine".to_vec()]);
}

/// A peer that goes on without us, whatever it answers: what it says is beyond the window for good.
#[test]
fn a_peer_that_ran_away_ends_the_session() {
    for (answers, reason, within) in [
        (false, CloseReason::PeerGapStall, 11_500),
        (true, CloseReason::PeerHistoryExpired, 2_000),
    ] {
        let mut pair = connected(Params::default(), calm(), 1);
        pair.ends[0].to_send.push_back(b"genuine".to_vec());
        pair.run(1, |pair| !pair.ends[1].received.is_empty());
        let began = pair.now.mono;
        for id in (0x2000u16..).take(120) {
            let [high, low] = id.to_be_bytes();
            pair.forge(1, &[5, high, low, 0xaa]);
            if answers {
                pair.forge(1, &[3, 0, 1]);
            }
            pair.now = pair.now.after(Duration::from_millis(100));
            pair.run(0, |_| false);
            if pair.ends[1].closed.is_some() {
                break;
            }
        }
        assert_eq!(pair.ends[1].closed, Some(reason), "it answers: {answers}");
        let took = pair.now.mono.since(began);
        assert!(took <= Duration::from_millis(within), "{took:?}");
        assert_same(&pair.ends[1].received, &[b"genuine".to_vec()]);
    }
}

/// The peer forgot a message we lack: the stream is broken, or the hole is counted.
#[test]
fn an_expired_message_is_reported() {
    for on_missing in [OnMissing::Close, OnMissing::Skip] {
        let params = Params {
            on_missing,
            ..Params::default()
        };
        let mut pair = connected(params, calm(), 1);
        // Ids 0 and 2 arrive, 1 is gone.
        pair.forge(1, &[5, 0, 0, 0xaa, 5, 0, 2, 0xcc, 3, 0, 1]);
        pair.run(2, |pair| pair.ends[1].closed.is_some());
        let end = &pair.ends[1];
        match on_missing {
            OnMissing::Close => {
                assert_eq!(end.closed, Some(CloseReason::PeerHistoryExpired));
                assert_eq!(end.received, [[0xaa]], "what was delivered is a prefix");
            }
            OnMissing::Skip => {
                assert_eq!(end.closed, None);
                assert_eq!(end.received, [[0xaa], [0xcc]]);
                assert_eq!(end.session().stats().messages_skipped, 1);
            }
        }
    }
}

/// A peer that restarted begins at id 0 again; its old session makes way, whether it had come far or had been there for
/// long.
#[test]
fn a_restarted_peer_is_noticed() {
    // Until then its messages may be late.
    for (said, seconds) in [(3000, 2), (100, 21)] {
        let mut pair = connected(Params::default(), calm(), 1);
        let sent = numbered(said, 8);
        pair.ends[0].to_send.extend(sent.iter().cloned());
        pair.run(60, |pair| pair.ends[1].received.len() == sent.len());
        pair.run(seconds, |_| false);
        for id in 0..8 {
            assert_eq!(pair.ends[1].closed, None, "{said} messages");
            pair.forge(1, &[4, 0, id]);
        }
        pair.run(1, |_| false);
        assert_eq!(pair.ends[1].closed, Some(CloseReason::Replaced));
    }
}

/// What was said before cannot be under way for long where answers take hardly any time.
#[test]
fn a_restarted_peer_that_answers_is_noticed_soon() {
    for (answers, noticed) in [(true, Some(CloseReason::Replaced)), (false, None)] {
        let mut session = accepted();
        let (mut asked, mut closed, mut now) = (Vec::new(), None, START);
        for tick in 0..800u16 {
            let mut datagram = match tick {
                0..100 => vec![4, 0, tick as u8],
                700..708 => vec![4, 0, (tick - 700) as u8],
                _ => vec![0],
            };
            for id in std::mem::take(&mut asked) {
                wire::emit_missing(&mut datagram, id);
            }
            if closed.is_none() {
                session.handle_datagram(now, &mut datagram).unwrap();
            }
            while session.poll_message().is_some() {}
            let mut out = Vec::new();
            while session.poll_transmit(now, &mut out) {
                for record in wire::parse(&std::mem::take(&mut out)).expect("a datagram of ours") {
                    if let Record::Request(id @ 100..) = record {
                        asked.extend(answers.then_some(id));
                    }
                }
            }
            while let Some(event) = session.poll_event() {
                if let Event::Closed(reason) = event {
                    closed = Some(reason);
                }
            }
            now = now.after(Duration::from_millis(10));
        }
        assert_eq!(closed, noticed, "answers: {answers}");
    }
}

/// A dialler nobody answers gives up.
#[test]
fn nobody_answers() {
    let mut pair = pair(
        Params::default(),
        Conditions {
            loss: 1.0,
            ..calm()
        },
        1,
    );
    pair.run(20, |pair| pair.ends[0].closed.is_some());
    assert_eq!(pair.ends[0].closed, Some(CloseReason::ConnectTimeout));
}

/// A client whose messages may be longer than those that the server takes.
fn long_messages(takes: usize, on_missing: OnMissing) -> Pair {
    let server = Params {
        message_bytes_max: takes,
        on_missing,
        ..Params::default()
    };
    let client = Session::dial(START, Params::default());
    let acceptor = Acceptor::new(server, [7; 16]);
    let mut pair = Pair::new(Box::new(client), Box::new(acceptor), calm(), 1);
    assert!(pair.run(5, |pair| pair.ends.iter().all(|end| end.connected)));
    pair
}

/// A message that the other end never takes keeps back all that follow, and if none follows, nothing shows that one is
/// missing. Both ends are told at once.
#[test]
fn a_message_longer_than_the_other_end_takes_ends_the_session_at_once() {
    for takes in [100, 600] {
        let mut pair = long_messages(takes, OnMissing::Close);
        let sent = [0, 1].map(|more| vec![7; takes + more]);
        pair.ends[0].to_send.push_back(sent[0].clone());
        pair.run(2, |pair| !pair.ends[1].received.is_empty());
        pair.ends[0].to_send.push_back(sent[1].clone());
        let over = pair.run(3, |pair| pair.ends.iter().all(|end| end.closed.is_some()));
        assert!(over, "{takes} bytes");
        assert_eq!(pair.ends[1].closed, Some(CloseReason::MessageTooLarge));
        assert_eq!(pair.ends[0].closed, Some(CloseReason::PeerDisconnect));
        assert_same(&pair.ends[1].received, &sent[..1]);
    }
}

/// Where gaps are skipped, it is one.
#[test]
fn a_message_longer_than_the_other_end_takes_is_skipped_where_gaps_are() {
    let mut pair = long_messages(600, OnMissing::Skip);
    for size in [10, 601, 11, 700] {
        pair.ends[0].to_send.push_back(vec![size as u8; size]);
    }
    let skipped = |pair: &Pair| pair.ends[1].session().stats().messages_skipped == 2;
    assert!(pair.run(5, skipped), "two of four");
    assert_same(&pair.ends[1].received, &[vec![10; 10], vec![11; 11]]);
    pair.ends[0].to_send.push_back(vec![12; 12]);
    assert!(pair.run(2, |pair| pair.ends[1].received.len() == 3));
    assert_eq!(pair.ends[1].closed, None);
}

/// Who has nobody to give it to goes on delivering what it was told before. Nor does a message from nowhere end anything.
#[test]
fn a_message_that_is_too_long_cuts_off_no_tail() {
    let mut pair = long_messages(100, OnMissing::Close);
    let now = pair.now;
    let long = |id: u16| {
        let mut datagram = Vec::new();
        wire::emit_message_header(&mut datagram, id, 101);
        datagram.extend_from_slice(&[7; 101]);
        datagram
    };
    let server = pair.ends[1].session_mut();
    for id in [4096, 0xffff] {
        let refused = server.handle_datagram(now, &mut long(id));
        assert_eq!(refused, Err(Reject::Malformed));
        assert_eq!(server.poll_event(), None, "{id} is not in the window");
    }
    server.send(now, 0, b"the last words").expect("room");
    server.finish(now, CloseReason::BackendClosed, Duration::from_secs(5));
    let refused = server.handle_datagram(now, &mut long(0));
    assert_eq!(refused, Err(Reject::Malformed));
    pair.run(8, |pair| pair.ends.iter().all(|end| end.closed.is_some()));
    assert_same(&pair.ends[0].received, &[b"the last words".to_vec()]);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::BackendClosed));
}
