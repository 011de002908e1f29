//! When an acknowledgement is owed. Any packet that leaves carries it; this decides when one must
//! leave although there is nothing else to say.

use std::time::Duration;

use crate::time::Timestamp;

/// What a received packet is worth to the timing of its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Acknowledgements only.
    Nothing,
    /// Messages, all of them known.
    Repeats,
    /// At least one new message or fragment.
    News,
    /// At least one new message or fragment in a packet of more than [`LARGE_PACKET_BYTES`]: worth several, and the
    /// clock of a sender that sends no others.
    LargeNews,
    /// What the peer may need to know before it sends more: the last piece of a block, or a message
    /// that more than [`AWAITED_MESSAGES`] others waited for.
    Awaited,
}

/// More messages than this, delivered because of one packet, show that its sender may stand at the end of
/// its window.
pub const AWAITED_MESSAGES: usize = 32;

/// Bytes of a packet that is made of several datagrams. On a slow path it comes alone, and an
/// acknowledgement that waited for the next would look like a queue to its sender.
pub const LARGE_PACKET_BYTES: usize = 4096;

/// The debt of acknowledgements.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckTimer {
    /// [`Timestamp::MAX`] when none is owed, which takes half of what an option would, in each idle peer.
    due: Timestamp,
    /// Packets with messages since something was last sent.
    eliciting: u16,
    /// Packets of any kind since something was last sent.
    any: u16,
    /// Packets with messages altogether.
    heard: u8,
}

impl AckTimer {
    /// None is owed.
    pub(super) fn new() -> Self {
        Self {
            due: Timestamp::MAX,
            eliciting: 0,
            any: 0,
            heard: 0,
        }
    }

    pub(super) fn on_received(&mut self, now: Timestamp, worth: Worth, in_order: bool) {
        self.any = self.any.saturating_add(1);
        let wait = match worth {
            Worth::Nothing => None,
            Worth::Repeats => Some(DELAY_OF_REPEATS),
            Worth::News => Some(DELAY),
            Worth::LargeNews | Worth::Awaited => Some(Duration::ZERO),
        };
        let mut wait = wait.inspect(|_| self.eliciting = self.eliciting.saturating_add(1));
        if wait.is_some() {
            if self.heard.is_multiple_of(PROMPT_EVERY) {
                wait = Some(Duration::ZERO);
            }
            self.heard = self.heard.wrapping_add(1);
        }
        if wait.is_some_and(|wait| !wait.is_zero()) && !in_order {
            // The peer waits for exactly this to know what was lost. Soon and not at once: the
            // packet that seems missing may be the next one in the same batch.
            wait = Some(Duration::from_millis(1));
        }
        if self.eliciting >= EVERY || self.any >= AT_ONCE {
            wait = Some(Duration::ZERO);
        }
        if let Some(wait) = wait {
            self.due = self.due.min(now + wait);
        }
    }

    /// What is owed is due now; false if nothing is.
    pub(super) fn hurry(&mut self, now: Timestamp) -> bool {
        let is_owed = self.due < Timestamp::MAX;
        if is_owed {
            self.due = self.due.min(now);
        }
        is_owed
    }

    /// One is owed at once, whatever came.
    pub(super) fn owe(&mut self, now: Timestamp) {
        self.due = now;
    }

    pub(super) fn on_sent(&mut self) {
        *self = Self {
            heard: self.heard,
            ..Self::new()
        };
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        (self.due < Timestamp::MAX).then_some(self.due)
    }

    /// The peer goes on sending and has not heard from us since.
    pub(super) fn is_waited_for(&self) -> bool {
        self.any >= 2
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due <= now
    }

    /// So many packets arrived since ours last left that the ack bits may soon not reach back to all of them.
    pub(super) fn is_urgent(&self) -> bool {
        self.any >= AT_ONCE
    }
}

/// An acknowledgement is owed at the latest this long after the first packet that brought something: less than two 60 Hz
/// frames, so that the peer's RTT stays honest.
const DELAY: Duration = Duration::from_millis(20);

/// The longest wait of an acknowledgement of packets that brought nothing new: their sender waits for nothing.
const DELAY_OF_REPEATS: Duration = Duration::from_millis(40);

/// Packets with messages after which an acknowledgement is owed at once: a quarter of what the 32 ack bits reach, so that
/// losing three acknowledgements in a row loses no news.
const EVERY: u16 = 8;

/// One packet with messages in so many is acknowledged at once, the first among them: a peer that hears
/// only acknowledgements that waited takes their wait for a part of the path.
const PROMPT_EVERY: u8 = 64;

/// Half of what the ack bits reach: the other half is for acknowledgements that get lost.
const AT_ONCE: u16 = 16;
