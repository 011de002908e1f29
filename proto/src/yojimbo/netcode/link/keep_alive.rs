//! When the peer should hear from a link that has nothing to say.
//!
//! Rule: docs/wire/netcode.md, section 9.

use std::time::Duration;

use crate::time::Timestamp;

/// Silence after which a keep-alive is due; also the pace of handshake packets.
pub const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// Keep-alives of a link with nothing to say thin out to this. What they are for bears it: a NAT
/// forgets a mapping after 30 s at the earliest, and the far end's timeout counts in seconds.
const QUIET_INTERVAL: Duration = Duration::from_secs(1);

/// But at least so many fall into a timeout, so that losing a few in a row ends nothing.
const KEEP_ALIVES_PER_TIMEOUT: u32 = 10;

/// After so many keep-alives a session that has just said something waits as long as an idle one.
const SETTLED: u32 = 24;

/// How many keep-alives there were.
#[derive(Debug)]
pub(super) struct KeepAlives {
    /// How long a link with nothing to say waits between them.
    quiet: Duration,
    /// Since anything else was sent.
    in_a_row: u32,
    ever: u32,
}

impl KeepAlives {
    /// Of a link that gives its peer up after a silence of `timeout`.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self {
            quiet: timeout.map_or(QUIET_INTERVAL, |span| {
                (span / KEEP_ALIVES_PER_TIMEOUT).clamp(SEND_INTERVAL, QUIET_INTERVAL)
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
            self.quiet.min(SEND_INTERVAL * (1 << self.in_a_row.min(4)))
        } else {
            self.quiet
        };
        let silent = last_receive + 2 * self.quiet;
        (last_send + wait).min(soon.max(silent))
    }
}
