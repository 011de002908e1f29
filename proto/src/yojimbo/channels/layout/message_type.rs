//! How one type of message is laid out.

use std::fmt;

use crate::ring::Split;

/// How the body of a message type is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// A length in this range, then that many bytes, aligned.
    Bytes {
        /// Shortest.
        min: u16,
        /// Longest.
        max: u16,
    },
    /// Nothing; the block that comes with the message is the payload.
    Block,
    /// This many bits as they are, not aligned; as a payload, whole bytes with zeros on top.
    Bits(u16),
}

impl MessageType {
    /// Bytes of the longest payload inside a message.
    pub(super) fn longest(self) -> Option<usize> {
        match self {
            Self::Bytes { max, .. } => Some(usize::from(max)),
            Self::Block => None,
            Self::Bits(bits) => Some(usize::from(bits).div_ceil(8)),
        }
    }

    /// Whether this payload goes inline as a message of this type. Bits that do not travel must be zero.
    pub fn takes(self, (head, tail): Split<'_>) -> bool {
        let length = head.len() + tail.len();
        match self {
            Self::Bytes { min, max } => (usize::from(min)..=usize::from(max)).contains(&length),
            Self::Block => false,
            Self::Bits(bits) => {
                let top = tail.last().or(head.last()).copied().unwrap_or(0);
                let is_whole = bits % 8 == 0 || top >> (bits % 8) == 0;
                length == usize::from(bits).div_ceil(8) && is_whole
            }
        }
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { min, max } => write!(f, "{min} to {max} bytes"),
            Self::Block => write!(f, "a block"),
            Self::Bits(bits) => write!(f, "{bits} bits"),
        }
    }
}
