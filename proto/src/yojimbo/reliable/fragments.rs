//! Packets that arrive in fragments, until the last one is there.
//!
//! Rule: docs/wire/reliable.md, section 5. A packet that misses a fragment is lost as a whole. From others
//! it comes again under another number; from a tidegate under its own, and then what is here need not
//! come twice.

use std::time::Duration;

use super::wire::{Fragment, Header};
use crate::reassembly::Reassembly;
use crate::sequence::is_newer;
use crate::time::Timestamp;

/// Packet numbers that may be incomplete at the same time.
const WINDOW: u16 = 64;
/// Bytes one peer can make us hold: 32 whole packets of yojimbo's default size.
const HELD_BYTES_MAX: usize = 256 * 1024;
/// So long after the last one that came, those still missing were lost.
const AGE_MAX: Duration = Duration::from_secs(2);

/// The incomplete packets of one peer.
#[derive(Debug, Default)]
pub(super) struct Incomplete {
    /// Newest number seen, plus one.
    next: u16,
    /// That of which nothing came for longest is the first.
    packets: Vec<Packet>,
    held: usize,
    /// Packets given up: too old, pushed out, or passed by the window.
    failed: u64,
}

#[derive(Debug)]
struct Packet {
    sequence: u16,
    /// When the newest of its fragments came.
    heard: Timestamp,
    header: Option<Header>,
    reassembly: Reassembly,
}

impl Packet {
    fn held(&self) -> usize {
        self.reassembly.held() + size_of::<Self>()
    }
}

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Kept; others are missing.
    Stored,
    /// It was the last one missing: the packet's header and payload.
    Complete(Header, Vec<u8>),
    /// Its packet is older than the window.
    Stale,
    /// It is here already.
    Duplicate,
    /// Its packet has another number of fragments.
    CountDiffers,
}

impl Incomplete {
    /// Keeps a fragment. `begun` is called when it is the first one of its packet.
    pub(super) fn add(
        &mut self,
        now: Timestamp,
        fragment: Fragment<'_>,
        fragment_size: usize,
        begun: impl FnOnce(),
    ) -> Outcome {
        self.expire(now);
        let sequence = fragment.sequence;
        let at = match self.packets.iter().position(|p| p.sequence == sequence) {
            Some(at) => at,
            None if self.is_stale(sequence) => return Outcome::Stale,
            None => {
                begun();
                self.advance(sequence);
                self.begin(now, &fragment, fragment_size)
            }
        };
        let packet = &mut self.packets[at];
        let index = u16::from(fragment.index);
        if packet.reassembly.count() != fragment.count {
            return Outcome::CountDiffers;
        }
        if packet.reassembly.contains(index) {
            return Outcome::Duplicate;
        }
        self.held -= packet.held();
        packet.header = packet.header.or(fragment.header);
        packet.reassembly.add(index, fragment.data);
        packet.heard = now;
        self.held += packet.held();
        if packet.reassembly.missing() == 0 {
            let packet = self.remove(at);
            let header = packet.header.expect("fragment 0 brings the header");
            return Outcome::Complete(header, packet.reassembly.into_whole());
        }
        self.packets[at..].rotate_left(1);
        self.make_room();
        Outcome::Stored
    }

    /// Half the circle away a number can be both ahead of the window and behind it. Here, other
    /// than for whole packets, ahead wins, as in the reference.
    fn is_stale(&self, sequence: u16) -> bool {
        !is_newer(sequence.wrapping_add(1), self.next)
            && is_newer(self.next.wrapping_sub(WINDOW), sequence)
    }

    fn begin(&mut self, now: Timestamp, fragment: &Fragment<'_>, fragment_size: usize) -> usize {
        let packet = Packet {
            sequence: fragment.sequence,
            heard: now,
            header: None,
            reassembly: Reassembly::new(fragment.count, fragment_size),
        };
        self.held += packet.held();
        self.packets.push(packet);
        self.packets.len() - 1
    }

    /// Gives up the oldest packets until the rest fits. One alone always does.
    fn make_room(&mut self) {
        while self.held > HELD_BYTES_MAX {
            self.remove(0);
            self.failed += 1;
        }
    }

    /// Moves the window so that `sequence` is inside; what it leaves behind is given up.
    pub(super) fn advance(&mut self, sequence: u16) {
        let after = sequence.wrapping_add(1);
        if !is_newer(after, self.next) {
            return;
        }
        self.next = after;
        let oldest = after.wrapping_sub(WINDOW);
        self.give_up(|packet| is_newer(oldest, packet.sequence));
    }

    /// Gives up what has waited too long.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.give_up(|packet| now.since(packet.heard) >= AGE_MAX);
    }

    fn give_up(&mut self, is_lost: impl Fn(&Packet) -> bool) {
        if self.packets.is_empty() {
            return;
        }
        let before = self.packets.len();
        self.packets.retain(|packet| !is_lost(packet));
        self.failed += (before - self.packets.len()) as u64;
        self.held = self.packets.iter().map(Packet::held).sum();
        if self.packets.is_empty() {
            self.packets = Vec::new();
        }
    }

    fn remove(&mut self, at: usize) -> Packet {
        let packet = self.packets.remove(at);
        self.held -= packet.held();
        packet
    }

    /// When the oldest incomplete packet is given up.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.packets.first().map(|packet| packet.heard + AGE_MAX)
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Lets go of everything; none of it counts as failed, since nobody waits for it.
    pub(super) fn release(&mut self) {
        self.packets = Vec::new();
        self.held = 0;
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }
}
