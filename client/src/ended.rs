//! How a session ended.

use std::fmt;
use std::io;

use tidegate_proto::CloseReason;

/// Why there is no session (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We closed it.
    Here {
        /// Reliable messages that the server did not confirm: it may have them or not. rudp never
        /// confirms, so there it is those that never left.
        unconfirmed: u32,
    },
    /// The server, the network or the protocol did.
    Session(CloseReason),
    /// The socket failed.
    Socket(io::ErrorKind),
}

impl Ended {
    /// One word, the same in every language binding and in tidegate's own logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Here { .. } => "closed_here",
            Self::Session(reason) => reason.label(),
            Self::Socket(_) => "socket",
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            // Nothing of what was delivered: rudp does not know.
            Self::Here { unconfirmed: 0 } => "closed here",
            Self::Here { unconfirmed } => {
                return write!(f, "closed here, {unconfirmed} messages not confirmed");
            }
            Self::Socket(kind) => return write!(f, "the socket failed: {kind}"),
            Self::Session(CloseReason::PeerDisconnect) => "the server said goodbye",
            Self::Session(CloseReason::PeerTimeout) => "the server fell silent",
            Self::Session(CloseReason::PeerStalled) => "the server stopped acknowledging",
            Self::Session(CloseReason::PeerGapStall) => "a message of the server stayed missing",
            Self::Session(CloseReason::Denied) => "the server denied: full, or not ready",
            Self::Session(CloseReason::ConnectTimeout) => {
                "no server answered: wrong address, or it does not take this token"
            }
            Self::Session(CloseReason::TokenExpired) => {
                "the connect token expired before a server answered"
            }
            Self::Session(CloseReason::PeerHistoryExpired) => {
                "the server forgot a message before it was delivered"
            }
            Self::Session(CloseReason::ProtocolViolation) => {
                "the server sends what this client cannot read: compare both layouts"
            }
            Self::Session(reason) => reason.label(),
        };
        f.write_str(text)
    }
}

impl std::error::Error for Ended {}
