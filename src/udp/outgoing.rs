//! Datagrams that leave in one call, and what became of them.

use std::net::{IpAddr, SocketAddr};

use super::errors::{UdpError, UdpErrors};
use super::mmsg::{BATCH, Departure};

/// Datagrams collected for one send, in the order they were made.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Strangers among those that something goes to, see [`Outgoing::push_unproven`].
    unproven: Vec<SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    end: usize,
    to: SocketAddr,
    from: Option<IpAddr>,
}

impl Outgoing {
    /// Where the next datagram is appended; [`Outgoing::push`] ends it.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was appended since the last call is one datagram to this address.
    pub fn push(&mut self, to: SocketAddr, from: Option<IpAddr>) {
        let end = self.bytes.len();
        self.entries.push(Entry { end, to, from });
    }

    /// As [`Outgoing::push`], to somebody who has proved nothing, not even that this address is theirs.
    pub fn push_unproven(&mut self, to: SocketAddr, from: Option<IpAddr>) {
        self.push(to, from);
        self.unproven.push(to);
    }

    /// Whether it should be sent before more is added.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= OUTGOING_DATAGRAMS || self.bytes.len() >= OUTGOING_BYTES
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets what was sent.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.unproven.clear();
    }

    fn start(&self, index: usize) -> usize {
        index
            .checked_sub(1)
            .map_or(0, |before| self.entries[before].end)
    }

    pub(super) fn size(&self, index: usize) -> usize {
        self.entries[index].end - self.start(index)
    }

    pub(super) fn to(&self, index: usize) -> SocketAddr {
        self.entries[index].to
    }

    /// How many datagrams from `first` on can leave as one: to one peer, all of the first's size but
    /// the last, which may be shorter.
    pub(super) fn run(&self, first: usize, segmentation: bool) -> usize {
        let (head, size) = (self.entries[first], self.size(first));
        if !segmentation || size == 0 || size > SEGMENT_MAX {
            return 1;
        }
        let mut run = 1;
        while let Some(entry) = self.entries.get(first + run)
            && entry.to == head.to
            && entry.from == head.from
            && run < SEGMENTS_MAX
            && (run + 1) * size <= SEGMENTED_BYTES_MAX
        {
            let next = self.size(first + run);
            if next > size || next == 0 {
                break;
            }
            run += 1;
            if next < size {
                break;
            }
        }
        run
    }

    pub(super) fn is_unproven(&self, to: SocketAddr) -> bool {
        self.unproven.contains(&to)
    }

    pub(super) fn departure(&self, first: usize, run: usize) -> Departure<'_> {
        let head = self.entries[first];
        let segment = if run > 1 { self.size(first) as u16 } else { 0 };
        Departure {
            to: head.to,
            from: head.from,
            bytes: &self.bytes[self.start(first)..self.entries[first + run - 1].end],
            segment,
        }
    }
}

/// Collected at most before a send. Of one peer's full datagrams, the standard's or those of bulk, these
/// bytes are two segmented sends with nothing left over.
const OUTGOING_DATAGRAMS: usize = 4 * BATCH;
const OUTGOING_BYTES: usize = 2 * (SEGMENTED_BYTES_MAX - 1_400);

/// What the kernel takes as one segmented send: 64 datagrams on older kernels, and 64 KiB with
/// headers.
const SEGMENTS_MAX: usize = 64;
const SEGMENTED_BYTES_MAX: usize = 64_000;
/// The largest datagram that leaves with others: what the first link takes uncut was asked before.
const SEGMENT_MAX: usize = 9_000;

/// What became of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams the kernel took.
    pub datagrams: u64,
    /// Bytes of the datagrams that the kernel took.
    pub bytes: u64,
    /// System calls that took any.
    pub calls: u64,
    /// Datagrams, or segmented groups of them, that it did not.
    pub errors: UdpErrors,
    /// Those of them that went to who had proved nothing. Where they came from may be forged, so they show nothing about
    /// this host.
    pub unproven: UdpErrors,
}

impl Sent {
    pub(super) fn count(&mut self, departure: &Departure<'_>, datagrams: usize) {
        self.datagrams += datagrams as u64;
        self.bytes += departure.bytes.len() as u64;
    }

    pub(super) fn lose(&mut self, kind: UdpError, was_unproven: bool) {
        self.errors.count(kind);
        if was_unproven {
            self.unproven.count(kind);
        }
    }

    /// Datagrams that the kernel did not take for this reason, and that whoever sends us anything cannot cause.
    pub fn failed(&self, kind: UdpError) -> u64 {
        self.errors.of(kind) - self.unproven.of(kind)
    }

    /// Adds what became of others.
    pub fn merge(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.calls += other.calls;
        self.errors.merge(&other.errors);
        self.unproven.merge(&other.unproven);
    }
}
