//! One message, and what became of it so far.

use crate::time::Timestamp;

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In one packet.
    Packet,
    /// As a block.
    Block,
    /// As a block if there is room for another one under way when its turn comes, or else in one packet.
    Either,
}

/// One message that the peer does not have yet, as far as we know.
#[derive(Clone, Copy, Debug)]
pub(in crate::sender) struct Entry {
    /// Where the payload begins, counted from the first byte ever pushed.
    pub(super) start: u64,
    pub(in crate::sender) length: u32,
    /// Packets under way that carry it.
    pub(in crate::sender) in_flight: u8,
    /// Times it went out.
    pub(in crate::sender) sends: u8,
    pub(in crate::sender) acked: bool,
    pub(super) way: Way,
    /// First packet of the present round of copies (a loss of all of them starts a new round).
    pub(in crate::sender) first_packet: u64,
    /// Which packets from there on carried it: bit n is packet `first_packet + n`.
    pub(in crate::sender) carried: u64,
    pub(in crate::sender) pushed_at: Timestamp,
}

impl Entry {
    /// Packets of this round that carried it, oldest first.
    pub(in crate::sender) fn carriers(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, mut left) = (self.first_packet, self.carried);
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < 64).then(|| first + u64::from(bit))
        })
    }

    /// The last of them.
    pub(in crate::sender) fn last_packet(&self) -> Option<u64> {
        let bit = self.carried.checked_ilog2()?;
        Some(self.first_packet + u64::from(bit))
    }

    /// It went as a block, or can go in no other way.
    pub(in crate::sender) fn is_block(&self) -> bool {
        self.way == Way::Block
    }

    /// Never sent, or every packet that carried it was lost.
    pub(in crate::sender) fn is_due(&self) -> bool {
        !self.acked && self.in_flight == 0
    }

    /// Its length, if it is a whole message of which each copy was lost; else 0.
    pub(super) fn lost_bytes(&self) -> u32 {
        let is_lost = self.is_due() && self.sends > 0 && !self.is_block();
        if is_lost { self.length } else { 0 }
    }
}
