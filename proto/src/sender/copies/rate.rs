//! How many bytes a second copies may take: what a path has room for beside the rest. Nobody knows it before, so
//! it doubles while it is all taken, and goes back when a queue shows.
//!
//! ```text
//!   rate        ╭─ a queue shows: no copies until it is gone, then half of what they took
//!      │      ╭─╯│
//!      │   ╭──╯  │        ╭─────╮        ╭─
//!      │ ──╯     ╰────────╯     ╰────────╯   growing slowly from then on
//!      └────────────────────────────────────▶
//! ```
//!
//! The budget for copies is a share of what they protect, whatever the path: on a thin one they would be the queue.
//! A peer that repeats by its own clock, as clients of yojimbo's library do, then repeats everything, and fills the
//! way back for good.

use std::time::Duration;

use crate::bucket::Bucket;
use crate::time::Timestamp;

/// The rate of copies on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyRate {
    /// Bytes a second.
    rate: f64,
    tokens: Bucket,
    /// A copy found no token since the rate last grew.
    is_short: bool,
    /// A queue showed once: the rate is about right.
    is_found: bool,
    grown_at: Timestamp,
    taken: Taken,
    /// No copies before that: a queue showed.
    paused_until: Timestamp,
    /// A queue that shows before that was counted.
    settled_at: Timestamp,
}

impl CopyRate {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            rate: RATE_AT_FIRST,
            tokens: Bucket::new(now, RATE_AT_FIRST * AT_ONCE),
            is_short: false,
            is_found: false,
            grown_at: now,
            taken: Taken {
                bytes: 0.0,
                at: now,
            },
            paused_until: now,
            settled_at: now,
        }
    }

    /// Time passed. `rtt`: how long the path takes to answer.
    pub(super) fn fill(&mut self, now: Timestamp, rtt: Duration) {
        let since = now.since(self.grown_at).min(GROWS_FOR_MAX);
        self.grown_at = now;
        if std::mem::take(&mut self.is_short) {
            let doubles_in = if self.is_found {
                DOUBLES_SLOWLY
            } else {
                (6 * rtt).max(DOUBLES_MIN)
            };
            let doublings = since.as_secs_f64() / doubles_in.as_secs_f64();
            self.rate = (self.rate * doublings.exp2()).min(RATE_MAX);
        }
        self.tokens.fill(now, self.rate, self.at_once());
        self.is_short |= !self.is_found && self.fullness() < 1.0;
    }

    /// Whether a copy may go. To be asked for one that is worth it: when there is no token, the rate is too low.
    pub(super) fn allows(&mut self) -> bool {
        let allows = self.tokens.tokens() > 0.0;
        self.is_short |= !allows;
        allows
    }

    /// Whether a copy may go in an outage, in which everything is worth it: until a queue showed once, nothing
    /// limits it.
    pub(super) fn allows_in_outage(&self) -> bool {
        !self.is_found || self.tokens.tokens() > 0.0
    }

    /// A copy of so many bytes goes.
    pub(super) fn spend(&mut self, now: Timestamp, bytes: usize) {
        self.tokens.spend(bytes as f64);
        self.taken.add(now, bytes);
    }

    /// A copy of so many bytes goes in an outage. What nothing limits leaves no debt, which would be missed afterwards.
    pub(super) fn spend_in_outage(&mut self, now: Timestamp, bytes: usize) {
        if self.is_found {
            self.tokens.spend(bytes as f64);
        }
        self.taken.add(now, bytes);
    }

    /// How many of the tokens are left, from 0 to 1.
    pub(super) fn fullness(&self) -> f64 {
        let enough = if self.is_found { 1.0 } else { 0.5 } * self.at_once();
        (self.tokens.tokens() / enough).clamp(0.0, 1.0)
    }

    fn at_once(&self) -> f64 {
        (self.rate * AT_ONCE).max(BURST_MIN)
    }

    /// A queue showed within the last round trip.
    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        now < self.paused_until
    }

    /// A queue shows, while many copies go. `rtt`: how long the path takes to answer.
    pub(super) fn on_queue(&mut self, now: Timestamp, rtt: Duration) {
        self.paused_until = now + rtt;
        if now < self.settled_at {
            return;
        }
        self.settled_at = now + 4 * rtt;
        self.rate = (0.5 * self.rate.min(self.taken.rate(now))).max(RATE_MIN);
        self.is_found = true;
    }
}

