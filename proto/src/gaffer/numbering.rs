//! The sequences of our packets, and whether what a peer acknowledges was ever sent.
//!
//! Rule: docs/wire/gaffer.md, sections 3 and 6. Now and then a sequence is skipped: a
//! peer that acknowledges one of those makes its acknowledgements up.

use crate::gaffer::acks::JUMP_MAX;
use crate::gaffer::wire::{Header, is_more_recent};
use crate::per_second::PerSecond;
use crate::random::Random;
use crate::time::Timestamp;

/// More acknowledgements of packets never sent, within a second, end a session.
const FALSE_ACKS_MAX: u32 = 100;

/// Counts packets in 64 bits; what stands on the wire is the count from some first sequence on.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Sequence of the packet with number 0.
    first_sequence: u32,
    /// Number of the next packet.
    next_number: u64,
    skipped: SkippedSequences,
    false_acks: PerSecond,
}

/// A packet's place: as the wire has it, and as the session counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) sequence: u32,
    pub(super) number: u64,
}

/// An acknowledgement of what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FalseAck {
    /// One packet with a false one, which anybody may have forged.
    Stray,
    /// The peer acknowledges what it cannot have received.
    Invented,
}

impl Numbering {
    /// From a first sequence that only `seed` tells.
    pub(super) fn drawn(seed: u64) -> Self {
        let mut skipped = SkippedSequences::new(seed);
        let first = (skipped.random.next() % 0x7fff_ffff) as u32 + 1;
        Self::with_skipped(first, skipped)
    }

    /// From this first sequence on; `seed` decides which are skipped.
    pub(super) fn starting_at(first_sequence: u32, seed: u64) -> Self {
        Self::with_skipped(first_sequence, SkippedSequences::new(seed))
    }

    fn with_skipped(first_sequence: u32, skipped: SkippedSequences) -> Self {
        Self {
            first_sequence,
            next_number: 0,
            skipped,
            false_acks: PerSecond::default(),
        }
    }

    pub(super) fn first_sequence(&self) -> u32 {
        self.first_sequence
    }

    /// The place of the next packet.
    pub(super) fn take(&mut self) -> Place {
        if self.skipped.is_due() {
            self.skipped.set(self.next_sequence());
            self.next_number += 1;
        }
        let place = Place {
            sequence: self.next_sequence(),
            number: self.next_number,
        };
        self.next_number += 1;
        place
    }

    /// Acknowledgements must be of packets we sent. Before the peer heard anything of us it
    /// acknowledges 0, which the article's own code does too.
    pub(super) fn judge(&mut self, now: Timestamp, header: &Header) -> Result<(), FalseAck> {
        if (header.ack, header.ack_bits) == (0, 0) {
            return Ok(());
        }
        if self.skipped.are_acked_by(header) {
            return Err(FalseAck::Invented);
        }
        let next = self.next_sequence();
        if header.ack != next && !is_more_recent(header.ack, next) {
            return Ok(());
        }
        Err(match self.false_acks.take(now, FALSE_ACKS_MAX) {
            true => FalseAck::Stray,
            false => FalseAck::Invented,
        })
    }

    /// Whether the newest packet this acknowledges is one of our last ones: a sender that did not
    /// hear it has one chance in four million to guess it.
    pub(super) fn is_recent(&self, header: &Header) -> bool {
        let behind = self.next_sequence().wrapping_sub(header.ack);
        (1..=JUMP_MAX).contains(&behind) && u64::from(behind) <= self.next_number
    }

    fn next_sequence(&self) -> u32 {
        self.first_sequence.wrapping_add(self.next_number as u32)
    }
}

/// Which sequences are skipped: one in every 50 to 500.
#[derive(Debug)]
struct SkippedSequences {
    random: Random,
    packets_left: u32,
    recent: [Option<u32>; 4],
}

impl SkippedSequences {
    fn new(seed: u64) -> Self {
        let mut skipped = Self {
            random: Random::new(seed),
            packets_left: 0,
            recent: [None; 4],
        };
        skipped.rest();
        skipped
    }

    /// The next one is 50 to 500 packets away.
    fn rest(&mut self) {
        self.packets_left = 50 + (self.random.next() % 451) as u32;
    }

    fn is_due(&mut self) -> bool {
        self.packets_left -= 1;
        self.packets_left == 0
    }

    fn set(&mut self, sequence: u32) {
        self.recent.rotate_right(1);
        self.recent[0] = Some(sequence);
        self.rest();
    }

    fn are_acked_by(&self, header: &Header) -> bool {
        let mut set = self.recent.iter().flatten();
        set.any(|sequence| header.acknowledges(*sequence))
    }
}
