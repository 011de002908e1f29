//! yojimbo 1.0 as games speak it: netcode 1.02, reliable 1.0 and channels of messages, in both roles.
//!
//! ```text
//!   messages     channels/     ids, order, blocks            Outgoing ▲ │ Incoming
//!   packets      reliable/     numbers, acks, fragments               │ ▼
//!   datagrams    netcode/      tokens, challenge, encryption        Link
//!
//!   server:  Acceptor ── handshake won ──▶ Session      client:  Connector ── challenged ──▶ Session
//! ```
//!
//! The three layers are three structs called in order by [`Session`], not three traits: there is one
//! stack. When what is sent is decided by [`crate::sender`].

mod acceptor;
mod acks;
pub mod bits;
pub mod channels;
mod connector;
mod incoming;
mod long_ack;
mod mismatched;
pub mod netcode;
mod outgoing;
mod params;
mod postscript;
pub mod reliable;
mod session;
mod unwritten;

pub use acceptor::Acceptor;
pub use connector::Connector;
pub use params::Params;
pub use session::Session;
