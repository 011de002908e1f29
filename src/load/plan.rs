//! What all clients are told before they begin.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::Timestamp;

use super::channels::Channels;
use super::connect_tokens::ConnectTokens;
use super::content::Shape;
use crate::protocol::Dialer;

/// What all workers are told.
pub(super) struct Plan {
    pub(super) remote: SocketAddr,
    pub(super) habits: Habits,
    pub(super) dialer: Dialer,
    pub(super) tokens: ConnectTokens,
    pub(super) patience: Duration,
    pub(super) ramp: Duration,
    pub(super) clients: usize,
    pub(super) duration: Duration,
    pub(super) settle: Duration,
    pub(super) began: Timestamp,
}

/// What all clients do alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) channels: Channels,
    pub(super) shape: Shape,
    /// Share of the messages.
    pub(super) unreliable: f64,
    pub(super) pace: Pace,
    /// Whether what is sent comes back.
    pub(super) echoed: bool,
}

/// When the next message is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    Every(Duration),
    Window(usize),
}

/// The time of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}
