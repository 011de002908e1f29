//! Which packets are lost: three newer ones were acknowledged, or one and it is late (RFC 9002, section 6.1:
//! the packet threshold and the time threshold).
//!
//! ```text
//!   forgotten │   counted    │    settled     │ some open, some not │ newer than any
//!             │              │ lost, or late? │                     │ that is acknowledged
//!        the map's base   counted           settled                acked
//! ```
//!
//! Does not act on what it finds: the sender asks for one finding after another, and then for what
//! is final.

use std::time::Duration;

use crate::rtt::Rtt;
use crate::time::{Span, Timestamp};

use super::in_flight::{Fate, InFlight, Sent};

/// Finds losses in the map of packets that left.
#[derive(Debug)]
pub(super) struct Detector {
    /// One more than the newest own packet the peer acknowledged.
    acked: u64,
    /// No packet below this can still be found lost.
    settled: u64,
    /// No packet below this still awaits being counted as delivered or lost.
    counted: u64,
    /// When the next packet turns old enough to be given up; [`Timestamp::MAX`] when none will, which
    /// takes half of what an option would, in each idle peer.
    look_at: Timestamp,
    /// How many packets have to be really lost before the count of newer ones is trusted again.
    wary_for: u8,
    /// How long after a round trip what was overtaken is acknowledged, in microseconds.
    lateness_us: u32,
}

/// One look at all packets whose fate is open.
#[derive(Debug)]
pub(super) struct Look {
    now: Timestamp,
    rule: Rule,
    numbers: std::ops::Range<u64>,
    /// No packet before this one is open.
    all_settled: bool,
}

/// What is to be done about a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finding {
    Lost(u64),
    /// Its fate stays open, but what it carried goes again.
    DueAgain(u64),
}

/// What finally became of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) sent_at: Timestamp,
    pub(super) lost: bool,
    /// In how many datagrams it left, roughly.
    pub(super) datagrams: u32,
    /// Copies went with it and its neighbours.
    pub(super) with_copies: bool,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Packets that newer ones overtook: by `threshold` numbers, if that means anything here, or for
    /// longer than the patience.
    Overtaken {
        threshold: Option<u64>,
        patience: Span,
    },
    /// The article's way: messages are due again some time after they were sent, acknowledgements or
    /// not (docs/wire/gaffer.md, section 5), and a packet is lost after a second (section 3).
    Article { resend_after: Duration },
}

impl Detector {
    pub(super) fn new() -> Self {
        Self {
            acked: 0,
            settled: 0,
            counted: 0,
            look_at: Timestamp::MAX,
            wary_for: 0,
            lateness_us: 0,
        }
    }

    /// Packet `number` is acknowledged; whether it is the newest of those.
    pub(super) fn on_acked(&mut self, number: u64) -> bool {
        let is_newest = number >= self.acked;
        self.acked = self.acked.max(number + 1);
        is_newest
    }

    /// A packet found lost was acknowledged after all, so long after it left: it was overtaken.
    pub(super) fn on_late(&mut self, took: Duration, rtt: &Rtt) {
        let lateness = took.saturating_sub(rtt.smoothed()).min(rtt.smoothed());
        self.lateness_us = self.lateness_us.max(lateness.as_micros() as u32);
        self.wary_for = WARY_FOR;
    }

    /// A packet with messages left that are due again at this time, whatever is acknowledged.
    pub(super) fn look_by(&mut self, again: Timestamp) {
        self.look_at = self.look_at.min(again);
    }

