//! The only place that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_proto::{Now, Timestamp};
use tokio::time::Instant;

/// The monotonic clock; tokio's, so that tests can pause it.
pub fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, for what is dated by the calendar: connect tokens and log lines.
pub fn wall_secs() -> u64 {
    wall_nanos() / 1_000_000_000
}

/// Nanoseconds since 1970; 0 on a machine that thinks it is earlier.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that reads clocks"
)]
pub fn wall_nanos() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

/// When the machine began, in seconds since 1970, as a process sees it that has just begun itself: it
/// knows its own start in ticks since then. 0 where the system does not say.
pub fn boot_unix() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may hold anything. proc(5) counts from 1: the start is field 22.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: Option<u64> = after_name
        .split_whitespace()
        .nth(22 - 3)
        .and_then(|field| field.parse().ok());
    ticks.map_or(0, |ticks| wall_secs().saturating_sub(ticks / USER_HZ))
}

/// Ticks a second, on every Linux there is.
const USER_HZ: u64 = 100;

/// Both clocks of one worker, read once per turn.
///
/// The calendar never steps back: a token that has expired stays expired.
#[derive(Clone, Debug)]
pub struct Clock {
    start: std::time::Instant,
    unix_secs: u64,
}

impl Clock {
    /// A clock that starts now. Clones share its zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads clocks"
    )]
    pub fn start() -> Self {
        Self {
            start: std::time::Instant::now(),
            unix_secs: wall_secs(),
        }
    }

    /// The time of this turn.
    pub fn now(&mut self) -> Now {
        self.unix_secs = self.unix_secs.max(wall_secs());
        Now {
            mono: Timestamp::from_nanos(self.start.elapsed().as_nanos() as u64),
            unix_secs: self.unix_secs,
        }
    }
}
