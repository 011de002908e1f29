//! What can be asked over the control socket: one JSON object a line, each answered by one.

use serde::{Deserialize, Serialize};

use crate::capture::Order;

/// A request, as it stands on the line: `{"command":"kick","whom":"7"}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Everybody, or the peers of one listener.
    Peers { listener: Option<String> },
    /// One peer: a session (16 hexadecimal digits), a client id or an address, with or without port.
    Peer { whom: String },
    /// Ends a session, or all of a client or an address.
    Kick { whom: String },
    /// Ends sessions and refuses new ones: a network, an address or a client id.
    Ban { whom: String, seconds: Option<u64> },
    /// Lifts a ban.
    Unban { whom: String },
    /// All bans.
    Bans,
    /// All targets.
    Backends,
    /// No new sessions for a target, as written in the configuration.
    BackendDrain { target: String },
    /// New sessions for it again.
    BackendEnable { target: String },
    /// No new peers; with a time, those who are left then are told to go.
    Drain { seconds: Option<u64> },
    /// New peers again.
    Undrain,
    /// Reads the configuration again.
    Reload,
    /// Logs at this level from now on, or for so long; without a level, says which is in force.
    Log {
        level: Option<String>,
        seconds: Option<u64>,
    },
    /// Records sessions that begin from now on.
    CaptureStart(Order),
    /// Ends the recording.
    CaptureStop,
    /// Figures of the process.
    Stats,
}

impl Request {
    /// Whether it changes nothing.
    pub fn is_query(&self) -> bool {
        match self {
            Self::Peers { .. }
            | Self::Peer { .. }
            | Self::Bans
            | Self::Backends
            | Self::Log { level: None, .. }
            | Self::Stats => true,
            Self::Kick { .. }
            | Self::Ban { .. }
            | Self::Unban { .. }
            | Self::BackendDrain { .. }
            | Self::BackendEnable { .. }
            | Self::Drain { .. }
            | Self::Undrain
            | Self::Reload
            | Self::Log { level: Some(_), .. }
            | Self::CaptureStart(_)
            | Self::CaptureStop => false,
        }
    }
}
