//! rudp between two of our own sessions, and against forgers.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_proto::rudp::wire::{self, Record};
use tidegate_proto::rudp::{Acceptor, OnCorrupt, OnMissing, Params, Session};
use tidegate_proto::sim::{Conditions, Link};
use tidegate_proto::{Acceptor as _, CloseReason, Event, Reject, Session as _, Verdict, sequence};

use crate::link::{CLIENT, Pair, START, assert_same, calm, judge, numbered, refusal, storm};

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

/// Asking the address first costs one round trip, no state, and fewer bytes than headers hide.
#[test]
fn a_stranger_gets_a_session_only_by_repeating_the_probe() {
    let mut acceptor = Acceptor::new(Params::default(), [7; 16]);
    let empty = acceptor.classify(START, CLIENT, &[]);
    assert_eq!(empty, Err(Reject::Unexpected), "legal, and no question");
    let mut judge = |now, datagram: &[u8]| judge(&mut acceptor, now, datagram);
    for nothing in [&[][..], &[1], &[0x80], &[9, 0], &[2, 0x40, 0, 2, 0x50, 0]] {
        let (verdict, reply) = judge(START, nothing);
        assert!(matches!(verdict, Verdict::Reject(_)), "{nothing:?}");
        assert!(reply.is_empty(), "{nothing:?}");
    }
    let (verdict, probe) = judge(START, &[0]);
    assert!(matches!(verdict, Verdict::Reply));
    assert!((28 + probe.len()) * 10 <= 29 * 12, "1.2 times with headers");
    let (verdict, _) = judge(START, &[0]);
    assert!(
        matches!(verdict, Verdict::Reject(Reject::Unproven)),
        "asked a moment ago"
    );

    let mut answer = Vec::new();
    for record in wire::parse(&probe).unwrap() {
        let Record::Request(id) = record else {
            panic!("{record:?}")
        };
        wire::emit_missing(&mut answer, id);
    }
    let later = START.after(Duration::from_millis(300));
    let mut wrong = answer.clone();
    wrong[5] ^= 1;
    assert!(
        matches!(judge(later, &wrong).0, Verdict::Reply),
        "asked again"
    );
    wire::emit_message_header(&mut answer, 0, 2);
    answer.extend_from_slice(b"hi");
    let (Verdict::Accept(mut session), _) = judge(later, &answer) else {
        panic!("the probe was answered");
    };
    assert_eq!(session.poll_event(), Some(Event::Authenticated));
    session.admit(later);
    assert_eq!(session.poll_event(), Some(Event::Connected));
    assert_eq!(
        session.poll_message().unwrap().payload,
        b"hi",
        "the first message counts"
    );
    assert_eq!(session.stats().messages_skipped, 0, "the echo is no loss");
}

/// While nobody is taken: who would be let in, or asked, is refused; the rest is no newcomer.
#[test]
fn only_who_wants_in_is_refused() {
    let later = START.after(Duration::from_secs(1));
    for probe in [true, false] {
        let params = Params {
            probe,
            ..Params::default()
        };
        let mut acceptor = Acceptor::new(params, [7; 16]);
        let again = if probe {
            Reject::Unproven
        } else {
            Reject::Full
        };
        for (now, datagram, expected) in [
            (START, &[0][..], Reject::Full),
            (START, &[0], again),
            (START, &[9, 0], Reject::Malformed),
            (START, &[], Reject::Unexpected),
            (later, &[0], Reject::Full),
        ] {
            let (reject, _) = refusal(&mut acceptor, now, datagram);
            assert_eq!(reject, expected, "{datagram:?}");
        }
    }
}

