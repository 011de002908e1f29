//! The only place that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

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
