//! When a message has waited for so long that it is not held up by chance.

use std::time::Duration;

use super::outbox::Entry;
use crate::time::Timestamp;

/// Everything behind a message waits for it, longer and after more times than by chance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Times that it went.
    pub(super) times: u8,
    after: Duration,
}

/// The message may be in step with a path that loses in turn. It may be chance as well, where every second packet is lost;
/// then one packet more is no harm, as there is one oldest message only.
pub(super) const IN_STEP: Patience = Patience {
    times: 4,
    after: Duration::from_millis(250),
};

/// The path may take nothing that is as long as the packets it went in. Where every second packet is lost, some go as often,
/// with their copies, but none waits as long.
pub(super) const TOO_LONG: Patience = Patience {
    times: 6,
    after: Duration::from_secs(3),
};

impl Patience {
    /// Every second time counts: those between go as they went before.
    pub(super) fn has_waited(self, entry: &Entry, now: Timestamp) -> bool {
        entry.sends >= self.times
            && entry.sends.is_multiple_of(2)
            && entry.in_flight <= 1
            && now.since(entry.pushed_at) >= self.after
    }
}
