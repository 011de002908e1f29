//! The protocols of tidegate as state machines: no sockets, no clocks, no threads, no runtime.
//!
//! Start with [`session`]: what a [`Session`] is told and what it asks for. Then one of
//! the protocols, whose `mod.rs` shows its layers in one picture.
//!
//! ```text
//!   endpoint ──▶ session                        one socket's peers, each behind the two interfaces
//!                   ▲
//!   yojimbo, gaffer, rudp                       the protocols; none knows another
//!      │  ├─▶ sender ──▶ mode, rtt, windowed    what leaves when
//!      │  ├─▶ inbox, reassembly, ring           what waits: to be taken, for its rest, to leave
//!      │  └─▶ lifecycle, stall                  the life of a session, and who makes no progress
//!      ▼
//!   cursor, ip, sequence, skipped               bytes and numbers of the wire
//!   random, siphash, bucket, per_second,        what all of them share
//!   time, stats
//!   sim                                         a bad network in virtual time
//! ```

mod bucket;
pub mod cursor;
pub mod endpoint;
pub mod gaffer;
pub mod inbox;
pub mod ip;
mod lifecycle;
pub mod mode;
pub mod per_second;
pub mod random;
mod reassembly;
mod ring;
pub mod rtt;
pub mod rudp;
pub mod sender;
pub mod sequence;
pub mod session;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod siphash;
mod skipped;
mod stall;
pub mod stats;
pub mod time;
mod windowed;
pub mod yojimbo;

#[cfg(test)]
mod tests;

pub use endpoint::{Endpoint, Handled, PeerId};
pub use session::{
    Acceptor, AckPolicy, Allowance, Channel, CloseReason, Event, Held, Identity, Message, Origin,
    Reject, SendError, Session, Stranger, StrangerClass, Verdict, Way,
};
pub use stats::Stats;
pub use time::{Deadline, Now, Timestamp, Wake};
