//! The metrics endpoint's text: every metric of [`families`], read from the board when somebody asks.
//!
//! The text format comes from `metrics-exporter-prometheus`, without its recorder. The recorder's
//! counters are integers, and ours of time are not; its histograms take single samples and keep
//! each one until somebody drains them, and ours are added up before anybody asks
//! (docs/ARCHITECTURE.md, "Why these crates").
//!
//! Labels come from the configuration (listener, backend, target), from an enum in the code, or are
//! a worker's number. Never an address, a client id or a text: the number of series does not depend
//! on the peers. Every combination is there from the start, at zero.

mod catalogue;
mod process;
mod series;

use metrics_exporter_prometheus::formatting::{write_help_line, write_type_line};

use crate::board::Snapshot;

pub use catalogue::families;
pub use process::Usage;
use series::{Series, Source};

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
    for family in families() {
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

#[cfg(test)]
mod tests;
