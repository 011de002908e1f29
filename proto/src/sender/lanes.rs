//! What waits on the lanes of a session. A reliable lane has an [`Outbox`], with each message until the peer has
//! it; any other a short queue of what leaves once.

use std::ops::Range;

use crate::inbox::MESSAGE_OVERHEAD;
use crate::ring::Split;
use crate::session::Channel;

use super::framing::Framing;
use super::lane::Lane;
use super::outbox::Outbox;
use super::plan::{Fragment, Planned};
use super::unreliable::UnreliableQueue;

/// The lanes of one session.
#[derive(Debug)]
pub(super) struct Lanes {
    queues: Box<[LaneQueue]>,
    /// A lane with something due that found no room in the last packet.
    crowded_out: Option<Channel>,
}

/// What waits on one of them.
#[derive(Debug)]
pub(super) enum LaneQueue {
    Reliable(Outbox),
    Unreliable(UnreliableQueue),
}

/// Which lanes come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing waits on it.
    Never,
    Unreliable,
    Messages,
    Bulk,
}

/// What must go: never sent, or lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    pub(super) messages: bool,
    pub(super) bulk: bool,
    /// Bulk waits, whether it may leave or not, or would if there were room for it.
    pub(super) bulk_waits: bool,
}

impl Lanes {
    /// Nothing waits. Lanes beyond [`LANES_MAX`] are left out.
    pub(super) fn new(lanes: &[Lane]) -> Self {
        let queue = |lane: &Lane| match *lane {
            Lane::Reliable {
                blocks,
                window,
                per_packet,
            } => LaneQueue::Reliable(Outbox::new(window, per_packet, blocks)),
            Lane::Unreliable { per_packet } => {
                LaneQueue::Unreliable(UnreliableQueue::new(per_packet))
            }
        };
        Self {
            queues: lanes.iter().take(LANES_MAX).map(queue).collect(),
            crowded_out: None,
        }
    }

    /// All there are.
    pub(super) fn numbers(&self) -> Range<Channel> {
        0..self.queues.len() as Channel
    }

    /// Whether the lane exists.
    pub(super) fn has(&self, lane: Channel) -> bool {
        self.numbers().contains(&lane)
    }

    /// The queue of a lane that is there.
    pub(super) fn queue_mut(&mut self, lane: Channel) -> &mut LaneQueue {
        &mut self.queues[usize::from(lane)]
    }

    /// What a reliable lane has; `None` if it is another, or not there.
    pub(super) fn outbox(&self, lane: Channel) -> Option<&Outbox> {
        self.queues.get(usize::from(lane))?.outbox()
    }

    /// What a reliable lane has, to be changed; `None` if it is another, or not there.
    pub(super) fn outbox_mut(&mut self, lane: Channel) -> Option<&mut Outbox> {
        self.queues.get_mut(usize::from(lane))?.outbox_mut()
    }

    /// What all reliable lanes have.
    pub(super) fn outboxes(&self) -> impl Iterator<Item = &Outbox> {
        self.queues.iter().filter_map(LaneQueue::outbox)
    }

    /// What all reliable lanes have, to be changed.
    pub(super) fn outboxes_mut(&mut self) -> impl Iterator<Item = &mut Outbox> {
        self.queues.iter_mut().filter_map(LaneQueue::outbox_mut)
    }

    /// What is sent on this lane waits to be acknowledged.
    pub(super) fn is_reliable(&self, lane: Channel) -> bool {
        self.outbox(lane).is_some()
    }

    /// What must go, where a reliable lane takes so many bytes. What goes by the bulk rate depends on the framing.
    pub(super) fn due(&self, framing: &Framing, bytes_max: usize) -> Due {
        let mut due = Due::default();
        for queue in &self.queues {
            match queue {
                LaneQueue::Reliable(outbox) if outbox.is_empty() => {}
                LaneQueue::Reliable(outbox) if outbox.is_all_under_way() => {
                    due.bulk_waits |= outbox.is_half_full(bytes_max);
                }
                LaneQueue::Reliable(outbox) => {
                    let is_bulk = outbox.is_bulk(framing);
                    let is_due = outbox.is_due();
                    due.bulk |= is_due && is_bulk;
                    due.messages |= is_due && !is_bulk;
                    due.bulk_waits |= is_bulk || outbox.is_half_full(bytes_max);
                }
                LaneQueue::Unreliable(queue) => due.messages |= !queue.is_empty(),
            }
        }
        due
    }