/// What a reference peer sent before it was accepted is fetched before anything is sent to it: once
/// it has received more than it sent, it would ignore the request.
#[test]
fn a_new_session_fetches_before_it_speaks() {
    let params = Params::default();
    let mut acceptor = Acceptor::new(params, [7; 16]);
    let mut judge = |datagram: &[u8]| judge(&mut acceptor, START, datagram);
    let (_, probe) = judge(&[0]);
    let answer = [3, probe[1], probe[2], 3, probe[4], probe[5]];
    for (then, releases) in [
        (&[5u8, 0, 0, b'a'][..], true),
        (&[3, 0, 0], true),
        (&[0], false),
        (&[5, 0, 1, b'b'], false),
    ] {
        let (Verdict::Accept(mut session), _) = judge(&answer) else {
            panic!("the probe was answered");
        };
        session.admit(START);
        session.send(START, 0, b"greeting").unwrap();
        let mut out = Vec::new();
        let soon = START.after(Duration::from_millis(20));
        while session.poll_transmit(soon, &mut out) {}
        assert_eq!(out, [2, 0, 0], "a question and no message");
        out.clear();
        let later = START.after(Duration::from_millis(60));
        session.handle_datagram(later, &mut then.to_vec()).unwrap();
        while session.poll_transmit(later, &mut out) {}
        assert_eq!(out.ends_with(b"greeting"), releases, "{then:?}");
        let at_last = START.after(Duration::from_millis(1100));
        session.handle_timeout(at_last);
        while session.poll_transmit(at_last, &mut out) {}
        assert!(out.ends_with(b"greeting"), "{then:?}: held for ever");
    }
}

/// A C client whose first messages get lost would wait a second for its first echo, although it repeats what it said as
/// long as it has received no more than that. Rule: docs/wire/rudp.md, section 6 (rule 2).
#[test]
fn a_new_session_speaks_as_often_as_it_was_spoken_to() {
    let mut acceptor = Acceptor::new(Params::default(), [7; 16]);
    let (_, probe) = judge(&mut acceptor, START, &[0]);
    let answer = [3, probe[1], probe[2], 3, probe[4], probe[5]];
    let (Verdict::Accept(mut session), _) = judge(&mut acceptor, START, &answer) else {
        panic!("the probe was answered");
    };
    session.admit(START);
    for greeting in [b"one", b"two", b"six"] {
        session.send(START, 0, greeting).unwrap();
    }
    let says = |session: &mut Box<dyn tidegate_proto::Session>, millis, heard: &[u8]| {
        let now = START.after(Duration::from_millis(millis));
        session.handle_datagram(now, &mut heard.to_vec()).unwrap();
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out) {}
        let messages = wire::parse(&out).expect("datagrams of ours");
        messages
            .into_iter()
            .filter(|record| matches!(record, Record::Message { .. }))
            .count()
    };
    let session = &mut session;
    assert_eq!(says(session, 20, &[5, 0, 3, b'd']), 0, "0 to 2 are missing");
    assert_eq!(says(session, 40, &[5, 0, 0, b'a']), 1);
    assert_eq!(says(session, 60, &[5, 0, 2, b'c']), 0, "1 is missing");
    assert_eq!(says(session, 80, &[5, 0, 1, b'b']), 2, "all is there");
}

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

/// Whether one of these datagrams asks for the message of this id: everything before it has arrived then.
fn asks_for(datagrams: &[Vec<u8>], id: u16) -> bool {
    datagrams.iter().any(|datagram| {
        let records = wire::parse(datagram).expect("a datagram of ours");
        records.into_iter().any(|it| it == Record::Request(id))
    })
}

/// A tidegate sends no more ahead than its peer has room for, so it must hear how far that got: after every 256 messages,
/// or 64 KiB with 64 bytes for each of them. Rule: docs/wire/rudp.md, section 6, 3.
#[test]
fn who_sends_much_hears_how_far_it_got() {
    for (bytes, enough) in [(1, 256), (1_000, 62)] {
        let mut pair = connected(Params::default(), calm(), 1);
        let mut next = 0u16;
        let mut say = |pair: &mut Pair, messages: u16| {
            for _ in 0..messages {
                let length = (4 + bytes as u16) | 0x8000;
                let mut datagram = [length.to_be_bytes(), next.to_be_bytes()].concat();
                datagram.resize(4 + bytes, 7);
                let server = pair.ends[1].session_mut();
                server.handle_datagram(pair.now, &mut datagram).unwrap();
                next += 1;
            }
            next
        };
        // The first of them is what it asked for when nothing was said, and does not count.
        let next = say(&mut pair, enough + 1);
        assert!(asks_for(&outputs(&mut pair, 1, 20), next));
        let next = say(&mut pair, enough - 1);
        assert!(!asks_for(&outputs(&mut pair, 1, 50), next), "{bytes}");
        let next = say(&mut pair, 1);
        assert!(asks_for(&outputs(&mut pair, 1, 20), next), "{bytes}");
    }
}

