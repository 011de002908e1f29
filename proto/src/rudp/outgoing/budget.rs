//! What answers to requests may cost, all messages of a session together.
//!
//! Rule: docs/wire/rudp.md, section 6, rule 7. A reference peer asks for what it lacks on each tick until it comes: of a
//! path that loses three in ten, with a round trip of 200 ms, it asks eight times for each message that is said. So much is
//! paid for by what is said, and the rest by time.

use crate::bucket::Bucket;
use crate::time::Timestamp;

/// What fills a budget, in bytes.
#[derive(Debug)]
struct Income {
    /// For each byte that is said.
    per_byte: f64,
    per_second: f64,
    /// No more is saved up.
    saved_max: f64,
}

/// For all answers: a second's are some players' whole traffic, and saved up is as much as is under way, or lost at once,
/// of the fastest games.
const ANSWERS: Income = Income {
    per_byte: 8.0,
    per_second: 64.0 * 1024.0,
    saved_max: 1024.0 * 1024.0,
};

/// For those of a message of which the last one may still arrive. Where much is lost such copies save a round trip, and
/// small messages cost nothing, but a thin line would carry them instead of what is said.
const COPIES: Income = Income {
    per_byte: 0.5,
    per_second: 4.0 * 1024.0,
    saved_max: 16.0 * 1024.0,
};

/// Bytes that may be spent.
#[derive(Debug)]
pub(super) struct Budget {
    bucket: Bucket,
    income: &'static Income,
}

impl Budget {
    pub(super) fn for_answers(now: Timestamp) -> Self {
        Self::new(now, &ANSWERS)
    }

    pub(super) fn for_copies(now: Timestamp) -> Self {
        Self::new(now, &COPIES)
    }

    fn new(now: Timestamp, income: &'static Income) -> Self {
        Self {
            bucket: Bucket::new(now, 0.0),
            income,
        }
    }

    /// So many bytes of new messages were sent.
    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: usize) {
        self.fill(now);
        let more = self.income.per_byte * bytes as f64;
        self.bucket.add(more, self.income.saved_max);
    }

    /// Pays for an answer of so many bytes, which may leave a debt; false if there is nothing left to pay with. One of
    /// none is free.
    pub(super) fn pay(&mut self, now: Timestamp, bytes: usize) -> bool {
        self.fill(now);
        let pays = bytes == 0 || self.bucket.tokens() > 0.0;
        if pays {
            self.bucket.spend(bytes as f64);
        }
        pays
    }

    fn fill(&mut self, now: Timestamp) {
        self.bucket
            .fill(now, self.income.per_second, self.income.saved_max);
    }
}
