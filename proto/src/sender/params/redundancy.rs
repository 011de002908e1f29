//! What copies may cost.

use std::time::Duration;

/// How copies of messages under way go with what is new, before anybody knows whether they are missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redundancy {
    /// Bytes of copies for each byte of packets with something new, at a short round trip. A 64-byte
    /// frame costs 122 bytes alone and 67 as a copy, so 1.35 pays for two copies of everything and
    /// for what turns out to be lost.
    pub share: f64,
    /// Bytes of copies for each byte of the new messages alone, if that is less: packets of tiny messages
    /// are nearly all header, and would pay for more copies than help.
    pub share_of_messages: f64,
    /// Both grow with the round trip, up to this many times: a loss that waits for a round
    /// trip costs more the longer that is.
    pub far: f64,
    /// Bytes a second of copies beside that share, for traffic that is too thin to pay for them.
    pub trickle: f64,
    /// The chance to rescue a message that a copy must have. 0.0005: a message that waits for a
    /// round trip holds up those behind it, and about one in a thousand may.
    pub gain_min: f64,
    /// When nothing else is about to leave, copies leave by themselves this long after the last
    /// packet, then after twice that, and so on (an early tail probe).
    pub early_probe: Duration,
}

impl Default for Redundancy {
    fn default() -> Self {
        Self {
            share: 1.35,
            share_of_messages: 2.5,
            far: 2.0,
            trickle: 4000.0,
            gain_min: 0.0005,
            early_probe: Duration::from_millis(10),
        }
    }
}
