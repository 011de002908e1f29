//! Long acknowledgements: what a tidegate tells another of packets that no header reaches any more.
//!
//! A header acknowledges 32 packets, and one in sixteen has an answer: when a few answers in a row get lost,
//! what they told is sent again for nothing. A fast connection has so many packets under way that an outage
//! of 60 ms on the way back costs it 500 of them.
//!
//! ```text
//!   00  01  runs            after the header of a packet that carries nothing
//!   │   │   └ from packet ack - 32 back: so many were received, so many not, so many received, ...;
//!   │   │     a byte each, 512 at most
//!   │   └ a long acknowledgement follows (zeros there are padding)
//!   └ no entries
//! ```
//!
//! Rule: docs/wire/reliable.md, section 7.

use std::ops::Range;

use super::reliable::{Header, Window};
use crate::sequence;

/// What follows the acks of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongAck<'a> {
    ack: u16,
    runs: &'a [u8],
}

impl<'a> LongAck<'a> {
    /// The one in a packet with this header and payload, if it has one. Any bytes are one.
    pub(super) fn parse(header: Header, payload: &'a [u8]) -> Option<Self> {
        match payload {
            [NO_ENTRIES, FOLLOWS, runs @ ..] => Some(Self {
                ack: header.ack,
                runs,
            }),
            _ => None,
        }
    }

    /// The packets that it says were received, from the newest back, where `newest` is the last that was sent.
    pub(super) fn received(&self, newest: u64) -> impl Iterator<Item = Range<u64>> + use<'a> {
        let after_header = sequence::nearest(newest, self.ack) + 1;
        let mut end = after_header.saturating_sub(REACH.into());
        self.runs.chunks(2).map(move |runs| {
            let start = end.saturating_sub(runs[0].into());
            let missing = runs.get(1).copied().unwrap_or(0);
            start..std::mem::replace(&mut end, start.saturating_sub(missing.into()))
        })
    }
}

/// What arrived lately from a peer of our make: 4096 packets.
#[derive(Debug)]
pub(super) struct Record {
    window: Window<64>,
}

impl Record {
    /// Begins after the newest packet that was seen.
    pub(super) fn new(newest: u16) -> Self {
        Self {
            window: Window::after(newest),
        }
    }

    /// The packet was accepted.
    pub(super) fn accept(&mut self, sequence: u16) {
        if !self.window.is_stale(sequence) {
            self.window.see(sequence);
            self.window.set(sequence);
        }
    }

    /// Appends what follows `ack` in a packet that carries nothing, as far back as `known`, of which and all
    /// before it the peer knows; `room` bytes at most.
    pub(super) fn emit(&self, ack: u16, known: Option<u16>, room: usize, out: &mut Vec<u8>) {
        let end = out.len() + room.min(1 + RUNS_MAX);
        out.push(FOLLOWS);
        let newest = self.window.next().wrapping_sub(1);
        let remembered = NUMBERS.saturating_sub(newest.wrapping_sub(ack));
        let unknown = known.map_or(NUMBERS, |known| ack.wrapping_sub(known));
        let mut left = unknown.min(remembered).saturating_sub(REACH);
        let (mut at, mut received) = (ack.wrapping_sub(REACH), true);
        let mut told = out.len();
        while left > 0 && out.len() < end {
            let run = self.run(at, left, received);
            out.push(run as u8);
            if received && run > 0 {
                told = out.len();
            }
            (at, left, received) = (at.wrapping_sub(run), left - run, !received);
        }
        out.truncate(told);
    }

    /// How many numbers from `at` back, of `left` and at most 255, were received, or were not.
    fn run(&self, at: u16, left: u16, received: bool) -> u16 {
        let most = left.min(u8::MAX.into());
        let mut run = 0;
        while run < most {
            let bits = self.window.bits_before(at.wrapping_sub(run));
            let same = match received {
                true => bits.trailing_ones(),
                false => bits.trailing_zeros(),
            };
            run += same as u16;
            if same < u64::BITS {
                break;
            }
        }
        run.min(most)
    }
}

