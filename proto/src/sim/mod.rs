//! A bad network in virtual time: what the scenarios and benches run on, and, by the real clock, `tidegate lag`.

pub mod intruder;
mod invariants;
pub mod link;
pub mod peer;
pub mod traffic;
pub mod world;

pub use crate::random::Random;
pub use intruder::{Intent, Intruder, Shot};
pub use link::{Conditions, Done, Link};
pub use peer::{Packet, Peer};
pub use traffic::Traffic;
pub use world::{Watch, Way, World};
