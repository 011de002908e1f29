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
    /// No newcomers are taken; peers that are here stay.
    Draining,
    /// Peers that are here are told to go as well.
    Ending,
    /// Peers are told to go, and the listener does not come back. Sessions that are left at `ends` are ended, once.
    Retiring { ends: Timestamp, ended: bool },
}

impl Stage {
    pub(super) fn takes_newcomers(self) -> bool {
        self == Self::Serving
    }

    /// Peers that are here are told to go.
    pub(super) fn is_ending(self) -> bool {
        matches!(self, Self::Ending | Self::Retiring { .. })
    }

    /// How much is done in a turn for sessions that are over: `usual`, behind those who play. Where all are told to go,
    /// nobody is kept waiting.
    pub(super) fn partings(self, usual: usize) -> usize {
        match self.is_ending() {
            true => usize::MAX,
            false => usual,
        }
    }

    /// The listener does not come back.
    pub(super) fn is_retiring(self) -> bool {
        matches!(self, Self::Retiring { .. })
    }

    /// Stops taking newcomers, or takes them again. It changes nothing for peers that were told to go.
    pub(super) fn set_draining(&mut self, draining: bool) {
        *self = match (*self, draining) {
            (Self::Serving | Self::Draining, true) => Self::Draining,
            (Self::Serving | Self::Draining | Self::Ending, false) => Self::Serving,
            (Self::Ending, true) => Self::Ending,
            (Self::Retiring { .. }, _) => *self,
        };
    }

    /// From now on, peers that are here are told to go.
    pub(super) fn end(&mut self) {
        if !self.is_retiring() {
            *self = Self::Ending;
        }
    }

    /// Whether the grace of a retiring listener is over; true once, to end the sessions that are left.
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
    fn who_is_told_to_go_is_not_kept_waiting() {
        let cases = [
            (Stage::Serving, true, false),
            (Stage::Draining, false, false),
            (Stage::Ending, false, true),
            (RETIRING, false, true),
        ];
        for (stage, takes_newcomers, is_ending) in cases {
            assert_eq!(stage.takes_newcomers(), takes_newcomers, "{stage:?}");
            assert_eq!(stage.is_ending(), is_ending, "{stage:?}");
            let at_once = if is_ending { usize::MAX } else { 7 };
            assert_eq!(stage.partings(7), at_once, "{stage:?}");
            let mut ended = stage;
            ended.end();
            let end = if stage == RETIRING {
                RETIRING
            } else {
                Stage::Ending
            };
            assert_eq!(ended, end, "{stage:?}");
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
