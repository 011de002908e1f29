//! When the peer should hear from a link that has nothing to say.
//!
//! Rule: docs/wire/netcode.md, section 9.

use std::time::Duration;

use crate::time::{Span, Timestamp};

/// Silence after which a keep-alive is due; also the pace of handshake packets.
pub const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// Keep-alives of a link with nothing to say thin out to this. What they are for bears it: a NAT
/// forgets a mapping after 30 s at the earliest, and the far end's timeout counts in seconds.
const QUIET_INTERVAL: Span = Span::from_millis(1_000);

/// But at least so many fall into a timeout, so that losing a few in a row ends nothing.
const KEEP_ALIVES_PER_TIMEOUT: u64 = 10;

/// After so many keep-alives a session that has just said something waits as long as an idle one.
const SETTLED: u32 = 24;

/// How many keep-alives there were.
#[derive(Debug)]
pub(super) struct KeepAlives {
    /// How long a link with nothing to say waits between them.
    quiet: Span,
    /// Since anything else was sent.
    in_a_row: u32,
    ever: u32,
}

impl KeepAlives {
    /// Of a link that gives its peer up after a silence of `timeout`.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self {
            quiet: timeout.map_or(QUIET_INTERVAL, |span| {
                let few = Span::from(span) / KEEP_ALIVES_PER_TIMEOUT;
                few.clamp(SEND_INTERVAL.into(), QUIET_INTERVAL)
            }),
            in_a_row: 0,
            ever: 0,
        }
    }

    /// One leaves.
    pub(super) fn on_sent(&mut self) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.ever = self.ever.saturating_add(1);
    }

    /// Something else leaves.
    pub(super) fn on_payload(&mut self) {
        self.in_a_row = 0;
    }

    /// After 0.1 s, as the reference, until the peer is known to be there (`last_receive`) and whenever
    /// it has fallen silent itself: what keeps its packets from us may keep ours from it. Else each
    /// keep-alive in a row waits twice as long as the one before it, until the session has lasted:
    /// who says something now and then is no more in doubt than who says nothing.
    pub(super) fn due_at(
        &self,
        last_send: Timestamp,
        last_receive: Option<Timestamp>,
    ) -> Timestamp {
        let soon = last_send + SEND_INTERVAL;
        let Some(last_receive) = last_receive else {
            return soon;
        };
        let wait = if self.ever < SETTLED {
            self.quiet
                .min(Span::from(SEND_INTERVAL) * (1 << self.in_a_row.min(4)))
        } else {
            self.quiet
        };
        let silent = last_receive + self.quiet * 2;
        (last_send + wait).min(soon.max(silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Milliseconds from a keep-alive to the next one, to a peer that was heard at `heard`.
    fn wait(keep_alives: &KeepAlives, heard: Option<u64>) -> u128 {
        let due = keep_alives.due_at(at(60_000), heard.map(at));
        due.since(at(60_000)).as_millis()
    }

    #[test]
    fn ten_at_least_fall_into_a_timeout() {
        for (timeout, thinnest) in [
            (None, 1000),
            (Some(60_000), 1000),
            (Some(5_000), 500),
            (Some(500), 100),
        ] {
            let timeout = timeout.map(Duration::from_millis);
            let mut keep_alives = KeepAlives::new(timeout);
            for expected in [100, 200, 400, 800, 1600, 1600] {
                assert_eq!(wait(&keep_alives, None), 100, "who is not there yet");
                let waits = wait(&keep_alives, Some(60_000));
                assert_eq!(waits, expected.min(thinnest), "{timeout:?}");
                keep_alives.on_sent();
            }
            // Whoever falls silent hears more of us.
            let silent = 60_000 - 2 * thinnest as u64;
            assert_eq!(wait(&keep_alives, Some(silent)), 100);
            assert_eq!(wait(&keep_alives, Some(silent + 150)), thinnest.min(150));
        }
    }

    #[test]
    fn a_session_that_has_lasted_begins_no_more_with_a_short_wait() {
        let mut keep_alives = KeepAlives::new(None);
        for sent in 0..2 * SETTLED {
            keep_alives.on_payload();
            let expected = if sent < SETTLED { 100 } else { 1000 };
            assert_eq!(wait(&keep_alives, Some(60_000)), expected, "{sent}");
            keep_alives.on_sent();
        }
    }
}
