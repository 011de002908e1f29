//! Whether the peer falls silent although our packets leave: a path that holds packets up, and no queue.

use std::time::Duration;

use crate::rtt::Sample;
use crate::time::{Span, Timestamp};

/// When the peer fell silent lately while bulk left. A queue passes on what it holds at an even pace, so that each packet
/// or two that left are answered; who waits for his turn on the air passes on nothing, and then all of it at once. The rule
/// is docs/POLICY.md's, "What counts as a queue".
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silences {
    /// When the newest packet left that was answered.
    newest: Timestamp,
    /// When the last two ended, the later one last; zero before there were so many.
    ended: [Timestamp; 2],
}

impl Silences {
    /// A packet was acknowledged while bulk leaves, one packet each `packet` seconds; `is_new`: the first of those
    /// that were at this moment.
    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: Sample, packet: f64, is_new: bool) {
        let left = now - rtt.took;
        let pause = left.span_since(std::mem::replace(&mut self.newest, left));
        // Since the peer was heard last.
        let silence = rtt.took - rtt.least;
        if is_new
            && silence > SILENCE
            && silence.as_secs() > SILENCE_PACKETS * packet
            && pause.as_secs() < PAUSE.max(PAUSE_PACKETS * packet)
        {
            self.ended = [self.ended[1], now];
        }
    }

    /// A delay up to this is no sign of a queue: the path was silent for as long, more than once.
    pub(super) fn explained(&self, now: Timestamp) -> Duration {
        let [before, _] = self.ended;
        match before > Timestamp::ZERO && now < before + REMEMBERED {
            true => SILENCE.into(),
            false => Duration::ZERO,
        }
    }
}

/// Peers hold an acknowledgement back for up to 40 ms.
const SILENCE: Span = Span::from_millis(50);

/// Where fewer packets could have been answered, others' may have come in between.
const SILENCE_PACKETS: f64 = 4.0;

/// In seconds, and in packets: who sent nothing for longer is not answered either.
const PAUSE: f64 = 0.01;
const PAUSE_PACKETS: f64 = 2.0;

/// Two of them in this time are no chance.
const REMEMBERED: Span = Span::from_millis(4_000);

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether silences explain a delay on a path of 50 ms when a packet leaves each `packet` milliseconds, but none in the
    /// first `paused` of each `every`; and the path holds up what leaves in the last `held` of them, until those are over.
    fn is_explained(packet: u64, every: u64, paused: u64, held: u64) -> bool {
        let (mut silences, mut heard) = (Silences::default(), Timestamp::ZERO);
        for left in (0..10_000).step_by(packet as usize) {
            let within = left % every;
            if within < paused {
                continue;
            }
            let wait = if within + held > every {
                every - within
            } else {
                0
            };
            let now = Timestamp::from_millis(left + wait + 50);
            let left = Timestamp::from_millis(left);
            let (took, least) = (now.span_since(left), heard.span_since(left));
            silences.on_rtt(
                now,
                Sample { took, least },
                packet as f64 / 1e3,
                now > heard,
            );
            heard = now;
        }
        silences.explained(heard) > Duration::ZERO
    }

    #[test]
    fn a_path_that_holds_packets_up_is_known_by_them() {
        assert!(is_explained(5, 1_000, 0, 70));
        assert!(!is_explained(5, 5_000, 0, 70), "may be chance");
        assert!(!is_explained(5, 200, 0, 40), "peers do that");
    }

    #[test]
    fn who_says_nothing_hears_nothing() {
        assert!(!is_explained(5, 200, 70, 0), "we paused");
        assert!(!is_explained(25, 200, 0, 70), "two packets");
    }
}
