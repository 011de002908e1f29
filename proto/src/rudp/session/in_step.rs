//! Outputs that begin with what the last one began with: how often, and whether they may be in step with the path.
//!
//! Rule: docs/wire/rudp.md, section 6 (rule 12).

use std::time::Duration;

use crate::rudp::outgoing::Answer;
use crate::time::Timestamp;

/// What was asked for and answered first, again and again.
#[derive(Debug, Default)]
pub(super) struct InStep {
    asked: Option<u16>,
    answered: Option<Answer>,
    /// Since something else was, as often as counts.
    times: u32,
    counted_at: Timestamp,
}

impl InStep {
    /// An output begins, of which this is the oldest gap that it asks for and the first answer. Whether one datagram more
    /// is to leave.
    ///
    /// A path may lose every second datagram, or third, as one does that spreads them over several links of which one is
    /// dead. An answer that is the second datagram of each of our outputs, and each output has two, would never be among
    /// those that arrive. With one more in every other output, all that follow meet another link.
    pub(super) fn begin_output(
        &mut self,
        now: Timestamp,
        asked: Option<u16>,
        answered: Option<Answer>,
    ) -> bool {
        if asked.is_none() && answered.is_none() {
            return false;
        }
        let is_again = asked.is_some() && asked == self.asked
            || answered.is_some() && answered == self.answered;
        self.asked = asked.or(self.asked);
        self.answered = answered.or(self.answered);
        if !is_again {
            self.times = 0;
            self.counted_at = now;
        } else if now >= self.counted_at + COUNTED_EVERY {
            self.times += 1;
            self.counted_at = now;
            return self.times >= TIMES_MIN && self.times.is_multiple_of(2);
        }
        false
    }
}

/// Outputs that follow each other sooner are no row of their own: the answer to the first may be on its way.
const COUNTED_EVERY: Duration = Duration::from_millis(250);

/// So often is chance: of a path that loses three in ten, once in a thousand times.
const TIMES_MIN: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds, in quarters, at which one more leaves while an output each ten milliseconds begins like this.
    fn more(
        in_step: &mut InStep,
        quarters: std::ops::Range<u64>,
        asked: Option<u16>,
        answered: Option<Answer>,
    ) -> Vec<u64> {
        let mut at = |millis| {
            let now = Timestamp::from_millis(millis);
            in_step.begin_output(now, asked, answered)
        };
        let millis = (250 * quarters.start..250 * quarters.end).step_by(10);
        millis
            .filter(|millis| at(*millis))
            .map(|millis| millis / 250)
            .collect()
    }

    #[test]
    fn every_second_of_those_that_are_no_chance_has_one_more() {
        for (asked, answered) in [
            (Some(7), None),
            (None, Some(Answer::Message(7))),
            (Some(7), Some(Answer::Message(7))),
        ] {
            let mut in_step = InStep::default();
            let found = more(&mut in_step, 0..11, asked, answered);
            assert_eq!(found, [6, 8, 10], "{asked:?} {answered:?}");
            assert_eq!(
                more(&mut in_step, 11..12, None, None),
                [],
                "it asks nothing"
            );
        }
    }

    #[test]
    fn who_gets_on_is_not_in_step() {
        let mut in_step = InStep::default();
        for quarter in 0..20 {
            let found = more(
                &mut in_step,
                quarter..quarter + 1,
                Some(quarter as u16),
                None,
            );
            assert_eq!(found, []);
        }
        // From the first output that asks for the last one again.
        assert_eq!(more(&mut in_step, 20..28, Some(19), None), [25, 27]);
    }
}
