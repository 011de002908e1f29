//! How many packets a peer gets.

/// Packets a second in either mode, and at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketRates {
    /// Packets a second in good mode. 90 leaves a 60 Hz game room for acks and repairs between its
    /// own packets.
    pub good: f64,
    /// Packets a second in good mode at most, for a game that ticks faster: two in five more than its ticks. 180 is
    /// that of 128 Hz.
    pub good_max: f64,
    /// Packets a second in bad mode. 20 is what a queue of a slow uplink drains beside.
    pub bad: f64,
    /// Packets that may leave at once after a pause: a burst of messages spread over 8 packets is
    /// still well inside a peer's 32-packet ack window.
    pub burst: f64,
}

impl Default for PacketRates {
    fn default() -> Self {
        Self {
            good: 90.0,
            good_max: 180.0,
            bad: 20.0,
            burst: 8.0,
        }
    }
}

impl PacketRates {
    /// The article's.
    pub fn article() -> Self {
        Self {
            good: 30.0,
            good_max: 30.0,
            bad: 10.0,
            // A fixed tick: nothing is saved up.
            burst: 1.0,
        }
    }
}
