//! What messages say: who sent them, which one it is, and bytes that follow from both, so that the
//! receiver can tell a right message from a wrong one without having kept it.
//!
//! ```text
//!   length u32be │ client u32be │ kind 1 bit, number 31 bits, be │ pattern(run, client, kind, number)
//! ```
//!
//! The length comes first because a backend behind `framing = "raw"` gives back a stream.

use tidegate_proto::sim::Random;

pub(super) const HEADER_BYTES: usize = 12;

const UNRELIABLE: u32 = 1 << 31;

/// Which of a client's two rows of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reliable,
    Unreliable,
}

/// All messages of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Another run's messages are wrong ones.
    pub(super) run: u64,
    pub(super) least: usize,
    pub(super) most: usize,
}

/// What a message turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// This one of ours, every byte of it.
    Whole(Kind, u32),
    /// Somebody else's, or damaged.
    Wrong,
}

impl Shape {
    fn pattern(&self, client: u32, tag: u32) -> Random {
        Random::new(self.run ^ (u64::from(client) << 32 | u64::from(tag)))
    }

    /// Bytes of a message.
    pub(super) fn size(&self, client: u32, kind: Kind, number: u32) -> usize {
        self.draw_size(&mut self.pattern(client, tag(kind, number)))
    }

    /// The first draw of a message's pattern.
    fn draw_size(&self, pattern: &mut Random) -> usize {
        let spread = (self.most - self.least + 1) as u64;
        self.least + (pattern.next() % spread) as usize
    }

    /// Makes a message.
    pub(super) fn write(&self, client: u32, kind: Kind, number: u32, out: &mut Vec<u8>) {
        let tag = tag(kind, number);
        let mut pattern = self.pattern(client, tag);
        let size = self.draw_size(&mut pattern);
        out.clear();
        out.extend_from_slice(&(size as u32).to_be_bytes());
        out.extend_from_slice(&client.to_be_bytes());
        out.extend_from_slice(&tag.to_be_bytes());
        while out.len() < size {
            let bytes = pattern.next().to_le_bytes();
            out.extend_from_slice(&bytes[..bytes.len().min(size - out.len())]);
        }
    }

    /// Looks at all of it. `scratch` is where the right one is made.
    pub(super) fn judge(&self, client: u32, message: &[u8], scratch: &mut Vec<u8>) -> Judgement {
        let Some((kind, number)) = tagged(message) else {
            return Judgement::Wrong;
        };
        self.write(client, kind, number, scratch);
        if message == scratch.as_slice() {
            Judgement::Whole(kind, number)
        } else {
            Judgement::Wrong
        }
    }

    /// The length that the start of a stream announces, if a message can have it.
    pub(super) fn announced(&self, stream: &[u8]) -> Option<usize> {
        let bytes = stream.first_chunk::<4>()?;
        let length = u32::from_be_bytes(*bytes) as usize;
        (self.least..=self.most).contains(&length).then_some(length)
    }
}

/// Which message this says it is, if that much of it is here.
pub(super) fn tagged(message: &[u8]) -> Option<(Kind, u32)> {
    let tag = message.get(8..HEADER_BYTES)?;
    let tag = u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]);
    Some(match tag & UNRELIABLE {
        0 => (Kind::Reliable, tag),
        _ => (Kind::Unreliable, tag & !UNRELIABLE),
    })
}

fn tag(kind: Kind, number: u32) -> u32 {
    match kind {
        Kind::Reliable => number & !UNRELIABLE,
        Kind::Unreliable => number | UNRELIABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        run: 5,
        least: HEADER_BYTES,
        most: 300,
    };

    #[test]
    fn every_flipped_bit_is_seen() {
        let (mut message, mut scratch) = (Vec::new(), Vec::new());
        for kind in [Kind::Reliable, Kind::Unreliable] {
            for number in [0, 1, 77, u32::MAX >> 1] {
                SHAPE.write(9, kind, number, &mut message);
                assert_eq!(message.len(), SHAPE.size(9, kind, number));
                assert_eq!(SHAPE.announced(&message), Some(message.len()));
                let whole = SHAPE.judge(9, &message, &mut scratch);
                assert_eq!(whole, Judgement::Whole(kind, number));
                for bit in 0..message.len() * 8 {
                    message[bit / 8] ^= 1 << (bit % 8);
                    let judged = SHAPE.judge(9, &message, &mut scratch);
                    message[bit / 8] ^= 1 << (bit % 8);
                    // A short message may differ from another one by a bit of its number only.
                    assert_ne!(judged, whole, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn other_clients_and_other_runs_are_wrong() {
        let (mut message, mut scratch) = (Vec::new(), Vec::new());
        SHAPE.write(9, Kind::Reliable, 3, &mut message);
        assert_eq!(SHAPE.judge(8, &message, &mut scratch), Judgement::Wrong);
        let other = Shape { run: 6, ..SHAPE };
        message.resize(100, 0);
        assert_eq!(other.judge(9, &message, &mut scratch), Judgement::Wrong);
        for cut in 0..message.len() {
            let judged = SHAPE.judge(9, &message[..cut], &mut scratch);
            assert!(judged == Judgement::Wrong || cut == SHAPE.size(9, Kind::Reliable, 3));
        }
    }
}
