//! What a worker counts: plain integers and fixed buckets, owned by the worker, published four times
//! a second.
//!
//! Nothing here is atomic, allocates while it counts, or grows with the number of peers. A worker
//! copies the whole structure to where readers find it (`board/`); readers add workers up and
//! never touch the data path. Names for the outside world live in `metrics/`.

mod admission;
pub mod buckets;
mod histogram;
mod labels;
mod target;
mod worker;

pub use admission::AdmissionCounters;
pub use histogram::Histogram;
pub use labels::{ClosedBy, ConnectFailure, Direction, DropReason};
pub use target::TargetCounters;
pub use worker::WorkerCounters;

fn add(mine: &mut [u64], theirs: &[u64]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}
