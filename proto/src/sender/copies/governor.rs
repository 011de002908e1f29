//! Do copies help? On a lossy link they do. On a link that loses because it is full they make it
//! lose more. So the loss seen with copies is compared with the loss seen without. (A link that shows that it
//! is full, by its delay, is the matter of `rate.rs`.)
//!
//! ```text
//!           loss with copies is far above loss without
//!     free ───────────────────────────────────────────▶ trial: no copies, settle, measure
//!      ▲                                                  │               │
//!      ├──────────── as bad without: not our doing ───────┘               │ clearly better
//!      └──────── after 10 s, doubling to 160 s ──────── held ◀────────────┘
//! ```

use std::time::Duration;

use crate::time::Timestamp;

use super::budget::OutageBudget;
use super::rate::CopyRate;

/// Decides whether copies may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Governor {
    state: State,
    /// Loss of packets sent while hardly any copies were, and how many of them were counted.
    loss_without: f32,
    count_without: u16,
    /// Loss with copies, over the last windows of it, and how many there were.
    loss_with: f32,
    windows: u16,
    /// The present window.
    count: u16,
    lost: u16,
    began: Timestamp,
    hold: Duration,
    /// Kept here because before the first loss they are of no use either.
    pub(super) outage_budget: OutageBudget,
    pub(super) rate: CopyRate,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// Without copies since `began`, because so much was lost with them.
    Trial,
    Held {
        until: Timestamp,
    },
}

impl Governor {
    /// Begins with the first loss, after `delivered` packets that all arrived.
    pub(super) fn new(now: Timestamp, delivered: u32) -> Self {
        Self {
            state: State::Free,
            loss_without: 0.0,
            count_without: delivered.min(u32::from(WINDOW)) as u16,
            loss_with: 0.0,
            windows: 0,
            count: 0,
            lost: 0,
            began: now,
            hold: HOLD_MIN,
            outage_budget: OutageBudget::new(now),
            rate: CopyRate::new(now),
        }
    }

    /// Copies may be sent.
    pub(super) fn allows(&self) -> bool {
        matches!(self.state, State::Free)
    }

    /// Copies cost what they bring: without them for a while.
    fn withdraw(&mut self, now: Timestamp) {
        let until = now + self.hold;
        self.hold = (2 * self.hold).min(HOLD_MAX);
        self.enter(State::Held { until }, now);
    }

    /// The final fate of a packet, whether copies went with its neighbours, and how much losses
    /// come in groups (0 to 1), which makes windows differ more than chance would.
    pub(super) fn on_outcome(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        lost: bool,
        with_copies: bool,
        grouping: f32,
    ) {
        if let State::Held { until } = self.state
            && now >= until
        {
            self.enter(State::Free, now);
        }
        if sent_at < self.began {
            return;
        }
        match self.state {
            State::Free if with_copies => {
                if self.close_window(now, lost, Duration::from_secs(1)) {
                    self.judge_window(now, grouping);
                }
            }
            State::Free | State::Held { .. } => self.learn_without(lost),
            State::Trial => {
                // Others on the same link may have stopped too: let it settle first.
                if now.since(self.began) >= SETTLE && self.close_window(now, lost, 2 * SETTLE) {
                    self.judge_trial(now, grouping);
                }
            }
        }
    }

    /// A window with copies is full: more loss than is usual without them starts a trial.
    fn judge_window(&mut self, now: Timestamp, grouping: f32) {
        // Smoothed: one bad window among many is chance.
        let level = self.window_loss();
        self.loss_with += (level - self.loss_with) / f32::from(self.windows.min(2) + 1);
        self.windows = self.windows.saturating_add(1);
        if self.windows > 1 && self.loss_with > self.suspicious(grouping) {
            self.enter(State::Trial, now);
        } else {
            self.hold = (self.hold * 3 / 4).max(HOLD_MIN);
            self.restart(now);
        }
    }

