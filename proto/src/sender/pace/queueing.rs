//! How long our packets wait in somebody's queue: the round trip's rise over the path's own.
//!
//! A queue delays every packet; jitter, a late acknowledgement and a process that had to wait for
//! its processor delay some. So the smallest of the last round trips counts, not their mean.

use std::time::Duration;

use crate::sender::params::Params;
use crate::time::{Span, Timestamp};
use crate::windowed::{Largest, Smallest, Windowed};

use super::jitter::Jitter;

/// Compares the smallest round trips of a moment with the smallest of the recent past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    /// Quickly smoothed (gain 1/4), in seconds; zero before the first sample.
    fast: f64,
    /// Ordinary deviation from it, learned only while the queue looks short.
    variation: f64,
    /// Minima of the present moment and the one before it.
    moments: [f64; 2],
    moment_began: Timestamp,
    /// How much the minimum of a moment ordinarily differs from that of the one before.
    wander: f64,
    /// The smallest round trip of the base's window.
    minimum: Windowed<f64, Smallest>,
    /// The largest of the minima of moments, in the same window; their mean of late; and where that lies, from
    /// 0 for the base to 1 for the largest.
    maximum: Windowed<f64, Largest>,
    mean: f64,
    fill: f32,
    slice_began: Timestamp,
    /// A round trip that going slower did not shorten, in seconds, and until when it is believed. Never above the mean
    /// since then.
    own: f64,
    own_until: Timestamp,
    jitter: Jitter,
    /// Since when it exceeds the limit ([`Timestamp::MAX`] while it does not), and by how many samples in a row, those
    /// of one moment as one.
    over_since: Timestamp,
    over: u8,
    heard_at: Timestamp,
}

/// What the queue looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Queueing delay in seconds.
    pub(super) delay: f64,
    /// Queueing delay by the last packet alone, in seconds, which may be chance.
    pub(super) latest: f64,
    /// Queueing delay by the last packet alone, in seconds, if the peer held back nothing.
    pub(super) most: f64,
    /// How much of the delay may be chance, in seconds.
    pub(super) noise: f64,
    /// How much of it goes for chance, in seconds: the noise, where [`Limits::spares_noise`].
    pub(super) spared: f64,
    /// Ordinary deviation of one round trip, in seconds.
    pub(super) jitter: f64,
    /// Since the sample before.
    pub(super) pause: Span,
    /// Nothing was said of this moment before: what one acknowledgement says of several packets was late
    /// together.
    pub(super) is_new: bool,
    /// The usual delay as a share of the longest one lately, 0 to 1: near 1 where a queue is always
    /// full, near 0 where it seldom is, whatever it holds.
    pub(super) fill: f64,
    /// Below this it counts as gone.
    pub(super) low: f64,
    /// It is more than chance, moment after moment: something begins to fill.
    pub(super) shows: bool,
    /// It exceeds the limit.
    pub(super) over: bool,
    /// It has done so for a while.
    pub(super) stands: bool,
}

impl Queue {
    /// In seconds: a delay of less goes for chance.
    pub(super) fn felt(&self, params: &Params) -> f64 {
        (2.0 * self.jitter).max(params.path.queue_max.as_secs_f64()) + self.spared
    }

    /// A delay of so many seconds, in which nothing is chance.
    #[cfg(test)]
    pub(super) fn quiet(delay: f64) -> Self {
        Self {
            delay,
            latest: delay,
            most: delay,
            noise: 0.0,
            spared: 0.0,
            jitter: 0.0,
            pause: Span::from_millis(5),
            is_new: true,
            fill: 0.0,
            low: 0.01,
            shows: false,
            over: false,
            stands: false,
        }
    }
}

/// What counts as a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// More delay than this is one, in seconds.
    pub(super) queue: f64,
    /// It stands once it has been one for this long.
    pub(super) stands: Duration,
    /// It stands once so many samples in a row say that it is one, beside that.
    pub(super) samples: u8,
    /// How long one packet of ours takes at the present rate, in seconds: no queue yet.
    pub(super) packet: f64,
    /// How long a base is believed.
    pub(super) base_window: Duration,
    /// What may be chance is no queue: so much more delay is needed for one.
    pub(super) spares_noise: bool,
}

