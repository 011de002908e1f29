//! rudp: messages with 16-bit ids, resent when the receiver asks. Speaks to cloudwu/rudp.
//!
//! ```text
//!   datagram ──▶ wire ──▶ session ──▶ incoming ──▶ inbox       gaps are asked for
//!                            │
//!   datagram ◀── wire ◀──────┴────◀── outgoing ◀── send        history answers, until it expires
//! ```
//!
//! The format, what the reference does, and which of it a peer must not copy: docs/wire/rudp.md.
//! There is no connection, no authentication and no acknowledgement on this wire; see section 7
//! there for what that means.

mod acceptor;
mod incoming;
mod outgoing;
mod probe;
mod session;
pub mod wire;

use std::time::Duration;

pub use acceptor::Acceptor;
pub use session::Session;

/// How a session behaves. `Params::default()` suits reference peers that tick every 10 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Length of one tick. The reference leaves it to its caller.
    pub tick: Duration,
    /// Ticks between two outputs.
    pub send_delay: u32,
    /// Ticks a sent message is kept for requests; it lives for one to two of these.
    pub expired_time: u32,
    /// Records are packed into datagrams of this size; the reference uses 128. 16 to 1472.
    pub mtu: usize,
    /// Longest message, both ways. Above `mtu - 4` a message travels alone, and above some 1400
    /// bytes in IP fragments. At most [`wire::MESSAGE_BYTES_MAX`].
    pub message_bytes_max: usize,
    /// A message the peer forgot before we got it.
    pub on_missing: OnMissing,
    /// How long such a message may still arrive.
    pub missing_grace: Duration,
    /// The peer's corrupt record.
    pub on_corrupt: OnCorrupt,
    /// First wait before a gap is asked for again.
    pub request_interval: Duration,
    /// Longest wait; it doubles in between.
    pub request_interval_max: Duration,
    /// The peer is gone after more than this silence.
    pub idle_timeout: Duration,
    /// Strangers must answer a probe before they get a session. Off only for peers that do not
    /// echo, and then only behind an allow list.
    pub probe: bool,
    /// Messages that wait to be sent.
    pub send_queue_messages_max: usize,
    /// Bytes of the messages that wait to be sent.
    pub send_queue_bytes_max: usize,
    /// Bytes of the sent messages that are kept for requests. When full, sending waits for the oldest to expire.
    pub history_bytes_max: usize,
    /// Bytes that may wait to be polled, each message charged with [`crate::inbox::MESSAGE_OVERHEAD`]; with more,
    /// packets are refused.
    pub inbox_max: usize,
}

/// What a message that the peer let expire does to the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// Ends it with [`crate::CloseReason::PeerHistoryExpired`]: a stream with a hole is no stream.
    #[default]
    Close,
    /// Is counted in [`crate::Stats::messages_skipped`].
    Skip,
}

/// What the peer's corrupt record does to the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCorrupt {
    /// Two of them within a second end it with [`crate::CloseReason::PeerDisconnect`]. One is a
    /// single byte, which anybody can forge blindly.
    #[default]
    CloseOnSecond,
    /// Nothing.
    Ignore,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(10),
            send_delay: 1,
            expired_time: 500,
            mtu: 512,
            message_bytes_max: 1468,
            on_missing: OnMissing::default(),
            missing_grace: Duration::from_millis(500),
            on_corrupt: OnCorrupt::default(),
            request_interval: Duration::from_millis(20),
            // 47 ticks, a prime number. Where every second or third datagram is lost, the answers of a
            // peer that says one in each tick would share one fate after a multiple of two or three.
            request_interval_max: Duration::from_millis(470),
            idle_timeout: Duration::from_secs(10),
            probe: true,
            send_queue_messages_max: 1024,
            send_queue_bytes_max: 1 << 20,
            // 419 kB a second with the ten seconds a message is kept at most.
            history_bytes_max: 4 << 20,
            inbox_max: 256 * 1024,
        }
    }
}

impl Params {
    /// Impossible values become the nearest possible ones.
    fn sane(mut self) -> Self {
        self.tick = self.tick.max(Duration::from_millis(1));
        self.send_delay = self.send_delay.max(1);
        self.mtu = self.mtu.clamp(16, 1472);
        self.message_bytes_max = self.message_bytes_max.min(wire::MESSAGE_BYTES_MAX);
        self.request_interval = self.request_interval.max(self.tick);
        self
    }

    fn limits(&self) -> outgoing::Limits {
        outgoing::Limits {
            queue_messages: self.send_queue_messages_max,
            queue_bytes: self.send_queue_bytes_max,
            history_messages: HISTORY_MESSAGES_MAX,
            history_bytes: self.history_bytes_max,
            history_kept: self.tick * self.expired_time,
        }
    }
}

/// Sent messages kept for requests: 1638 a second with the ten seconds a message is kept at most. Ids count 65,536.
const HISTORY_MESSAGES_MAX: usize = 16_384;
