//! Datagrams that came in one call.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use super::mmsg::{Arrivals, BATCH};

/// A batch of datagrams that arrived, and the memory for them. One per worker.
pub struct Received {
    arrivals: Arrivals,
    /// Buffers that the next call offers. Preparing buffers costs time, so their number follows
    /// how many get filled.
    limit: usize,
    filled_all: bool,
    dropped: Option<u32>,
}

/// Where a datagram came from, and which of our addresses it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The peer.
    pub from: SocketAddr,
    /// Ours, when the socket has several.
    pub to: Option<IpAddr>,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            arrivals: Arrivals::new(),
            limit: BATCH_MIN,
            filled_all: false,
            dropped: None,
        }
    }
}

impl Received {
    /// Buffers filled.
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.arrivals.len() == 0
    }

    /// Whether the socket may have more: the last call filled every buffer it was given.
    pub fn may_have_left(&self) -> bool {
        self.filled_all
    }

    /// The datagrams of one buffer.
    pub fn take(&mut self, index: usize) -> (Route, impl Iterator<Item = &mut [u8]>) {
        let (arrival, bytes) = self.arrivals.take(index);
        let route = Route {
            from: arrival.from,
            to: arrival.to,
        };
        let segment = if arrival.segment == 0 {
            bytes.len()
        } else {
            arrival.segment
        };
        // An empty datagram is one datagram; chunks of it would be none.
        let (empty, whole) = if bytes.is_empty() {
            (Some(bytes), None)
        } else {
            (None, Some(bytes.chunks_mut(segment)))
        };
        (route, empty.into_iter().chain(whole.into_iter().flatten()))
    }

    /// Takes what this socket has, as much as is prepared for.
    pub(super) fn fill_from(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.arrivals.receive(socket, self.limit)?;
        self.adapt();
        Ok(())
    }

    /// The socket's running count of drops, if the last call told it.
    pub(super) fn dropped(&self) -> Option<u32> {
        self.dropped
    }

    fn adapt(&mut self) {
        let filled = self.arrivals.len();
        self.filled_all = filled == self.limit;
        if self.filled_all {
            self.limit = (self.limit * 2).min(BATCH);
        } else if filled * 4 < self.limit {
            self.limit = (self.limit / 2).max(BATCH_MIN);
        }
        self.dropped = (0..filled)
            .rev()
            .find_map(|index| self.arrivals.dropped(index));
    }
}

const BATCH_MIN: usize = 4;
