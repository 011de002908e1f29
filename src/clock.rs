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
#[derive(Clone, Debug)]
pub struct Clock {
    start: std::time::Instant,
    /// The calendar's lead over the other clock in whole seconds, at the last reading.
    lead_secs: u64,
    step_secs: Option<i64>,
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
            lead_secs: wall_secs(),
            step_secs: None,
        }
    }

    /// The time of this turn.
    pub fn now(&mut self) -> Now {
        let now = Now {
            mono: Timestamp::from_nanos(self.start.elapsed().as_nanos() as u64),
            unix_secs: wall_secs(),
        };
        self.compare(now);
        now
    }

    /// By how many seconds the calendar was set, forward or back; once for each time.
    pub fn take_step(&mut self) -> Option<i64> {
        self.step_secs.take()
    }

    fn compare(&mut self, now: Now) {
        let mono_secs = now.mono.as_nanos() / 1_000_000_000;
        let lead = now.unix_secs.saturating_sub(mono_secs);
        let step = lead.cast_signed() - self.lead_secs.cast_signed();
        self.lead_secs = lead;
        if step.abs() >= STEP_SECS {
            self.step_secs = Some(step);
        }
    }
}

/// What people are told of. Less is a clock that is adjusted, and tokens have more patience than that.
const STEP_SECS: i64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calendar_that_is_set_is_told_once_and_one_that_drifts_is_not() {
        let mut clock = Clock::start();
        let start = clock.lead_secs;
        let mut told = |mono_secs: u64, ahead: i64| {
            clock.compare(Now {
                mono: Timestamp::from_millis(mono_secs * 1000),
                unix_secs: (start + mono_secs).saturating_add_signed(ahead),
            });
            (clock.take_step(), clock.take_step())
        };
        for day in 0..20_u64 {
            let drift = day.cast_signed();
            assert_eq!(told(day * 86_400, drift), (None, None), "day {day}");
        }
        assert_eq!(told(2_000_000, 7_219), (Some(7_200), None));
        assert_eq!(told(2_000_001, 7_219), (None, None));
        assert_eq!(told(2_000_002, 19), (Some(-7_200), None));
    }
}
