//! What answers to requests may cost, all messages of a session together.
//!
//! Rule: docs/wire/rudp.md, section 6, rule 7. A reference peer asks for what it lacks on each tick until it comes: of a
//! path that loses three in ten, with a round trip of 200 ms, it asks eight times for each message that is said. So much is
//! paid for by what is said, and the rest by time.

use crate::bucket::Bucket;
use crate::time::Timestamp;

/// Bytes of answers for each byte that is said.
const PER_BYTE: f64 = 8.0;

/// Bytes of answers a second besides: some players' whole traffic.
const PER_SECOND: f64 = 64.0 * 1024.0;

/// Bytes of answers that may be saved up: as much as is under way, or lost at once, of the fastest games.
const SAVED_MAX: f64 = 1024.0 * 1024.0;

/// Bytes that may be spent on answers.
#[derive(Debug)]
pub(super) struct Budget(Bucket);

impl Budget {
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Bucket::new(now, 0.0))
    }

    /// So many bytes of new messages were sent.
    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: usize) {
        self.0.fill(now, PER_SECOND, SAVED_MAX);
        self.0.add(PER_BYTE * bytes as f64, SAVED_MAX);
    }

    /// Pays for an answer of so many bytes, which may leave a debt; false if there is nothing left to pay with. One of
    /// none is free.
    pub(super) fn pay(&mut self, now: Timestamp, bytes: usize) -> bool {
        self.0.fill(now, PER_SECOND, SAVED_MAX);
        let pays = bytes == 0 || self.0.tokens() > 0.0;
        if pays {
            self.0.spend(bytes as f64);
        }
        pays
    }
}
