//! The receiving half of reliable: a datagram in, a whole packet out, and what to acknowledge.

use super::fragments::{Incomplete, Outcome};
use super::received::Received;
use super::wire::{FRAGMENT_HEADER_BYTES, Fragment, HEADER_BYTES_MAX, Header, Limits, is_fragment};
use crate::cursor::Reader;
use crate::session;
use crate::time::Timestamp;

/// What one peer's datagrams add up to.
///
/// A packet counts as received, and is acknowledged, only when the caller says so with
/// [`Receiver::accept`]. A packet that is not accepted is forgotten; its contents come again. That is the whole back-pressure of this layer.
#[derive(Debug, Default)]
pub struct Receiver {
    limits: Limits,
    received: Received,
    /// The last header told of packets that had come too late for the one before.
    told_late: bool,
    incomplete: Incomplete,
    /// The payload of the packet last put together, lent to the caller until the next datagram.
    whole: Vec<u8>,
}

/// What a good datagram brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A whole packet that was not accepted before.
    Packet {
        /// Its number and the acks it carries. The acks are true whether or not the packet is
        /// accepted: process them in any case.
        header: Header,
        /// What it carries. May be empty.
        payload: &'a [u8],
    },
    /// A fragment of a packet that misses others.
    Stored,
}

/// Why a datagram brought nothing.
///
/// The acks in stale and duplicate packets are left aside: a duplicate's were taken from its first
/// copy, and a packet that 256 others overtook says nothing that they did not say better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramError {
    /// No header, or longer than a packet may be.
    Malformed,
    /// More than 256 packets late.
    Stale,
    /// Accepted before, or a fragment that is here already.
    Duplicate,
    /// A fragment that no packet of ours could have, or that contradicts the others of its packet.
    BadFragment,
}

impl From<DatagramError> for session::Reject {
    fn from(error: DatagramError) -> Self {
        match error {
            DatagramError::Malformed => Self::Malformed,
            DatagramError::Stale | DatagramError::Duplicate => Self::Stale,
            DatagramError::BadFragment => Self::BadFragment,
        }
    }
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Reads one datagram: docs/wire/reliable.md, section 4.
    pub fn receive<'a>(
        &'a mut self,
        now: Timestamp,
        datagram: &'a [u8],
    ) -> Result<Arrival<'a>, DatagramError> {
        self.whole = Vec::new();
        let longest = self.limits.packet_bytes_max + HEADER_BYTES_MAX + FRAGMENT_HEADER_BYTES;
        if datagram.len() > longest {
            return Err(DatagramError::Malformed);
        }
        if is_fragment(datagram) {
            return self.receive_fragment(now, datagram);
        }
        let mut reader = Reader::new(datagram);
        let header = Header::parse(&mut reader).map_err(|_| DatagramError::Malformed)?;
        self.judge(header, reader.rest().len())?;
        Ok(Arrival::Packet {
            header,
            payload: reader.rest(),
        })
    }

    fn receive_fragment(
        &mut self,
        now: Timestamp,
        datagram: &[u8],
    ) -> Result<Arrival<'_>, DatagramError> {
        let size = self.limits.fragment_size;
        let fragment = Fragment::parse(datagram, size, self.limits.fragments_max)
            .ok_or(DatagramError::BadFragment)?;
        if self.received.contains(fragment.sequence) {
            return Err(DatagramError::Duplicate);
        }
        let sequence = fragment.sequence;
        // The first fragment already moves our ack, with the packet's own bit still clear.
        let begun = || self.received.see(sequence);
        match self.incomplete.add(now, fragment, size, begun) {
            Outcome::Stored => Ok(Arrival::Stored),
            Outcome::Complete(header, whole) => {
                self.judge(header, whole.len())?;
                self.whole = whole;
                Ok(Arrival::Packet {
                    header,
                    payload: &self.whole,
                })
            }
            Outcome::Stale => Err(DatagramError::Stale),
            Outcome::Duplicate => Err(DatagramError::Duplicate),
            Outcome::CountDiffers => Err(DatagramError::BadFragment),
        }
    }

    fn judge(&self, header: Header, length: usize) -> Result<(), DatagramError> {
        if length > self.limits.packet_bytes_max {
            return Err(DatagramError::Malformed);
        }
        if self.received.is_stale(header.sequence) {
            return Err(DatagramError::Stale);
        }
        if self.received.contains(header.sequence) {
            return Err(DatagramError::Duplicate);
        }
        Ok(())
    }

    /// Counts a packet that [`Receiver::receive`] returned as received. Nothing happens when so many
    /// came since then that it cannot be acknowledged any more.
    pub fn accept(&mut self, sequence: u16) {
        if self.received.is_stale(sequence) {
            return;
        }
        self.received.accept(sequence);
        self.incomplete.advance(sequence);
    }

    /// `ack` and `ack_bits` of the newest packets.
    pub fn ack(&self) -> (u16, u32) {
        self.received.ack()
    }

    /// What a header that leaves now says: [`Receiver::ack`], or every other time the same of older packets
    /// that came when it had passed them already (docs/wire/reliable.md, section 4).
    pub fn take_ack(&mut self) -> (u16, u32) {
        let is_turn = !std::mem::take(&mut self.told_late);
        let late = is_turn.then(|| self.received.take_late_ack()).flatten();
        self.told_late = late.is_some();
        late.unwrap_or_else(|| self.ack())
    }

    /// Gives up packets whose fragments stopped coming, and memory lent out before.
    pub fn expire(&mut self, now: Timestamp) {
        self.whole = Vec::new();
        self.incomplete.expire(now);
    }

    /// When [`Receiver::expire`] has something to give up.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.incomplete.next_expiry()
    }

    /// Bytes of fragments held; at most 256 KiB and one packet.
    pub fn held(&self) -> usize {
        self.incomplete.held() + self.whole.capacity()
    }

    /// Nothing will be taken any more.
    pub fn release(&mut self) {
        self.whole = Vec::new();
        self.incomplete.release();
    }

    /// Packets that never completed.
    pub fn reassembly_failures(&self) -> u64 {
        self.incomplete.failed()
    }
}