    /// When to look without having heard anything.
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        (self.look_at < Timestamp::MAX).then_some(self.look_at)
    }

    /// One more than the newest own packet the peer acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// No packet below this can still be found lost.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// What became of this packet was counted.
    pub(super) fn has_counted(&self, number: u64) -> bool {
        number < self.counted
    }

    /// Nothing is to be found out about the packets before this one.
    pub(super) fn begin_at(&mut self, number: u64) {
        (self.settled, self.counted) = (number, number);
    }

    /// Begins a look. Take its findings until there are none.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        in_flight: &InFlight,
        rtt: &Rtt,
        resend_after: Option<Duration>,
    ) -> Look {
        let (rule, end) = match resend_after {
            Some(resend_after) => (Rule::Article { resend_after }, in_flight.end()),
            None => (self.overtaken(rtt), self.acked.saturating_sub(1)),
        };
        self.look_at = Timestamp::MAX;
        Look {
            now,
            rule,
            numbers: self.settled.max(in_flight.base())..end,
            all_settled: true,
        }
    }

    /// A path that reorders is given the time by which packets were late, and the count of newer ones is not trusted.
    fn overtaken(&self, rtt: &Rtt) -> Rule {
        let [smoothed, variation, _] = rtt.spans();
        let lateness = Span::from_micros(self.lateness_us);
        let late = variation.max(smoothed / 8).max(lateness);
        Rule::Overtaken {
            threshold: (self.wary_for == 0).then_some(PACKET_THRESHOLD),
            patience: smoothed + late,
        }
    }

    /// The next finding, to be acted on before the one after it is asked for.
    pub(super) fn find(&mut self, look: &mut Look, in_flight: &InFlight) -> Option<Finding> {
        for number in look.numbers.by_ref() {
            let sent = in_flight.get(number)?;
            let finding = if sent.fate != Fate::Unknown {
                None
            } else if look.rule.gives_up(look.now, number, sent, self.acked) {
                Some(Finding::Lost(number))
            } else {
                look.all_settled = false;
                let next = look.rule.next_look(look.now, sent);
                self.look_at = self.look_at.min(next);
                if look.rule.spares_what_left_later() {
                    return None;
                }
                let again = look.rule.repeats(look.now, sent);
                again.then_some(Finding::DueAgain(number))
            };
            if look.all_settled {
                self.settled = number + 1;
            }
            if finding.is_some() {
                return finding;
            }
        }
        None
    }

    /// The next packet whose fate is final, counted with this: one found lost may still turn out to
    /// be late.
    pub(super) fn next_outcome(
        &mut self,
        now: Timestamp,
        in_flight: &InFlight,
        rtt: &Rtt,
    ) -> Option<Outcome> {
        self.counted = self.counted.max(in_flight.base());
        while self.counted < self.settled {
            let sent = in_flight.get(self.counted)?;
            let lost = sent.fate != Fate::Acked;
            if lost && may_be_late(now, sent, rtt) {
                return None;
            }
            self.counted += 1;
            if lost {
                // Waiting for it took time.
                self.lateness_us -= self.lateness_us / LATENESS_FADES;
                self.wary_for = self.wary_for.saturating_sub(1);
            }
            // A packet that went again had some of its datagrams there already, so its fate tells less.
            if sent.fate != Fate::Skipped && sent.repeats == 0 {
                return Some(Outcome {
                    sent_at: sent.at,
                    lost,
                    with_copies: sent.with_copies,
                    datagrams: sent.datagrams(),
                });
            }
        }
        None
    }
}

impl Rule {
    fn gives_up(self, now: Timestamp, number: u64, sent: &Sent, acked: u64) -> bool {
        match self {
            Self::Overtaken {
                threshold,
                patience,
            } => {
                threshold.is_some_and(|packets| number + packets < acked)
                    || sent.at + patience <= now
            }
            Self::Article { .. } => sent.at + ARTICLE_LOST <= now,
        }
    }

    /// Where a packet is not given up, none that left after it is, nor sooner. A peer may leave thousands open, beside
    /// each that it acknowledges one, and have them looked at with each packet of its own.
    fn spares_what_left_later(self) -> bool {
        matches!(self, Self::Overtaken { .. })
    }

    /// When to come back to a packet that is not given up.
    fn next_look(self, now: Timestamp, sent: &Sent) -> Timestamp {
        match self {
            Self::Overtaken { patience, .. } => sent.at + patience,
            Self::Article { resend_after } => {
                let again = sent.at + resend_after;
                if again > now {
                    again
                } else {
                    sent.at + ARTICLE_LOST
                }
            }
        }
    }

    /// What a packet that is not given up carried is due again.
    fn repeats(self, now: Timestamp, sent: &Sent) -> bool {
        match self {
            Self::Overtaken { .. } => false,
            Self::Article { resend_after } => !sent.expired && sent.at + resend_after <= now,
        }
    }
}

/// An acknowledgement of this packet may still come. Cold: losses are few, and the compiler would
/// otherwise do the sum for every packet.
#[cold]
fn may_be_late(now: Timestamp, sent: &Sent, rtt: &Rtt) -> bool {
    let sure = rtt.smoothed() * 3 / 2 + 4 * rtt.variation() + Duration::from_millis(20);
    now.since(sent.at) < sure
}

/// The article gives a packet up after this long; later acknowledgements are the exception.
const ARTICLE_LOST: Duration = Duration::from_secs(1);

/// A packet is lost when one this much newer was acknowledged (RFC 9002, section 6.1.1: kPacketThreshold).
const PACKET_THRESHOLD: u64 = 3;

/// After one that was late, so many have to be lost in fact and none to be late (RFC 8985, section 6.2:
/// RACK.reo_wnd_persist).
const WARY_FOR: u8 = 16;

