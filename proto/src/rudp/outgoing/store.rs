//! Our messages in the order of their ids: those that were sent, then those that were not.
//!
//! ```text
//!   first_id          unsent_id           next_id
//!      │  history: sent,    │  queue: not sent   │
//!      │  may be requested  │  yet               │
//! ```

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::inbox::MESSAGE_OVERHEAD;
use crate::ring;
use crate::rudp::wire;
use crate::time::Timestamp;

use super::repeats::Repeats;

/// What is known of a message of the history.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Timestamp,
    repeats: Repeats,
}

/// History and queue.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Payloads of all entries, back to back.
    bytes: VecDeque<u8>,
    entries: VecDeque<Entry>,
    first_id: u64,
    /// The messages of the history: as many entries, from the front.
    history: VecDeque<Sent>,
    sent_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Position of the payload in the stream of all payloads ever queued.
    start: u64,
    length: u32,
}

impl Entry {
    fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }
}

impl Store {
    /// Appends a message to the queue.
    pub(super) fn queue(&mut self, payload: &[u8]) {
        let start = self.entries.back().map_or(0, Entry::end);
        self.bytes.extend(payload);
        self.entries.push_back(Entry {
            start,
            length: payload.len() as u32,
        });
    }

    /// The first message of the queue, which must have one, becomes the last of the history.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        self.sent_bytes += self.length(self.unsent_id());
        self.history.push_back(Sent {
            at: now,
            repeats: Repeats::default(),
        });
    }

    /// Forgets the first message of the history, if it has one.
    pub(super) fn forget_first(&mut self) {
        if self.history.pop_front().is_none() {
            return;
        }
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.bytes.drain(..entry.length as usize);
        self.sent_bytes -= entry.length as usize;
        self.first_id += 1;
    }

    /// Lets go of all messages. None of them has an id any more.
    pub(super) fn release(&mut self) {
        *self = Self {
            first_id: self.first_id,
            ..Self::default()
        };
    }

    /// Gives memory back that was needed once: a game that says something all the time never has an empty history.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.bytes, 8192);
        shrink(&mut self.entries, 64);
        shrink(&mut self.history, 64);
    }

    /// Id of the first message that is held, or the next one.
    pub(super) fn first_id(&self) -> u64 {
        self.first_id
    }

    /// Id of the first message that was not sent yet, or the next one.
    pub(super) fn unsent_id(&self) -> u64 {
        self.first_id + self.sent() as u64
    }

    /// Id of the next message to be queued.
    pub(super) fn next_id(&self) -> u64 {
        self.first_id + self.entries.len() as u64
    }

    /// When the first message of the history was sent.
    pub(super) fn first_sent_at(&self) -> Option<Timestamp> {
        self.history.front().map(|sent| sent.at)
    }

    /// Whether and when a message of the history was repeated; `None` for any other.
    pub(super) fn repeats(&self, id: u64) -> Option<Repeats> {
        let place = usize::try_from(id.checked_sub(self.first_id)?).ok()?;
        self.history.get(place).map(|sent| sent.repeats)
    }

    /// Whether and when a message of the history was repeated, to be changed; `None` for any other.
    pub(super) fn repeats_mut(&mut self, id: u64) -> Option<&mut Repeats> {
        let place = usize::try_from(id.checked_sub(self.first_id)?).ok()?;
        self.history.get_mut(place).map(|sent| &mut sent.repeats)
    }

    /// Messages of the history.
    pub(super) fn sent(&self) -> usize {
        self.history.len()
    }

    /// Bytes of the history.
    pub(super) fn sent_bytes(&self) -> usize {
        self.sent_bytes
    }

    /// Messages of the queue.
    pub(super) fn queued(&self) -> usize {
        self.entries.len() - self.sent()
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.bytes.len() - self.sent_bytes
    }

    /// Bytes of history and queue, each message charged with [`MESSAGE_OVERHEAD`].
    pub(super) fn held(&self) -> usize {
        self.bytes.len() + self.entries.len() * MESSAGE_OVERHEAD
    }

    /// Bytes of one message that is held.
    pub(super) fn length(&self, id: u64) -> usize {
        self.entry(id).length as usize
    }

    /// Bytes of these messages, all of which are held.
    pub(super) fn length_of_all(&self, ids: RangeInclusive<u64>) -> usize {
        (self.entry(*ids.end()).end() - self.entry(*ids.start()).start) as usize
    }

    /// Appends the record of message `id`, which is held.
    pub(super) fn emit(&self, id: u64, out: &mut Vec<u8>) {
        let entry = self.entry(id);
        wire::emit_message_header(out, id as u16, entry.length as usize);
        let start = (entry.start - self.entries[0].start) as usize;
        let (first, second) = ring::slices(&self.bytes, start..start + entry.length as usize);
        out.extend_from_slice(first);
        out.extend_from_slice(second);
    }

    fn entry(&self, id: u64) -> &Entry {
        &self.entries[(id - self.first_id) as usize]
    }
}

