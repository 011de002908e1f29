//! Distributions that cost the same however much is counted.

use std::time::Duration;

use super::{add, buckets};

/// A distribution over fixed buckets: `counts[i]` values were at most `bounds[i]`, and more than the
/// bound before; the last count is everything above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: [u64; buckets::MAX + 1],
    sum: f64,
}

impl Histogram {
    /// An empty one; see [`buckets`].
    pub fn new(bounds: &'static [f64]) -> Self {
        assert!(bounds.len() <= buckets::MAX, "room for every bound");
        Self {
            bounds,
            counts: [0; buckets::MAX + 1],
            sum: 0.0,
        }
    }

    /// Counts one value, in seconds or as a ratio, whatever the bounds are.
    pub fn record(&mut self, value: f64) {
        self.record_times(value, 1);
    }

    /// Counts one span, in seconds.
    pub fn record_duration(&mut self, span: Duration) {
        self.record(span.as_secs_f64());
    }

    /// Counts one span as often as something took it.
    pub fn record_many(&mut self, span: Duration, count: u64) {
        if count > 0 {
            self.record_times(span.as_secs_f64(), count);
        }
    }

    fn record_times(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += times;
        self.sum += value * times as f64;
    }

    /// Adds another distribution over the same bounds.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.bounds, other.bounds, "the same distribution");
        add(&mut self.counts, &other.counts);
        self.sum += other.sum;
    }

    /// What was counted since `earlier`, an older copy of this distribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut recent = *self;
        for (count, before) in recent.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*before);
        }
        recent.sum -= earlier.sum;
        recent
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// One count per bound, and one for everything above the last.
    pub fn counts(&self) -> &[u64] {
        &self.counts[..=self.bounds.len()]
    }

    /// The value below which the share `q` lies, interpolated inside its bucket as Prometheus does;
    /// `None` when nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = q * total as f64;
        let mut below = 0.0;
        let mut lower = 0.0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                return Some(lower + (bound - lower) * (rank - below) / count);
            }
            below += count;
            lower = *bound;
        }
        self.bounds.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_the_bound_is_inside_it() {
        let mut histogram = Histogram::new(buckets::LOSS);
        histogram.record(0.0);
        histogram.record(0.005);
        histogram.record(0.0051);
        histogram.record(0.9);
        assert_eq!(histogram.counts()[..3], [1, 1, 1]);
        assert_eq!(histogram.counts().last(), Some(&1));
        assert_eq!(histogram.count(), 4);
    }

    #[test]
    fn quantiles_interpolate_inside_their_bucket() {
        let mut histogram = Histogram::new(buckets::RTT);
        assert_eq!(histogram.quantile(0.5), None);
        for _ in 0..100 {
            histogram.record(0.04);
        }
        let median = histogram.quantile(0.5).unwrap();
        assert!((median - 0.04).abs() < 1e-9, "{median}");
        // As many in a bucket far below: half of all are below the one with the others.
        for _ in 0..100 {
            histogram.record(0.001);
        }
        let third = histogram.quantile(0.75).unwrap();
        assert!((third - 0.04).abs() < 1e-9, "{third}");
        histogram.record(9.0);
        assert_eq!(histogram.quantile(1.0), Some(2.0), "as far as we can tell");
    }

    #[test]
    fn the_recent_past_is_a_difference() {
        let mut histogram = Histogram::new(buckets::RTT);
        histogram.record(1.5);
        let before = histogram;
        histogram.record(0.02);
        let recent = histogram.since(&before);
        assert_eq!(recent.count(), 1);
        assert!((recent.sum() - 0.02).abs() < 1e-9);
    }
}
