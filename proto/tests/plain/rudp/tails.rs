//! The last message, of which nothing that follows shows that it got lost.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_proto::rudp::wire::{self, Record};

use super::accepted;
use crate::link::START;

/// Whether the last message comes, each way, that got lost when it was said, while the peer keeps it for five seconds.
/// Ours has so many bytes. Every second datagram is lost, of which `lost` says which, and takes so many milliseconds. The
/// peer answers at its next tick, of so many microseconds.
fn last_messages_come(bytes: usize, tick: u64, delay: u64, lost: [u64; 2]) -> [bool; 2] {
    let mut session = accepted();
    let mut datagrams = lost;
    let mut arrives = |way: usize| {
        datagrams[way] += 1;
        datagrams[way].is_multiple_of(2)
    };
    let mut air = [(); 2].map(|()| VecDeque::new());
    let (mut said, mut asked, mut next_tick) = (0, BTreeSet::new(), 0);
    let mut said_once = false;
    let mut came = [false; 2];
    for millis in 0..7_000 {
        let now = START.after(Duration::from_millis(millis));
        let arrived = |air: &mut VecDeque<(u64, Vec<u8>)>| {
            let (sent_at, _) = air.front()?;
            if sent_at + delay > millis {
                return None;
            }
            air.pop_front().map(|(_, datagram)| datagram)
        };
        if millis == 2_000 {
            said = 1;
            session
                .send(now, 0, &vec![7; bytes])
                .expect("there is room");
        }
        while let Some(mut datagram) = arrived(&mut air[0]) {
            session
                .handle_datagram(now, &mut datagram)
                .expect("a datagram of a peer");
        }
        session.handle_timeout(now);
        came[0] |= session.poll_message().is_some();
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out) {
            let datagram = std::mem::take(&mut out);
            let says = datagram.len() > bytes;
            if arrives(1) && (!says || said_once) {
                air[1].push_back((millis, datagram));
            }
            said_once |= says;
        }
        if 1_000 * millis < next_tick {
            continue;
        }
        next_tick += tick;
        while let Some(datagram) = arrived(&mut air[1]) {
            for record in wire::parse(&datagram).expect("a datagram of ours") {
                match record {
                    Record::Request(id) => asked.extend([id]),
                    Record::Message { .. } => came[1] = true,
                    Record::Heartbeat | Record::Missing(_) | Record::Corrupt => {}
                }
            }
        }
        let mut answers = Vec::new();
        for id in std::mem::take(&mut asked) {
            match id < said {
                true => answers.extend([5, 0, id as u8, b'x']),
                false => wire::emit_missing(&mut answers, id),
            }
        }
        if answers.is_empty() {
            answers.push(0);
        }
        if arrives(0) {
            air[0].push_back((millis, answers));
        }
    }
    came
}

/// The program of a reference peer sleeps for ten milliseconds between two ticks, and so they are a little longer.
/// Rule: docs/wire/rudp.md, section 6 (rules 3, 4 and 12).
#[test]
fn the_last_messages_come_where_every_second_datagram_is_lost() {
    let paths = [0, 5, 10, 15, 40]
        .into_iter()
        .flat_map(|delay| [[0, 0], [0, 1], [1, 0], [1, 1]].map(|lost| (delay, lost)));
    for (delay, lost) in paths {
        for tick in [10_000, 10_060, 10_100, 10_140, 10_200] {
            for bytes in [100, 1_400] {
                let came = last_messages_come(bytes, tick, delay, lost);
                let found = format!("{bytes} bytes, {tick} us, {delay} ms, {lost:?}");
                assert_eq!(came, [true; 2], "{found}");
            }
        }
    }
}