/// A reference peer says one datagram in each tick of 10 ms, mostly a heartbeat, and answers in the next one.
/// Where every second datagram is lost, or third, or fourth, its answers are among them each time if our
/// questions keep to a beat that is in step with it. Rule: docs/wire/rudp.md, section 6 (rule 12).
#[test]
fn questions_are_not_in_step_with_losses_in_turn() {
    let arrived_gap: &[&[u8]] = &[&[5, 0, 0, 0xaa], &[5, 0, 2, 0xcc]];
    let arrived_tail: &[&[u8]] = &[&[5, 0, 0, 0xaa]];
    for (of, which) in (2..=4).flat_map(|of| (0..of).map(move |which| (of, which))) {
        for (arrived, wanted) in [(arrived_gap, 3), (arrived_tail, 2)] {
            let mut pair = connected(Params::default(), calm(), 1);
            let mut received = 0;
            let mut questions: Vec<Vec<u8>> = Vec::new();
            let mut ticks = 0;
            while received < wanted {
                ticks += 1;
                let mut datagram = Vec::new();
                for question in std::mem::take(&mut questions) {
                    for record in wire::parse(&question).expect("a datagram of ours") {
                        if let Record::Request(id @ 0..=2) = record {
                            datagram.extend_from_slice(&[5, 0, id as u8, 0xaa]);
                        }
                    }
                }
                if datagram.is_empty() {
                    datagram.push(0);
                }
                let session = pair.ends[1].session_mut();
                for datagram in arrived.iter().filter(|_| ticks == 1) {
                    session
                        .handle_datagram(pair.now, &mut datagram.to_vec())
                        .unwrap();
                }
                if ticks % of != which {
                    session.handle_datagram(pair.now, &mut datagram).unwrap();
                }
                while session.poll_message().is_some() {
                    received += 1;
                }
                questions = outputs(&mut pair, 1, 10);
                let found = format!("{received} of {wanted}, where {which} of {of} is lost");
                assert!(ticks < 200, "in two seconds {found}");
            }
        }
    }
}

/// The ids that each of these datagrams asks for, less those that ask how long an answer takes.
fn asked_ids(datagrams: &[Vec<u8>]) -> Vec<Vec<u16>> {
    let ids = |datagram: &Vec<u8>| {
        let records = wire::parse(datagram).expect("a datagram of ours");
        let ids = records.into_iter().filter_map(|record| match record {
            Record::Request(id @ ..0x2000) => Some(id),
            _ => None,
        });
        ids.collect()
    };
    datagrams.iter().map(ids).collect()
}

/// Rule: docs/wire/rudp.md, section 6 (rules 3 and 5).
#[test]
fn a_gap_keeps_nothing_behind_it_from_being_asked_for() {
    let mut pair = connected(Params::default(), calm(), 1);
    let polls = outputs(&mut pair, 1, 600);
    assert_eq!(asked_ids(&polls).last(), Some(&vec![0]), "idle");
    for (message, asked) in [(0, vec![1, 2]), (2, vec![1, 3, 4, 5, 6])] {
        let session = pair.ends[1].session_mut();
        let mut datagram = [5, 0, message, 0xaa];
        session.handle_datagram(pair.now, &mut datagram).unwrap();
        assert_eq!(asked_ids(&outputs(&mut pair, 1, 10)), [asked]);
    }
    let asked = outputs(&mut pair, 1, 2_000);
    assert_eq!(asked_ids(&asked).last(), Some(&vec![1]), "nothing more");
}