/// What copies took lately.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Forgotten within [`Taken::FORGOTTEN_IN`].
    bytes: f64,
    at: Timestamp,
}

impl Taken {
    /// In seconds: a few packets of a game.
    const FORGOTTEN_IN: f64 = 0.3;

    fn add(&mut self, now: Timestamp, bytes: usize) {
        self.bytes = self.lately(now) + bytes as f64;
        self.at = now;
    }

    fn lately(&self, now: Timestamp) -> f64 {
        let age = now.since(self.at).as_secs_f64();
        self.bytes * (-age / Self::FORGOTTEN_IN).exp()
    }

    /// Bytes a second.
    fn rate(&self, now: Timestamp) -> f64 {
        self.lately(now) / Self::FORGOTTEN_IN
    }
}

/// What the thinnest path of a game carries beside it: 32 kbit/s.
const RATE_AT_FIRST: f64 = 4_000.0;

/// One message each tenth of a second or so.
const RATE_MIN: f64 = 1_000.0;

/// Far above what any game repeats.
const RATE_MAX: f64 = 1e6;

/// The burst: what the rate brings in this many seconds may go at once.
const AT_ONCE: f64 = 0.1;

/// Whatever the rate, a few short messages may.
const BURST_MIN: f64 = 600.0;

/// While the rate is searched for, it doubles in six round trips, and no sooner: a queue is felt two round trips
/// after it began, and by then an eighth more is sent.
const DOUBLES_MIN: Duration = Duration::from_millis(500);

/// Later it creeps: going beyond costs a queue each time.
const DOUBLES_SLOWLY: Duration = Duration::from_secs(10);

/// A silence is no time in which the rate was too low.
const GROWS_FOR_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    /// Milliseconds in which as many copies of 100 bytes go as may; the bytes that went.
    fn play(rate: &mut CopyRate, millis: std::ops::Range<u64>) -> u64 {
        let mut bytes = 0;
        for now in millis.map(Timestamp::from_millis) {
            rate.fill(now, RTT);
            while !rate.is_paused(now) && rate.allows() {
                rate.spend(now, 100);
                bytes += 100;
            }
        }
        bytes
    }

    #[test]
    fn it_doubles_while_it_is_all_taken_and_stays_otherwise() {
        let mut rate = CopyRate::new(Timestamp::ZERO);
        let early = play(&mut rate, 0..1_000);
        let later = play(&mut rate, 1_000..4_000);
        assert!(later > 15 * early, "{early} bytes, then {later}");
        let found = rate.rate;
        for at in 4_000..8_000 {
            rate.fill(Timestamp::from_millis(at), RTT);
        }
        assert_eq!(rate.rate, found, "nobody asked for more");
    }

    #[test]
    fn a_queue_stops_them_and_halves_what_they_took() {
        let mut rate = CopyRate::new(Timestamp::ZERO);
        play(&mut rate, 0..3_000);
        let before = rate.rate;
        rate.on_queue(Timestamp::from_millis(3_000), RTT);
        assert_eq!(play(&mut rate, 3_000..3_050), 0);
        // The same queue, seen again, says nothing new.
        rate.on_queue(Timestamp::from_millis(3_050), RTT);
        let after = rate.rate;
        assert!(
            (0.3 * before..=0.5 * before).contains(&after),
            "{before}: {after}"
        );
        play(&mut rate, 3_100..8_100);
        assert!(rate.rate < 1.5 * after, "{after}, then {}", rate.rate);
    }
}