/// How far the peer knows what arrived here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    known: Option<u16>,
    /// A packet of ours that told all up to there, and was not acknowledged yet.
    asked: Option<(u64, u16)>,
}

impl Told {
    /// The peer knows of this packet and all before it, as far as they are remembered.
    pub(super) fn known(&self) -> Option<u16> {
        self.known
    }

    /// Our packet `number` leaves, and tells all up to `ack`.
    pub(super) fn on_told(&mut self, number: u64, ack: u16) {
        self.asked.get_or_insert((number, ack));
    }

    /// The peer has our packet `number`.
    pub(super) fn on_acked(&mut self, number: u64) {
        match self.asked {
            Some((asked, ack)) if asked == number => (self.known, self.asked) = (Some(ack), None),
            // It got lost, or will be heard of too late.
            Some((asked, _)) if asked + u64::from(REACH) < number => self.asked = None,
            Some(_) | None => {}
        }
    }
}

/// What a connection packet without entries begins with.
const NO_ENTRIES: u8 = 0;

/// What says that this is no padding.
const FOLLOWS: u8 = 1;

/// Packets that a header acknowledges.
const REACH: u16 = 32;

/// Packets that are remembered.
const NUMBERS: u16 = Window::<64>::NUMBERS;

/// Bytes of all runs: what is lost one by one on a path that loses one in four of 1024.
const RUNS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(ack: u16) -> Header {
        Header {
            sequence: 0,
            ack,
            ack_bits: 0,
        }
    }

    fn long(record: &Record, ack: u16, known: Option<u16>, room: usize) -> Vec<u8> {
        let mut payload = vec![NO_ENTRIES];
        record.emit(ack, known, room, &mut payload);
        payload
    }

    /// What a payload says to the sender of `newest` packets.
    fn received(ack: u16, payload: &[u8], newest: u64) -> Vec<Range<u64>> {
        let long = LongAck::parse(header(ack), payload).expect("it says so");
        long.received(newest).collect()
    }

    #[test]
    fn what_it_looks_like() {
        let mut record = Record::new(9);
        for number in [10, 11, 13, 60] {
            record.accept(number);
        }
        // From 60 - 32 back: none, 15 missing, 13, 12 missing, 11 and 10.
        let payload = long(&record, 60, None, 100);
        assert_eq!(payload, [0, 1, 0, 15, 1, 1, 2]);
        assert_eq!(received(60, &payload, 70), [29..29, 13..14, 10..12]);
        assert_eq!(long(&record, 60, Some(12), 100), [0, 1, 0, 15, 1]);
        assert_eq!(long(&record, 60, None, 4), [0, 1, 0, 15, 1]);
        assert_eq!(long(&record, 20, None, 100), [0, 1]);
        assert!(LongAck::parse(header(60), &[0]).is_none());
        assert!(LongAck::parse(header(60), &[0; 100]).is_none(), "padding");
    }

    #[test]
    fn a_run_of_more_than_a_byte_says() {
        let mut record = Record::new(999);
        for number in 1000..2000 {
            record.accept(number);
        }
        let payload = long(&record, 1999, None, 100);
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
            let (mut newest, mut accepted) = (start, std::collections::BTreeSet::new());
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
            let payload = long(&record, ack, known.map(|known| ack.wrapping_sub(known)), room);
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
        let mut told = Told::default();
        told.on_told(100, 7);
        told.on_told(101, 8);
        told.on_acked(101);
        assert_eq!(told.known(), None);
        told.on_acked(100);
        assert_eq!(told.known(), Some(7));
        told.on_told(102, 9);
        told.on_acked(135);
        told.on_acked(102);
        assert_eq!(told.known(), Some(7), "given up");
        told.on_told(136, 40);
        told.on_acked(136);
        assert_eq!(told.known(), Some(40));
    }
}