/// Each packet that is lost in fact takes this part from how late others may be.
const LATENESS_FADES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::in_flight::Departure;
    use super::*;
    use crate::rtt::Sample;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    fn patience(detector: &Detector, rtt: &Rtt) -> Duration {
        match detector.overtaken(rtt) {
            Rule::Overtaken { patience, .. } => patience.into(),
            Rule::Article { .. } => unreachable!(),
        }
    }

    /// A path of always [`ROUND_TRIP`].
    fn steady() -> Rtt {
        let mut rtt = Rtt::new(Timestamp::ZERO);
        for sample in 0..600 {
            let sample_at = Timestamp::from_millis(100 * sample);
            let (took, least) = (ROUND_TRIP.into(), ROUND_TRIP.into());
            rtt.on_sample(sample_at, Sample { took, least });
        }
        rtt
    }

    fn one_a_millisecond(count: u64) -> InFlight {
        let mut in_flight = InFlight::default();
        for number in 0..count {
            let departure = Departure {
                at: Timestamp::from_millis(number),
                wire_bytes: 100,
                prompts: true,
                with_copies: false,
                split: false,
                whole: true,
                again: None,
            };
            in_flight.push(number, departure, std::iter::empty());
        }
        in_flight
    }

    /// A peer that was seen to reorder acknowledges the newest packet and none before it.
    #[test]
    fn a_look_ends_with_the_first_packet_that_is_still_waited_for() {
        let count = 10_000;
        let mut in_flight = one_a_millisecond(count);
        in_flight.settle(count - 1, Fate::Acked);
        let rtt = Rtt::new(Timestamp::ZERO);
        let mut detector = Detector::new();
        detector.wary_for = WARY_FOR;
        detector.on_acked(count - 1);
        for now in [0, 1_000, 1_001, 5_000].map(Timestamp::from_millis) {
            let waits = patience(&detector, &rtt);
            let mut look = detector.look(now, &in_flight, &rtt, None);
            let from = look.numbers.start;
            let mut lost = 0;
            while let Some(Finding::Lost(number)) = detector.find(&mut look, &in_flight) {
                in_flight.settle(number, Fate::Lost);
                lost += 1;
            }
            let looked_at = look.numbers.start - from;
            assert_eq!(looked_at, lost + 1, "at {now:?}");
            let open = in_flight.get(detector.settled()).expect("it is open");
            assert_eq!(detector.look_at(), Some(open.at + waits));
            assert!(open.at + waits > now);
        }
        assert!(detector.settled() > 4_000);
    }

    /// However often the path reorders, nothing is waited for longer than packets were late; and the count of newer ones
    /// is used again once only losses were seen.
    #[test]
    fn waiting_grows_with_lateness_alone_and_the_count_comes_back() {
        let lose = |detector: &mut Detector, count: u64| {
            let mut in_flight = one_a_millisecond(count);
            (0..count).for_each(|number| {
                in_flight.settle(number, Fate::Lost);
            });
            (detector.counted, detector.settled) = (0, count);
            let late = Timestamp::from_millis(60_000);
            let rtt = Rtt::new(Timestamp::ZERO);
            while detector.next_outcome(late, &in_flight, &rtt).is_some() {}
        };
        let counts = |detector: &Detector, rtt: &Rtt| match detector.overtaken(rtt) {
            Rule::Overtaken { threshold, .. } => threshold.is_some(),
            Rule::Article { .. } => unreachable!(),
        };
        let rtt = steady();
        let mut detector = Detector::new();
        assert!(counts(&detector, &rtt));
        detector.on_late(Duration::from_millis(70), &rtt);
        let once = patience(&detector, &rtt);
        (0..10).for_each(|_| detector.on_late(Duration::from_millis(70), &rtt));
        assert_eq!(patience(&detector, &rtt), once);

        lose(&mut detector, 15);
        assert!(!counts(&detector, &rtt));
        lose(&mut detector, 1);
        assert!(counts(&detector, &rtt));
    }

    /// What comes 20 ms late is waited for, until so many were lost that it is not worth it.
    #[test]
    fn who_was_late_is_waited_for() {
        let now = Timestamp::from_millis(60_000);
        let rtt = steady();
        let mut detector = Detector::new();
        let before = patience(&detector, &rtt);
        assert!(before < Duration::from_millis(60), "{before:?}");
        detector.on_late(Duration::from_millis(70), &rtt);
        let after = patience(&detector, &rtt);
        assert!(after >= Duration::from_millis(70), "{after:?}");

        let mut in_flight = one_a_millisecond(100);
        (0..100).for_each(|number| {
            in_flight.settle(number, Fate::Lost);
        });
        detector.settled = 100;
        while detector.next_outcome(now, &in_flight, &rtt).is_some() {}
        let at_last = patience(&detector, &rtt);
        assert!(at_last < before + Duration::from_millis(1), "{at_last:?}");
    }
}