/// A reference peer that says 15 messages in each tick of 10 ms, five to a datagram, and says one again when it is asked
/// for in a later tick, for five seconds.
struct Chatterer {
    ticks: u64,
    asked: BTreeSet<u64>,
}

impl Chatterer {
    const PER_TICK: u64 = 15;
    const KEPT_TICKS: u64 = 500;

    /// It has been talking for so long.
    fn after(ticks: u64) -> Self {
        Self {
            ticks,
            asked: BTreeSet::new(),
        }
    }

    fn message(id: u64) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.resize(20, 7);
        message
    }

    fn hear(&mut self, datagram: &[u8]) {
        let sent = self.ticks * Self::PER_TICK;
        for record in wire::parse(datagram).expect("a datagram of ours") {
            if let Record::Request(id) = record {
                let id = sequence::nearest(sent, id);
                self.asked.extend((id < sent).then_some(id));
            }
        }
    }

    fn tick(&mut self, says_more: bool, mut says: impl FnMut(&[u8])) {
        let sent = self.ticks * Self::PER_TICK;
        let kept = sent.saturating_sub(Self::KEPT_TICKS * Self::PER_TICK);
        let new = if says_more {
            sent..sent + Self::PER_TICK
        } else {
            0..0
        };
        let mut datagram = Vec::new();
        for id in std::mem::take(&mut self.asked).into_iter().chain(new) {
            if datagram.len() + 24 > 128 {
                says(&std::mem::take(&mut datagram));
            }
            if id < kept {
                wire::emit_missing(&mut datagram, id as u16);
            } else {
                wire::emit_message_header(&mut datagram, id as u16, 20);
                datagram.extend(Self::message(id));
            }
        }
        says(&datagram);
        self.ticks += u64::from(says_more);
    }
}

/// A session, and the air between it and its peer, up and down.
fn connected_over(loss: f64, seed: u64) -> (Pair, [Link<()>; 2]) {
    let weather = Conditions { loss, ..calm() };
    let air = [0, 1].map(|way| Link::new(weather, 2 * seed + way));
    (connected(Params::default(), calm(), seed), air)
}

/// A tick of the peer and of the session that hears it; returns how many messages came, of which the first is `next`.
fn exchange(
    pair: &mut Pair,
    air: &mut [Link<()>; 2],
    peer: &mut Chatterer,
    next: u64,
    says_more: bool,
) -> u64 {
    peer.tick(says_more, |datagram| {
        air[0].push(pair.now.mono, (), datagram);
    });
    for datagram in outputs(pair, 1, 10) {
        air[1].push(pair.now.mono, (), &datagram);
    }
    while let Some(((), question)) = air[1].pop(pair.now.mono) {
        peer.hear(&question);
    }
    let session = pair.ends[1].session_mut();
    while let Some(((), mut datagram)) = air[0].pop(pair.now.mono) {
        session
            .handle_datagram(pair.now, &mut datagram)
            .expect("a datagram of a peer");
    }
    let mut messages = 0;
    while let Some(message) = session.poll_message() {
        assert_eq!(message.payload, Chatterer::message(next + messages));
        messages += 1;
    }
    messages
}

/// Each third datagram is lost, either way: a thousand questions a second, and what is not asked for in time is
/// forgotten. Rule: docs/wire/rudp.md, section 6 (rule 8).
#[test]
fn who_says_much_over_heavy_loss_is_kept_up_with() {
    for seed in 1..=8 {
        let (mut pair, mut air) = connected_over(0.33, seed);
        let mut peer = Chatterer::after(0);
        let (mut received, mut most_open) = (0, 0);
        for tick in 0..1_500 {
            received += exchange(&mut pair, &mut air, &mut peer, received, tick < 1_200);
            most_open = most_open.max(peer.ticks * Chatterer::PER_TICK - received);
        }
        assert_eq!(received, 18_000, "seed {seed}");
        let seconds = most_open as f64 / 1500.0;
        assert!(seconds < 4.0, "seed {seed}: {seconds} seconds behind");
    }
}

