//! What an event of the poll is about, packed into its number.

use mio::Token;

/// Which of a listener's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// The one that all peers share.
    Socket,
    /// The socket of the peer in this slot.
    PeerSocket(usize),
    /// The stream of the peer in this slot.
    Stream(usize),
}

/// Slots are 32-bit numbers; the kind is above them, the listener above that.
const KIND_SHIFT: u32 = 32;
const LISTENER_SHIFT: u32 = 34;
const SLOT_MASK: usize = (1 << KIND_SHIFT) - 1;

/// The number for one socket of the listener with this index in its worker.
pub(super) fn poll_token(listener: usize, what: Wakes) -> Token {
    let (kind, slot) = match what {
        Wakes::Socket => (0, 0),
        Wakes::PeerSocket(slot) => (1, slot),
        Wakes::Stream(slot) => (2, slot),
    };
    Token(listener << LISTENER_SHIFT | kind << KIND_SHIFT | slot)
}

/// The inverse of `poll_token`; `None` for numbers it does not make.
pub fn meaning(token: Token) -> Option<(usize, Wakes)> {
    let slot = token.0 & SLOT_MASK;
    let what = match token.0 >> KIND_SHIFT & 3 {
        0 => Wakes::Socket,
        1 => Wakes::PeerSocket(slot),
        2 => Wakes::Stream(slot),
        _ => return None,
    };
    Some((token.0 >> LISTENER_SHIFT, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_tell_sockets_apart() {
        for listener in [0, 1, 500] {
            for what in [
                Wakes::Socket,
                Wakes::PeerSocket(0),
                Wakes::Stream(0),
                Wakes::Stream(u32::MAX as usize),
            ] {
                assert_eq!(meaning(poll_token(listener, what)), Some((listener, what)));
            }
        }
        assert_eq!(
            meaning(Token(usize::MAX)),
            None,
            "the waker's number is free"
        );
    }
}
