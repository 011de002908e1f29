//! What long acknowledgements look like, and that they tell what is true, all of it, and once.

use super::super::postscript::{NO_ENTRIES, Postscript};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn header(ack: u16) -> Header {
    Header {
        sequence: 0,
        ack,
        ack_bits: 0,
    }
}

fn long(record: &mut Record, ack: u16, room: usize) -> Vec<u8> {
    let mut payload = vec![NO_ENTRIES];
    record.emit(0, ack, room, &mut payload);
    payload
}

fn parse(ack: u16, payload: &[u8]) -> Option<LongAck<'_>> {
    Postscript::parse(payload, false)?.long_ack(header(ack))
}

/// What a payload says to the sender of `newest` packets.
fn received(ack: u16, payload: &[u8], newest: u64) -> Vec<Range<u64>> {
    let long = parse(ack, payload).expect("it says so");
    long.received(newest).collect()
}

#[test]
fn what_it_looks_like() {
    let mut record = Record::new(9);
    for number in [10, 11, 13, 60] {
        record.accept(number);
    }
    // From 60 - 32 back: none, 15 missing, 13, 12 missing, 11 and 10.
    let payload = long(&mut record.clone(), 60, 100);
    assert_eq!(payload, [0, 1, 0, 15, 1, 1, 2]);
    assert_eq!(received(60, &payload, 70), [29..29, 13..14, 10..12]);
    assert_eq!(long(&mut record.clone(), 60, 4), [0, 1, 0, 15, 1]);
    assert_eq!(long(&mut record.clone(), 20, 100), [0, 1]);
    record.known = Some(12);
    assert_eq!(long(&mut record, 60, 100), [0, 1, 0, 15, 1]);
    assert!(parse(60, &[0]).is_none());
    assert!(parse(60, &[0; 100]).is_none(), "padding");
}

#[test]
fn a_run_of_more_than_a_byte_says() {
    let mut record = Record::new(999);
    for number in 1000..2000 {
        record.accept(number);
    }
    let payload = long(&mut record, 1999, 100);
    assert_eq!(payload, [0, 1, 255, 0, 255, 0, 255, 0, 203]);
}

/// Before the first packet there is none, whatever is claimed.
#[test]
fn runs_end_with_the_first_packet() {
    let claims: Vec<u8> = [0, 1].into_iter().chain([255; 8000]).collect();
    let runs = received(100, &claims, 100);
    assert_eq!(runs[0], 0..69);
    assert!(runs[1..].iter().all(|run| *run == (0..0)));
}

/// All packets that are remembered are looked at for 140 bytes, and no more for any other number of them.
#[test]
fn no_more_is_heard_than_a_peer_remembers() {
    for runs in [
        [255, 0].repeat(8),
        [255, 0].repeat(4000),
        [1, 0].repeat(4090),
    ] {
        let claims = [&[0, 1], &runs[..]].concat();
        let told: u64 = received(9, &claims, 1 << 20)
            .iter()
            .map(|run| run.end - run.start)
            .sum();
        let said = runs.iter().map(|run| u64::from(*run)).sum();
        let remembered = u64::from(NUMBERS - REACH);
        assert_eq!(told, remembered.min(said));
    }
}

proptest! {
    /// Nothing but what was accepted, and all of it as far as it is remembered and not known.
    #[test]
    fn what_is_told_is_true(
        start: u16,
        steps in prop::collection::vec((1u16..4, -200i16..200), 1..4000),
        back in 0u16..300,
        known in prop::option::of(0u16..5000),
        room in 1usize..600,
    ) {
        let mut record = Record::new(start);
        let (mut newest, mut accepted) = (start, BTreeSet::new());
        for (ahead, late) in steps {
            newest = newest.wrapping_add(ahead);
            for number in [newest, newest.wrapping_add_signed(late.min(0))] {
                if newest.wrapping_sub(number) < newest.wrapping_sub(start) {
                    record.accept(number);
                    accepted.insert(number);
                }
            }
        }
        let ack = newest.wrapping_sub(back);
        record.known = known.map(|known| ack.wrapping_sub(known));
        record.accepted = 8;
        let payload = long(&mut record, ack, room);
        prop_assert!(payload.len() <= 1 + room.min(1 + RUNS_MAX));
        // What was not received at the end is left out, at most so many bytes.
        let is_full = payload.len() + 40 > room.min(RUNS_MAX);
        let sent = (1 << 20) + u64::from(newest);
        let told = received(ack, &payload, sent);
        let oldest_told = told.last().map_or(u64::MAX, |run| run.start);
        for behind in 0..5000u16 {
            let number = sent - u64::from(back) - u64::from(behind);
            let says = told.iter().any(|run| run.contains(&number));
            let age = behind + back;
            let is_there = accepted.contains(&(number as u16)) && age < NUMBERS;
            prop_assert!(!says || is_there, "{behind} behind {ack}");
            let is_due = behind >= 32
                && known.is_none_or(|known| behind < known)
                && (!is_full || number >= oldest_told);
            prop_assert!(!is_due || says == is_there, "{behind} behind {ack}");
        }
    }
}

