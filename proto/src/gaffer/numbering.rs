//! The sequences of our packets, and whether what a peer acknowledges was ever sent.
//!
//! Rule: docs/wire/gaffer.md, sections 3 and 6. Now and then a sequence is skipped: a
//! peer that acknowledges one of those makes its acknowledgements up.

use crate::gaffer::acks::JUMP_MAX;
use crate::gaffer::wire::{Header, is_more_recent};
use crate::random::Random;
use crate::skipped::SkippedNumbers;

/// How far behind our next packet the newest one may lie that a peer has heard. One that refuses everything for a minute
/// stays where it was, while 180 packets a second leave.
const RECALL: u32 = 1 << 14;

/// Counts packets in 64 bits; what stands on the wire is the count from some first sequence on.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Sequence of the packet with number 0.
    first_sequence: u32,
    /// Number of the next packet.
    next_number: u64,
    skipped: SkippedNumbers,
    /// The peer acknowledged a packet of this session.
    is_heard: bool,
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
    /// Of what was not sent, or long ago: anybody may have forged it.
    Stray,
    /// The peer acknowledges what it cannot have received.
    Invented,
}

impl Numbering {
    /// From a first sequence that only `seed` tells.
    pub(super) fn drawn(seed: u64) -> Self {
        let first = Random::new(seed).below(0x7fff_ffff) as u32 + 1;
        Self::starting_at(first, seed)
    }

    /// From this first sequence on; `seed` decides which are skipped.
    pub(super) fn starting_at(first_sequence: u32, seed: u64) -> Self {
        Self {
            first_sequence,
            next_number: 0,
            skipped: SkippedNumbers::new(seed),
            is_heard: false,
        }
    }

    pub(super) fn first_sequence(&self) -> u32 {
        self.first_sequence
    }

    /// The place of the next packet.
    pub(super) fn take(&mut self) -> Place {
        let number = self.next_number + u64::from(self.skipped.is_next(self.next_number));
        self.next_number = number + 1;
        Place {
            sequence: self.sequence(number),
            number,
        }
    }

    /// Acknowledgements must be of packets we sent. Before the peer heard anything of us it
    /// acknowledges 0, which the article's own code does too. Once it did hear something, it knows what we sent lately,
    /// and a forger off the path does not.
    pub(super) fn judge(&mut self, header: &Header) -> Result<(), FalseAck> {
        if (header.ack, header.ack_bits) == (0, 0) && !self.is_heard {
            return Ok(());
        }
        if self.is_skipped_acked_by(header) {
            return Err(FalseAck::Invented);
        }
        let next = self.next_sequence();
        let is_plausible = match self.is_heard {
            true => (1..=RECALL).contains(&next.wrapping_sub(header.ack)),
            // The first answer of a server names a packet that was never sent.
            false => header.ack != next && !is_more_recent(header.ack, next),
        };
        self.is_heard |= self.is_recent(header);
        is_plausible.then_some(()).ok_or(FalseAck::Stray)
    }

    /// Whether the newest packet this acknowledges is one of our last ones: a sender that did not
    /// hear it has one chance in four million to guess it.
    pub(super) fn is_recent(&self, header: &Header) -> bool {
        let behind = self.next_sequence().wrapping_sub(header.ack);
        (1..=JUMP_MAX).contains(&behind) && u64::from(behind) <= self.next_number
    }

    /// Whether it acknowledges a packet that was skipped, however long ago.
    fn is_skipped_acked_by(&self, header: &Header) -> bool {
        let ahead = header.ack.wrapping_sub(self.next_sequence()) as i32;
        let Some(newest) = self.next_number.checked_add_signed(ahead.into()) else {
            return false;
        };
        // Numbers that were not reached yet were not skipped either.
        let numbers = newest.saturating_sub(32)..self.next_number.min(newest + 1);
        let mut skipped = self.skipped.among(numbers);
        skipped.any(|number| header.acknowledges(self.sequence(number)))
    }

    fn next_sequence(&self) -> u32 {
        self.sequence(self.next_number)
    }

    fn sequence(&self, number: u64) -> u32 {
        self.first_sequence.wrapping_add(number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the peer says of the packets around `sequence`: all of them arrived, or only it.
    fn acks(sequence: u32, ack_bits: u32) -> Header {
        Header {
            protocol_id: 0,
            sequence: 1,
            ack: sequence,
            ack_bits,
        }
    }

    /// However much was sent: else a long session would be easy to guess a number of.
    #[test]
    fn only_the_last_packets_are_recent() {
        for sent in [3, 1000, 50_000] {
            let mut numbering = Numbering::starting_at(u32::MAX - 10, 5);
            while numbering.next_number < sent {
                numbering.take();
            }
            let next = numbering.next_sequence();
            let reach = numbering.next_number.min(1024) as u32;
            let is_recent = |behind| numbering.is_recent(&acks(next.wrapping_sub(behind), 0));
            let told = [0, 1, reach, reach + 1].map(is_recent);
            assert_eq!(told, [false, true, true, false], "{sent} sent");
        }
    }

    /// Sequences wrap soon after the first.
    #[test]
    fn what_was_left_out_is_never_acknowledged() {
        let first = u32::MAX - 10;
        let mut numbering = Numbering::starting_at(first, 5);
        let sent: Vec<u32> = (0..50_000).map(|_| numbering.take().sequence).collect();
        let left_out: Vec<u32> = sent[..49_900]
            .windows(2)
            .filter(|pair| pair[1] != pair[0].wrapping_add(1))
            .map(|pair| pair[1].wrapping_sub(1))
            .collect();
        assert_eq!(left_out.len(), 49_900 / 191, "one in 192");
        let mut judge = |header| numbering.judge(&header);
        let before = acks(first.wrapping_sub(1), u32::MAX);
        assert_eq!(judge(before), Ok(()), "of a life before this");
        for sequence in left_out {
            assert_eq!(judge(acks(sequence, 0)), Err(FalseAck::Invented));
            assert_eq!(judge(acks(sequence.wrapping_sub(1), u32::MAX)), Ok(()));
            let (behind, all_but_it) = (sequence.wrapping_add(32), !(1 << 31));
            assert_eq!(judge(acks(behind, all_but_it)), Ok(()));
            assert_eq!(judge(acks(behind, 1 << 31)), Err(FalseAck::Invented));
        }
        let next = sent[sent.len() - 1].wrapping_add(1);
        assert_eq!(judge(acks(next, 0)), Err(FalseAck::Stray));
        assert_eq!(judge(before), Err(FalseAck::Stray), "it is in this life");
    }

    /// Who receives nothing of ours has one chance in a quarter of a million to guess it.
    #[test]
    fn a_peer_that_heard_us_knows_what_we_sent_lately() {
        let mut numbering = Numbering::starting_at(1 << 30, 5);
        while numbering.next_number < 20_000 {
            numbering.take();
        }
        let next = numbering.next_sequence();
        let mut takes = |ack| numbering.judge(&acks(ack, 0)).is_ok();
        assert_eq!(
            [0, next - (1 << 29), next].map(&mut takes),
            [true, true, false]
        );
        assert!(takes(next - 1), "it heard us");
        assert_eq!([0, next - (1 << 29), next].map(&mut takes), [false; 3]);
        let edges = [next - 16_385, next - 16_384].map(&mut takes);
        assert_eq!(edges, [false, true]);
    }
}
