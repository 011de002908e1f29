//! What one peer may send: integer token buckets, a subtraction per datagram.

use tidegate_proto::{Reject, Timestamp};

use crate::config::Bucket;

/// The limits of every peer of a listener.
#[derive(Clone, Copy, Debug)]
pub struct PeerLimits {
    /// Datagrams; more are dropped before they are decrypted.
    pub packets: Bucket,
    /// Bytes of datagrams; more are dropped before they are decrypted.
    pub bytes: Bucket,
    /// Messages too short to be paid for by their bytes; more wait in the session, which then stops
    /// acknowledging.
    pub messages: Bucket,
    /// Datagrams and bytes beyond that are dropped in any case, and not only when others wait for the
    /// time they take.
    pub strict: bool,
}

/// What one peer has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    packets: Tokens,
    bytes: Tokens,
    messages: Tokens,
    strict: bool,
}

impl Quota {
    /// Full.
    pub(super) fn new(limits: &PeerLimits, now: Timestamp) -> Self {
        Self {
            packets: Tokens::full(limits.packets, now),
            bytes: Tokens::full(limits.bytes, now),
            messages: Tokens::full(limits.messages, now),
            strict: limits.strict,
        }
    }

    /// See [`PeerLimits::strict`].
    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Pays for a datagram.
    pub(super) fn take_datagram(&mut self, now: Timestamp, bytes: usize) -> Result<(), Reject> {
        self.packets.refill(now);
        self.bytes.refill(now);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.packets.left() < 1 || self.bytes.left() < bytes {
            return Err(Reject::PeerLimited);
        }
        self.packets.take(1);
        self.bytes.take(bytes);
        Ok(())
    }

    /// A datagram that was paid for is worth so many bytes more. What is not there is owed: the next datagrams wait for it.
    pub(super) fn owe(&mut self, bytes: usize) {
        self.bytes.owe(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// A datagram was paid for by a peer that may not have sent it.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.packets.give_back(1);
        self.bytes
            .give_back(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Messages that may be taken now.
    pub(super) fn messages(&mut self, now: Timestamp) -> u32 {
        self.messages.refill(now);
        self.messages.left()
    }

    /// So many messages were taken.
    pub(super) fn take_messages(&mut self, count: u32) {
        self.messages.take(count);
    }
}

/// A bucket that counts in billionths, so that no time is lost to rounding.
#[derive(Clone, Copy, Debug)]
struct Tokens {
    bucket: Bucket,
    nanos: u64,
    /// Billionths that are owed: they come out of what is gained.
    owed: u64,
    at: Timestamp,
}

const TOKEN: u64 = 1_000_000_000;

impl Tokens {
    fn full(bucket: Bucket, at: Timestamp) -> Self {
        Self {
            bucket,
            nanos: u64::from(bucket.burst) * TOKEN,
            owed: 0,
            at,
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let elapsed = now.since(self.at).as_nanos() as u64;
        self.at = self.at.max(now);
        let gained = elapsed.saturating_mul(u64::from(self.bucket.rate));
        let paid_back = gained.min(self.owed);
        self.owed -= paid_back;
        let gained = gained - paid_back;
        let full = u64::from(self.bucket.burst) * TOKEN;
        self.nanos = self.nanos.saturating_add(gained).min(full);
    }

    fn left(&self) -> u32 {
        // At most the burst.
        (self.nanos / TOKEN) as u32
    }

    fn take(&mut self, count: u32) {
        self.nanos = self.nanos.saturating_sub(u64::from(count) * TOKEN);
    }

    /// Never more than a burst: nobody is silenced for longer than that takes to fill.
    fn owe(&mut self, count: u32) {
        let count = u64::from(count) * TOKEN;
        let owed = self.owed + count.saturating_sub(self.nanos);
        self.nanos = self.nanos.saturating_sub(count);
        self.owed = owed.min(u64::from(self.bucket.burst) * TOKEN);
    }

    fn give_back(&mut self, count: u32) {
        let full = u64::from(self.bucket.burst) * TOKEN;
        self.nanos = (self.nanos + u64::from(count) * TOKEN).min(full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_its_burst_and_then_its_rate() {
        let bucket = |rate, burst| Bucket { rate, burst };
        let limits = PeerLimits {
            packets: bucket(10, 3),
            bytes: bucket(1_000, 2_000),
            messages: bucket(5, 7),
            strict: true,
        };
        let mut quota = Quota::new(&limits, Timestamp::ZERO);
        let mut passed = |millis, bytes| {
            let now = Timestamp::from_millis(millis);
            quota.take_datagram(now, bytes).is_ok()
        };
        assert_eq!([0; 4].map(|at| passed(at, 100)), [true, true, true, false]);
        assert!(!passed(99, 100), "a token takes 100 ms");
        assert!(passed(100, 100));
        assert!(!passed(1_000, 2_001), "more than the bytes that are left");
        assert!(passed(1_000, 2_000));
        assert!(!passed(1_100, 200), "bytes run out before packets do");
        assert_eq!(quota.messages(Timestamp::from_millis(1_100)), 7);
        quota.take_messages(7);
        assert_eq!(quota.messages(Timestamp::from_millis(1_299)), 0);
        assert_eq!(quota.messages(Timestamp::from_millis(1_300)), 1);
    }

    /// A packet may turn out to be worth more than is left.
    #[test]
    fn what_is_owed_comes_out_of_what_is_gained() {
        let bucket = |rate, burst| Bucket { rate, burst };
        let limits = PeerLimits {
            packets: bucket(1_000, 1_000),
            bytes: bucket(1_000, 2_000),
            messages: bucket(1, 1),
            strict: true,
        };
        let mut quota = Quota::new(&limits, Timestamp::ZERO);
        let mut passes = |millis, owes| {
            let now = Timestamp::from_millis(millis);
            let passes = quota.take_datagram(now, 100).is_ok();
            quota.owe(owes);
            passes
        };
        assert!(passes(0, 900), "a thousand are left");
        assert!(passes(0, 1_400), "five hundred are owed");
        assert!(!passes(599, 0), "paid back, and a hundred are not there");
        assert!(passes(600, 1_000_000), "a burst is the most that is owed");
        assert!(!passes(2_699, 0));
        assert!(passes(2_700, 0));
    }

    /// However many datagrams somebody forges in its name: they are paid back, and no more than that.
    #[test]
    fn what_is_given_back_is_there_again() {
        let bucket = |rate, burst| Bucket { rate, burst };
        let limits = PeerLimits {
            packets: bucket(1, 2),
            bytes: bucket(1, 2_000),
            messages: bucket(1, 1),
            strict: true,
        };
        let now = Timestamp::ZERO;
        let mut quota = Quota::new(&limits, now);
        for _ in 0..100 {
            quota.take_datagram(now, 1_500).unwrap();
            quota.give_back(1_500);
        }
        quota.give_back(1_500);
        assert!(quota.take_datagram(now, 2_001).is_err(), "the burst is all");
        let passed = [0; 3].map(|_| quota.take_datagram(now, 100).is_ok());
        assert_eq!(passed, [true, true, false]);
    }
}
