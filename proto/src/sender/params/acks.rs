//! When acknowledgements leave without messages.

use std::time::Duration;

/// How long an acknowledgement waits for something to go with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTiming {
    /// An acknowledgement is owed at the latest this long after the first packet that brought
    /// something: less than two 60 Hz frames, so that the peer's RTT stays honest.
    pub delay: Duration,
    /// The longest wait of an acknowledgement of packets that brought nothing new: their sender waits for nothing.
    pub delay_repeat: Duration,
    /// Packets received after which an acknowledgement is owed at once: a quarter of what the 32
    /// ack bits reach, so that losing three acknowledgements in a row loses no news.
    pub every: u32,
}

impl Default for AckTiming {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(20),
            delay_repeat: Duration::from_millis(40),
            every: 8,
        }
    }
}