    /// The trial's window is full: copies stay off where it clearly was better.
    fn judge_trial(&mut self, now: Timestamp, grouping: f32) {
        let level = self.window_loss();
        self.loss_without = level;
        self.count_without = WINDOW;
        let gain = self.loss_with - level;
        let chance = deviation(self.loss_with, WINDOW, grouping);
        if gain > 0.3 * self.loss_with && gain > 2.5 * chance {
            self.withdraw(now);
        } else {
            self.enter(State::Free, now);
        }
    }

    /// Loss with copies above this is more than chance and a quarter over the loss without.
    fn suspicious(&self, grouping: f32) -> f32 {
        if self.count_without < 20 {
            return SUSPICIOUS;
        }
        // What little was seen may have been luck: two losses and two deliveries are added.
        let count = f32::from(self.count_without);
        let loss_without = (self.loss_without * count + 2.0) / (count + 4.0);
        let seen = self.count_without.min(WINDOW);
        let chance = deviation(loss_without, seen, grouping).hypot(deviation(
            loss_without,
            WINDOW,
            grouping,
        ));
        (1.25 * loss_without + 3.6 * chance).max(0.05)
    }

    fn learn_without(&mut self, lost: bool) {
        self.count_without = (self.count_without + 1).min(WINDOW);
        let hit = f32::from(u8::from(lost));
        self.loss_without += (hit - self.loss_without) / f32::from(self.count_without);
    }

    fn close_window(&mut self, now: Timestamp, lost: bool, least: Duration) -> bool {
        self.count = self.count.saturating_add(1);
        self.lost = self.lost.saturating_add(u16::from(lost));
        self.count >= WINDOW && now.since(self.began) >= least
    }

    fn window_loss(&self) -> f32 {
        f32::from(self.lost) / f32::from(self.count.max(1))
    }

    fn enter(&mut self, state: State, now: Timestamp) {
        self.state = state;
        if let State::Free = state {
            self.windows = 0;
        }
        self.restart(now);
    }

    fn restart(&mut self, now: Timestamp) {
        self.began = now;
        self.count = 0;
        self.lost = 0;
    }
}

/// Standard deviation of a loss share measured over `count` packets.
fn deviation(share: f32, count: u16, grouping: f32) -> f32 {
    let share = share.max(0.01);
    let alone = share * (1.0 - share) / f32::from(count.max(1));
    (alone * (1.0 + grouping) / (1.0 - grouping).max(0.05)).sqrt()
}

/// Packets in a window: two seconds of a game.
const WINDOW: u16 = 120;

/// Without anything to compare with, loss above this deserves a trial.
const SUSPICIOUS: f32 = 0.35;

const SETTLE: Duration = Duration::from_secs(3);
const HOLD_MIN: Duration = Duration::from_secs(10);
const HOLD_MAX: Duration = Duration::from_secs(160);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Plays packets at 60 a second; `loss` says how many get lost, given whether copies are sent.
    fn play(seconds: u64, loss: impl Fn(bool) -> f64) -> (u64, Governor) {
        let mut random = Random::new(5);
        let mut governor = Governor::new(Timestamp::ZERO, 60);
        let mut with_copies = 0;
        for n in 0..seconds * 60 {
            let sent_at = Timestamp::from_nanos(n * 16_666_667);
            let copies = governor.allows();
            with_copies += u64::from(copies);
            let lost = random.happens(loss(copies));
            governor.on_outcome(
                sent_at + Duration::from_millis(60),
                sent_at,
                lost,
                copies,
                0.0,
            );
        }
        (with_copies, governor)
    }

    #[test]
    fn on_a_lossy_link_copies_go_on() {
        for loss in [0.01, 0.05, 0.1, 0.2] {
            let (with_copies, _) = play(600, |_| loss);
            assert!(with_copies > 590 * 60, "{with_copies} of 36000 at {loss}");
        }
    }

    #[test]
    fn copies_that_cause_the_loss_are_withdrawn() {
        let (with_copies, governor) = play(600, |copies| if copies { 0.3 } else { 0.03 });
        assert!(
            with_copies < 200 * 60,
            "{with_copies} of 36000 packets had copies beside them"
        );
        assert!(
            governor.hold > HOLD_MIN,
            "each failure makes the next trial rarer"
        );
    }
}