/// What a reference peer said before it was let in, it keeps for ten seconds, and says when it is asked.
/// Rule: docs/wire/rudp.md, section 6 (rule 3).
#[test]
fn what_was_said_at_once_before_the_session_comes_in_time() {
    for seed in 1..=8 {
        let (mut pair, mut air) = connected_over(0.2, seed);
        let mut peer = Chatterer::after(200);
        let (mut received, mut ticks) = (0, 0);
        while received < 3_000 {
            assert!(ticks < 1_000, "seed {seed}: {received} of 3000");
            ticks += 1;
            received += exchange(&mut pair, &mut air, &mut peer, received, false);
        }
    }
}

/// The reference answers three forged bytes with 98,301 bytes on every tick.
#[test]
fn three_bytes_draw_at_most_one_datagram_per_tick() {
    let params = Params::default();
    let mut pair = connected(params, calm(), 1);
    for id in 0..20u8 {
        let server = pair.ends[1].session_mut();
        server.send(pair.now, 0, &[id; 1000]).unwrap();
    }
    outputs(&mut pair, 1, 4000);
    let now = pair.now;
    for forged in [
        [2, 0, 5],
        [2, 0xff, 0xff],
        [2, 0x80, 0],
        [3, 0x7f, 0xff],
        [3, 0, 3],
        [0, 0, 0],
    ] {
        let server = pair.ends[1].session_mut();
        let taken = server.handle_datagram(now, &mut forged.to_vec());
        assert_eq!(taken, Ok(()), "{forged:?}");
        let sent = outputs(&mut pair, 1, 10);
        assert!(sent.len() <= 1, "{forged:?} drew {}", sent.len());
    }
    // A message from the far end of the window, the worst a forger can do: requests, backed off.
    let server = pair.ends[1].session_mut();
    server
        .handle_datagram(pair.now, &mut [4, 15, 0xff])
        .unwrap();
    let ticks: Vec<_> = (0..100).map(|_| outputs(&mut pair, 1, 10)).collect();
    assert!(
        ticks.iter().all(|tick| tick.len() <= 1),
        "one datagram per tick"
    );
    let bytes: usize = ticks.iter().flatten().map(Vec::len).sum();
    assert!(bytes < 2600, "{bytes} bytes in a second");
}

/// However much waits: what is over waits for the next tick, and so do the peers whose turn comes after.
#[test]
fn an_output_is_so_many_datagrams() {
    let mut pair = connected(Params::default(), calm(), 1);
    for _ in 0..120 {
        let server = pair.ends[1].session_mut();
        server.send(pair.now, 0, &[7; 500]).unwrap();
    }
    let ticks = [(); 4].map(|()| outputs(&mut pair, 1, 10).len());
    assert_eq!(ticks[..3], [32; 3], "{ticks:?}");
    assert!(ticks[3] > 0, "{ticks:?}");
}

/// What a server said is not to be drawn from it again and again, by requests in its client's name.
#[test]
fn asking_all_the_time_draws_so_many_copies() {
    let mut pair = connected(Params::default(), calm(), 1);
    for id in 0..20u8 {
        let server = pair.ends[1].session_mut();
        server.send(pair.now, 0, &[id; 1000]).unwrap();
    }
    outputs(&mut pair, 1, 500);
    let all: Vec<u8> = (0..20).flat_map(|id| [2, 0, id]).collect();
    let mut bytes = 0;
    for _ in 0..300 {
        let server = pair.ends[1].session_mut();
        server.handle_datagram(pair.now, &mut all.clone()).unwrap();
        bytes += outputs(&mut pair, 1, 10)
            .iter()
            .map(Vec::len)
            .sum::<usize>();
    }
    assert!(bytes < 45 * 20 * 1004, "{bytes} bytes in three seconds");
}

/// A reference peer that says messages of 1400 bytes, and at each tick what it was asked for, or that it has no such.
#[derive(Default)]
struct Talker {
    said: u64,
    asked: BTreeSet<u64>,
}

