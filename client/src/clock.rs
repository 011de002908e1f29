//! The only place that reads a clock.

use std::time::Instant;

use tidegate_proto::{Now, Timestamp};

/// Time since its start, as the machines want it.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads clocks"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The present reading. A client needs no calendar: it counts a token's life from when it got
    /// the token, so that a wrong date on the player's machine does no harm.
    pub fn now(&self) -> Now {
        Now {
            mono: Timestamp::from_nanos(self.0.elapsed().as_nanos() as u64),
            unix_secs: 0,
        }
    }
}
