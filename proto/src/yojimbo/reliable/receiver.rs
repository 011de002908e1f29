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

/// What a datagram is, before anything is known of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// A whole packet.
    Whole {
        /// Its number and the acks it carries.
        header: Header,
        /// What it carries. May be empty.
        payload: &'a [u8],
    },
    /// A part of one.
    Fragment(Fragment<'a>),
}

impl Datagram<'_> {
    /// The packet's header, which is in each datagram but later fragments. Its acks are true whatever becomes of the
    /// packet, and of a packet that goes again they are new ones: process them in any case.
    pub fn header(&self) -> Option<Header> {
        match self {
            Self::Whole { header, .. } => Some(*header),
            Self::Fragment(fragment) => fragment.header,
        }
    }
}

/// What a good datagram brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A whole packet that was not accepted before.
    Packet {
        /// Its number and the acks it carries, which are old if this took several datagrams: [`Datagram::header`].
        header: Header,
        /// What it carries. May be empty.
        payload: &'a [u8],
    },
    /// A fragment of a packet that misses others.
    Stored,
}

/// Why a datagram brought nothing.
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

    /// Reads one datagram: docs/wire/reliable.md, sections 1 and 5. Nothing changes.
    pub fn parse<'a>(&self, datagram: &'a [u8]) -> Result<Datagram<'a>, DatagramError> {
        let limits = &self.limits;
        let longest = limits.packet_bytes_max + HEADER_BYTES_MAX + FRAGMENT_HEADER_BYTES;
        if datagram.len() > longest {
            return Err(DatagramError::Malformed);
        }
        if is_fragment(datagram) {
            let fragment = Fragment::parse(datagram, limits.fragment_size, limits.fragments_max);
            return fragment
                .map(Datagram::Fragment)
                .ok_or(DatagramError::BadFragment);
        }
        let mut reader = Reader::new(datagram);
        let header = Header::parse(&mut reader).map_err(|_| DatagramError::Malformed)?;
        let payload = reader.rest();
        Ok(Datagram::Whole { header, payload })
    }

    /// Takes one datagram: docs/wire/reliable.md, section 4.
    pub fn receive<'a>(
        &'a mut self,
        now: Timestamp,
        datagram: Datagram<'a>,
    ) -> Result<Arrival<'a>, DatagramError> {
        self.whole = Vec::new();
        let (header, payload) = match datagram {
            Datagram::Whole { header, payload } => (header, payload),
            Datagram::Fragment(fragment) => match self.put_together(now, fragment)? {
                Some(header) => (header, &*self.whole),
                None => return Ok(Arrival::Stored),
            },
        };
        self.judge(header, payload.len())?;
        Ok(Arrival::Packet { header, payload })
    }

    /// The header of the packet that this fragment completes; the payload is [`Receiver::whole`] then.
    fn put_together(
        &mut self,
        now: Timestamp,
        fragment: Fragment<'_>,
    ) -> Result<Option<Header>, DatagramError> {
        let sequence = fragment.sequence;
        if self.received.contains(sequence) {
            return Err(DatagramError::Duplicate);
        }
        // The first fragment already moves our ack, with the packet's own bit still clear.
        let begun = || self.received.see(sequence);
        match self
            .incomplete
            .add(now, fragment, self.limits.fragment_size, begun)
        {
            Outcome::Stored => Ok(None),
            Outcome::Complete(header, whole) => {
                self.whole = whole;
                Ok(Some(header))
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
