//! What a path delivered lately, by what was acknowledged of bulk.

use std::time::Duration;

use crate::time::Timestamp;

/// Bytes a second over spans of a round trip or 50 ms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// When the present span begins; none in a pause of bulk.
    from: Option<Timestamp>,
    bytes: f64,
    /// The most bytes a second that were sent in this span, and in the last one.
    sent: [f64; 2],
    /// Something else than the rate held bulk back in this span.
    held_up: bool,
    /// The rates of the last spans, newest last.
    rates: [f64; 4],
}

impl Delivered {
    /// Bulk makes a pause, or ends one. A span that was under way says nothing: it lacks an end, or a beginning.
    pub(super) fn pause(&mut self) {
        *self = Self {
            rates: self.rates,
            sent: self.sent,
            ..Self::default()
        };
    }

    /// Bulk waits for answers, and not for the rate: what is acknowledged then is not what the path carries.
    pub(super) fn on_held_up(&mut self) {
        self.held_up = true;
    }

    /// A packet was acknowledged while bulk was sent at this many bytes a second, `paced`.
    pub(super) fn on_acked(&mut self, now: Timestamp, bytes: usize, rtt_s: f64, paced: f64) {
        self.sent[0] = self.sent[0].max(paced);
        // The first round trip of a bulk phase still brings acks from before it.
        let begin = || now + Duration::from_secs_f64(rtt_s);
        let from = *self.from.get_or_insert_with(begin);
        if now < from {
            return;
        }
        self.bytes += bytes as f64;
        let span = now.since(from).as_secs_f64();
        if span >= rtt_s.max(SPAN_MIN) {
            // What comes in so much faster than it left was held up on its way, or its acknowledgements were; or some got lost,
            // and one tells of all.
            let [this, last] = self.sent;
            let rate = (self.bytes / span).min(HURRIED * this.max(last));
            // What more could have been sent says at least that the path carries so much.
            if !self.held_up || rate > self.best() {
                self.rates.rotate_left(1);
                self.rates[3] = rate;
            }
            self.held_up = false;
            self.bytes = 0.0;
            self.sent = [paced, this];
            self.from = Some(now);
        }
    }

    /// In the last span.
    pub(super) fn last(&self) -> f64 {
        self.rates[3]
    }

    /// In the last two spans.
    pub(super) fn lately(&self) -> f64 {
        0.5 * (self.rates[2] + self.rates[3])
    }

    /// The second best of the last spans: one of them may be luck, and others may be pauses.
    pub(super) fn usual(&self) -> f64 {
        let mut rates = self.rates;
        rates.sort_by(f64::total_cmp);
        rates[2]
    }

    /// The best of the last spans.
    pub(super) fn best(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

/// A span is no shorter than this, in seconds.
const SPAN_MIN: f64 = 0.05;

/// What was delivered is at most so many times what was sent: jitter alone brings half as much again in some spans, and a
/// rate that an outage cut is soon found again by it.
const HURRIED: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip of 100 ms, in which the path delivers ten packets of 1000 bytes: 100,000 bytes a second.
    const RTT: f64 = 0.1;
    const PATH: f64 = 100_000.0;

    /// Packets that left each 10 ms are acknowledged when the path answers them.
    fn hear(delivered: &mut Delivered, millis: std::ops::Range<u64>) {
        hear_at(delivered, millis, |at| at);
    }

    /// Packets that left each 10 ms, of which one that the path answers at a time is acknowledged when `comes` says.
    fn hear_at(
        delivered: &mut Delivered,
        millis: std::ops::Range<u64>,
        comes: impl Fn(u64) -> u64,
    ) {
        for at in millis.step_by(10) {
            delivered.on_acked(Timestamp::from_millis(comes(at)), 1000, RTT, PATH);
        }
    }

    /// The peer's acknowledgements get lost for a while, and the next one tells of all that came meanwhile; or they are held
    /// up, and come all within a few milliseconds.
    #[test]
    fn what_comes_in_hurried_is_not_what_the_path_carries() {
        for (millis, within) in [(150, 0), (300, 0), (150, 10), (300, 20)] {
            let mut delivered = Delivered::default();
            hear(&mut delivered, 0..400);
            let end = 400 + millis;
            hear_at(&mut delivered, 400..end, |at| {
                end + (at - 400) * within / millis
            });
            hear(&mut delivered, end + within..end + 300);
            let best = delivered.best();
            let what = format!("{best} bytes a second after {millis} ms that came in {within}");
            assert!((90_000.0..=200_000.0).contains(&best), "{what}");
        }
    }

    /// What was acknowledged in a span that a pause cut off is none of the next span's.
    #[test]
    fn a_pause_ends_a_span() {
        let mut delivered = Delivered::default();
        hear(&mut delivered, 0..290);
        delivered.pause();
        hear(&mut delivered, 1_000..1_300);
        let best = delivered.best();
        assert!(best < 120_000.0, "{best} bytes a second");
        assert!(best > 90_000.0, "{best} bytes a second");
    }
}
