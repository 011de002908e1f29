//! Loss judged by windows of a hundred packets: is it heavy, does it last, and is it our doing? It is the loss
//! of datagrams: a packet of several is lost with any of them, which says nothing more of the path.

use crate::mode::Mode;
use crate::sender::detector::Outcome;
use crate::time::{Span, Timestamp};

use super::loss_tally::LossTally;

/// Shares of datagrams lost, window by window.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossWindows {
    tally: LossTally,
    /// Datagrams of these packets beyond one each.
    more_datagrams: u32,
    began: Timestamp,
    last: f64,
    before: f64,
    smoothed: f64,
    /// Windows in a row with more loss than the limit.
    heavy: u32,
    /// A level of loss that was seen not to be our doing.
    tolerated: f64,
    /// Bad mode is for loss alone, which was so high, and has been measured so often since.
    trial: Option<(f64, u32)>,
}

impl LossWindows {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            tally: LossTally::default(),
            more_datagrams: 0,
            began: now,
            last: 0.0,
            before: 0.0,
            smoothed: 0.0,
            heavy: 0,
            tolerated: 0.0,
            trial: None,
        }
    }

    /// The final fate of a packet, in the order in which they were sent.
    pub(super) fn on_outcome(&mut self, lost: bool, datagrams: u32) {
        self.tally.count(lost);
        self.more_datagrams += datagrams - 1;
    }

    /// The final fate of a packet of bulk, which sends so much that one outage is a window, or two.
    pub(super) fn on_bulk_outcome(&mut self, outcome: Outcome) {
        let Outcome {
            lost, datagrams, ..
        } = outcome;
        if lost && datagrams == 1 {
            self.tally.on_lost(outcome.sent_at);
        } else {
            self.tally.end_run();
            self.on_outcome(lost, datagrams);
        }
    }

    /// Ends the present window if there is enough in it.
    pub(super) fn close(&mut self, now: Timestamp, mode: Mode, rtt_s: f64, loss_max: f64) -> bool {
        let least = match mode {
            Mode::Good => WINDOW,
            Mode::Bad => WINDOW_IN_BAD,
        };
        let packets = self.tally.packets();
        if packets < least || now < self.began + Span::from_secs(rtt_s.max(SPAN_MIN)) {
            return false;
        }
        self.before = self.last;
        let arrived = 1.0 - f64::from(self.tally.lost()) / f64::from(packets);
        let datagrams = f64::from(packets + self.more_datagrams) / f64::from(packets);
        self.last = 1.0 - arrived.powf(1.0 / datagrams);
        self.smoothed += GAIN * (self.last - self.smoothed);
        self.heavy = match self.last > loss_max {
            true => self.heavy.saturating_add(1),
            false => 0,
        };
        self.tolerated *= TOLERATED_FADES;
        if let Some((_, windows)) = &mut self.trial {
            *windows += 1;
        }
        self.tally.restart();
        self.more_datagrams = 0;
        self.began = now;
        true
    }

    /// The smoothed share, if it has been above the limit for longer than an overflow of ours lasts.
    pub(super) fn lasting(&self, loss_max: f64) -> Option<f64> {
        (self.smoothed > loss_max && self.heavy >= LASTS).then_some(self.smoothed)
    }

    /// The least that one of the last two windows lost.
    pub(super) fn steady(&self) -> f64 {
        self.last.min(self.before)
    }

    /// Two windows in a row above the limit, and clearly above what is tolerated: one outage is not
    /// congestion.
    pub(super) fn is_heavy(&self, loss_max: f64) -> bool {
        let steady = self.steady();
        steady > loss_max && steady > TIMES_TOLERATED * self.tolerated + ABOVE_TOLERATED
    }

    /// Bad mode begins; with a `trial`, for loss alone.
    pub(super) fn on_bad(&mut self, trial: bool) {
        self.trial = trial.then_some((self.last, 0));
    }

    /// Bad mode is for loss alone.
    pub(super) fn are_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// After two windows at the low rate it is known whether the loss was our doing. True if it was not, and
    /// then that much is tolerated from now on.
    pub(super) fn tolerate_as_not_ours(&mut self) -> bool {
        let not_ours = self
            .trial
            .is_some_and(|(before, windows)| windows >= TRIAL && self.last > UNCHANGED * before);
        if not_ours {
            self.tolerated = self.last;
        }
        not_ours
    }

    /// Good mode begins.
    pub(super) fn on_good(&mut self) {
        self.trial = None;
    }
}