impl Queueing {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            fast: 0.0,
            variation: 0.0,
            moments: [f64::INFINITY; 2],
            moment_began: now,
            wander: 0.0,
            minimum: Windowed::new(),
            maximum: Windowed::new(),
            mean: 0.0,
            fill: 0.0,
            slice_began: now,
            own: 0.0,
            own_until: now,
            jitter: Jitter::default(),
            over_since: Timestamp::MAX,
            over: 0,
            heard_at: now,
        }
    }

    /// The round trip now, quickly smoothed, in seconds.
    pub(super) fn rtt_s(&self) -> f64 {
        self.fast
    }

    /// A round trip was sampled, of which so much is `proven` to be the path's.
    pub(super) fn on_rtt(
        &mut self,
        now: Timestamp,
        rtt: Span,
        proven: Span,
        limits: &Limits,
    ) -> Queue {
        let packet = limits.packet;
        let (rtt, proven) = (rtt.as_secs(), proven.as_secs());
        if self.fast == 0.0 {
            (self.fast, self.variation) = (rtt, rtt / 8.0);
        }
        self.fast += 0.25 * (rtt - self.fast);
        self.note_base(now, rtt, limits.base_window);
        let own = self.base().max(self.own(now));
        let proven = self.at_least(rtt, proven, own, packet);
        let delay = self.of_this_moment(now, proven) - own;
        let noise = NOISE * self.wander;
        let spared = if limits.spares_noise { noise } else { 0.0 };
        let limit = (limits.queue).max(4.0 * self.variation).max(1.5 * packet) + spared;
        let over = delay > limit;
        let pause = now.span_since(std::mem::replace(&mut self.heard_at, now));
        let is_new = pause > Span::ZERO;
        if is_new && packet > 0.0 {
            let is_long = pause.as_secs() > 0.5 * self.fast;
            self.jitter.note(proven, is_long, packet);
        }
        if over {
            self.over_since = self.over_since.min(now);
            self.over = self.over.saturating_add(is_new.into());
        } else {
            self.over_since = Timestamp::MAX;
            self.over = 0;
            self.variation += 0.02 * ((rtt - self.fast).abs() - self.variation);
        }
        Queue {
            delay,
            latest: proven - own,
            most: rtt - own,
            noise,
            spared,
            jitter: self.variation,
            pause,
            is_new,
            fill: self.fill.into(),
            low: (0.5 * limit).max(packet),
            shows: self.lasts_for_moments() && delay > SHOWS.max(6.0 * self.variation),
            over,
            stands: self.over >= limits.samples && now >= self.over_since + limits.stands,
        }
    }

    /// How much of a round trip is known to be the path's, beside bulk whose packets take it `packet` seconds each. Where
    /// less is `proven` than its `own`, as by what a peer held back at the end of a block, that says nothing of a queue. So
    /// it does not say that one is gone which was met a moment ago.
    fn at_least(&self, rtt: f64, proven: f64, own: f64, packet: f64) -> f64 {
        if packet == 0.0 || proven >= own {
            return proven;
        }
        let [before, now] = self.moments;
        let lately = before.min(now);
        if lately.is_finite() {
            rtt.min(lately)
        } else {
            proven
        }
    }

    /// Going slower did not shorten the `delay`: whether it is the path's own, as jitter explains. Packets close
    /// to each other cannot overtake, so all of them are as late as the latest; those that were far apart were not,
    /// and made the base. `base_window`: how long that is believed.
    pub(super) fn is_own(&mut self, now: Timestamp, delay: f64, base_window: Duration) -> bool {
        let base = self.base();
        let before = base.max(self.own(now));
        let own = (before + delay).min(base + self.jitter.range());
        let explains = own >= before + EXPLAINED * delay;
        if explains {
            self.believe(now, own, base_window);
        }
        explains
    }

    /// The path takes as much longer than before as the `delay`: another route.
    pub(super) fn on_another_route(&mut self, now: Timestamp, delay: f64, base_window: Duration) {
        let own = self.base().max(self.own(now)) + delay;
        self.believe(now, own, base_window);
        // It was that of a shorter path, to which it would pull back what is believed.
        self.mean = own;
    }

    fn believe(&mut self, now: Timestamp, own: f64, base_window: Duration) {
        (self.own, self.own_until) = (own, now + base_window);
    }

    /// Round trip that is believed to be the path's own although some were shorter; zero without one.
    fn own(&self, now: Timestamp) -> f64 {
        if now < self.own_until { self.own } else { 0.0 }
    }

    /// The smallest round trip of the last one or two moments. A moment is half a round trip, and
    /// long enough for a process that waits for its processor to run in between.
    fn of_this_moment(&mut self, now: Timestamp, rtt: f64) -> f64 {
        let moment = Span::from_secs(0.5 * self.fast).max(MOMENT_MIN);
        if now >= self.moment_began + moment {
            let [before, last] = self.moments;
            self.note_fill(last);
            if before.is_finite() {
                self.wander += 0.1 * ((last - before).abs() - self.wander);
            }
            let before = if now < self.moment_began + moment * 2 {
                last
            } else {
                f64::INFINITY
            };
            self.moments = [before, f64::INFINITY];
            self.moment_began = now;
        }
        self.moments[1] = self.moments[1].min(rtt);
        self.moments[0].min(self.moments[1])
    }

    /// The last moment was heard of, as the one before it was: no single packet decides.
    fn lasts_for_moments(&self) -> bool {
        self.moments.iter().all(|least| least.is_finite())
    }

    fn note_base(&mut self, now: Timestamp, rtt: f64, window: Duration) {
        if now > self.slice_began + Span::from(window) / 3 {
            self.slice_began = now;
            self.minimum.turn();
            self.maximum.turn();
            self.jitter.turn();
        }
        self.minimum.note(rtt);
    }

    /// A moment is over, in which that was the smallest round trip.
    fn note_fill(&mut self, rtt: f64) {
        if rtt.is_infinite() {
            return;
        }
        let gain = if self.mean == 0.0 { 1.0 } else { 0.2 };
        self.mean += gain * (rtt - self.mean);
        self.maximum.note(rtt);
        // The path's own is there at all times. What goes away was others' queue, and who kept it for his own would
        // let it come back, and stand in it, where others yield.
        self.own = self.own.min(self.mean);
        let base = self.base();
        let longest = self.maximum.get().unwrap_or(0.0) - base;
        self.fill = if longest > FELT {
            (((self.mean - base) / longest) as f32).clamp(0.0, 1.0)
        } else {
            0.0
        };
    }

    /// The round trip that is taken for the path's own.
    pub(super) fn base(&self) -> f64 {
        self.minimum.get().unwrap_or(f64::INFINITY)
    }
}

