//! How far a listener is on its way out.
//!
//! ```text
//!   Serving ◀──by hand──▶ Draining ──▶ Ending ──▶ Retiring ──▶ (closed)
//!      ▲                                 │            a reload took its address away
//!      └─────────── taken back ──────────┘
//! ```
//!
//! One may be left out: a reload retires who serves, and a stop ends them. Only `Retiring` is for good.

use tidegate_proto::Timestamp;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Serving,
    /// Nobody new is taken; those who are here stay.
    Draining,
    /// Those who are here are told to go as well.
    Ending,
    /// They are, and this listener does not come back. Who is still here by `ends` is ended, once.
    Retiring { ends: Timestamp, ended: bool },
}

impl Stage {
    pub(super) fn takes_newcomers(self) -> bool {
        self == Self::Serving
    }

    /// Those who are here are told to go.
    pub(super) fn is_ending(self) -> bool {
        matches!(self, Self::Ending | Self::Retiring { .. })
    }

    /// It does not come back.
    pub(super) fn is_retiring(self) -> bool {
        matches!(self, Self::Retiring { .. })
    }

    /// Nobody new from now on, or newcomers again. Who was told to go, was; and what does not come back stays as it is.
    pub(super) fn set_draining(&mut self, draining: bool) {
        *self = match (*self, draining) {
            (Self::Serving | Self::Draining, true) => Self::Draining,
            (Self::Serving | Self::Draining | Self::Ending, false) => Self::Serving,
            (Self::Ending, true) => Self::Ending,
            (Self::Retiring { .. }, _) => *self,
        };
    }

    /// Everybody who is here is told to go from now on.
    pub(super) fn end(&mut self) {
        if !self.is_retiring() {
            *self = Self::Ending;
        }
    }

    /// The grace of one that retires is over; true once, for whom it did not end.
    pub(super) fn take_grace_over(&mut self, now: Timestamp) -> bool {
        match self {
            Self::Retiring { ends, ended } => now >= *ends && !std::mem::replace(ended, true),
            Self::Serving | Self::Draining | Self::Ending => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETIRING: Stage = Stage::Retiring {
        ends: Timestamp::ZERO,
        ended: false,
    };

    #[test]
    fn a_drain_can_be_taken_back_until_the_address_is_gone() {
        let cases = [
            (Stage::Serving, Stage::Draining, Stage::Serving),
            (Stage::Draining, Stage::Draining, Stage::Serving),
            (Stage::Ending, Stage::Ending, Stage::Serving),
            (RETIRING, RETIRING, RETIRING),
        ];
        for (stage, drained, undrained) in cases {
            for (draining, then) in [(true, drained), (false, undrained)] {
                let mut now = stage;
                now.set_draining(draining);
                assert_eq!(now, then, "{stage:?}, {draining}");
            }
        }
    }

    #[test]
    fn whoever_outstays_the_grace_is_ended_once() {
        let ends = Timestamp::from_millis(5);
        let mut stage = Stage::Retiring { ends, ended: false };
        stage.end();
        assert!(stage.is_retiring() && stage.is_ending() && !stage.takes_newcomers());
        assert!(!stage.take_grace_over(Timestamp::from_millis(4)));
        assert!(stage.take_grace_over(ends));
        assert!(!stage.take_grace_over(ends));
    }
}
