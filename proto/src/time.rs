//! Time as an input: what the owner of a session read from its clocks, and when to come back.
//!
//! Nothing in this crate reads a clock. The owner reads both clocks once per wake-up and passes the
//! reading down by value, so that one turn has one time and a test can write it as a constant.

use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since the owner's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The owner's start.
    pub const ZERO: Self = Self(0);
    /// Later than any deadline.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds after the owner's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `millis` milliseconds after the owner's start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Nanoseconds since the owner's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time since `earlier`, for sums; none when `earlier` is in fact later.
    pub(crate) const fn span_since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

/// A length of time in nanoseconds, for sums that every packet makes: [`Duration`] counts seconds apart from what is
/// less than one, and is several times as long about each sum and each comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// No time.
    pub(crate) const ZERO: Self = Self(0);
    /// 584 years.
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) const fn from_millis(millis: u32) -> Self {
        Self(millis as u64 * 1_000_000)
    }

    pub(crate) const fn from_micros(micros: u32) -> Self {
        Self(micros as u64 * 1_000)
    }

    /// Whole microseconds; 71 minutes count for more.
    pub(crate) fn as_micros(self) -> u32 {
        u32::try_from(self.0 / 1_000).unwrap_or(u32::MAX)
    }

    pub(crate) const fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// To the nearest nanosecond; none of a negative number of seconds.
    pub(crate) const fn from_secs(secs: f64) -> Self {
        Self((secs * 1e9 + 0.5) as u64)
    }
}

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Span {
    type Output = Self;

    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Timestamp {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;

    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

/// One reading of both clocks, taken once per wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For everything that measures or waits.
    pub mono: Timestamp,
    /// Seconds since 1970. Only connect tokens look at this: their expiry is a calendar time.
    pub unix_secs: u64,
}

impl Now {
    /// The reading `span` later on both clocks.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let mono = self.mono + span;
        let secs = mono.as_nanos() / 1_000_000_000 - self.mono.as_nanos() / 1_000_000_000;
        Self {
            mono,
            unix_secs: self.unix_secs + secs,
        }
    }

    /// What the calendar, as it is now, says at another time, before or after.
    pub fn unix_at(self, mono: Timestamp) -> f64 {
        let ahead = mono.as_nanos() as f64 - self.mono.as_nanos() as f64;
        self.unix_secs as f64 + (ahead / 1e9).round()
    }
}

/// When a session next wants `handle_timeout`, and which of its clocks asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The time to come back, not earlier.
    pub at: Timestamp,
    /// Answers most "why does it spin" questions.
    pub why: Wake,
}

impl Deadline {
    /// The deadline of a clock, if it runs.
    pub fn of(at: Option<Timestamp>, why: Wake) -> Option<Self> {
        at.map(|at| Self { at, why })
    }

    /// The earliest of deadlines that may not exist; of several at once the first.
    pub fn earliest<const N: usize>(deadlines: [Option<Self>; N]) -> Option<Self> {
        let mut earliest: Option<Self> = None;
        for deadline in deadlines {
            if let Some(Self { at, .. }) = deadline
                && earliest.is_none_or(|earliest| at < earliest.at)
            {
                earliest = deadline;
            }
        }
        earliest
    }
}

/// Which of a session's clocks wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// A handshake step is sent again, or given up.
    Handshake,
    /// An acknowledgement is owed.
    Ack,
    /// A packet may leave now: the rate has a token again.
    SendSlot,
    /// Something sent is overdue: probe or resend.
    Resend,
    /// Silence has lasted long enough that the peer should hear from us.
    KeepAlive,
    /// The peer has been silent for too long.
    Idle,
    /// A closing session stops waiting for its last acknowledgements.
    Linger,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards_or_overflows() {
        let start = Timestamp::from_millis(5);
        assert_eq!(start.since(Timestamp::from_millis(7)), Duration::ZERO);
        assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
        assert_eq!(Timestamp::ZERO - Duration::from_secs(1), Timestamp::ZERO);
    }

    #[test]
    fn the_calendar_follows_the_monotonic_clock() {
        let now = Now {
            mono: Timestamp::from_millis(900),
            unix_secs: 100,
        };
        assert_eq!(now.after(Duration::from_millis(200)).unix_secs, 101);
        assert_eq!(now.after(Duration::from_millis(50)).unix_secs, 100);
    }

    #[test]
    fn the_earliest_deadline_wins() {
        let soon = Deadline {
            at: Timestamp::from_millis(1),
            why: Wake::Idle,
        };
        let late = Deadline {
            at: Timestamp::from_millis(2),
            why: Wake::Ack,
        };
        assert_eq!(
            Deadline::earliest([Some(late), None, Some(soon)]),
            Some(soon)
        );
        assert_eq!(Deadline::earliest([None, Some(late)]), Some(late));
        assert_eq!(Deadline::earliest([None, None]), None);
    }
}
