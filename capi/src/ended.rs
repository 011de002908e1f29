//! Numbers and sentences for how a session ended. A number keeps its meaning for ever.

use std::ffi::{CStr, c_char};

use tidegate_client::{CloseReason, Ended};

/// It is not over.
pub const TIDEGATE_ENDED_NOT: i32 = 0;
/// We closed it; tidegate_client_unconfirmed() has what the server did not confirm.
pub const TIDEGATE_ENDED_HERE: i32 = 1;
/// The socket failed.
pub const TIDEGATE_ENDED_SOCKET: i32 = 2;
/// The server said goodbye.
pub const TIDEGATE_ENDED_SERVER: i32 = 3;
/// The server fell silent.
pub const TIDEGATE_ENDED_SILENCE: i32 = 4;
/// The server stopped acknowledging, or left a gap in its messages.
pub const TIDEGATE_ENDED_STALLED: i32 = 5;
/// The server sends what this client cannot read: compare both layouts.
pub const TIDEGATE_ENDED_VIOLATION: i32 = 6;
/// The server denied: it is full, or not ready.
pub const TIDEGATE_ENDED_DENIED: i32 = 7;
/// No server answered: wrong address, or it does not take this token.
pub const TIDEGATE_ENDED_UNANSWERED: i32 = 8;
/// The connect token expired before a server answered.
pub const TIDEGATE_ENDED_TOKEN_EXPIRED: i32 = 9;
/// The server forgot a message before it could be delivered (rudp).
pub const TIDEGATE_ENDED_FORGOTTEN: i32 = 10;
/// Something that should not happen to a client; please report it.
pub const TIDEGATE_ENDED_OTHER: i32 = 99;

/// A sentence for a TIDEGATE_ENDED_*; static, never null.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_ended_text(ended: i32) -> *const c_char {
    sentence(ended).as_ptr()
}

fn sentence(ended: i32) -> &'static CStr {
    match ended {
        TIDEGATE_ENDED_NOT => c"not over",
        TIDEGATE_ENDED_HERE => c"closed here",
        TIDEGATE_ENDED_SOCKET => c"the socket failed",
        TIDEGATE_ENDED_SERVER => c"the server said goodbye",
        TIDEGATE_ENDED_SILENCE => c"the server fell silent",
        TIDEGATE_ENDED_STALLED => c"the server stopped acknowledging, or left a gap",
        TIDEGATE_ENDED_VIOLATION => {
            c"the server sends what this client cannot read: compare both layouts"
        }
        TIDEGATE_ENDED_DENIED => c"the server denied: full, or not ready",
        TIDEGATE_ENDED_UNANSWERED => {
            c"no server answered: wrong address, or it does not take this token"
        }
        TIDEGATE_ENDED_TOKEN_EXPIRED => c"the connect token expired before a server answered",
        TIDEGATE_ENDED_FORGOTTEN => c"the server forgot a message before it was delivered",
        TIDEGATE_ENDED_OTHER => c"something that should not happen to a client",
        _ => c"no such end",
    }
}

pub(crate) fn number(ended: Ended) -> i32 {
    match ended {
        Ended::Here { .. } => TIDEGATE_ENDED_HERE,
        Ended::Socket(_) => TIDEGATE_ENDED_SOCKET,
        Ended::Session(reason) => match reason {
            CloseReason::PeerDisconnect => TIDEGATE_ENDED_SERVER,
            CloseReason::PeerTimeout => TIDEGATE_ENDED_SILENCE,
            CloseReason::PeerStalled | CloseReason::PeerGapStall => TIDEGATE_ENDED_STALLED,
            CloseReason::ProtocolViolation => TIDEGATE_ENDED_VIOLATION,
            CloseReason::Denied => TIDEGATE_ENDED_DENIED,
            CloseReason::ConnectTimeout => TIDEGATE_ENDED_UNANSWERED,
            CloseReason::TokenExpired => TIDEGATE_ENDED_TOKEN_EXPIRED,
            CloseReason::PeerHistoryExpired => TIDEGATE_ENDED_FORGOTTEN,
            // A relay's reasons: backends, drains, operators.
            CloseReason::BackendRefused
            | CloseReason::BackendUnreachable
            | CloseReason::BackendConnectTimeout
            | CloseReason::BackendClosed
            | CloseReason::BackendReset
            | CloseReason::BackendStalled
            | CloseReason::BackendProtocolError
            | CloseReason::MessageTooLarge
            | CloseReason::Overload
            | CloseReason::Replaced
            | CloseReason::Kicked
            | CloseReason::Banned
            | CloseReason::Drain
            | CloseReason::Shutdown => TIDEGATE_ENDED_OTHER,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C hears what Rust hears.
    #[test]
    fn each_end_has_its_own_number() {
        for reason in CloseReason::ALL {
            let ended = Ended::Session(reason);
            let number = number(ended);
            let said = sentence(number).to_str().unwrap();
            match number {
                TIDEGATE_ENDED_OTHER => assert_eq!(ended.to_string(), reason.label()),
                TIDEGATE_ENDED_STALLED => assert!(said.starts_with("the server stopped")),
                _ => assert_eq!(said, ended.to_string()),
            }
        }
        let here = Ended::Here { unconfirmed: 1 };
        assert_eq!(number(here), TIDEGATE_ENDED_HERE);
        let socket = Ended::Socket(std::io::ErrorKind::Other);
        assert_eq!(number(socket), TIDEGATE_ENDED_SOCKET);
    }
}
