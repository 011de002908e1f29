//! A bad network in virtual time: what the scenarios, benches and `tidegate demo` run on.

pub mod link;
pub mod peer;
pub mod random;
pub mod traffic;
pub mod world;

pub use link::{Conditions, Done, Link};
pub use peer::{Packet, Peer};
pub use random::Random;
pub use traffic::Traffic;
pub use world::World;
