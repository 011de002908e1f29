//! What became of what left: a message, or a fragment of one, is sent, lost or acknowledged.

use super::Outbox;
use super::entry::{Entry, Way};

impl Outbox {
    /// The message went out in packet `number`.
    pub(in crate::sender) fn on_sent(&mut self, id: u16, number: u64) {
        self.on_sent_as(Way::Packet, id, number);
    }

    fn on_sent_as(&mut self, way: Way, id: u16, number: u64) {
        let index = self.index(id);
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        self.lost_bytes -= entry.lost_bytes();
        entry.way = way;
        // Carriers too far back to be noted are too old to hope for.
        if entry.in_flight == 0 || number - entry.first_packet >= 64 {
            entry.first_packet = number;
            entry.carried = 0;
        }
        entry.carried |= 1 << (number - entry.first_packet);
        entry.in_flight = entry.in_flight.saturating_add(1);
        entry.sends = entry.sends.saturating_add(1);
        self.started = self.started.max(index as u16 + 1);
        self.on_not_due(id);
    }

    /// The message `id` was sent, or is acknowledged.
    fn on_not_due(&mut self, id: u16) {
        if id == self.due_from {
            let (from, end) = (self.index(id), self.started());
            let ahead = self.entries.range(from..end).position(Entry::is_due);
            let ahead = ahead.unwrap_or(end - from);
            self.due_from = id.wrapping_add(ahead as u16);
        }
    }

    /// A fragment of the block `id` went out in packet `number`; of the message, that is as good as sent.
    /// True if the fragment went before. `twice`: if it was lost, it may go twice.
    pub(in crate::sender) fn on_fragment_sent(
        &mut self,
        id: u16,
        fragment: u16,
        number: u64,
        twice: bool,
    ) -> bool {
        if self.get(id).is_some_and(|entry| entry.sends == 0) {
            self.on_sent_as(Way::Block, id, number);
        }
        let under_way = self.under_way.as_mut();
        under_way.is_some_and(|them| them.on_sent(id, fragment, twice))
    }

    /// A packet that carried the message, or this fragment of it, will not arrive.
    pub(in crate::sender) fn on_lost(&mut self, id: u16, fragment: u16) {
        let index = self.index(id);
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        if entry.is_block() {
            if let Some(under_way) = &mut self.under_way {
                under_way.on_lost(id, fragment);
            }
        } else if !entry.acked && entry.in_flight > 0 {
            entry.in_flight -= 1;
            if entry.in_flight > 0 {
                return;
            }
            self.lost_bytes += entry.length;
            if index < self.first_due() {
                self.due_from = id;
            }
        }
    }

    /// The peer has the message, or this fragment of it. True if it has all of it since now.
    pub(in crate::sender) fn on_acked(&mut self, id: u16, fragment: u16) -> bool {
        let index = self.index(id);
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        if entry.acked || entry.sends == 0 {
            return false;
        }
        if entry.is_block() {
            let under_way = self.under_way.as_mut();
            if !under_way.is_some_and(|them| them.on_acked(id, fragment)) {
                return false;
            }
        }
        self.lost_bytes -= entry.lost_bytes();
        entry.acked = true;
        self.on_not_due(id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;
    use crate::time::Timestamp;

    /// Whatever is sent, lost and acknowledged in whatever order: looking at every entry finds the same.
    #[test]
    fn what_is_lost_is_known_without_looking() {
        let mut random = Random::new(7);
        let mut outbox = Outbox::new(64, 256, None);
        let (mut number, mut lost) = (0, 0);
        for _ in 0..100_000 {
            let id = outbox.base().wrapping_add(random.below(64) as u16);
            match random.below(8) {
                0 if outbox.has_room(usize::MAX) => {
                    let length = random.below(9) as usize;
                    outbox.push(Timestamp::ZERO, &[7; 9][..length], false, 1000);
                }
                0..3 => {
                    number += 1;
                    let next = outbox.base().wrapping_add(outbox.first_due() as u16);
                    outbox.on_sent(next, number);
                }
                3..6 => outbox.on_lost(id, 0),
                6 => _ = outbox.on_acked(id, 0),
                _ => outbox.release(),
            }
            let is_due = |index: &usize| outbox.entries[*index].is_due();
            let first = (0..outbox.started()).find(is_due);
            assert_eq!(outbox.first_due(), first.unwrap_or(outbox.started()));
            let lost_bytes: u32 = outbox.entries.iter().map(Entry::lost_bytes).sum();
            assert_eq!(outbox.lost_bytes, lost_bytes);
            assert!(!(outbox.is_all_under_way() && outbox.is_due()));
            lost += u32::from(first.is_some_and(|first| first > 0));
        }
        assert!(lost > 10_000, "the first was always the oldest");
    }
}
