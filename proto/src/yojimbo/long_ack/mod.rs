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
//!   │   └ a long acknowledgement follows (postscript.rs)
//!   └ no entries
//! ```
//!
//! Rule: docs/wire/reliable.md, section 7.4.

use std::ops::Range;

use super::postscript::LONG_ACK;
use super::reliable::{Header, Window};
use crate::sequence::{self, is_newer};

/// What follows the acks of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongAck<'a> {
    ack: u16,
    runs: &'a [u8],
}

impl<'a> LongAck<'a> {
    /// The one with these runs in a packet with this header.
    pub(super) fn new(header: Header, runs: &'a [u8]) -> Self {
        Self {
            ack: header.ack,
            runs,
        }
    }

    /// The packets that it says were received, from the newest back, where `newest` is the last that was sent.
    /// No more than a peer remembers: a peer that speaks of more lies, and a few bytes must not make much work.
    pub(super) fn received(&self, newest: u64) -> impl Iterator<Item = Range<u64>> + use<'a> {
        let after_header = sequence::nearest(newest, self.ack) + 1;
        let first = after_header.saturating_sub(NUMBERS.into());
        let mut end = after_header.saturating_sub(REACH.into());
        self.runs.chunks(2).map(move |runs| {
            let back = |from: u64, run: u8| from.saturating_sub(run.into()).max(first);
            let start = back(end, runs[0]);
            let missing = runs.get(1).copied().unwrap_or(0);
            start..std::mem::replace(&mut end, back(start, missing))
        })
    }
}

/// What arrived lately from another tidegate, 4096 packets, and how far the peer knows it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    window: Window<64>,
    /// The peer knows of this packet and all before it, as far as they are remembered.
    known: Option<u16>,
    /// A packet of ours that told all up to there, and was not acknowledged yet.
    asked: Option<(u64, u16)>,
    /// Packets accepted since the last answer.
    accepted: u16,
}

impl Record {
    /// Begins after the newest packet that was seen.
    pub(super) fn new(newest: u16) -> Self {
        Self {
            window: Window::after(newest),
            known: None,
            asked: None,
            accepted: 0,
        }
    }

    /// The packet was accepted.
    pub(super) fn accept(&mut self, sequence: u16) {
        if self.window.is_stale(sequence) {
            return;
        }
        self.see(sequence);
        self.window.set(sequence);
        self.accepted = self.accepted.saturating_add(1);
        // Where it comes late, it was told to be missing.
        let asked = self.asked.as_mut().map(|(_, told)| told);
        for told in asked.into_iter().chain(&mut self.known) {
            if !is_newer(sequence, *told) {
                *told = sequence.wrapping_sub(1);
            }
        }
    }

    /// There is such a packet: numbers wrap, and what is known ends with what is remembered.
    fn see(&mut self, sequence: u16) {
        self.window.see(sequence);
        let is_remembered = |known| self.window.next().wrapping_sub(known) <= NUMBERS;
        self.known = self.known.filter(|known| is_remembered(*known));
    }

    /// Appends what follows `ack` in our packet `number`, which carries nothing: as far back as the peer does
    /// not know it; `room` bytes at most.
    pub(super) fn emit(&mut self, number: u64, ack: u16, room: usize, out: &mut Vec<u8>) {
        // A packet that is not complete may be the newest.
        self.see(ack);
        let runs = RUNS_MAX.min(RUNS_EACH * usize::from(self.accepted));
        self.accepted = 0;
        let end = out.len() + room.min(1 + runs);
        out.push(LONG_ACK);
        let newest = self.window.next().wrapping_sub(1);
        let remembered = NUMBERS.saturating_sub(newest.wrapping_sub(ack));
        let unknown = match self.known {
            Some(known) if !is_newer(ack, known) => 0,
            Some(known) => ack.wrapping_sub(known),
            None => NUMBERS,
        };
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
        if left == 0 {
            self.asked.get_or_insert((number, ack));
        }
    }

    /// The peer has our packet `number`.
    pub(super) fn on_acked(&mut self, number: u64) {
        match self.asked {
            Some((asked, told)) if asked == number => {
                (self.known, self.asked) = (Some(told), None);
            }
            // It got lost, or will be heard of too late.
            Some((asked, _)) if asked + u64::from(REACH) < number => self.asked = None,
            Some(_) | None => {}
        }
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

/// Packets that a header acknowledges.
const REACH: u16 = 32;

/// Packets that are remembered.
pub(super) const NUMBERS: u16 = Window::<64>::NUMBERS;

/// Bytes of all runs: what is lost one by one on a path that loses one in four of 1024.
const RUNS_MAX: usize = 512;

/// Bytes of runs for each packet that arrived: no packet is shorter, and no answer is to be longer than its question.
const RUNS_EACH: usize = 64;

#[cfg(test)]
mod tests;
