//! Whether more gets lost than usual: where a path's end shows although no queue is felt.
//!
//! Bulk cannot wait for what is final: it hears each loss when it is found, and that some of these arrive late after
//! all is part of what is usual.

use std::time::Duration;

use crate::time::Timestamp;
use crate::windowed::{Smallest, Windowed};

use super::loss_tally::LossTally;

/// What is lost of what is sent, now and usually.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    since: Timestamp,
    tally: LossTally,
    /// Smoothed: what the path loses whatever is sent.
    usual: f32,
    /// More is not: [`USUAL_MAX`], or what was found to be the path's own ([`Losses::believe`]).
    usual_max: f32,
    /// Number of packets that it is known from.
    known: f32,
    /// The least that was lost in one window of late, given the chance that made it so little.
    least: Windowed<f32, Smallest>,
    /// Windows in the present slice of that.
    windows: u8,
    /// Rows of losses in this window, each after something that arrived.
    rows: u32,
    /// Losses in one of them, usually.
    row: f32,
    /// Rises after each other, up to [`RISES_MAX`].
    rises: u8,
    /// The packet that was lost last was of several datagrams.
    is_split: bool,
    /// In the last window losses hardly came in rows.
    are_single: bool,
}

/// What losses of a moment say of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    /// What it loses whatever is sent.
    Path,
    /// Perhaps what many make it lose, of whom none could change it alone.
    Crowd,
    /// Nothing: a short queue is about to run over.
    Overflow,
}

impl Default for Losses {
    fn default() -> Self {
        Self {
            since: Timestamp::ZERO,
            tally: LossTally::default(),
            usual: 0.0,
            usual_max: USUAL_MAX,
            known: 0.0,
            least: Windowed::default(),
            windows: 0,
            rows: 0,
            row: 0.0,
            rises: 0,
            is_split: false,
            are_single: false,
        }
    }
}

impl Losses {
    /// The path loses so much whatever is sent.
    pub(super) fn believe(&mut self, share: f32) {
        self.usual = share;
        self.usual_max = (OWN_KNOWN * share).max(USUAL_MAX);
        self.known = KNOWN_MAX;
    }

    /// It may not.
    pub(super) fn doubt(&mut self) {
        if self.is_own() {
            self.usual_max = USUAL_MAX;
            self.usual = self.usual.min(USUAL_MAX);
        }
    }

    /// The packet that was lost last was of several datagrams.
    pub(super) fn is_split(&self) -> bool {
        self.is_split
    }

    /// Heavy loss is the path's own.
    pub(super) fn is_own(&self) -> bool {
        self.usual_max > USUAL_MAX
    }

    pub(super) fn on_acked(&mut self) {
        // It ends no row: acknowledgements come in any order, and whether losses follow each other they say themselves.
        self.tally.count(false);
    }

    /// A packet sent then was lost; `follows`, when the one sent before it was, too; `split`, when it was
    /// several datagrams.
    pub(super) fn on_lost(&mut self, sent_at: Timestamp, follows: bool, split: bool) {
        self.rows += u32::from(!follows);
        self.is_split = split;
        if !follows || split {
            self.tally.end_run();
        }
        self.tally.on_lost(sent_at);
    }

    fn restart(&mut self) {
        self.rows = 0;
        self.tally.restart();
    }

    /// What is usual, as far as it may be the path's own.
    pub(super) fn usual(&self) -> f32 {
        self.usual.min(self.usual_max)
    }

    /// The largest share of datagrams that is not clearly more than usual. Unknown for packets of several datagrams.
    pub(super) fn most_usual(&self) -> f32 {
        match self.is_split {
            true => 0.0,
            false => self.clearly_above(self.usual, ABOVE_USUAL),
        }
    }

    /// What was lost in the last window was lost one by one, as those lose who share what lets only so much through: each
    /// sends evenly, and all are a little too fast. A radio loses rows.
    pub(super) fn are_single(&self) -> bool {
        self.are_single
    }

    /// How much less of the carried rate is kept than after a single rise.
    pub(super) fn distrust(&self) -> f64 {
        DISTRUST * f64::from(self.rises.saturating_sub(1))
    }

    /// What is found lost until then was sent at a rate that is known to be too high.
    pub(super) fn rest_until(&mut self, at: Timestamp) {
        self.since = at;
    }

