//! What one turn receives: how much, of whom, and whether peers that send to one socket have to wait for each other.

/// What was received in this turn, and whether the last one could be read to the end.
#[derive(Debug, Default)]
pub(super) struct Intake {
    bytes: usize,
    heard: Heard,
    contended: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heard {
    #[default]
    Nobody,
    /// The peer of this slot.
    One(usize),
    Several,
}

impl Intake {
    /// Something came, of so many bytes.
    pub(super) fn on_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether so much came that each peer is accounted for with its datagrams, and not when it has its turn.
    pub(super) fn is_large(&self) -> bool {
        self.bytes > UNACCOUNTED_MAX
    }

    /// A datagram came from the peer of this slot; `None`: from a stranger, who wants to be heard as well.
    pub(super) fn on_datagram(&mut self, from: Option<usize>) {
        self.heard = match (self.heard, from) {
            (Heard::Nobody, Some(id)) => Heard::One(id),
            (Heard::One(one), Some(id)) if one == id => return,
            _ => Heard::Several,
        };
    }

    /// The turn is over; `unread`: datagrams are left for the next.
    pub(super) fn on_turn(&mut self, unread: bool) {
        self.contended = unread && self.heard == Heard::Several;
        self.heard = Heard::Nobody;
        self.bytes = 0;
    }

    /// In the last turn more came than was read, and not from one peer alone: a peer that takes more
    /// than its share takes it from others.
    pub(super) fn is_contended(&self) -> bool {
        self.contended
    }
}

/// A few hundred packets of players.
const UNACCOUNTED_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_two_and_more_than_a_turn_reads() {
        let cases: [(&[Option<usize>], bool, bool); 6] = [
            (&[Some(1), Some(1), Some(1)], true, false),
            (&[Some(1), Some(2)], false, false),
            (&[Some(1), Some(1), Some(2), Some(1)], true, true),
            (&[Some(1), None], true, true),
            (&[None], true, true),
            (&[], true, false),
        ];
        let mut intake = Intake::default();
        for (heard, unread, contended) in cases {
            heard.iter().for_each(|&from| intake.on_datagram(from));
            intake.on_turn(unread);
            assert_eq!(
                intake.is_contended(),
                contended,
                "{heard:?}, unread: {unread}"
            );
        }
    }
}
