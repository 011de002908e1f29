//! How a metric's values are read and written: one line for each listener, target or worker.

use std::fmt::Write;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::write_metric_line;

use super::{Family, Usage};
use crate::board::{Snapshot, TargetSnapshot, WorkerSnapshot};
use crate::counters::{Direction, Histogram, WorkerCounters};

/// What metrics are read from.
pub(super) struct Source<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) usage: &'a Usage,
}

/// Where the values of one family go.
pub(super) struct Series<'a> {
    pub(super) family: &'static Family,
    pub(super) text: &'a mut String,
}

impl Series<'_> {
    /// One value; as many label values as the family has labels.
    pub(super) fn add(&mut self, labels: &[&str], value: f64) {
        let labels = self.label_set(labels);
        let le: Option<(&str, &str)> = None;
        write_metric_line(self.text, self.family.name, None, &labels, le, value, None);
    }

    /// One value without labels, where there is one: no sample is a gap in a curve, and zero is not.
    pub(super) fn add_known(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.add(&[], value);
        }
    }

    /// One distribution: cumulative buckets, sum and count.
    pub(super) fn add_histogram(&mut self, labels: &[&str], histogram: &Histogram) {
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

pub(super) fn each_listener(
    source: &Source<'_>,
    out: &mut Series<'_>,
    value: impl Fn(&WorkerCounters) -> u64,
) {
    for listener in &source.snapshot.listeners {
        out.add(&[&listener.about.name], value(&listener.counters) as f64);
    }
}

pub(super) fn each_listener_by<const N: usize>(
    source: &Source<'_>,
    out: &mut Series<'_>,
    labels: &[&str],
    values: impl Fn(&WorkerCounters) -> [u64; N],
) {
    for listener in &source.snapshot.listeners {
        for (label, value) in labels.iter().zip(values(&listener.counters)) {
            out.add(&[&listener.about.name, label], value as f64);
        }
    }
}

pub(super) fn each_direction(
    source: &Source<'_>,
    out: &mut Series<'_>,
    values: impl Fn(&WorkerCounters) -> [u64; 2],
) {
    each_listener_by(source, out, &Direction::ALL.map(Direction::label), values);
}

pub(super) fn each_distribution(
    source: &Source<'_>,
    out: &mut Series<'_>,
    distribution: impl Fn(&WorkerCounters) -> &Histogram,
) {
    for listener in &source.snapshot.listeners {
        out.add_histogram(&[&listener.about.name], distribution(&listener.counters));
    }
}

pub(super) fn each_target(
    source: &Source<'_>,
    out: &mut Series<'_>,
    value: impl Fn(&TargetSnapshot) -> u64,
) {
    for backend in &source.snapshot.backends {
        for target in &backend.targets {
            out.add(&[&backend.name, &target.name], value(target) as f64);
        }
    }
}

pub(super) fn each_target_by<const N: usize>(
    source: &Source<'_>,
    out: &mut Series<'_>,
    labels: &[&str],
    values: impl Fn(&TargetSnapshot) -> [u64; N],
) {
    for backend in &source.snapshot.backends {
        for target in &backend.targets {
            for (label, value) in labels.iter().zip(values(target)) {
                out.add(&[&backend.name, &target.name, label], value as f64);
            }
        }
    }
}

pub(super) fn each_worker(
    source: &Source<'_>,
    out: &mut Series<'_>,
    value: impl Fn(&WorkerSnapshot) -> f64,
) {
    for listener in &source.snapshot.listeners {
        for (number, worker) in listener.workers() {
            let number = number.to_string();
            out.add(&[&listener.about.name, &number], value(&worker));
        }
    }
}
