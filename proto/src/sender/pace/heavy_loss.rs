//! Whether heavy loss is the path's own. What senders do to each other comes and goes, and grows with what they send; what
//! a radio loses is the same at any time, and at any rate.
//!
//! ```text
//!             steady windows             as much is lost at eight times the rate
//!   Measures ────────────────▶ Climbs ──────────────────────────────────────────▶ the path's own
//!     ▲   │                      │
//!     │   └──────────┬───────────┘
//!     │              ▼   it varies by more than chance
//!     └─────────── Waits
//! ```

use std::time::Duration;

use crate::time::Timestamp;

/// What is found of heavy loss, window by window.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeavyLoss {
    state: State,
    windows: Windows,
    /// How long it waits after it failed.
    wait: Duration,
    /// When it last began to measure.
    began: Timestamp,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing is measured before that.
    Waits(Timestamp),
    /// Windows are counted, whatever the rate.
    Measures,
    /// The rate doubles after each window: bytes a second now, and how often it may still double.
    Climbs { rate: f64, doublings: u8 },
}

/// Packets, and the share of their datagrams that got lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) packets: f64,
    pub(super) share: f64,
}

/// What bulk does after a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// As it would anyway.
    Nothing,
    /// It goes at that rate.
    Try(f64),
    /// It takes that share for the path's own.
    Believe(f64),
}

impl HeavyLoss {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            state: State::Measures,
            windows: Windows::default(),
            wait: WAIT_MIN,
            began: now,
        }
    }

    /// Bulk goes at a rate that is to be tried.
    pub(super) fn climbs(&self) -> bool {
        matches!(self.state, State::Climbs { .. })
    }

    /// A window ended, in which `rate` was sent. More than `loss_max` is heavy.
    pub(super) fn on_window(
        &mut self,
        now: Timestamp,
        window: Window,
        rate: f64,
        loss_max: f64,
    ) -> Step {
        match self.state {
            State::Waits(until) if now < until => Step::Nothing,
            State::Waits(_) => {
                self.measure(now);
                Step::Nothing
            }
            State::Measures => self.while_measuring(now, window, rate, loss_max),
            State::Climbs { rate: tried, .. } if rate < REACHED * tried => self.doubt(now),
            State::Climbs { rate, doublings } => self.while_climbing(now, window, rate, doublings),
        }
    }

    fn measure(&mut self, now: Timestamp) {
        self.state = State::Measures;
        self.windows = Windows::default();
        self.began = now;
    }

    fn while_measuring(
        &mut self,
        now: Timestamp,
        window: Window,
        rate: f64,
        loss_max: f64,
    ) -> Step {
        self.windows.count(window);
        if self.windows.count < WINDOWS {
            return Step::Nothing;
        }
        if self.windows.share() <= loss_max {
            self.measure(now);
            return Step::Nothing;
        }
        if !self.windows.are_steady() {
            return self.doubt(now);
        }
        self.climb(rate, DOUBLINGS)
    }

    fn while_climbing(&mut self, now: Timestamp, window: Window, rate: f64, doublings: u8) -> Step {
        if self.windows.differ_from(window) {
            return self.doubt(now);
        }
        self.windows.count(window);
        if doublings > 0 {
            return self.climb(rate, doublings);
        }
        if !self.windows.are_steady() {
            return self.doubt(now);
        }
        let share = self.windows.share();
        self.measure(now);
        Step::Believe(share)
    }

    fn climb(&mut self, rate: f64, doublings: u8) -> Step {
        let rate = 2.0 * rate;
        self.state = State::Climbs {
            rate,
            doublings: doublings - 1,
        };
        Step::Try(rate)
    }

    /// The loss is somebody's doing, for all that is known.
    pub(super) fn doubt(&mut self, now: Timestamp) -> Step {
        if now.since(self.began) > HELD * self.wait {
            self.wait = WAIT_MIN;
        }
        self.state = State::Waits(now + self.wait);
        self.wait = (2 * self.wait).min(WAIT_MAX);
        Step::Nothing
    }
}

/// Windows one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    count: u32,
    packets: f64,
    lost: f64,
    /// The sum of what each lost, times its share.
    squares: f64,
}

impl Windows {
    fn count(&mut self, window: Window) {
        let lost = window.share * window.packets;
        self.count += 1;
        self.packets += window.packets;
        self.lost += lost;
        self.squares += lost * window.share;
    }

    fn share(&self) -> f64 {
        self.lost / self.packets
    }

    /// The shares vary no more than by chance: their index of dispersion is one then, give or take what a chi-squared
    /// distribution has.
    fn are_steady(&self) -> bool {
        let share = self.share();
        let others = f64::from(self.count - 1);
        let variance = (self.squares - self.lost * share) / others;
        share <= OWN_MAX && variance <= share * (1.0 - share) * (1.0 + LUCK * (2.0 / others).sqrt())
    }

