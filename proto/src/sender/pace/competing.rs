//! Somebody else fills the queue: messages go at the good rate, bulk goes by loss, as a TCP would.

use std::time::Duration;

use crate::time::Timestamp;

use super::queueing::Queue;

/// A queue that is not ours, and what may be ours of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competing {
    rival: Rival,
    /// Since when the queue is longer than theirs, and how long it was then, in seconds: we add to it.
    added: Option<(Timestamp, f64)>,
    /// Since when the queue is nearly empty.
    low_since: Option<Timestamp>,
}

/// Another flow that fills the queue beside us, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    /// How long the queue was while we held back, in seconds: so much of it is theirs.
    queue: f64,
    /// A queue that stands before this is still theirs.
    until: Timestamp,
}

impl Rival {
    /// We held back, and a queue of so many seconds stayed.
    pub(super) fn new(queue: f64, until: Timestamp) -> Self {
        Self { queue, until }
    }

    pub(super) fn is_there(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

impl Competing {
    pub(super) fn with(rival: Rival) -> Self {
        Self {
            rival,
            added: None,
            low_since: None,
        }
    }

    pub(super) fn rival(&self) -> Rival {
        self.rival
    }

    /// Some of the queue may be ours.
    pub(super) fn adds(&self) -> bool {
        self.added.is_some()
    }

    /// Whether the queue has been nearly empty for a while, because the other flow is gone.
    pub(super) fn is_over(&mut self, now: Timestamp, step: Duration, queue: Queue) -> bool {
        if queue.delay >= queue.low {
            self.low_since = None;
            return false;
        }
        let since = *self.low_since.get_or_insert(now);
        now.since(since) > 2 * step + GONE
    }

    /// Of somebody else's queue, what came to it since we no longer hold back may be ours: our own copies fill it
    /// as well as anybody. They are held back until it is gone, or stays without them.
    pub(super) fn look_for_ours(&mut self, now: Timestamp, step: Duration, queue: Queue) {
        if queue.delay <= self.rival.queue + ADDED_LOWS * queue.low {
            self.added = None;
            return;
        }
        let (since, before) = *self.added.get_or_insert((now, queue.delay));
        if now.since(since) < held_back_for(step) {
            return;
        }
        if queue.delay < before {
            self.added = Some((now, queue.delay));
        } else {
            self.rival.queue = queue.delay;
            self.added = None;
        }
    }
}

/// A queue that outlasts this, although we send less, is somebody else's. `step`: how long the path takes to answer.
pub(super) fn held_back_for(step: Duration) -> Duration {
    (HELD_BACK_STEPS * step).max(HELD_BACK_MIN)
}

/// A queue that we fill is gone a round trip or two after we slow down. This is several times that, because bulk goes
/// down by steps, and a mistake leaves a queue of ours to stand.
const HELD_BACK_STEPS: u32 = 8;
const HELD_BACK_MIN: Duration = Duration::from_secs(2);

/// Beside two round trips, a queue must be nearly empty for so long until who filled it is gone: a TCP that lost
/// something makes room for a moment.
const GONE: Duration = Duration::from_millis(200);

/// The other flow's queue may grow by so many times what counts as nearly empty: it is never quite the same.
const ADDED_LOWS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Beside somebody who keeps a queue of 100 ms.
    fn beside_100_ms() -> Competing {
        Competing::with(Rival::new(0.1, at(0)))
    }

    #[test]
    fn what_comes_to_their_queue_is_ours_while_it_gets_shorter_without_us() {
        let mut competing = beside_100_ms();
        for (millis, delay, adds) in [
            (0, 0.119, false),
            (1_000, 0.2, true),
            (2_999, 0.15, true),
            (3_000, 0.15, true),
            (5_000, 0.119, false),
        ] {
            competing.look_for_ours(at(millis), STEP, Queue::quiet(delay));
            assert_eq!(competing.adds(), adds, "{millis}");
        }
    }

    #[test]
    fn what_stays_without_us_is_theirs() {
        let mut competing = beside_100_ms();
        for (millis, adds) in [(1_000, true), (3_000, false), (9_000, false)] {
            competing.look_for_ours(at(millis), STEP, Queue::quiet(0.2));
            assert_eq!(competing.adds(), adds, "{millis}");
        }
    }

    #[test]
    fn one_moment_without_a_queue_is_not_the_end() {
        let mut competing = beside_100_ms();
        let mut over = |millis, delay| competing.is_over(at(millis), STEP, Queue::quiet(delay));
        assert!(!over(0, 0.0));
        assert!(!over(250, 0.1));
        assert!(!over(500, 0.0));
        assert!(!over(800, 0.0));
        assert!(over(801, 0.0));
    }
}