    /// When each lane comes that is there.
    pub(super) fn turns(&self, framing: &Framing) -> [Turn; LANES_MAX] {
        let mut turns = [Turn::Never; LANES_MAX];
        for (turn, queue) in turns.iter_mut().zip(&self.queues) {
            *turn = match queue {
                LaneQueue::Unreliable(queue) if queue.is_empty() => Turn::Never,
                LaneQueue::Unreliable(_) => Turn::Unreliable,
                LaneQueue::Reliable(outbox) if outbox.is_empty() => Turn::Never,
                LaneQueue::Reliable(outbox) if outbox.is_bulk(framing) => Turn::Bulk,
                LaneQueue::Reliable(_) => Turn::Messages,
            };
        }
        turns
    }

    /// Some of this lane's messages are due, and none of them found room in the packet.
    pub(super) fn on_crowded_out(&mut self, lane: Channel) {
        self.crowded_out.get_or_insert(lane);
    }

    /// The first lane that found no room in the last packet comes first in this one.
    pub(super) fn take_crowded_out(&mut self) -> Option<Channel> {
        self.crowded_out.take()
    }

    /// How far into this lane, which is there, the message `id` stands.
    pub(super) fn place(&self, Planned { lane, id }: Planned) -> u16 {
        let base = match &self.queues[usize::from(lane)] {
            LaneQueue::Reliable(outbox) => outbox.base(),
            LaneQueue::Unreliable(queue) => queue.base(),
        };
        id.wrapping_sub(base)
    }

    /// Bytes of a message, in two pieces where the queue's ring wraps.
    pub(super) fn payload(&self, message: Planned) -> Option<Split<'_>> {
        match self.queues.get(usize::from(message.lane))? {
            LaneQueue::Reliable(outbox) => outbox.payload(message.id),
            LaneQueue::Unreliable(queue) => queue.payload(message.id),
        }
    }

    /// Bytes of a fragment.
    pub(super) fn fragment(&self, fragment: Fragment) -> Option<Split<'_>> {
        let outbox = self.outbox(fragment.lane)?;
        outbox.fragment(fragment.id, fragment.index)
    }

    /// Bytes of all messages, each charged with [`MESSAGE_OVERHEAD`].
    pub(super) fn held(&self) -> usize {
        let held = self.queues.iter().map(|queue| {
            let (bytes, messages) = match queue {
                LaneQueue::Reliable(outbox) => (outbox.held_bytes(), outbox.len()),
                LaneQueue::Unreliable(queue) => queue.held(),
            };
            bytes + messages * MESSAGE_OVERHEAD
        });
        held.sum()
    }

    /// Packets that all that is here can fill, with one for each message; blocks fill any number.
    pub(super) fn packets_max(&self) -> u64 {
        let packets = self.queues.iter().map(|queue| match queue {
            LaneQueue::Reliable(outbox) if outbox.has_block() => u64::MAX,
            LaneQueue::Reliable(outbox) => outbox.len() as u64,
            LaneQueue::Unreliable(queue) => queue.held().1 as u64,
        });
        packets.fold(0, u64::saturating_add)
    }

    /// Nothing waits, nor for an acknowledgement.
    pub(super) fn are_empty(&self) -> bool {
        self.queues.iter().all(|queue| match queue {
            LaneQueue::Reliable(outbox) => outbox.is_empty(),
            LaneQueue::Unreliable(queue) => queue.is_empty(),
        })
    }

    /// Lets go of all messages. How many were not acknowledged is still known.
    pub(super) fn release_all(&mut self) {
        for queue in &mut self.queues {
            match queue {
                LaneQueue::Reliable(outbox) => outbox.release_all(),
                LaneQueue::Unreliable(queue) => {
                    *queue = UnreliableQueue::new(queue.per_packet());
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(&*self.queues)
    }
}

impl LaneQueue {
    fn outbox(&self) -> Option<&Outbox> {
        match self {
            Self::Reliable(outbox) => Some(outbox),
            Self::Unreliable(_) => None,
        }
    }

    fn outbox_mut(&mut self) -> Option<&mut Outbox> {
        match self {
            Self::Reliable(outbox) => Some(outbox),
            Self::Unreliable(_) => None,
        }
    }
}

/// As many as a session has channels at most.
pub(super) const LANES_MAX: usize = 64;
