//! How often a game speaks. One that ticks faster than packets may leave would have its messages wait for the next
//! packet, tick after tick; so it gets packets to match.

use std::time::Duration;

use crate::sender::cadence::Cadence;
use crate::sender::params::Params;
use crate::time::Timestamp;

/// The times at which messages came, and the packets that they are worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    cadence: Cadence,
    /// Packets a second in good mode.
    rate: f64,
}

impl Ticks {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self {
            cadence: Cadence::new(now, LONGEST, LONGEST),
            rate: params.packets.good,
        }
    }

    /// Packets a second in good mode.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether a message of now is of another tick than the last.
    pub(super) fn is_next(&self, now: Timestamp) -> bool {
        now.since(self.cadence.last()) >= SHORTEST
    }

    /// Another tick began.
    pub(super) fn on_tick(&mut self, now: Timestamp, params: &Params) {
        self.cadence.on_event(now);
        let ticks = 1.0 / self.cadence.every().as_secs_f64();
        self.rate = (PACKETS * ticks)
            .min(params.packets.good_max)
            .max(params.packets.good);
    }
}

/// Packets for each tick: what is left over is for acknowledgements and repairs between. 60 Hz need no more than is usual.
const PACKETS: f64 = 1.4;

/// Messages closer to each other are of one tick, however many writes a game makes of it.
const SHORTEST: Duration = Duration::from_millis(4);

/// A pause is no tick.
const LONGEST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// What a game gets that speaks `writes` times, a millisecond apart, every `every` milliseconds.
    fn packets(every: u64, writes: u64) -> f64 {
        let params = Params::default();
        let mut ticks = Ticks::new(Timestamp::ZERO, &params);
        for tick in 1..200 {
            for write in 0..writes {
                let now = Timestamp::from_millis(tick * every + write);
                if ticks.is_next(now) {
                    ticks.on_tick(now, &params);
                }
            }
        }
        ticks.rate()
    }

    #[test]
    fn a_fast_game_gets_more_than_its_ticks() {
        let rates = Params::default().packets;
        let thrice = [rates.good; 3];
        assert_eq!([33, 17, 16].map(|every| packets(every, 1)), thrice);
        assert!((139.0..=141.0).contains(&packets(10, 1)));
        assert_eq!(packets(5, 1), rates.good_max);
    }

    #[test]
    fn many_writes_are_one_tick() {
        let good_rate = Params::default().packets.good;
        assert_eq!([2, 3, 4].map(|writes| packets(17, writes)), [good_rate; 3]);
    }
}
