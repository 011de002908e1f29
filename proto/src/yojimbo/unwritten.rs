//! Packets that were taken and are acknowledged only once what they brought is written
//! ([`AckPolicy::Strict`](crate::session::AckPolicy::Strict)).
//!
//! What a packet brings from behind a gap is not waited for. It cannot be written before the gap closes, and a sender
//! that repeats whole packets by the clock may have no room for the missing message until they are acknowledged. That
//! one is acknowledged with what waits behind it, once all of that is written:
//!
//! ```text
//!            written │ delivered │ gap │ early
//!   ids    ──────────┼───────────┼─────┼────────▶
//!   packet     6     │     7     │     │  10         waits for the write of 7
//!   packet           │           │     │  10  11     waits for nothing
//!   packet           │           │  8  │             waits for the write of 8 and of what then is delivered
//! ```
//!
//! So whatever stands before a peer's oldest unacknowledged message is written. Rule: docs/RELIABILITY.md, "Stations of
//! a message on its way to the backend".

use std::collections::VecDeque;

/// Numbers of the packets that wait for a write, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unwritten(VecDeque<u16>);

impl Unwritten {
    /// Notes a packet. `most`: acknowledgements speak of no more.
    pub(super) fn push(&mut self, sequence: u16, most: u16) {
        // The messages of one that is pushed out here come again, are known, and are acknowledged then.
        if self.0.len() >= most.into() {
            self.0.pop_front();
        }
        self.0.push_back(sequence);
    }

    /// Takes the oldest one, when all was written that was delivered.
    pub(super) fn pop(&mut self) -> Option<u16> {
        self.0.pop_front()
    }
}