    /// More or less is lost in this one than in those before, by more than chance.
    fn differ_from(&self, window: Window) -> bool {
        let share = self.share();
        let spread = share * (1.0 - share) * (1.0 / self.packets + 1.0 / window.packets);
        (window.share - share).abs() > DEVIATIONS * spread.sqrt()
    }
}

/// Windows that are measured before the rate rises.
const WINDOWS: u32 = 6;

/// How often it doubles then. Of sixteen who make each other lose a fifth, one that sends eight times as much makes that two
/// fifths, or the others make room for it, which takes them a while.
const DOUBLINGS: u8 = 3;

/// Of the rate to be tried, what was sent at least: else the path's end was met, or the rate may not be so high.
const REACHED: f64 = 0.9;

/// Losses that fall by chance are steadier than by so many standard deviations of the index in nine cases of ten.
const LUCK: f64 = 1.5;

/// One window differs by so many standard deviations once in 22.
const DEVIATIONS: f64 = 2.0;

/// More than this is never the path's own.
const OWN_MAX: f64 = 0.4;

/// How long nothing is measured after a failure: twice as long each time, unless it went well for so many times as long.
const WAIT_MIN: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(160);
const HELD: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Windows of 100 packets, four a second, of which `loss(now, rate)` get lost while bulk sends what it is told, or one
    /// packet a second. What is taken for the path's own in that time, if anything is.
    fn found(seed: u64, seconds: u64, loss: impl Fn(f64, f64) -> f64) -> Option<f64> {
        let mut random = Random::new(seed);
        let mut heavy = HeavyLoss::new(Timestamp::ZERO);
        let mut rate = 1.0;
        (0..4 * seconds).find_map(|number| {
            let likely = loss(number as f64 / 4.0, rate);
            let lost = (0..100).filter(|_| random.happens(likely)).count();
            let window = Window {
                packets: 100.0,
                share: lost as f64 / 100.0,
            };
            let now = Timestamp::from_millis(250 * number);
            rate = match heavy.on_window(now, window, rate, 0.15) {
                Step::Believe(share) => return Some(share),
                Step::Try(tried) => tried,
                Step::Nothing => 1.0,
            };
            None
        })
    }

    #[test]
    fn what_is_always_the_same_is_the_paths_own() {
        for loss in [0.18, 0.25, 0.3] {
            for seed in 0..20 {
                let what = format!("seed {seed}, {loss}");
                let own = found(seed, 600, |_, _| loss).expect(&what);
                assert!((own / loss - 1.0).abs() < 0.25, "{what}: {own}");
            }
        }
    }

    /// Half of the time the others are not there.
    #[test]
    fn what_comes_and_goes_is_not() {
        for seed in 0..20 {
            let own = found(seed, 600, |now, _| if now % 2.0 < 1.0 { 0.1 } else { 0.35 });
            assert_eq!(own, None, "seed {seed}");
        }
    }

    /// One of sixteen, who are patient: they lose a fifth until it asks for more.
    #[test]
    fn what_grows_with_the_rate_is_not() {
        for seed in 0..20 {
            let own = found(seed, 600, |_, rate| 1.0 - 12.8 / (15.0 + rate));
            assert_eq!(own, None, "seed {seed}");
        }
    }

    #[test]
    fn what_is_light_or_nearly_everything_is_not() {
        for (seed, loss) in (0..20).flat_map(|seed| [(seed, 0.1), (seed, 0.5)]) {
            assert_eq!(found(seed, 600, |_, _| loss), None, "seed {seed}, {loss}");
        }
    }

    #[test]
    fn a_rate_that_was_not_reached_says_nothing() {
        let mut heavy = HeavyLoss::new(Timestamp::ZERO);
        let window = Window {
            packets: 100.0,
            share: 0.2,
        };
        let steps = [1.0; 8].map(|rate| heavy.on_window(Timestamp::ZERO, window, rate, 0.15));
        assert_eq!(
            steps[4..],
            [Step::Nothing, Step::Try(2.0), Step::Nothing, Step::Nothing]
        );
    }

    #[test]
    fn who_fails_waits_twice_as_long_each_time() {
        let mut heavy = HeavyLoss::new(Timestamp::ZERO);
        let now = Timestamp::from_millis(1_000);
        let waits = [(); 7].map(|()| {
            heavy.doubt(now);
            let State::Waits(until) = heavy.state else {
                panic!("it waits");
            };
            until.since(now).as_secs()
        });
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 160]);
    }
}
