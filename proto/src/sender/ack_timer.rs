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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Not the one in so many packets that is acknowledged at once.
    fn timer() -> AckTimer {
        AckTimer {
            heard: 1,
            ..AckTimer::new()
        }
    }

    #[test]
    fn what_a_packet_brought_says_how_long_its_acknowledgement_waits() {
        use Worth::{Awaited, LargeNews, News, Nothing, Repeats};
        for (worth, in_order, wait) in [
            (Nothing, true, None),
            (Nothing, false, None),
            (Repeats, true, Some(40)),
            (Repeats, false, Some(1)),
            (News, true, Some(20)),
            (News, false, Some(1)),
            (LargeNews, true, Some(0)),
            (Awaited, true, Some(0)),
            (Awaited, false, Some(0)),
        ] {
            let mut timer = timer();
            timer.on_received(at(100), worth, in_order);
            let due = wait.map(|wait| at(100 + wait));
            assert_eq!(timer.due(), due, "{worth:?}, in order: {in_order}");
        }
    }

    #[test]
    fn a_wait_counts_from_the_first_packet_and_ends_with_the_eighth() {
        let mut timer = timer();
        for millis in 0..7 {
            timer.on_received(at(millis), Worth::News, true);
            assert_eq!(timer.due(), Some(at(20)));
        }
        timer.on_received(at(7), Worth::Repeats, true);
        assert_eq!(timer.due(), Some(at(7)));
        timer.on_sent();
        assert_eq!(timer.due(), None);
        timer.on_received(at(8), Worth::News, true);
        assert_eq!(timer.due(), Some(at(28)), "they were counted anew");
    }

    /// The ack bits reach 32 packets back, whatever is in them.
    #[test]
    fn one_is_owed_for_packets_without_messages_before_they_are_out_of_reach() {
        let mut timer = timer();
        for packet in 1..16 {
            timer.on_received(at(packet), Worth::Nothing, true);
            assert_eq!(timer.is_waited_for(), packet >= 2, "packet {packet}");
            assert_eq!((timer.due(), timer.is_urgent()), (None, false));
        }
        assert!(
            !timer.hurry(at(15)),
            "nothing is owed that could come sooner"
        );
        timer.on_received(at(16), Worth::Nothing, true);
        assert_eq!((timer.due(), timer.is_urgent()), (Some(at(16)), true));
        timer.on_sent();
        assert!(!timer.is_waited_for() && !timer.is_urgent());
    }

    #[test]
    fn one_packet_in_64_is_acknowledged_at_once() {
        let mut timer = AckTimer::new();
        let mut is_prompt = |packet: &u64| {
            // Those without messages are not counted.
            timer.on_received(at(*packet), Worth::Nothing, true);
            timer.on_received(at(*packet), Worth::News, true);
            let is_due = timer.is_due(at(*packet));
            timer.on_sent();
            is_due
        };
        let prompt: Vec<u64> = (0..300).filter(|packet| is_prompt(packet)).collect();
        assert_eq!(prompt, [0, 64, 128, 192, 256]);
    }
}
