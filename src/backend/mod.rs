//! The stream side: one TCP or Unix stream per peer, and the pool of targets they go to.
//!
//! [`Stream`] is one peer's stream in both directions, [`Pool`] chooses where new ones go,
//! [`Socket`] makes TCP and Unix sockets look alike. The stream that `tidegate connect` accepted
//! from a local program is the same thing seen from the other end: it only begins connected.

pub mod advice;
pub mod health;
mod place;
mod pool;
mod socket;
mod stream;

pub use pool::{Failing, Pick, Pool, Shut, TargetState, Turned};
pub use socket::{Address, KEEPALIVE, Socket, SocketOptions};
pub use stream::{Pumped, Scratch, Side, Stream, StreamRules};
