//! One address of a target: what checks and connects found there, and whether it is left alone.

use std::time::Duration;

use tidegate_proto::Timestamp;

use super::Address;
use crate::config::Health;

/// A server in the balance. A name may stand for several.
#[derive(Debug)]
pub(super) struct Place {
    /// Told apart from whatever had the same address before.
    pub(super) number: u32,
    /// None while its name was never found.
    pub(super) address: Option<Address>,
    /// Streams open or being opened.
    pub(super) streams: u32,
    /// The name no longer stands for it: it stays for its streams alone.
    pub(super) gone: bool,
    /// What the checks say.
    up: bool,
    /// A check has found it once.
    reached: bool,
    /// Checks in a row that said otherwise.
    run: u32,
    /// Connects that failed since the last that did not.
    failures: u32,
    /// With the breaker open: nobody tries before this.
    rests_until: Timestamp,
    /// Streams that were ended from there since the last check.
    ended: u32,
    /// They were many, and so many more checks are to say whether somebody is there.
    looks: u8,
    /// Nobody was there, and no check has found anybody since: more streams may end with the same crash.
    crashed: bool,
}

impl Place {
    /// A place that was not tried yet.
    pub(super) fn new(number: u32, address: Option<Address>, up: bool) -> Self {
        Self {
            number,
            address,
            streams: 0,
            gone: false,
            up,
            reached: false,
            run: 0,
            failures: 0,
            rests_until: Timestamp::ZERO,
            ended: 0,
            looks: 0,
            crashed: false,
        }
    }

    /// Whether somebody should be sent there.
    pub(super) fn is_usable(&self, now: Timestamp) -> bool {
        self.up && self.address.is_some() && self.may_be_tried(now)
    }

    /// Whether somebody may be sent there where all others are no better.
    pub(super) fn may_be_tried(&self, now: Timestamp) -> bool {
        !self.gone && self.rests_until <= now
    }

    /// Whether it takes connections, as far as is known: from the checks or, without them, from those
    /// who came.
    pub(super) fn is_well(&self, checked: bool) -> bool {
        self.up && (checked || self.failures < BREAKER_FAILURES)
    }

    /// Somebody is on the way. With the breaker open, or down by the checks, this connect is the probe;
    /// the next one waits for its turn.
    pub(super) fn on_tried(&mut self, now: Timestamp) {
        self.streams += 1;
        if self.is_doubtful() {
            self.rests_until = now + BREAKER_REST;
        }
    }

    /// A connect succeeded.
    pub(super) fn on_connected(&mut self) {
        self.failures = 0;
        self.rests_until = Timestamp::ZERO;
    }

    /// A connect failed: its stream is gone.
    pub(super) fn on_failed(&mut self, now: Timestamp) {
        self.on_closed();
        self.failures = self.failures.saturating_add(1);
        if self.is_doubtful() {
            self.rests_until = now + BREAKER_REST;
        }
    }

    /// A stream is gone.
    pub(super) fn on_closed(&mut self) {
        self.streams = self.streams.saturating_sub(1);
    }

    /// A stream was ended from there. True when that makes them many, which it does once between two checks.
    pub(super) fn on_ended(&mut self) -> bool {
        self.ended = self.ended.saturating_add(1);
        let are_many = self.ended > CRASH_STREAMS && self.ended > self.streams / CRASH_PART;
        let is_news = are_many && self.looks == 0;
        if is_news {
            self.looks = LOOKS;
        }
        is_news
    }

    /// Whether they were many of late, and this check is one of those that are to say why.
    pub(super) fn take_suspicion(&mut self) -> bool {
        self.ended = 0;
        let suspected = self.is_suspect();
        self.looks = self.looks.saturating_sub(1);
        suspected
    }

    /// Whether another check is to say why.
    pub(super) fn is_suspect(&self) -> bool {
        self.looks > 0
    }

    /// A check that was to say whether somebody is there found nobody. True of the first since it was there.
    pub(super) fn on_crash(&mut self) -> bool {
        self.looks = 0;
        !std::mem::replace(&mut self.crashed, true)
    }

    /// It is down after some failures in a row, and up again after some successes. Until it has been
    /// reached once, a single answer decides: nobody is ready in front of a server that never was
    /// there, and nobody waits for one that has just started.
    pub(super) fn on_checked(&mut self, well: bool, health: &Health) {
        self.run = if well == self.up { 0 } else { self.run + 1 };
        let needed = match (self.reached, self.up) {
            (false, _) => 1,
            (true, true) => health.down_after,
            (true, false) => health.up_after,
        };
        self.reached |= well;
        self.crashed &= !well;
        if self.run >= needed {
            (self.up, self.run) = (well, 0);
        }
    }

    /// Checks are off from now on: what the last ones found no longer counts.
    pub(super) fn forget_checks(&mut self) {
        (self.up, self.reached, self.run) = (true, false, 0);
        (self.ended, self.looks, self.crashed) = (0, 0, false);
    }

    fn is_doubtful(&self) -> bool {
        self.failures >= BREAKER_FAILURES || !self.up
    }
}

/// More streams than this that end between two checks, and more than one in [`CRASH_PART`] of those that there are, look
/// like a crash. Those that ended are among them for a moment longer. The alert TidegateBackendCrashed counts alike.
const CRASH_STREAMS: u32 = 10;
const CRASH_PART: u32 = 3;
/// The kernel closes what a killed program had open one by one, and may close what it listened on last.
const LOOKS: u8 = 3;

/// Failures in a row that open the breaker.
pub(super) const BREAKER_FAILURES: u32 = 5;
/// With the breaker open, a connect is tried this often.
const BREAKER_REST: Duration = Duration::from_secs(1);