/// In seconds: a queue that is worth a word before it is one to be cut. A frame of a peer's takes as long.
const SHOWS: f64 = 0.016;

/// Seldom is a moment later than the base by more than so many times what two moments ordinarily lie apart.
const NOISE: f64 = 3.0;

/// In seconds: shorter delays are noise.
const FELT: f64 = 0.002;

/// Jitter explains a delay that it explains this share of.
const EXPLAINED: f64 = 0.75;

/// The least time over which round trips are compared.
const MOMENT_MIN: Span = Span::from_millis(25);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    const BULK: Limits = Limits {
        queue: 0.02,
        stands: Duration::from_millis(10),
        samples: 0,
        packet: 0.001,
        base_window: Duration::from_secs(30),
        spares_noise: false,
    };

    /// Bursts of four packets each 33 ms, whose acknowledgements come after `took(burst)` ms: the bursts
    /// after which a queue stands.
    fn stands(bursts: u64, took: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut queueing = Queueing::new(Timestamp::ZERO);
        let burst = |burst: u64| {
            let took = Span::from(Duration::from_millis(took(burst)));
            let now = Timestamp::from_millis(33 * burst) + took;
            let packets = [(); 4].map(|()| queueing.on_rtt(now, took, took, &BULK));
            packets.iter().any(|queue| queue.stands).then_some(burst)
        };
        (1..bursts).filter_map(burst).collect()
    }

    #[test]
    fn a_processor_that_was_away_is_no_queue() {
        let found = stands(300, |burst| if burst % 20 == 0 { 40 } else { 1 });
        assert_eq!(found, []);
    }

    #[test]
    fn what_later_packets_meet_too_is_one() {
        let found = stands(120, |burst| if burst >= 100 { 40 } else { 1 });
        assert_eq!(found.first(), Some(&101), "{found:?}");
    }

    /// A delay stays while we go slower, as jitter explains. Later it is gone, and comes again: it was others' queue.
    #[test]
    fn what_went_away_was_not_the_paths_own() {
        let mut random = Random::new(7);
        let mut queueing = Queueing::new(Timestamp::ZERO);
        let mut now = Timestamp::ZERO;
        let mut hear = |queueing: &mut Queueing, millis: u64, delay: f64| {
            let mut queue = Queue::quiet(0.0);
            for _ in 0..millis / 2 {
                now += Duration::from_millis(2);
                let rtt = Span::from_secs(0.05 + delay + 0.02 * random.share());
                queue = queueing.on_rtt(now, rtt, rtt, &BULK);
            }
            (now, queue.delay)
        };
        hear(&mut queueing, 1_000, 0.0);
        let (now, delay) = hear(&mut queueing, 1_000, 0.04);
        assert!(delay > 0.03, "{delay}");
        assert!(queueing.is_own(now, delay, BULK.base_window));
        let (_, delay) = hear(&mut queueing, 1_000, 0.04);
        assert!(delay.abs() < 0.01, "the path's own, for now: {delay}");
        hear(&mut queueing, 2_000, 0.0);
        let (_, delay) = hear(&mut queueing, 1_000, 0.04);
        assert!(delay > 0.03, "it was gone meanwhile: {delay}");
    }
}
