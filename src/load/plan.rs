//! What all clients are told before they begin.

use std::net::SocketAddr;

use tidegate_proto::Timestamp;

use super::Load;
use super::channels::Channels;
use super::connect_tokens::ConnectTokens;
use super::content::Shape;
use crate::protocol::Dialer;

/// A load, and what was found out for it.
pub(super) struct Plan {
    pub(super) load: Load,
    pub(super) channels: Channels,
    pub(super) shape: Shape,
    pub(super) remote: SocketAddr,
    pub(super) dialer: Dialer,
    pub(super) tokens: ConnectTokens,
    pub(super) began: Timestamp,
}

/// The time of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}
