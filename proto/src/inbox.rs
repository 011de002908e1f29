//! Messages a session accepted and its owner has not polled yet: the bounded end of a peer's window.
//!
//! One contiguous buffer, no allocation per message. A session asks [`Inbox::is_taking`] before it
//! accepts a packet; refusing is not acknowledging, so the peer keeps what does not fit here.
//! Rule: docs/RELIABILITY.md, "Acknowledge what is accepted".

use std::collections::VecDeque;

use crate::session::{Allowance, Channel, Message};

/// Bytes every message is charged beside its payload, so that a packet full of empty messages
/// costs its sender what it costs us.
pub const MESSAGE_OVERHEAD: usize = 64;

/// A queue of messages with a limit, and a mark below it: once full, it takes again from there on.
#[derive(Debug)]
pub struct Inbox {
    /// Payloads, one after the other; `bytes[..taken]` was polled already.
    bytes: Vec<u8>,
    taken: usize,
    /// Bytes of the last filling whose buffer was more than a small one: what the next one gets at once.
    last: usize,
    messages: VecDeque<Waiting>,
    /// Reliable messages added so far.
    reliable: u64,
    max: usize,
    allowance: Allowance,
    refusing: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    length: u32,
    channel: Channel,
    reliable: bool,
}

impl Inbox {
    /// Refuses once more than `max` bytes wait (as [`Inbox::held`] counts them), until some are polled.
    pub fn new(max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            last: 0,
            messages: VecDeque::new(),
            reliable: 0,
            max,
            allowance: Allowance::UNLIMITED,
            refusing: false,
        }
    }

    /// Less than its own limit, from now on.
    pub fn set_allowance(&mut self, allowance: Allowance) {
        self.allowance = allowance;
    }

    /// Bytes that may wait behind a message that is missing, where `most` is the session's own limit.
    pub fn ahead_max(&self, most: usize) -> usize {
        most.min(self.allowance.ahead)
    }

    /// Bytes that blocks under way may come to, where `most` is the session's own limit.
    pub fn pieces_max(&self, most: usize) -> usize {
        most.min(self.allowance.pieces)
    }

    /// Whether another packet's messages may be pushed. What one packet brings may pass the mark.
    pub fn is_taking(&mut self) -> bool {
        let held = self.held();
        let allowed = self.allowance.inbox;
        self.refusing = if self.refusing {
            held >= low_mark(allowed.min(self.max))
        } else {
            held > self.max || held >= allowed
        };
        !self.refusing
    }

    /// Adds a message at the end.
    pub fn push(&mut self, channel: Channel, reliable: bool, payload: &[u8]) {
        self.make_room(payload.len());
        self.bytes.extend_from_slice(payload);
        self.reliable += u64::from(reliable);
        self.messages.push_back(Waiting {
            length: payload.len() as u32,
            channel,
            reliable,
        });
    }

    /// Takes the oldest message.
    pub fn pop(&mut self) -> Option<Message<'_>> {
        let Some(waiting) = self.messages.pop_front() else {
            self.release();
            return None;
        };
        let start = self.taken;
        self.taken += waiting.length as usize;
        let payload = &self.bytes[start..self.taken];
        Some(Message {
            channel: waiting.channel,
            reliable: waiting.reliable,
            payload,
        })
    }

    /// Messages waiting.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Reliable messages that were ever added.
    pub(crate) fn reliable_ever(&self) -> u64 {
        self.reliable
    }

    /// Payload bytes waiting.
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Bytes waiting, each message charged with [`MESSAGE_OVERHEAD`].
    pub fn held(&self) -> usize {
        self.payload_bytes() + self.messages.len() * MESSAGE_OVERHEAD
    }

    /// A fast peer fills the inbox again and again: no byte of it moves while it gets as far as the last
    /// time. Polled bytes are cut off where more would have to grow, once they are the larger part, so
    /// each byte moves at most once on average.
    fn make_room(&mut self, more: usize) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(self.last.max(more));
        } else if self.bytes.len() + more > self.bytes.capacity()
            && self.taken * 2 > self.bytes.len()
        {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// An empty inbox starts over; one that had to grow gives the memory back, so that a session
    /// costs what it uses and not what it once used.
    fn release(&mut self) {
        if self.bytes.capacity() > 8192 {
            self.last = self.bytes.len();
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.taken = 0;
        if self.messages.capacity() > 64 {
            self.messages = VecDeque::new();
        }
    }
}

/// Where a queue takes again that was full with so many bytes: when three quarters of it are gone, so that a
/// peer is not refused and taken packet by packet; and of a long one when dozens of packets are, because a peer
/// that is refused for seconds gives up, however fast the queue moves.
fn low_mark(full: usize) -> usize {
    full - (full - full.div_ceil(4)).min(GAP)
}

/// Some thirty packets. A reader of a few kilobytes a second takes them before anybody loses patience.
const GAP: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut inbox = Inbox::new(1 << 20);
        let mut expected = VecDeque::new();
        for round in 0..500usize {
            let payload = vec![round as u8; round * 7 % 911];
            inbox.push((round % 2) as u8, round % 2 == 0, &payload);
            expected.push_back(((round % 2) as u8, payload));
            if round % 3 == 0 {
                let (channel, payload) = expected.pop_front().unwrap();
                let message = inbox.pop().unwrap();
                assert_eq!(
                    (message.channel, message.payload),
                    (channel, payload.as_slice())
                );
            }
        }
        while let Some((channel, payload)) = expected.pop_front() {
            let message = inbox.pop().unwrap();
            assert_eq!((message.channel, message.reliable), (channel, channel == 0));
            assert_eq!(message.payload, payload);
        }
        assert!(inbox.pop().is_none());
        assert_eq!(inbox.held(), 0);
        assert!(
            inbox.bytes.capacity() <= 8192,
            "memory goes back when the inbox is empty"
        );
    }

    #[test]
    fn a_fast_peer_finds_as_much_room_as_the_last_time() {
        let mut inbox = Inbox::new(1 << 20);
        let mut fill = |count: usize| {
            let mut grown = Vec::new();
            for _ in 0..count {
                inbox.push(0, true, &[7; 1000]);
                grown.push(inbox.bytes.capacity());
            }
            while inbox.pop().is_some() {}
            assert!(inbox.bytes.capacity() <= 8192, "memory goes back");
            grown.dedup();
            grown
        };
        assert!(fill(60).len() > 1, "nobody knew how much would come");
        assert_eq!(fill(60), [60_000]);
        assert_eq!(fill(1), [60_000], "it was so much the last time");
        assert!(fill(1)[0] < 8192, "and little then");
    }

    /// A queue that never empties does not grow by what went through it.
    #[test]
    fn a_slow_owner_costs_what_waits() {
        let mut inbox = Inbox::new(1 << 20);
        for round in 0..1000u32 {
            inbox.push(0, true, &[round.to_le_bytes(); 250].concat());
            if round >= 10 {
                let expected = [(round - 10).to_le_bytes(); 250].concat();
                assert_eq!(inbox.pop().unwrap().payload, expected);
            }
        }
        assert_eq!(inbox.payload_bytes(), 10_000);
        assert!(inbox.bytes.capacity() <= 40_000);
    }

    #[test]
    fn refusing_has_two_marks() {
        let mut inbox = Inbox::new(1000);
        inbox.push(0, true, &[0; 900]);
        assert!(inbox.is_taking(), "964 bytes are held, 1000 are allowed");
        inbox.push(0, true, &[0; 100]);
        inbox.push(0, true, &[0; 100]);
        assert!(!inbox.is_taking());
        inbox.pop();
        assert!(
            !inbox.is_taking(),
            "328 bytes held: below the high mark, above the low one"
        );
        inbox.pop();
        assert!(inbox.is_taking());
    }

    #[test]
    fn a_long_queue_takes_again_as_soon_as_a_short_one() {
        assert_eq!([0, 1, 400, 401].map(low_mark), [0, 1, 100, 101]);
        assert_eq!(low_mark(4 << 20), (4 << 20) - GAP);
        assert_eq!(low_mark(usize::MAX), usize::MAX - GAP);
    }

    #[test]
    fn an_allowance_lowers_both_marks() {
        let mut inbox = Inbox::new(1000);
        let allow = |inbox| Allowance {
            inbox,
            ahead: 0,
            pieces: 0,
        };
        inbox.set_allowance(allow(0));
        assert!(
            !inbox.is_taking(),
            "nothing is held, and nothing is allowed"
        );
        assert_eq!(inbox.ahead_max(7), 0);
        inbox.set_allowance(allow(1));
        assert!(inbox.is_taking(), "one packet");
        inbox.push(0, true, &[0; 36]);
        assert!(!inbox.is_taking(), "100 bytes are held");
        inbox.set_allowance(allow(400));
        assert!(!inbox.is_taking(), "a quarter of what is allowed is held");
        inbox.set_allowance(allow(401));
        assert!(inbox.is_taking());
        inbox.set_allowance(allow(101));
        assert!(inbox.is_taking(), "a byte less than allowed");
        inbox.set_allowance(allow(100));
        assert!(!inbox.is_taking());
        inbox.set_allowance(allow(1));
        inbox.pop();
        assert!(inbox.is_taking(), "nothing is held");
        inbox.push(0, true, &[0; 900]);
        inbox.set_allowance(Allowance::UNLIMITED);
        assert!(inbox.is_taking());
        assert_eq!(inbox.ahead_max(7), 7);
        inbox.push(0, true, &[0; 100]);
        assert!(!inbox.is_taking(), "its own marks hold whatever is allowed");
    }
}
