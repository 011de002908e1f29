//! The metrics endpoint's text: every metric of [`FAMILIES`], read from the board when somebody asks.
//!
//! The text format comes from `metrics-exporter-prometheus`, without its recorder. The recorder's
//! counters are integers, and ours of time are not; its histograms take single samples and keep
//! each one until somebody drains them, and ours are added up before anybody asks
//! (docs/ARCHITECTURE.md has the figures).
//!
//! Labels come from the configuration (listener, backend, target), from an enum in the code, or are
//! a worker's number. Never an address, a client id or a text: the number of series does not depend
//! on the peers. Every combination is there from the start, at zero.

mod catalogue;
mod process;

use std::fmt::Write;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};

use crate::board::Snapshot;
use crate::counters::Histogram;

pub use catalogue::FAMILIES;
pub use process::Usage;

/// One metric: its name, what it means, and where its values are.
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    read: fn(&Source<'_>, &mut Series<'_>),
}

/// What may be done with a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Everything, as the text that Prometheus reads.
pub fn render(snapshot: &Snapshot, usage: &Usage) -> String {
    let source = Source { snapshot, usage };
    let mut text = String::with_capacity(64 * 1024);
    for family in FAMILIES {
        write_help_line(&mut text, family.name, None, None, family.help);
        write_type_line(&mut text, family.name, None, None, family.kind.label());
        let mut series = Series {
            family,
            text: &mut text,
        };
        (family.read)(&source, &mut series);
    }
    text
}

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What metrics are read from.
struct Source<'a> {
    snapshot: &'a Snapshot,
    usage: &'a Usage,
}

/// Where the values of one family go.
struct Series<'a> {
    family: &'static Family,
    text: &'a mut String,
}

impl Series<'_> {
    /// One value; as many label values as the family has labels.
    fn add(&mut self, labels: &[&str], value: f64) {
        let labels = self.label_set(labels);
        let le: Option<(&str, &str)> = None;
        write_metric_line(self.text, self.family.name, None, &labels, le, value, None);
    }

    /// One distribution: cumulative buckets, sum and count.
    fn add_histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        let labels = self.label_set(labels);
        let name = self.family.name;
        let mut below = 0;
        let mut le = String::new();
        let bounds = histogram.bounds().iter().copied().chain([f64::INFINITY]);
        for (bound, count) in bounds.zip(histogram.counts()) {
            below += count;
            le.clear();
            // Prometheus spells infinity its own way.
            let written = match bound.is_finite() {
                true => write!(le, "{bound}"),
                false => write!(le, "+Inf"),
            };
            debug_assert!(written.is_ok(), "a string takes everything");
            let le = Some(("le", le.as_str()));
            write_metric_line(self.text, name, Some("bucket"), &labels, le, below, None);
        }
        let le: Option<(&str, &str)> = None;
        let sum = histogram.sum();
        write_metric_line(self.text, name, Some("sum"), &labels, le, sum, None);
        write_metric_line(self.text, name, Some("count"), &labels, le, below, None);
    }

    fn label_set(&self, values: &[&str]) -> LabelSet {
        debug_assert_eq!(values.len(), self.family.labels.len(), "a value a label");
        let labels: Vec<Label> = self
            .family
            .labels
            .iter()
            .zip(values)
            .map(|(name, value)| Label::new(*name, (*value).to_owned()))
            .collect();
        LabelSet::from_key_and_global(
            &Key::from_parts(self.family.name, labels),
            &Default::default(),
        )
    }
}

#[cfg(test)]
mod tests;