impl Talker {
    fn hear(&mut self, datagram: &[u8]) {
        for record in wire::parse(datagram).expect("a datagram of ours") {
            if let Record::Request(id) = record {
                self.asked.insert(sequence::nearest(self.said, id));
            }
        }
    }

    fn tick(&mut self, says_more: bool, mut says: impl FnMut(&[u8])) {
        let new = says_more.then_some(self.said);
        self.said += u64::from(says_more);
        let mut rest = vec![0];
        for id in std::mem::take(&mut self.asked).into_iter().chain(new) {
            if id >= self.said {
                wire::emit_missing(&mut rest, id as u16);
                continue;
            }
            let mut datagram = Vec::new();
            wire::emit_message_header(&mut datagram, id as u16, 1400);
            datagram.resize(1404, 7);
            says(&datagram);
        }
        says(&rest);
    }
}

/// A message each 30 ms takes up two fifths of a line, and each one seems to be missing as long as the next has not come.
/// Who asks for it, and for those behind it, draws copies of what is under way, which wait in the same queue.
/// Rule: docs/wire/rudp.md, section 6 (rules 3 and 13).
#[test]
fn questions_do_not_fill_a_thin_line() {
    for seed in 1..=8 {
        let mut pair = connected(Params::default(), calm(), seed);
        let lossy = Conditions {
            delay: Duration::from_millis(50),
            loss: 0.05,
            ..calm()
        };
        let thin = Conditions {
            rate: 1_000_000,
            ..lossy
        };
        let mut air = [Link::new(thin, 2 * seed), Link::new(lossy, 2 * seed + 1)];
        let mut peer = Talker::default();
        let (mut received, mut open) = (0, 0);
        for tick in 0..2_000 {
            peer.tick(tick % 3 == 0, |datagram| {
                air[0].push(pair.now.mono, (), datagram);
            });
            for datagram in outputs(&mut pair, 1, 10) {
                air[1].push(pair.now.mono, (), &datagram);
            }
            while let Some(((), question)) = air[1].pop(pair.now.mono) {
                peer.hear(&question);
            }
            let session = pair.ends[1].session_mut();
            while let Some(((), mut datagram)) = air[0].pop(pair.now.mono) {
                session.handle_datagram(pair.now, &mut datagram).unwrap();
            }
            while session.poll_message().is_some() {
                received += 1;
            }
            open += peer.said - received;
        }
        let done = air[0].done();
        assert!(done.lost > 20, "seed {seed}: {done:?}");
        let copies = done.offered_bytes as f64 / (1432.0 * peer.said as f64);
        let late = open as f64 / 2_000.0 / 33.0;
        assert!(copies < 1.3, "seed {seed}: {copies} times what was said");
        assert!(late < 0.3, "seed {seed}: {late} seconds late as a rule");
    }
}

/// It has something to say in each tick, so it says no heartbeat, and lacks nothing, so it asks for nothing. What it
/// answers to a question shows what it is, before a thousand messages are held back for a tidegate.
#[test]
fn a_reference_peer_that_always_speaks_is_known_by_its_answers() {
    let mut acceptor = Acceptor::new(Params::default(), [7; 16]);
    let (_, probe) = judge(&mut acceptor, START, &[0]);
    let answer = [3, probe[1], probe[2], 3, probe[4], probe[5]];
    let (Verdict::Accept(mut session), _) = judge(&mut acceptor, START, &answer) else {
        panic!("the probe was answered");
    };
    session.admit(START);
    let (mut sent, mut asked, mut now) = (0, Vec::new(), START);
    for tick in 0..400u16 {
        let mut datagram = vec![5, (tick >> 8) as u8, tick as u8, 7];
        for id in std::mem::take(&mut asked) {
            if sequence::nearest(u64::from(tick), id) > u64::from(tick) {
                wire::emit_missing(&mut datagram, id);
            }
        }
        session.handle_datagram(now, &mut datagram).unwrap();
        while session.poll_message().is_some() {}
        for _ in 0..8 {
            session.send(now, 0, b"news").unwrap();
        }
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out) {
            for record in wire::parse(&std::mem::take(&mut out)).expect("a datagram of ours") {
                match record {
                    Record::Message { .. } => sent += 1,
                    Record::Request(id) => asked.push(id),
                    Record::Heartbeat | Record::Missing(_) | Record::Corrupt => {}
                }
            }
        }
        let held_back = 8 * (u64::from(tick) + 1) - sent;
        // For the first second at most: it may have to repeat what it said before it was let in.
        assert!(tick < 110 || held_back < 9, "{held_back} in tick {tick}");
        now = now.after(Duration::from_millis(10));
    }
    // The peer answers in its next tick. How much gets lost nobody tells.
    let stats = session.stats();
    assert_eq!(stats.rtt, Duration::from_millis(10));
    assert_eq!((stats.is_measured(), stats.known_loss()), (true, None));
}

