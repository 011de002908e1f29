//! Packets that ask again because nothing is heard: when the next one is due, and how many went
//! without an answer. RFC 9002, section 6.2, has the same probes, but doubles the wait for each.

use crate::rtt::Rtt;
use crate::time::{Span, Timestamp};

/// The probes of one session.
#[derive(Debug)]
pub(super) struct Probes {
    /// Last packet with messages sent, or last progress of acknowledgements.
    quiet_since: Timestamp,
    /// When the last probe left.
    last: Timestamp,
    /// Probes since the last progress.
    unanswered: u16,
    /// A packet more is to follow the probe that leaves.
    falls_out_of_step: bool,
}

impl Probes {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            quiet_since: now,
            last: now,
            unanswered: 0,
            falls_out_of_step: false,
        }
    }

    /// A packet with messages left.
    pub(super) fn on_messages_sent(&mut self, now: Timestamp) {
        self.quiet_since = now;
    }

    /// A packet was acknowledged that had not been before.
    pub(super) fn on_progress(&mut self, now: Timestamp) {
        self.unanswered = 0;
        self.quiet_since = now;
    }

    /// A probe leaves. A path may lose every other packet, as one does that spreads packets over two links of which
    /// one is dead. Probes that leave in turn with what else we say, such as keep-alives, would never be among
    /// those that arrive: so after every second one to a peer that is `heard` a packet more leaves, and the next
    /// ones meet the other link. And where they are rare, whether it is heard or not: a peer that has nothing to say
    /// says only keep-alives, which are not told here.
    pub(super) fn on_probe(&mut self, now: Timestamp, heard: Timestamp) {
        let is_rare = now >= self.last + EVERY_MAX;
        self.falls_out_of_step = self.go_on() && (heard > self.last || is_rare);
        self.unanswered = self.unanswered.saturating_add(1);
        self.quiet_since = now;
        self.last = now;
    }

    /// The packet that has just left was such a probe.
    pub(super) fn take_out_of_step(&mut self) -> bool {
        std::mem::take(&mut self.falls_out_of_step)
    }

    /// A probe had no answer yet, so nobody knows which message is missing.
    pub(super) fn are_unanswered(&self) -> bool {
        self.unanswered > 0
    }

    /// Every other probe in a row begins with the oldest, which what waits at the peer waits for; those
    /// between, of which the next is one, go on through the others.
    pub(super) fn go_on(&self) -> bool {
        !self.unanswered.is_multiple_of(2)
    }

    /// None can be due, without a look at the round trip: both of what [`Probes::due`] counts from was a moment ago.
    pub(super) fn are_early(&self, now: Timestamp, oldest: Option<Timestamp>) -> bool {
        let first = oldest.map_or(self.quiet_since, |oldest| oldest.min(self.quiet_since));
        now < first + WAIT_MIN
    }

    /// When the next one is due: nothing was heard of the last packet with messages for this long. While
    /// packets go on leaving, the oldest of them that none newer overtook, which left at `oldest`, is
    /// given twice as long. Each probe without an answer waits longer, but a peer that is `heard`
    /// meanwhile is no dead path: it holds its acknowledgements back until something that it misses
    /// arrives.
    pub(super) fn due(&self, rtt: &Rtt, heard: Timestamp, oldest: Option<Timestamp>) -> Timestamp {
        let [smoothed, variation, shortest] = rtt.spans();
        let wait = smoothed + (variation * 4).max(WAIT_MIN);
        // After a time of long delays only a new sample shortens the estimate, and a sender that waits for
        // as long as the estimate says takes none.
        let wait = wait.min(shortest * 8 + WAIT_MAX);
        // Its late acknowledgements make the round trip look long: the least of them says more.
        let (longest, patience) = if heard > self.last && rtt.is_known() {
            (2, shortest * 4 + Span::from_millis(200))
        } else {
            (6, Span::MAX)
        };
        let backed_off = wait + wait / 2 * self.unanswered.min(longest).into();
        let wait = backed_off.min(wait.max(EVERY_MAX));
        let oldest = oldest.map(|at| at.max(self.last) + (wait * 2).min(patience));
        let last = self.quiet_since + wait;
        oldest.map_or(last, |oldest| oldest.min(last))
    }
}

/// The first probe waits so much longer than the round trip.
const WAIT_MIN: Span = Span::from_millis(10);

/// The first probe waits no longer than this and some of the shortest round trips: peers of
/// other make may wait ten seconds for a gap to close, and each probe may be lost.
const WAIT_MAX: Span = Span::from_millis(500);

/// Probes are no further apart than this, even without an answer: a packet a second disturbs no path.
const EVERY_MAX: Span = Span::from_millis(1_000);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rtt::Sample;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn sample(millis: u32) -> Sample {
        let took = Span::from_millis(millis);
        Sample { took, least: took }
    }

    /// A path of 40 ms that is slow for a while: its estimate is seconds long.
    fn after_long_delays() -> Rtt {
        let mut rtt = Rtt::new(at(0));
        let millis = std::iter::once(40).chain(std::iter::repeat_n(4_000, 20));
        for millis in millis {
            rtt.on_sample(at(1), sample(millis));
        }
        assert!(rtt.smoothed() > Duration::from_secs(3));
        rtt
    }

    /// The first waits for half a second and eight of the shortest round trips, however long the last ones were;
    /// from then on none waits longer than a second.
    #[test]
    fn the_estimate_makes_no_probe_wait_for_seconds() {
        let rtt = after_long_delays();
        let mut probes = Probes::new(at(0));
        assert_eq!(probes.due(&rtt, at(0), None), at(8 * 40 + 500));
        let mut now = at(0);
        for _ in 0..10 {
            now += Duration::from_millis(1);
            probes.on_probe(now, at(0));
            let due = probes.due(&rtt, at(0), None);
            assert_eq!(due, now + Duration::from_secs(1));
        }
    }

    /// Where the round trip itself is longer than that, waiting is no want of an answer.
    #[test]
    fn no_probe_leaves_before_its_answer_can_be_there() {
        let mut rtt = Rtt::new(at(0));
        for _ in 0..50 {
            rtt.on_sample(at(1), sample(3_000));
        }
        let mut probes = Probes::new(at(0));
        probes.on_probe(at(1), at(0));
        assert!(probes.due(&rtt, at(0), None) >= at(3_000));
    }
}
