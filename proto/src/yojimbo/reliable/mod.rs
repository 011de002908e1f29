//! reliable 1.0: numbered packets, acknowledged one by one, cut into fragments when large.
//!
//! ```text
//!   datagram ─▶ Receiver::parse ─▶ Receiver::receive ─▶ packet ─▶ (caller judges) ─▶ Receiver::accept
//!                    │                    ▲                                               │
//!                    ▼ acks   Incomplete ◀┘ fragments                      Received ◀─────┘ what we acknowledge
//!
//!   payload ─▶ Limits::emit ─▶ one datagram, or one of several fragments
//! ```
//!
//! Rule: docs/wire/reliable.md. Does not resend and does not time anything: what a lost packet
//! carried is the concern of the channels above.

mod fragments;
mod received;
mod receiver;
mod window;
mod wire;

pub use received::{Received, WINDOW};
pub use receiver::{Arrival, Datagram, DatagramError, Receiver};
pub use window::Window;
pub use wire::{
    FRAGMENT_HEADER_BYTES, Fragment, HEADER_BYTES_MAX, Header, Limits, acked, is_fragment,
};

#[cfg(test)]
mod tests;
