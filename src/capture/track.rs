//! One session's way to the file: it never waits for the disk.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use tidegate_proto::{Timestamp, Way};

use super::record::{Record, What};
use super::{Shared, headers, pcapng};

/// One session's way to the file.
pub(super) struct Track {
    pub(super) session: u32,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) content: bool,
    pub(super) is_live: bool,
    pub(super) records: Sender<Vec<u8>>,
    pub(super) shared: Arc<Shared>,
}

impl Track {
    /// Whether anything is still written.
    pub(super) fn is_live(&mut self) -> bool {
        self.is_live &= !self.shared.over.load(Relaxed);
        self.is_live
    }

    /// Writes a datagram as it was on the wire.
    pub(super) fn wire(&mut self, at: Timestamp, way: Way, datagram: &[u8]) {
        if !self.is_live() {
            return;
        }
        let (from, to) = match way {
            Way::FromPeer => (self.peer, self.local),
            Way::ToPeer => (self.local, self.peer),
        };
        let mut packet = Vec::with_capacity(datagram.len() + 48);
        headers::datagram(&mut packet, from, to, datagram);
        self.write(pcapng::DATAGRAMS, at, &packet, "");
    }

    /// Writes a record.
    pub(super) fn tell(&mut self, at: Timestamp, what: What<'_>) {
        if !self.content || !self.is_live() {
            return;
        }
        let mut bytes = Vec::with_capacity(64);
        let session = self.session;
        Record { session, at, what }.emit(&mut bytes);
        let comment = match what.comment() {
            empty if empty.is_empty() => empty,
            said => format!("session {session}: {said}"),
        };
        self.write(pcapng::RECORDS, at, &bytes, &comment);
    }

    /// Writes nothing more of this session.
    pub(super) fn cut(&mut self) {
        if std::mem::replace(&mut self.is_live, false) {
            self.shared.cut.fetch_add(1, Relaxed);
        }
    }

    fn write(&mut self, interface: u32, at: Timestamp, bytes: &[u8], comment: &str) {
        let unix_nanos = self.shared.epoch_nanos.saturating_add(at.as_nanos());
        let mut block = Vec::with_capacity(bytes.len() + comment.len() + 64);
        pcapng::packet(&mut block, interface, unix_nanos, bytes, comment);
        let length = block.len();
        if self.shared.queued.fetch_add(length, Relaxed) > QUEUE_BYTES_MAX {
            self.shared.queued.fetch_sub(length, Relaxed);
            self.cut();
        } else if self.records.send(block).is_err() {
            // The file is full, or the recording was stopped.
            self.is_live = false;
        }
    }
}

/// Bytes that may wait for the disk.
const QUEUE_BYTES_MAX: usize = 16 << 20;
