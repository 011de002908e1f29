//! Answers to a listener's probe, which let us in.
//!
//! Rule: docs/wire/rudp.md, section 6, 1 and 2.

/// Ids that a probe asked for, each to be said twice.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// To be said now.
    due: Vec<u16>,
    /// Said once. A path may lose every other datagram, and of two of ours, one asks and the other answers, or one answers
    /// and the other carries a message: so the next one answers as well.
    said: Vec<u16>,
    /// To be said again with what leaves.
    again: Vec<u16>,
    /// How often more something is said, in all.
    left: u8,
}

impl Echoes {
    /// Gives `most` of them away, of which two are one id's.
    pub(super) fn new(most: u8) -> Self {
        Self {
            left: most,
            ..Self::default()
        }
    }

    /// Whether another one is given away.
    pub(super) fn are_left(&self) -> bool {
        self.left > 0
    }

    /// A probe asked for this id.
    pub(super) fn push(&mut self, id: u16) {
        self.left = self.left.saturating_sub(2);
        self.due.push(id);
    }

    /// Whether something is worth an output of its own.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// A datagram leaves behind the one that said them.
    pub(super) fn say_again(&mut self) {
        self.again.append(&mut self.said);
    }

    /// The next one of this datagram.
    pub(super) fn next(&self) -> Option<u16> {
        self.due.last().or(self.again.last()).copied()
    }

    /// That one is written.
    pub(super) fn on_said(&mut self) {
        match self.due.pop() {
            Some(id) => self.said.push(id),
            None => {
                self.again.pop();
            }
        }
    }
}
