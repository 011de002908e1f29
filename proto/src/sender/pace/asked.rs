//! The rate at which a session is given messages to send. It is not measured by what leaves: a session that never gets rid
//! of its backlog would learn nothing from that.

use crate::time::{Span, Timestamp};

/// Bytes a second that are queued evenly. A map is sent once, and is no rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    counted_since: Timestamp,
    bytes: f64,
    /// Over the last spans, newest last.
    rates: [f64; 4],
    /// The least of them.
    rate: f64,
}

impl Asked {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            counted_since: now,
            bytes: 0.0,
            rates: [0.0; 4],
            rate: 0.0,
        }
    }

    /// A message of so many bytes waits to be sent. `is_full`: nothing more has room, so who says it waits for that, and
    /// would say more.
    pub(super) fn on_pushed(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        let span = now.span_since(self.counted_since);
        if is_full || span > PAUSE_MIN {
            *self = Self::new(now);
        } else if span >= SPAN {
            self.rates.rotate_left(1);
            self.rates[3] = self.bytes / span.as_secs();
            self.rate = self.rates.into_iter().fold(f64::INFINITY, f64::min);
            (self.counted_since, self.bytes) = (now, 0.0);
        }
        self.bytes += bytes as f64;
    }

    /// The least of the last four spans; zero before that.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }
}

/// Time over which bytes are counted, at least.
const SPAN: Span = Span::from_millis(250);

/// A span that took longer has a pause in it: what was said before says nothing of now.
const PAUSE_MIN: Span = Span::from_millis(1_500);

#[cfg(test)]
mod tests {
    use super::*;

    fn say(asked: &mut Asked, millis: std::ops::Range<u64>, every: usize, bytes: usize) {
        for at in millis.step_by(every) {
            asked.on_pushed(Timestamp::from_millis(at), bytes, false);
        }
    }

    #[test]
    fn what_is_said_evenly_is_a_rate() {
        let mut asked = Asked::new(Timestamp::ZERO);
        say(&mut asked, 0..1_000, 25, 500);
        assert_eq!(asked.rate(), 0.0, "nothing is known for a second");
        say(&mut asked, 1_000..1_100, 25, 500);
        assert_eq!(asked.rate(), 20_000.0);
        say(&mut asked, 3_000..3_900, 25, 500);
        assert_eq!(asked.rate(), 0.0, "it was quiet for too long");
    }

    #[test]
    fn a_map_is_none() {
        let mut asked = Asked::new(Timestamp::ZERO);
        say(&mut asked, 0..1_000, 25, 500);
        say(&mut asked, 1_000..1_010, 1, 50_000);
        say(&mut asked, 1_025..3_000, 25, 500);
        assert_eq!(asked.rate(), 20_000.0);
    }

    #[test]
    fn who_waits_for_room_asks_for_nothing() {
        let mut asked = Asked::new(Timestamp::ZERO);
        say(&mut asked, 0..2_000, 25, 500);
        asked.on_pushed(Timestamp::from_millis(2_000), 500, true);
        assert_eq!(asked.rate(), 0.0);
    }
}