/// If three quarters of it are free. What stays has room to double; `least` elements it may keep in any case.
fn shrink<T>(ring: &mut VecDeque<T>, least: usize) {
    if ring.len() <= ring.capacity() / 4 {
        ring.shrink_to(least.max(2 * ring.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Messages of these lengths.
    fn queued(lengths: &[usize]) -> Store {
        let mut store = Store::default();
        for length in lengths {
            store.queue(&vec![7; *length]);
        }
        store
    }

    fn ids(store: &Store) -> [u64; 3] {
        [store.first_id(), store.unsent_id(), store.next_id()]
    }

    #[test]
    fn payloads_come_out_whole_wherever_the_ring_wraps() {
        let mut store = Store::default();
        for round in 0u64..500 {
            let payload = vec![round as u8; (round * 37 % 90) as usize];
            store.queue(&payload);
            store.on_sent(at(round));
            let mut out = Vec::new();
            store.emit(round, &mut out);
            let sent = wire::Record::Message {
                id: round as u16,
                payload: &payload,
            };
            assert_eq!(wire::parse(&out).unwrap().collect::<Vec<_>>(), [sent]);
            if store.sent() > 6 {
                store.forget_first();
            }
        }
        assert!(store.bytes.capacity() < 1000, "the ring never wrapped");
    }

    #[test]
    fn messages_are_queued_then_sent_then_forgotten() {
        let mut store = queued(&[10, 20, 30]);
        assert_eq!(ids(&store), [0, 0, 3]);
        assert_eq!((store.queued(), store.queued_bytes()), (3, 60));
        store.on_sent(at(1));
        store.on_sent(at(2));
        assert_eq!(ids(&store), [0, 2, 3]);
        assert_eq!((store.sent(), store.sent_bytes()), (2, 30));
        assert_eq!((store.queued(), store.queued_bytes()), (1, 30));
        store.forget_first();
        assert_eq!(ids(&store), [1, 2, 3]);
        assert_eq!((store.sent(), store.sent_bytes()), (1, 20));
        assert_eq!(store.first_sent_at(), Some(at(2)));
        assert_eq!(store.held(), 50 + 2 * MESSAGE_OVERHEAD);
    }

    #[test]
    fn what_was_not_sent_is_never_forgotten() {
        let mut store = queued(&[10, 20]);
        store.on_sent(at(1));
        for _ in 0..3 {
            store.forget_first();
        }
        assert_eq!(ids(&store), [1, 1, 2]);
        assert_eq!((store.queued(), store.queued_bytes()), (1, 20));
        assert_eq!(store.first_sent_at(), None);
    }

    #[test]
    fn lengths_are_those_of_the_ids_after_some_are_forgotten() {
        let mut store = queued(&[1, 2, 4, 8]);
        store.on_sent(at(1));
        store.forget_first();
        assert_eq!(store.length(2), 4);
        assert_eq!(store.length_of_all(1..=3), 14);
        assert_eq!(store.length_of_all(2..=2), 4);
    }

    /// A download, and then a few words a second for ever.
    #[test]
    fn what_a_burst_took_goes_back_while_something_is_held() {
        let mut store = queued(&[1000; 3000]);
        for millis in 0..3000 {
            store.on_sent(at(millis));
        }
        store.queue(b"tick");
        store.shrink();
        assert!(store.bytes.capacity() >= 3_000_000, "all of it is in use");
        while store.sent() > 0 {
            store.forget_first();
        }
        store.shrink();
        assert!(store.bytes.capacity() <= 8192);
        assert!(store.entries.capacity() <= 64 && store.history.capacity() <= 64);
        let mut out = Vec::new();
        store.emit(3000, &mut out);
        assert!(out.ends_with(b"tick"));
    }

    #[test]
    fn what_was_let_go_of_takes_no_memory() {
        let mut store = queued(&[100; 50]);
        store.on_sent(at(1));
        store.forget_first();
        store.on_sent(at(2));
        store.release();
        assert_eq!(ids(&store), [1, 1, 1]);
        assert_eq!((store.held(), store.queued_bytes()), (0, 0));
        assert_eq!((store.bytes.capacity(), store.entries.capacity()), (0, 0));
    }
}
