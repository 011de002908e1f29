//! How much of what a game says at once, at first and after a pause, leaves at once. What went through before without
//! losses and without a queue may: a path is trusted as a TCP trusts it that was idle (RFC 7661, section 4).

use std::time::Duration;

use crate::sender::in_flight::Sent;
use crate::sender::params::Params;
use crate::time::Timestamp;

/// Bulk from one pause to the next, and what that says of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volley {
    /// Bytes that may leave at once.
    window: f64,
    /// Bytes of this volley.
    sent: f64,
    began: Timestamp,
    /// The number of its first packet, and how many packets left at once.
    first: u64,
    at_once: u32,
    /// Bytes of what left at once that came through.
    through: f64,
    /// Bytes of what left at once that were lost in a row: a queue that overflows drops neighbours.
    overflow: f64,
    /// How many of these were lost, and how many had left before the first of them.
    lost: u32,
    before_lost: u32,
    /// Volleys in a row that look as if a queue was too short for them.
    hurt: u8,
    /// It met a queue, or made one.
    met_queue: bool,
    /// The window stays until then.
    stays_until: Timestamp,
}

impl Volley {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self {
            window: params.bulk.window,
            sent: 0.0,
            began: now,
            first: 0,
            at_once: 0,
            through: 0.0,
            overflow: 0.0,
            lost: 0,
            before_lost: 0,
            hurt: 0,
            met_queue: false,
            stays_until: now,
        }
    }

    /// Bytes that may leave at once after a pause.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn on_sent(&mut self, now: Timestamp, number: u64, bytes: usize) {
        if self.sent == 0.0 {
            (self.began, self.first, self.met_queue) = (now, number, false);
        }
        if self.is_at_once(now) {
            self.at_once = self.place(number) + 1;
        }
        self.sent += bytes as f64;
    }

    /// How many packets left before this one.
    fn place(&self, number: u64) -> u32 {
        number.saturating_sub(self.first) as u32
    }

    /// A packet that was sent then was acknowledged.
    pub(super) fn on_acked(&mut self, sent_at: Timestamp, bytes: usize) {
        if self.is_at_once(sent_at) {
            self.through += bytes as f64;
        }
    }

    /// Bytes a second that the path carries at least, if what left at once came through without a queue that is
    /// `felt` (in seconds); zero when it says nothing. However long the round trip (`step`), no
    /// more than [`PER_ROUND_TRIP`] times as much follows in one.
    pub(super) fn carried(&self, step: Duration, felt: f64) -> f64 {
        if self.met_queue || self.overflow > 0.0 {
            return 0.0;
        }
        per_second(self.through, step, felt)
    }

    /// Bytes a second that the path carries at least, by what came through of this volley or of those before, as long as
    /// there is nothing else to go by: what follows is what was lost of it, which is little.
    pub(super) fn end_min(
        &self,
        now: Timestamp,
        step: Duration,
        felt: f64,
        params: &Params,
    ) -> f64 {
        if self.met_queue || now.since(self.began) > ALONE * step {
            return 0.0;
        }
        let before = match self.overflow > 0.0 || self.window <= params.bulk.window {
            true => 0.0,
            false => self.window.min(self.sent),
        };
        per_second(self.through.max(before), step, felt)
    }

    /// Some of what left at once was lost in a row.
    pub(super) fn overflows(&self) -> bool {
        self.overflow > 0.0
    }

    fn is_at_once(&self, sent_at: Timestamp) -> bool {
        sent_at >= self.began && sent_at.since(self.began) <= AT_ONCE
    }

    /// A packet was lost; `follows`, when the one before it was as well. Whether that may be because so much left at
    /// once, and says nothing of the path's rate.
    pub(super) fn on_lost(
        &mut self,
        number: u64,
        sent: &Sent,
        follows: bool,
        params: &Params,
    ) -> bool {
        if !self.is_at_once(sent.at) {
            return false;
        }
        let place = self.place(number);
        self.before_lost = match self.lost {
            0 => place,
            _ => self.before_lost.min(place),
        };
        self.lost += 1;
        if follows {
            self.overflow += f64::from(sent.wire_bytes);
        }
        self.window > params.bulk.window && (follows || self.is_hurt())
    }

    /// Whether a queue may have been too short for it. That drops what comes last; a path that loses now and then takes
    /// any.
    fn is_hurt(&self) -> bool {
        let (lost, at_once) = (self.lost, self.at_once);
        lost > 0 && (self.before_lost >= at_once - at_once / LAST || lost > at_once / MANY)
    }

    pub(super) fn on_queue(&mut self) {
        self.met_queue = true;
    }

    /// A pause: all that was sent has its fate.
    pub(super) fn end(&mut self, now: Timestamp, params: &Params) {
        self.hurt = if self.is_hurt() { self.hurt + 1 } else { 0 };
        if self.overflow > OVERFLOW_MIN * self.window || self.hurt >= HURT_MAX {
            self.window = (0.5 * self.window).max(params.bulk.window);
            self.stays_until = now + STAYS;
            self.hurt = 0;
        } else if !self.met_queue && self.sent > self.window && now >= self.stays_until {
            let most = self.sent.min(params.bulk.window_max);
            self.window = (2.0 * self.window).min(most);
        }
        (self.sent, self.through, self.overflow) = (0.0, 0.0, 0.0);
        (self.at_once, self.lost, self.met_queue) = (0, 0, false);
    }
}