    /// In the last `step`, clearly more was lost than usual. False until there is enough to say.
    pub(super) fn have_risen(&mut self, now: Timestamp, step: Duration, witness: Witness) -> bool {
        if now < self.since {
            self.restart();
        }
        // Half of everything is no chance.
        let (packets, lost) = (self.tally.packets(), self.tally.lost());
        let most_of_some = packets >= LOSSES_OF / 4 && 2 * lost > packets;
        if !most_of_some && packets < LOSSES_OF || now.since(self.since) < step {
            return false;
        }
        let count = packets as f32;
        let share = lost as f32 / count;
        let row = lost as f32 / self.rows.max(1) as f32;
        self.are_single = !self.is_split && !self.is_own() && row < ROW_MIN;
        self.since = now;
        self.restart();
        if self.known == 0.0 {
            // The first share is the path's own, or else there is soon more of it.
            let most = if self.is_split {
                USUAL_MAX
            } else {
                USUAL_OF_CROWD
            };
            // It may be luck: a loss and a delivery are added.
            self.usual = ((lost as f32 + 1.0) / (count + 2.0)).min(most);
        }
        let most = self.most(count);
        let has_risen = share > most;
        self.count_rise(has_risen, share <= 0.5 * most);
        if share > 0.0 && !has_risen && witness != Witness::Overflow {
            self.row += 0.1 * (row.min(ROW_MAX) - self.row);
        }
        let least = self.least(share, count);
        self.learn(share.min(most).min(least), witness);
        self.known = (self.known + count).min(KNOWN_MAX);
        has_risen
    }

    /// Packets of several datagrams lose so many that their rises say little.
    fn count_rise(&mut self, has_risen: bool, is_calm: bool) {
        self.rises = match self.rises {
            _ if self.is_split => 0,
            rises if has_risen => (rises + 1).min(RISES_MAX),
            rises if is_calm => rises.saturating_sub(1),
            rises => rises,
        };
    }

    /// The largest share of so many packets that may be lost by chance, where no more than the usual is.
    fn most(&self, count: f32) -> f32 {
        // What little is known may be luck: two losses and two deliveries are added.
        let likely = (self.usual * self.known + 2.0) / (self.known + 4.0);
        // A row is lost by one chance, not by many.
        let spread = likely * (1.0 - likely) * self.row.max(1.0);
        let chance = (spread / count).sqrt() + 2.0 * (spread / self.known.max(1.0)).sqrt();
        self.clearly_above(likely, self.above_usual()) + chance
    }

    /// A path that hardly loses anything says sooner that something is wrong.
    fn above_usual(&self) -> f32 {
        match self.are_single {
            true => (ABOVE_NOTHING + ABOVE_EACH * self.usual).min(ABOVE_USUAL),
            false => ABOVE_USUAL,
        }
    }

    /// No more than this is the path's own: what it loses whatever is sent, it loses in every window. What all lose who
    /// send too much stops for a while when they go slower, and who took it for usual would keep what the others leave.
    fn least(&mut self, share: f32, count: f32) -> f32 {
        if !self.are_single {
            return share;
        }
        let likely = (share * count + 1.0) / (count + 2.0);
        let spread = likely * (1.0 - likely) * self.row.max(1.0);
        let luck = LUCK * (spread / count).sqrt();
        self.windows += 1;
        if self.windows == WINDOWS {
            self.windows = 0;
            self.least.turn();
        }
        self.least.note(share + luck);
        self.least.get().unwrap_or(share)
    }

    /// More than this is clearly more, where that is usual. Heavy loss that is the path's own is known better, and
    /// what comes to it costs others more.
    fn clearly_above(&self, usual: f32, above: f32) -> f32 {
        if self.is_own() && !self.is_split {
            TIMES_OWN * usual + ABOVE_OWN
        } else {
            TIMES_USUAL * usual + above
        }
    }

    /// What is usual: a rate that is a little too high must not make its own losses usual, nor must many who
    /// each are a little too fast. Packets of several datagrams lose so many more that only time tells. Less
    /// is believed sooner than more, except where nobody else can have lost it.
    fn learn(&mut self, share: f32, witness: Witness) {
        let is_of_crowd = witness == Witness::Crowd && !self.is_split && !self.is_own();
        if is_of_crowd && self.usual > USUAL_OF_CROWD {
            self.usual = (0.9 * self.usual).max(USUAL_OF_CROWD);
        }
        let gain = match witness {
            _ if share < self.usual => 0.1,
            Witness::Overflow => 0.0,
            _ if self.is_split || self.usual < USUAL_OF_CROWD => 0.03,
            Witness::Crowd if !self.is_own() => 0.0,
            Witness::Crowd | Witness::Path => 0.2,
        };
        self.usual += gain * (share - self.usual);
        if !self.is_split {
            self.usual = self.usual.min(self.usual_max);
            if self.usual < USUAL_MAX {
                self.usual_max = USUAL_MAX;
            }
        }
    }
}

/// Packets that make a share, at least.
const LOSSES_OF: u32 = 64;

/// What is usual is a mean over so many packets.
const KNOWN_MAX: f32 = 2000.0;

/// A row of losses counts as no longer than this.
const ROW_MAX: f32 = 64.0;

/// Losses are a row when there are so many of them, on average.
const ROW_MIN: f32 = 3.0;

/// More than this share of datagrams is hardly lost whatever is sent, unless it was found to be ([`Losses::believe`]).
pub(super) const USUAL_MAX: f32 = 0.1;

