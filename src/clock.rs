//! The only place that reads a clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
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

/// When the machine began, in seconds since 1970.
pub fn boot_unix() -> u64 {
    let since = clock_gettime(ClockId::Boottime);
    wall_secs().saturating_sub(since.tv_sec.cast_unsigned())
}

/// Processor time of this process, in seconds, its own and the kernel's for it.
pub fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Both clocks of one worker, read once per turn.
#[derive(Clone, Debug)]
pub struct Clock {
    start: std::time::Instant,
    /// The calendar's lead over the other clock in whole seconds, at the last reading.
    lead_secs: u64,
    /// The last reading.
    read: Timestamp,
    step: Option<Step>,
    steps: Sightings,
    last_pause: Arc<Mutex<Option<Pause>>>,
}

/// A time in which the process did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub ended: Timestamp,
    pub took: Duration,
}

/// The calendar was set, at some time between two readings.
#[derive(Clone, Copy, Debug)]
struct Step {
    secs: i64,
    after: Timestamp,
    seen: Timestamp,
}

/// What every clone of a clock sees for itself and people are told once: until when it has been told.
#[derive(Clone, Debug, Default)]
struct Sightings(Arc<AtomicU64>);

impl Sightings {
    /// Whether nobody has told what happened between two readings. A thread that saw the same has a reading in
    /// between: all saw it happen, so their times overlap.
    fn is_first(&self, after: Timestamp, seen: Timestamp) -> bool {
        // What is not told moves nothing, or workers that starve in turn would hush each other for as long as they do.
        let tell = |told| (told <= after.as_nanos()).then_some(seen.as_nanos());
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, tell)
            .is_ok()
    }
}

impl Clock {
    /// A clock that starts now. Clones share its zero, and what of it has been told.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads clocks"
    )]
    pub fn start() -> Self {
        Self {
            start: std::time::Instant::now(),
            lead_secs: wall_secs(),
            read: Timestamp::ZERO,
            step: None,
            steps: Sightings::default(),
            last_pause: Arc::default(),
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

    /// By how many seconds the calendar was set, forward or back; once for each time, to one of the clones.
    pub fn take_step(&mut self) -> Option<i64> {
        let step = self.step.take()?;
        self.steps
            .is_first(step.after, step.seen)
            .then_some(step.secs)
    }

    /// The process did not run between two readings of the caller. Whether none of the clones was told of it.
    pub fn note_pause(&self, after: Timestamp, seen: Timestamp) -> bool {
        let mut last = self.lock_last_pause();
        // As with steps: a clone that saw the same has a reading in between.
        let is_new = last.is_none_or(|pause| pause.ended <= after);
        if is_new {
            let took = seen.since(after);
            *last = Some(Pause { ended: seen, took });
        }
        is_new
    }

    /// The last one that a clone was told of.
    pub fn last_pause(&self) -> Option<Pause> {
        *self.lock_last_pause()
    }

    fn lock_last_pause(&self) -> MutexGuard<'_, Option<Pause>> {
        self.last_pause
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn compare(&mut self, now: Now) {
        let after = std::mem::replace(&mut self.read, now.mono);
        let mono_secs = now.mono.as_nanos() / 1_000_000_000;
        let lead = now.unix_secs.saturating_sub(mono_secs);
        let secs = lead.cast_signed() - self.lead_secs.cast_signed();
        self.lead_secs = lead;
        if secs.abs() >= STEP_SECS {
            self.step = Some(Step {
                secs,
                after,
                seen: now.mono,
            });
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

    /// Two workers, each with its own readings: one says what both see, and the next event is news again.
    #[test]
    fn what_all_clones_see_is_told_by_one() {
        let mut first = Clock::start();
        let mut second = first.clone();
        let start = first.lead_secs;
        let see = |clock: &mut Clock, millis: u64, ahead: i64| {
            clock.compare(Now {
                mono: Timestamp::from_millis(millis),
                unix_secs: (start + millis / 1000).saturating_add_signed(ahead),
            });
            clock.take_step()
        };
        assert_eq!(see(&mut first, 1_000, 0), None);
        assert_eq!(see(&mut second, 1_100, 0), None);
        assert_eq!(see(&mut second, 1_200, 3_600), Some(3_600));
        assert_eq!(see(&mut first, 1_250, 3_600), None, "the same event");
        assert_eq!(see(&mut first, 1_500, 0), Some(-3_600));
        assert_eq!(
            see(&mut second, 1_450, 0),
            None,
            "told before, seen earlier"
        );
        let at = Timestamp::from_millis;
        assert!(first.note_pause(at(2_000), at(32_000)));
        assert!(!second.note_pause(at(2_100), at(32_001)));
        let pause = Pause {
            ended: at(32_000),
            took: Duration::from_secs(30),
        };
        assert_eq!(second.last_pause(), Some(pause), "what was told first");
        assert!(second.note_pause(at(32_001), at(40_000)));
        assert!(!first.note_pause(at(39_000), at(41_500)));
        assert!(
            second.note_pause(at(40_000), at(42_500)),
            "in turn, and all the time"
        );
    }
}
