//! What may wait to be sent.

/// Limits of each lane's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Bytes of reliable messages queued or unacknowledged per lane; the last one in may go beyond, or
    /// the longest would never fit a small queue. What is under way over 50 ms at 100 Mbit/s until a lost
    /// part of it has come again. Up to [`OUTBOX_FAR`] times as much to a peer that was found to take larger
    /// datagrams, where the path has so much under way.
    pub outbox_bytes_max: usize,
    /// Unreliable messages waiting per lane; the oldest makes room for a new one.
    pub unreliable_messages_max: usize,
    /// Bytes of unreliable messages waiting per lane; the oldest makes room for a new one.
    pub unreliable_bytes_max: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            outbox_bytes_max: 2 << 20,
            unreliable_messages_max: 64,
            unreliable_bytes_max: 64 * 1024,
        }
    }
}

/// Over 200 ms at 100 Mbit/s there are 7 MB under way until what was lost again has come.
pub const OUTBOX_FAR: usize = 4;