/// Where many flows share the path, no more than this is learned as usual.
const USUAL_OF_CROWD: f32 = 0.02;

/// A rise is more than so many times the usual, and this, and chance.
const TIMES_USUAL: f32 = 1.5;
const ABOVE_USUAL: f32 = 0.05;

/// Where nothing is lost as usual it is more than this, and so many times what is usual. A TCP beside it hears each loss:
/// the sooner all go slower, the less often it does.
const ABOVE_NOTHING: f32 = 0.015;
const ABOVE_EACH: f32 = 4.0;

/// Windows of a third of the time in which the least is looked for. In some of so many, those who share a path have just
/// gone slower.
const WINDOWS: u8 = 12;

/// Standard deviations by which the luckiest of so many windows lost less than the path does.
const LUCK: f32 = 1.8;

/// A rise over heavy loss that is the path's own is more than so many times that, and this, and chance.
const TIMES_OWN: f32 = 1.1;
const ABOVE_OWN: f32 = 0.03;

/// What was found to be the path's own is so many times as much at most: it was a matter of a thousand packets.
const OWN_KNOWN: f32 = 1.2;

/// Each rise that follows another one takes this share of what the path carried: going slower alone was not
/// enough, others do so too late, or not at all.
const DISTRUST: f64 = 0.1;
const RISES_MAX: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    const STEP: Duration = Duration::from_millis(50);

    /// Rounds of 100 packets of which `loss(round)` get lost; the rounds in which that was a rise.
    fn rises(seed: u64, rounds: u64, loss: impl Fn(u64) -> f64) -> Vec<u64> {
        rises_seen(seed, rounds, Witness::Path, loss)
    }

    fn rises_seen(seed: u64, rounds: u64, witness: Witness, loss: impl Fn(u64) -> f64) -> Vec<u64> {
        rises_of(100, seed, rounds, witness, loss)
    }

    /// Rounds of so many packets, of which `loss(round)` get lost; the rounds in which that was a rise.
    fn rises_of(
        packets: u32,
        seed: u64,
        rounds: u64,
        witness: Witness,
        loss: impl Fn(u64) -> f64,
    ) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut losses = Losses::default();
        let mut found = Vec::new();
        for round in 0..rounds {
            let mut follows = false;
            let now = Timestamp::from_millis(50 * (round + 1));
            for _ in 0..packets {
                let lost = random.happens(loss(round));
                match lost {
                    true => losses.on_lost(now, follows, false),
                    false => losses.on_acked(),
                }
                follows = lost;
            }
            if losses.have_risen(now, STEP, witness) {
                found.push(round);
            }
        }
        found
    }

    #[test]
    fn what_a_path_always_loses_is_no_rise() {
        for loss in [0.0, 0.01, 0.07] {
            let found = rises(3, 1_000, |_| loss);
            assert!(found.len() < 10, "{found:?} of 1000 at {loss}");
        }
    }

    /// One in six hears of no more than one loss in the first 64 packets.
    #[test]
    fn a_lucky_beginning_is_no_rule() {
        let rises = |seed| rises_of(64, seed, 30, Witness::Path, |_| 0.05).len();
        let unlucky = (0..200).max_by_key(|seed| rises(*seed)).unwrap_or(0);
        let (most, all) = (rises(unlucky), (0..200).map(rises).sum::<usize>());
        let what = format!("{all} rises of 6000, of seed {unlucky} {most}");
        assert!(most < 4 && all < 24, "{what}");
    }

    #[test]
    fn what_is_lost_above_that_is() {
        let found = rises(4, 220, |round| if round < 200 { 0.02 } else { 0.25 });
        let late = found.iter().filter(|round| **round >= 200).count();
        assert!(late >= 10 && found.len() - late < 3, "{found:?}");
    }

    /// Those who share a policer lose a tenth to each other, go slower, and lose nothing until they are too fast again.
    #[test]
    fn what_stops_for_a_while_is_not_usual() {
        let found = rises(7, 1_000, |round| if round % 20 < 10 { 0.0 } else { 0.1 });
        let late = found.iter().filter(|round| **round >= 200).count();
        assert!(late > 150, "{late} of 400");
    }

    #[test]
    fn who_loses_nothing_soon_hears_of_a_little() {
        let found = rises(8, 210, |round| if round < 200 { 0.0 } else { 0.035 });
        assert!(found.len() >= 4, "{found:?}");
    }

    /// Many who lose a tenth to each other never get used to it; who is alone on a path that loses a tenth does.
    #[test]
    fn what_many_lose_is_not_usual() {
        let [alone, of_many] = [Witness::Path, Witness::Crowd].map(|witness| {
            let found = rises_seen(6, 1_000, witness, |_| 0.13);
            found.iter().filter(|round| **round >= 200).count()
        });
        assert!(alone < 30 && of_many > 300, "{alone} and {of_many} of 800");
    }
}
