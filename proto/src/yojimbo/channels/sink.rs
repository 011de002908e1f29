//! Where what was received goes.

use crate::inbox::Inbox;
use crate::session::Channel;
use crate::stats::Stats;

/// Where one channel's messages go, and what is counted on the way.
pub(super) struct Sink<'a> {
    pub(super) channel: Channel,
    pub(super) inbox: &'a mut Inbox,
    pub(super) stats: &'a mut Stats,
}

impl Sink<'_> {
    pub(super) fn deliver(&mut self, payload: &[u8]) {
        self.push(true, payload);
    }

    /// Unreliable messages are the first to go when the backend is slow.
    pub(super) fn deliver_or_drop(&mut self, payload: &[u8]) {
        if self.inbox.is_taking() {
            self.push(false, payload);
        } else {
            self.stats.unreliable_dropped += 1;
        }
    }

    fn push(&mut self, reliable: bool, payload: &[u8]) {
        self.inbox.push(self.channel, reliable, payload);
        self.stats.messages_received += 1;
        self.stats.message_bytes_received += payload.len() as u64;
    }

    pub(super) fn duplicate(&mut self) {
        self.stats.messages_duplicate += 1;
    }

    pub(super) fn block_failed(&mut self) {
        self.stats.reassembly_failures += 1;
    }
}