/// Packets of a window: a share of a hundred is known to a few percent. In bad mode there are fewer to count, and the
/// answer is waited for.
const WINDOW: u32 = 100;
const WINDOW_IN_BAD: u32 = 40;

/// In seconds, unless the round trip is longer: what left together is lost together.
const SPAN_MIN: f64 = 0.1;

/// Weight of the last window.
const GAIN: f64 = 0.3;

/// Windows in a row above the limit that are more than an overflow of ours, which is answered after one or two.
const LASTS: u32 = 4;

/// Clearly more than what is tolerated: so many times that, and this share.
const TIMES_TOLERATED: f64 = 1.5;
const ABOVE_TOLERATED: f64 = 0.05;

/// What is tolerated fades to half in 140 windows: paths get better.
const TOLERATED_FADES: f64 = 0.995;

/// Windows at the low rate after which loss that did not fall below this share of what it was is not our doing: the
/// first may still be of what left before, and one is chance.
const TRIAL: u32 = 2;
const UNCHANGED: f64 = 0.6;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Plays windows of 100 packets, of which so many in a hundred get lost, 200 ms each.
    fn play(windows: &mut LossWindows, mode: Mode, losses: &[u32]) {
        for lost in losses {
            for packet in 0..100 {
                windows.on_outcome(packet < *lost, 1);
            }
            let now = windows.began + Duration::from_millis(200);
            assert!(windows.close(now, mode, 0.05, 0.15));
        }
    }

    #[test]
    fn one_outage_is_not_heavy_and_two_windows_are() {
        let mut windows = LossWindows::new(Timestamp::ZERO);
        play(&mut windows, Mode::Good, &[1, 40, 1]);
        assert!(!windows.is_heavy(0.15));
        play(&mut windows, Mode::Good, &[40, 40]);
        assert!(windows.is_heavy(0.15));
        assert_eq!(windows.lasting(0.15), None, "an overflow of ours is over");
        play(&mut windows, Mode::Good, &[40, 40]);
        assert!(windows.lasting(0.15).is_some());
    }

    #[test]
    fn loss_that_slowing_down_does_not_change_is_tolerated() {
        for (after, not_ours) in [(30, true), (10, false)] {
            let mut windows = LossWindows::new(Timestamp::ZERO);
            play(&mut windows, Mode::Good, &[30, 30]);
            windows.on_bad(true);
            play(&mut windows, Mode::Bad, &[after]);
            assert!(!windows.tolerate_as_not_ours(), "one window may be chance");
            play(&mut windows, Mode::Bad, &[after]);
            assert_eq!(
                windows.tolerate_as_not_ours(),
                not_ours,
                "{after} of 100 after 30"
            );
            assert!(!windows.is_heavy(0.15));
        }
    }

    #[test]
    fn a_window_needs_packets_and_time() {
        let mut windows = LossWindows::new(Timestamp::ZERO);
        for _ in 0..99 {
            windows.on_outcome(true, 1);
        }
        let late = Timestamp::from_millis(10_000);
        assert!(!windows.close(late, Mode::Good, 0.05, 0.15));
        windows.on_outcome(true, 1);
        let early = Timestamp::from_millis(99);
        assert!(!windows.close(early, Mode::Good, 0.05, 0.15));
        assert!(windows.close(late, Mode::Good, 0.05, 0.15));
    }
}
