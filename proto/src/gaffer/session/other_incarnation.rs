//! A peer that was started anew and counts from elsewhere.
//!
//! Some packets in a row, each the one after the last, show it; believed only when they acknowledge what we sent lately,
//! which a forger off the path can only guess, and, from outside the window, when this incarnation has been silent for
//! a while.

/// What was seen of another one.
#[derive(Debug, Default)]
pub(super) struct OtherIncarnation {
    next: u32,
    run: u8,
}

impl OtherIncarnation {
    /// A packet that does not fit what came before; `is_recent`: it acknowledges what we sent lately. Whether it is the
    /// last that it takes.
    pub(super) fn is_shown_by(&mut self, sequence: u32, is_recent: bool) -> bool {
        self.run = match is_recent {
            true if self.run > 0 && sequence == self.next => RUN.min(self.run + 1),
            is_recent => is_recent.into(),
        };
        self.next = sequence.wrapping_add(1);
        self.run >= RUN
    }
}

const RUN: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// While this incarnation is heard, the other one may go on for as long as it likes.
    #[test]
    fn a_run_may_be_long() {
        let mut other = OtherIncarnation::default();
        let shows = |sequence| other.is_shown_by(sequence, true);
        let shown: Vec<bool> = (u32::MAX - 2..=u32::MAX).chain(0..300).map(shows).collect();
        assert_eq!(shown[..4], [false, false, false, true]);
        assert!(shown[4..].iter().all(|shown| *shown));
        assert!(!other.is_shown_by(999, true), "another run");
        assert!(!other.is_shown_by(1_000, false), "anybody's");
    }
}