/// One packet at a time is waited for; one that is never acknowledged is given up.
#[test]
fn who_heard_it_knows() {
    let mut record = Record::new(0);
    (1..200).for_each(|number| record.accept(number));
    let mut tell = |number, ack| {
        let mut payload = Vec::new();
        record.emit(number, ack, 600, &mut payload);
        record.on_acked(number.saturating_sub(2));
        record.known
    };
    assert_eq!([tell(100, 107), tell(101, 108)], [None; 2]);
    assert_eq!(tell(102, 109), Some(107));
    assert_eq!(tell(103, 110), Some(107), "asked once");
    let mut lost = Record::new(0);
    (1..200).for_each(|number| lost.accept(number));
    lost.emit(100, 199, 600, &mut Vec::new());
    lost.on_acked(133);
    lost.on_acked(100);
    assert_eq!(lost.known, None, "given up");
}

/// A packet in fragments moves the newest number before it is complete.
#[test]
fn an_acknowledgement_ahead_of_what_arrived_tells_what_did() {
    let mut record = Record::new(9);
    (10..=60).for_each(|number| record.accept(number));
    assert_eq!(long(&mut record.clone(), 61, 100), [0, 1, 20]);
    assert_eq!(long(&mut record, 100, 100), [0, 1, 0, 8, 51]);
}

/// An answer is about as long as what it is for.
#[test]
fn many_holes_are_told_as_packets_come() {
    let mut record = Record::new(0);
    (1..3000)
        .step_by(2)
        .for_each(|number| record.accept(number));
    // What follows the last that was received is not worth a byte.
    assert_eq!(long(&mut record, 2999, 600).len(), 2 + RUNS_MAX - 1);
    record.accept(3001);
    assert_eq!(long(&mut record, 3001, 600).len(), 2 + RUNS_EACH - 1);
    assert_eq!(long(&mut record, 3001, 600).len(), 2);
    assert_eq!(record.asked, None, "not all was told");
}

proptest! {
    /// Whatever overtakes whatever and gets lost: what arrived is told in an answer that the peer had, or
    /// in the next one.
    #[test]
    fn nothing_that_arrived_is_never_told(
        start: u16,
        steps in prop::collection::vec((0u8..9, 1u16..60, 1u16..300), 1..400),
    ) {
        let (mut record, mut newest) = (Record::new(start), start);
        let (mut accepted, mut told) = (BTreeSet::new(), BTreeSet::new());
        for (number, (what, ahead, back)) in (0..).zip(steps) {
            match what {
                // Some are missing, and then come so many.
                0..3 => {
                    newest = newest.wrapping_add(ahead % 4);
                    for _ in 0..ahead {
                        newest = newest.wrapping_add(1);
                        record.accept(newest);
                        accepted.insert(newest);
                    }
                }
                3..5 => {
                    let late = newest.wrapping_sub(back);
                    if is_newer(late, start) {
                        record.accept(late);
                        accepted.insert(late);
                    }
                }
                _ => {
                    // Sometimes the first fragment of a packet came, or there is little room.
                    let ack = newest.wrapping_add((what == 5).into());
                    let room = if what == 6 { back % 40 } else { 600 };
                    let said = said(&mut record, number, ack, room.into(), &accepted);
                    // Sometimes the answer gets lost, or that to the answer.
                    if what != 7 {
                        told.extend(said);
                    }
                    if what == 5 || what == 8 {
                        record.on_acked(number);
                    }
                }
            }
        }
        record.accepted = 8;
        let next = said(&mut record, 1000, newest, 600, &accepted);
        for number in accepted {
            let age = newest.wrapping_sub(number);
            let is_told = told.contains(&number) || next.contains(&number);
            prop_assert!(age >= NUMBERS || is_told, "{age} back");
        }
    }
}

/// What a peer learns of an answer, its header's part included.
fn said(
    record: &mut Record,
    number: u64,
    ack: u16,
    room: usize,
    accepted: &BTreeSet<u16>,
) -> BTreeSet<u16> {
    let mut payload = vec![NO_ENTRIES];
    record.emit(number, ack, room, &mut payload);
    let runs = received(ack, &payload, (1 << 20) + u64::from(ack));
    let header = (0..REACH).map(|back| ack.wrapping_sub(back));
    let runs = runs.into_iter().flatten().map(|number| number as u16);
    header
        .filter(|number| accepted.contains(number))
        .chain(runs)
        .collect()
}
