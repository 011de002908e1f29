//! Whether heavy loss is the path's own. While that is open, bulk leaves two packets at a time in good mode. What is full
//! drops the second of two wherever it drops the first, and where it has room for one, the second alone. A radio loses either
//! alone as often as the other. That holds at any rate, and whoever else fills the path.
//!
//! ```text
//!                as many firsts are lost alone as seconds
//!   Counting ──────────────────────────────────────────────▶ the path's own
//!    ▲    │
//!    │    ▼ clearly more seconds
//!   Waiting
//! ```

use std::time::Duration;

use crate::sender::detector::Outcome;
use crate::time::Timestamp;

/// What is found of heavy loss.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeavyLoss {
    /// Packets leave in pairs.
    Counting(Pairs),
    /// Until then the loss is somebody's doing, for all that is known.
    Waiting(Timestamp),
}

/// What the pairs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finding {
    /// Nothing so far.
    Open,
    /// The loss is not heavy.
    Light,
    /// The path loses that share of datagrams, whatever is sent.
    Own(f64),
}

impl HeavyLoss {
    pub(super) fn new() -> Self {
        Self::Counting(Pairs::default())
    }

    /// Packets are to leave in pairs.
    pub(super) fn wants_pairs(&self) -> bool {
        matches!(self, Self::Counting(_))
    }

    /// The final fate of a packet, in the order in which they were sent.
    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        if let Self::Counting(pairs) = self {
            pairs.on_outcome(outcome.sent_at, outcome.lost);
        }
    }

    /// What is known now. More than `learned_max` is heavy.
    pub(super) fn find(&mut self, now: Timestamp, learned_max: f64) -> Finding {
        match self {
            Self::Waiting(until) if now < *until => Finding::Open,
            Self::Waiting(_) => {
                *self = Self::new();
                Finding::Open
            }
            Self::Counting(pairs) if pairs.are_uneven() => self.doubt(now),
            Self::Counting(pairs) if pairs.count < PAIRS => Finding::Open,
            Self::Counting(pairs) => match pairs.share() {
                share if share > OWN_MAX => self.doubt(now),
                share if share > learned_max => Finding::Own(share),
                _ => Finding::Light,
            },
        }
    }

    fn doubt(&mut self, now: Timestamp) -> Finding {
        *self = Self::Waiting(now + WAIT);
        Finding::Open
    }
}

/// Packets that left two at a time, and which of two were lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pairs {
    /// When a packet left that may be the first of two, and whether it was lost.
    first: Option<(Timestamp, bool)>,
    count: u32,
    /// Lost together.
    both: u32,
    /// Lost alone: first ones, and second ones.
    alone: [u32; 2],
}

impl Pairs {
    /// Two are a pair that left at the same time: nothing comes between them.
    fn on_outcome(&mut self, sent_at: Timestamp, lost: bool) {
        let first = self.first.take();
        let Some((_, first_lost)) = first.filter(|(at, _)| *at == sent_at) else {
            self.first = Some((sent_at, lost));
            return;
        };
        self.count += 1;
        self.both += u32::from(first_lost && lost);
        self.alone[0] += u32::from(first_lost && !lost);
        self.alone[1] += u32::from(!first_lost && lost);
    }

    /// Second ones are lost alone more often than first ones, by more than chance (McNemar's test).
    fn are_uneven(&self) -> bool {
        let [first, second] = self.alone.map(f64::from);
        let alone = first + second;
        alone >= ALONE_MIN && second - first > DEVIATIONS * alone.sqrt()
    }

    /// Share of the packets in pairs that was lost.
    fn share(&self) -> f64 {
        let lost = 2 * self.both + self.alone[0] + self.alone[1];
        f64::from(lost) / f64::from(2 * self.count)
    }
}

/// Pairs after which the share that is lost is known to an eighth of a fifth.
const PAIRS: u32 = 300;

/// Packets lost alone that say something. Of so many, all are second ones at a policer that is full.
const ALONE_MIN: f64 = 20.0;

/// What falls by chance is as uneven as that once in 700 times.
const DEVIATIONS: f64 = 3.0;

/// More than this is never the path's own.
const OWN_MAX: f64 = 0.4;

/// How long nothing is counted after that: where many fill the path, who sends pairs loses more than others.
const WAIT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Two packets each 20 ms, of which `lost` says what is lost, looked at each second, and anew where that is light. What
    /// the path is found to lose itself, and after how many seconds, if it is.
    fn found(
        seed: u64,
        seconds: u64,
        lost: impl Fn(&mut Random) -> [bool; 2],
    ) -> Option<(f64, u64)> {
        let mut random = Random::new(seed);
        let mut heavy = HeavyLoss::new();
        (0..seconds).find_map(|second| {
            for pair in 0..50 {
                let sent_at = Timestamp::from_millis(1_000 * second + 20 * pair);
                for lost in lost(&mut random) {
                    heavy.on_outcome(Outcome {
                        sent_at,
                        lost,
                        datagrams: 1,
                        with_copies: false,
                    });
                }
            }
            match heavy.find(Timestamp::from_millis(1_000 * (second + 1)), 0.15) {
                Finding::Open => None,
                Finding::Light => {
                    heavy = HeavyLoss::new();
                    None
                }
                Finding::Own(share) => Some((share, second)),
            }
        })
    }

    /// Either is lost by itself.
    fn each(share: f64) -> impl Fn(&mut Random) -> [bool; 2] {
        move |random| [(); 2].map(|()| random.happens(share))
    }

    #[test]
    fn what_hits_both_alike_is_the_paths_own() {
        for loss in [0.18, 0.25, 0.3] {
            for seed in 0..20 {
                let what = format!("seed {seed}, {loss}");
                let (own, after) = found(seed, 120, each(loss)).expect(&what);
                assert!((own / loss - 1.0).abs() < 0.3, "{what}: {own}");
                assert!(after < 60, "{what}: after {after} s");
            }
        }
    }

    /// A policer that is full mostly has room for one packet or none.
    #[test]
    fn what_has_no_room_for_the_second_is_somebodys_doing() {
        for seed in 0..20 {
            let own = found(seed, 600, |random| match random.share() {
                share if share < 0.1 => [true, true],
                share if share < 0.3 => [false, true],
                _ => [false, false],
            });
            assert_eq!(own, None, "seed {seed}");
        }
    }

    /// A radio that is away for some packets loses most of what it loses in pairs.
    #[test]
    fn what_is_lost_together_is_the_paths_own() {
        for seed in 0..20 {
            let own = found(seed, 120, |random| match random.share() {
                share if share < 0.18 => [true, true],
                share if share < 0.22 => [true, false],
                share if share < 0.26 => [false, true],
                _ => [false, false],
            });
            assert!(own.is_some(), "seed {seed}");
        }
    }

    #[test]
    fn what_is_light_or_nearly_everything_is_not() {
        for (seed, loss) in (0..20).flat_map(|seed| [(seed, 0.1), (seed, 0.5)]) {
            assert_eq!(found(seed, 600, each(loss)), None, "seed {seed}, {loss}");
        }
    }

    #[test]
    fn packets_that_left_one_by_one_say_nothing() {
        let mut pairs = Pairs::default();
        for packet in 0..2_000 {
            pairs.on_outcome(Timestamp::from_millis(packet), packet % 5 == 0);
        }
        assert_eq!(pairs.count, 0);
    }
}