fn per_second(bytes: f64, step: Duration, felt: f64) -> f64 {
    bytes / felt.max(step.as_secs_f64() / PER_ROUND_TRIP)
}

/// A share of what left at once that is not lost in a row by chance: it was more than a queue holds.
const OVERFLOW_MIN: f64 = 0.0625;

/// So many volleys in a row do not lose only of their last packets by chance: a queue is a packet too short for them.
const HURT_MAX: u8 = 4;

/// The last packets of a volley are a quarter of it.
const LAST: u32 = 4;

/// More than an eighth of what left at once is much, wherever it is lost: a queue that others fill as quickly drops some of
/// all that follows.
const MANY: u32 = 8;

/// A TCP has twice as much under way in its second round trip, and paces that at twice the rate it needs.
const PER_ROUND_TRIP: f64 = 4.0;

/// Round trips in which a volley arrives, and what was lost of it twice.
const ALONE: u32 = 4;

/// A volley leaves within this, or the rate held it back.
const AT_ONCE: Duration = Duration::from_millis(2);

/// What was too much once is not tried again for so long: paths change, but each try may cost a volley.
const STAYS: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: usize = 100_000;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_000 * secs)
    }

    /// A packet that left then.
    fn left(at: Timestamp, wire_bytes: u16) -> Sent {
        let mut sent = Sent::skipped(at, 0);
        sent.wire_bytes = wire_bytes;
        sent
    }

    /// A volley a second, of so many bytes, of which such a share overflows: the windows after each.
    fn windows(
        volley: &mut Volley,
        secs: std::ops::Range<u64>,
        bytes: usize,
        overflow: f64,
    ) -> Vec<f64> {
        let params = Params::default();
        let after = |second| {
            volley.on_sent(at(second), 0, bytes);
            volley.overflow = overflow * bytes as f64;
            volley.end(at(second), &params);
            volley.window()
        };
        secs.map(after).collect()
    }

    #[test]
    fn the_window_grows_to_what_goes_through() {
        let mut volley = Volley::new(at(0), &Params::default());
        let grown = windows(&mut volley, 1..4, 30_000, 0.0);
        assert_eq!(grown, [24_000.0, 30_000.0, 30_000.0]);
        let grown = windows(&mut volley, 4..7, BIG, 0.005);
        assert_eq!(grown, [60_000.0, 64_000.0, 64_000.0]);
    }

    #[test]
    fn what_a_volley_does_not_fill_is_not_found() {
        let mut volley = Volley::new(at(0), &Params::default());
        assert_eq!(windows(&mut volley, 1..3, 12_000, 0.0), [12_000.0; 2]);
    }

    #[test]
    fn a_queue_is_no_reason_to_go_on_nor_to_go_back() {
        let mut volley = Volley::new(at(0), &Params::default());
        windows(&mut volley, 1..2, BIG, 0.0);
        volley.on_queue();
        windows(&mut volley, 2..3, BIG, 0.0);
        assert_eq!(volley.window(), 48_000.0, "it was gone before");
        volley.on_sent(at(3), 0, 1);
        volley.on_queue();
        assert_eq!(windows(&mut volley, 3..4, BIG, 0.0), [48_000.0]);
        assert_eq!(windows(&mut volley, 4..5, BIG, 0.0), [64_000.0]);
    }

    #[test]
    fn what_comes_through_is_what_the_path_carries() {
        let params = Params::default();
        let [short, long] = [20, 200].map(Duration::from_millis);
        let mut volley = Volley::new(at(0), &params);
        let say = |volley: &mut Volley, second| {
            volley.end(at(second), &params);
            volley.on_sent(at(second), 0, BIG);
            volley.on_acked(at(second), 6_000);
            volley.on_acked(at(second) + AT_ONCE, 6_000);
            volley.on_acked(at(second) + 5 * AT_ONCE, 6_000);
            volley.on_acked(at(second - 1), 6_000);
        };
        say(&mut volley, 1);
        assert_eq!(volley.carried(short, 0.02), 600_000.0, "12,000 in 20 ms");
        assert_eq!(
            volley.carried(short, 0.04),
            300_000.0,
            "a jitter of so much"
        );
        assert_eq!(volley.carried(long, 0.02), 240_000.0, "four times as much");
        volley.on_lost(0, &left(at(1), 1_200), false, &params);
        assert_eq!(volley.carried(short, 0.02), 600_000.0, "chance");
        volley.on_lost(0, &left(at(1), 1_200), true, &params);
        assert_eq!(volley.carried(short, 0.02), 0.0, "a short queue");
        say(&mut volley, 2);
        assert_eq!(volley.carried(short, 0.02), 600_000.0);
        volley.on_queue();
        assert_eq!(volley.carried(short, 0.02), 0.0);
    }

    /// What was sent before a volley, or later at its rate, is not lost because of what left at once.
    #[test]
    fn only_what_left_at_once_overflows() {
        let params = Params::default();
        let mut volley = Volley::new(at(0), &params);
        volley.on_sent(at(1), 0, BIG);
        assert!(
            !volley.on_lost(0, &left(at(1), 1_200), true, &params),
            "it is no more than usual"
        );
        volley.end(at(1), &params);
        windows(&mut volley, 602..603, BIG, 0.0);
        volley.on_sent(at(603), 0, BIG);
        let later = at(603) + Duration::from_millis(30);
        assert!(!volley.on_lost(0, &left(at(602), 60_000), true, &params));
        assert!(!volley.on_lost(0, &left(later, 60_000), true, &params));
        assert!(volley.on_lost(0, &left(at(603), 1_200), true, &params));
        assert_eq!(volley.overflow, 1_200.0);
    }

    /// The windows after four volleys of forty packets, of which these are lost, one by one.
    fn after_losses(lost: [&[u64]; 4]) -> Vec<f64> {
        let params = Params::default();
        let mut volley = Volley::new(at(0), &params);
        windows(&mut volley, 1..3, BIG, 0.0);
        let after = |(second, lost): (u64, &[u64])| {
            let first = 1_000 * second;
            for number in first..first + 40 {
                volley.on_sent(at(second), number, 1_200);
            }
            for place in lost {
                volley.on_lost(first + place, &left(at(second), 1_200), false, &params);
            }
            volley.end(at(second), &params);
            volley.window()
        };
        (3..).zip(lost).map(after).collect()
    }

    const UNHURT: [f64; 4] = [48_000.0; 4];
    const HALVED: [f64; 4] = [48_000.0, 48_000.0, 48_000.0, 24_000.0];

    /// One packet of each, of the last: a queue is too short by that.
    #[test]
    fn a_little_too_much_is_found_as_well() {
        assert_eq!(after_losses([&[39], &[38], &[30], &[31, 39]]), HALVED);
        assert_eq!(after_losses([&[39], &[38], &[], &[39]]), UNHURT);
    }

    /// A path that loses one packet in forty, or in ten, hurts nearly each volley.
    #[test]
    fn losses_anywhere_are_chance() {
        assert_eq!(after_losses([&[29], &[12], &[0], &[39]]), UNHURT);
        let many: &[u64] = &[3, 11, 20, 37, 39];
        assert_eq!(after_losses([many, &[25], many, &[1, 2]]), UNHURT);
    }

    /// Every other of the last packets, where the rest of the path is half as fast as what comes before.
    #[test]
    fn many_single_losses_are_none() {
        let many: &[u64] = &[20, 22, 24, 26, 28, 30];
        assert_eq!(after_losses([many; 4]), HALVED);
    }

    #[test]
    fn too_much_is_not_tried_again_soon() {
        let mut volley = Volley::new(at(0), &Params::default());
        windows(&mut volley, 1..3, BIG, 0.0);
        assert_eq!(windows(&mut volley, 3..4, BIG, 0.3), [24_000.0]);
        assert_eq!(windows(&mut volley, 4..602, BIG, 0.0), [24_000.0; 598]);
        assert_eq!(windows(&mut volley, 604..605, BIG, 0.0), [48_000.0]);
    }
}