/// A reference peer asks for what it lacks on each tick of 10 ms, however long the answers wait in a queue. On a line
/// that carries three times what is said, they may not fill that queue for good.
/// Rule: docs/wire/rudp.md, section 6 (rule 7).
#[test]
fn answers_do_not_fill_a_thin_line() {
    for seed in 1..=8 {
        let mut pair = connected(Params::default(), calm(), seed);
        let lossy = Conditions {
            loss: 0.1,
            ..calm()
        };
        let thin = Conditions {
            rate: 1_000_000,
            ..lossy
        };
        let mut questions = Link::new(lossy, 2 * seed);
        let mut answers = Link::new(thin, 2 * seed + 1);
        let (mut next, mut later) = (0, BTreeSet::new());
        let (mut said, mut open, mut bytes) = (0, 0, 0);
        for tick in 0..2_000 {
            if tick % 3 == 0 {
                let session = pair.ends[1].session_mut();
                session.send(pair.now, 0, &[7; 1400]).unwrap();
                said += 1;
            }
            let lacks = (next..later.last().copied().unwrap_or(next))
                .filter(|id| !later.contains(id))
                .flat_map(|id: u64| [2, (id >> 8) as u8, id as u8]);
            // A heartbeat, which shows what it is, and its questions.
            let datagram: Vec<u8> = [0].into_iter().chain(lacks).collect();
            questions.push(pair.now.mono, (), &datagram);
            for datagram in outputs(&mut pair, 1, 10) {
                bytes += datagram.len();
                answers.push(pair.now.mono, (), &datagram);
            }
            let session = pair.ends[1].session_mut();
            while let Some(((), mut datagram)) = questions.pop(pair.now.mono) {
                session.handle_datagram(pair.now, &mut datagram).unwrap();
            }
            while let Some(((), datagram)) = answers.pop(pair.now.mono) {
                for record in wire::parse(&datagram).expect("a datagram of ours") {
                    if let Record::Message { id, .. } = record {
                        later.insert(sequence::nearest(next, id));
                    }
                }
            }
            later.retain(|id| *id >= next);
            while later.remove(&next) {
                next += 1;
            }
            open += said - next;
        }
        let (copies, late) = (
            bytes as f64 / (1400 * said) as f64,
            open as f64 / 2_000.0 / 33.0,
        );
        assert!(copies < 2.0, "seed {seed}: {copies} times what was said");
        assert!(late < 0.3, "seed {seed}: {late} seconds late as a rule");
    }
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

/// A peer that restarted begins at id 0 again; its old session makes way.
#[test]
fn a_restarted_peer_is_noticed() {
    let mut pair = connected(Params::default(), calm(), 1);
    let sent = numbered(3000, 8);
    pair.ends[0].to_send.extend(sent.iter().cloned());
    pair.run(60, |pair| pair.ends[1].received.len() == sent.len());
    // Until then they may be late.
    pair.run(2, |_| false);
    for id in 0..8 {
        pair.forge(1, &[4, 0, id]);
    }
    pair.run(1, |_| false);
    assert_eq!(pair.ends[1].closed, Some(CloseReason::Replaced));
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
