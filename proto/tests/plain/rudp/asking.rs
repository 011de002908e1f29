//! What is asked for, how often, and how much it draws.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_proto::rudp::Params;
use tidegate_proto::rudp::wire::{self, Record};
use tidegate_proto::sequence;
use tidegate_proto::sim::{Conditions, Link};

use super::{accepted, connected, outputs};
use crate::link::{Pair, START, calm};

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
    let mut session = accepted();
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
