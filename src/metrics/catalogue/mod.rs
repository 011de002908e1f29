//! Every metric, in the order of the page and of `docs/METRICS.md`.

mod backends;
mod peers;
mod process;
mod queues;
mod socket;
mod strangers;
mod traffic;
mod usage;
mod workers;

use super::Family;

/// The whole catalogue.
pub fn families() -> impl Iterator<Item = &'static Family> {
    let all = [
        process::FAMILIES,
        socket::FAMILIES,
        peers::FAMILIES,
        traffic::FAMILIES,
        queues::FAMILIES,
        backends::FAMILIES,
        strangers::FAMILIES,
        workers::FAMILIES,
        usage::FAMILIES,
    ];
    all.into_iter().flatten()
}

const LISTENER: &[&str] = &["listener"];
const DIRECTION: &[&str] = &["listener", "direction"];
const TARGET: &[&str] = &["backend", "target"];
const WORKER: &[&str] = &["listener", "worker"];
const MODES: &[&str] = &["good", "bad"];
