//! What one tidegate says to another behind a packet without entries, where all others read nothing.
//!
//! ```text
//!   00  kind  rest
//!   │   └ 0: zeros, which say nothing            a probe
//!   │     1: runs                                a long acknowledgement
//!   │     2, 3: the same from an end that reads long fragments
//!   │     4: a long fragment
//!   └ no entries
//! ```
//!
//! Rule: docs/wire/reliable.md, sections 7.4 and 7.5.

use super::long_ack::LongAck;
use super::reliable::Header;

/// What follows the byte that says that there are no entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Postscript<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Postscript<'a> {
    /// The one in this payload, if it has one that we know: unless `is_reader`, a long acknowledgement. Any bytes are one.
    pub(super) fn parse(payload: &'a [u8], is_reader: bool) -> Option<Self> {
        match *payload {
            [NO_ENTRIES, kind, ref rest @ ..] if is_reader || kind == LONG_ACK => {
                Some(Self { kind, rest })
            }
            _ => None,
        }
    }

    /// The long acknowledgement that it is, in a packet with this header.
    pub(super) fn long_ack(self, header: Header) -> Option<LongAck<'a>> {
        let is_one = matches!(self.kind, LONG_ACK | LONG_ACK_OF_READER);
        is_one.then(|| LongAck::new(header, self.rest))
    }

    /// Its sender reads long fragments.
    pub(super) fn is_of_reader(self) -> bool {
        matches!(self.kind, PROBE_OF_READER | LONG_ACK_OF_READER)
    }

    /// The long fragment that it is, to be read by its layout.
    pub(super) fn long_fragment(self) -> Option<&'a [u8]> {
        (self.kind == LONG_FRAGMENT).then_some(self.rest)
    }
}

/// What a connection packet without entries begins with.
pub(super) const NO_ENTRIES: u8 = 0;

/// A long acknowledgement follows.
pub(super) const LONG_ACK: u8 = 1;

/// Zeros follow, and who sends them reads long fragments.
pub(super) const PROBE_OF_READER: u8 = 2;

/// A long acknowledgement follows, and who sends it reads long fragments. Only such a peer reads it.
pub(super) const LONG_ACK_OF_READER: u8 = 3;

/// A long fragment follows.
pub(super) const LONG_FRAGMENT: u8 = 4;
