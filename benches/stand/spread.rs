//! How values are spread.

use hdrhistogram::Histogram;

/// Durations in nanoseconds.
#[derive(Clone)]
pub struct Spread(Histogram<u64>);

impl Default for Spread {
    fn default() -> Self {
        Self(Histogram::new_with_max(60_000_000_000, 3).unwrap())
    }
}

impl Spread {
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    pub fn clear(&mut self) {
        self.0.reset();
    }

    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).unwrap();
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// The value that this share of all is not above, in microseconds.
    pub fn micros(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }

    /// p50 / p99 / p99.9 in microseconds.
    pub fn text(&self) -> String {
        let [a, b, c] = [0.5, 0.99, 0.999].map(|share| self.micros(share));
        format!("{a:.0} / {b:.0} / {c:.0}")
    }
}
