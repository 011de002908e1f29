//! Progress of the one block that may be under way in a lane: which fragments the peer has.

/// What is known of one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unsent,
    InFlight,
    Lost,
    Acked,
}

/// Fragments of the block at the front of a lane.
#[derive(Debug)]
pub(super) struct Block {
    fragments: Vec<State>,
    acked: u16,
    /// Fragments unsent or lost.
    due: u16,
    /// No fragment below this is due.
    first_due: u16,
}

impl Block {
    /// A block of `count` fragments, none sent.
    pub(super) fn new(count: u16) -> Self {
        Self {
            fragments: vec![State::Unsent; usize::from(count)],
            acked: 0,
            due: count,
            first_due: 0,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.due > 0
    }

    /// The lowest fragment that is unsent or lost.
    pub(super) fn next_due(&mut self) -> Option<u16> {
        while let Some(state) = self.fragments.get(usize::from(self.first_due)) {
            if matches!(state, State::Unsent | State::Lost) {
                return Some(self.first_due);
            }
            self.first_due += 1;
        }
        None
    }

    pub(super) fn on_sent(&mut self, fragment: u16) {
        if let Some(state) = self.fragments.get_mut(usize::from(fragment))
            && *state != State::Acked
        {
            self.due -= u16::from(*state != State::InFlight);
            *state = State::InFlight;
        }
    }

    pub(super) fn on_lost(&mut self, fragment: u16) {
        if let Some(state) = self.fragments.get_mut(usize::from(fragment))
            && *state == State::InFlight
        {
            *state = State::Lost;
            self.due += 1;
            self.first_due = self.first_due.min(fragment);
        }
    }

    /// True once the peer has every fragment.
    pub(super) fn on_acked(&mut self, fragment: u16) -> bool {
        if let Some(state) = self.fragments.get_mut(usize::from(fragment))
            && *state != State::Acked
        {
            self.due -= u16::from(matches!(state, State::Unsent | State::Lost));
            *state = State::Acked;
            self.acked += 1;
        }
        usize::from(self.acked) == self.fragments.len()
    }

    /// The lowest fragment under way goes again (a probe: nothing was heard for too long).
    pub(super) fn probe(&mut self) {
        if let Some(at) = self
            .fragments
            .iter()
            .position(|state| *state == State::InFlight)
        {
            self.on_lost(at as u16);
        }
    }
}
