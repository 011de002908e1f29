//! What all listeners of the process share: the number of peers, and the memory of queues. Told when a peer comes or
//! goes and when what waits has changed by some kilobytes, never per datagram.
//!
//! ```text
//!   0               1/4      3/8               5/8      3/4               1   of `queue_memory`
//!   ├────────────────┼────────┼─────────────────┼────────┼────────────────┤
//!   │ to the backend │ shares │ to the peer     │ shares │ pieces         │
//! ```
//!
//! Once the messages of one direction take a quarter of the memory, no queue of a session that way may
//! hold more than an eighth of what is left of three eighths. What is left shrinks with what they take,
//! so however many they are, their part is never full, and there is always a share for those who hold
//! little. Directions have parts of their own because one waits for the other: a game server that
//! cannot write its answers stops reading.
//!
//! Pieces of packets and messages are another matter: a session that is refused in the middle of a large
//! message can never finish it. They have the last quarter. Once half of that is taken, a session that has
//! a message under way may begin another only within an eighth of what is left; those that hold most are
//! closed when it is full (`listener/shed.rs`; docs/THREAT-MODEL.md, "Fragment and block floods").

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::counters::Direction;

/// How much there is, and how much is taken.
#[derive(Debug)]
pub struct Capacity {
    peers_max: AtomicUsize,
    queued_max: u64,
    peers: AtomicUsize,
    messages: [AtomicU64; Direction::ALL.len()],
    pieces: AtomicU64,
    squares_of_pieces: AtomicU64,
    squares: AtomicU64,
    most: AtomicU64,
}

/// A limit of the process, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Peers over all listeners.
    Peers(usize),
    /// Bytes in all queues.
    QueueMemory(u64),
}

impl Limit {
    /// What it is called in the configuration.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Peers(_) => "runtime.max_peers",
            Self::QueueMemory(_) => "runtime.queue_memory",
        }
    }
}

/// Bytes in queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Waiting messages, by direction.
    pub messages: [u64; Direction::ALL.len()],
    /// Packets and messages of which pieces are missing.
    pub pieces: u64,
    /// What each session holds in pieces, in KiB, squared: how unequal they are.
    pub squares_of_pieces: u64,
    /// What each session holds in all, in KiB, squared.
    pub squares: u64,
}

impl Queued {
    /// What one session holds: messages by direction, and pieces.
    pub fn of_session(messages: [u64; Direction::ALL.len()], pieces: u64) -> Self {
        let held = Self {
            messages,
            pieces,
            ..Self::default()
        };
        Self {
            squares_of_pieces: square(pieces),
            squares: square(held.all()),
            ..held
        }
    }

    pub fn all(self) -> u64 {
        self.messages.iter().sum::<u64>() + self.pieces
    }

    /// Somebody holds so much more.
    pub fn add(&mut self, more: Self) {
        for (all, more) in self.messages.iter_mut().zip(more.messages) {
            *all += more;
        }
        self.pieces += more.pieces;
        self.squares_of_pieces += more.squares_of_pieces;
        self.squares += more.squares;
    }

    /// Somebody holds so much less.
    pub fn subtract(&mut self, less: Self) {
        for (all, less) in self.messages.iter_mut().zip(less.messages) {
            *all -= less;
        }
        self.pieces -= less.pieces;
        self.squares_of_pieces -= less.squares_of_pieces;
        self.squares -= less.squares;
    }

    /// By how much the parts differ, all together.
    pub fn abs_diff(self, other: Self) -> u64 {
        let messages = self.messages.iter().zip(other.messages);
        let differences = messages.map(|(one, other)| one.abs_diff(other));
        differences.sum::<u64>() + self.pieces.abs_diff(other.pieces)
    }
}

impl Capacity {
    /// Nothing is taken yet.
    pub fn new(peers_max: usize, queued_max: u64) -> Self {
        Self {
            peers_max: AtomicUsize::new(peers_max),
            queued_max,
            peers: AtomicUsize::new(0),
            messages: Default::default(),
            pieces: AtomicU64::new(0),
            squares_of_pieces: AtomicU64::new(0),
            squares: AtomicU64::new(0),
            most: AtomicU64::new(0),
        }
    }

    /// What a newcomer would be too many for: there are as many peers as may be, or nine tenths of the memory are used,
    /// so that those who are here keep some.
    pub fn limit_met(&self) -> Option<Limit> {
        let peers_max = self.peers_max();
        if self.peers.load(Relaxed) >= peers_max {
            Some(Limit::Peers(peers_max))
        } else if self.queued().all() >= self.queued_max / 10 * 9 {
            Some(Limit::QueueMemory(self.queued_max))
        } else {
            None
        }
    }

    /// What one queue of a session may hold; `None` while less than a quarter of the memory is used
    /// in this direction. `untold` is what the caller's messages that way have grown by (or shrunk,
    /// wrapping around) since it last told.
    pub fn share(&self, direction: Direction, untold: u64) -> Option<u64> {
        let messages = self.messages[direction as usize].load(Relaxed);
        let messages = messages.wrapping_add(untold);
        let left = (self.queued_max / 8 * 3).saturating_sub(messages);
        (messages >= self.queued_max / 4).then_some(left / SHARES)
    }

    /// What one session may hold of messages of which pieces are missing; `None` while less than an eighth of
    /// the memory is in pieces.
    pub fn share_of_pieces(&self, untold: u64) -> Option<u64> {
        let pieces = self.pieces.load(Relaxed).wrapping_add(untold);
        let left = (self.queued_max / 4).saturating_sub(pieces);
        (pieces >= self.queued_max / 8).then_some(left / SHARES)
    }

    /// Bytes that somebody whose queues hold `own` has to let go, so that all of them together hold
    /// what they may.
    pub fn excess(&self, own: Queued) -> u64 {
        share_of_excess(own.all(), self.queued().all(), self.queued_max)
    }

    /// Bytes in pieces that somebody whose queues hold `own` has to let go, so that all pieces together are no more
    /// than they may be.
    pub fn excess_of_pieces(&self, own: Queued) -> u64 {
        let all = self.pieces.load(Relaxed);
        share_of_excess(own.pieces, all, self.queued_max / 4)
    }

    /// What the holder of a byte in pieces holds, on average over the bytes: those who hold little or nothing weigh next to
    /// nothing, however many they are. Somebody always holds as much.
    pub fn mean_of_pieces(&self) -> u64 {
        mean(
            self.squares_of_pieces.load(Relaxed),
            self.pieces.load(Relaxed),
        )
    }

    /// What the holder of a byte, waiting or in pieces, holds in all, on average over the bytes.
    pub fn mean(&self) -> u64 {
        mean(self.squares.load(Relaxed), self.queued().all())
    }

    /// A peer is here.
    pub fn on_arrival(&self) {
        self.peers.fetch_add(1, Relaxed);
    }

    /// A peer is gone.
    pub fn on_departure(&self) {
        self.peers.fetch_sub(1, Relaxed);
    }

    /// Somebody's queues, which held `before`, hold `now`.
    pub fn on_queued(&self, before: Queued, now: Queued) {
        // Both wrap around for less, which comes to the same.
        for direction in Direction::ALL.map(|direction| direction as usize) {
            let grown = now.messages[direction].wrapping_sub(before.messages[direction]);
            self.messages[direction].fetch_add(grown, Relaxed);
        }
        let grown = now.pieces.wrapping_sub(before.pieces);
        self.pieces.fetch_add(grown, Relaxed);
        let grown = now.squares_of_pieces.wrapping_sub(before.squares_of_pieces);
        self.squares_of_pieces.fetch_add(grown, Relaxed);
        let grown = now.squares.wrapping_sub(before.squares);
        self.squares.fetch_add(grown, Relaxed);
        let all = self.queued().all();
        if all > self.most.load(Relaxed) {
            self.most.fetch_max(all, Relaxed);
        }
    }

    /// As last told.
    pub fn queued(&self) -> Queued {
        Queued {
            messages: [0, 1].map(|direction: usize| self.messages[direction].load(Relaxed)),
            pieces: self.pieces.load(Relaxed),
            squares_of_pieces: self.squares_of_pieces.load(Relaxed),
            squares: self.squares.load(Relaxed),
        }
    }

    /// The most that ever was in all queues.
    pub fn most_queued(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// Peers over all listeners, at most.
    pub fn peers_max(&self) -> usize {
        self.peers_max.load(Relaxed)
    }

    /// Changes the limit for newcomers. Peers that are here stay.
    pub fn set_peers_max(&self, peers_max: usize) {
        self.peers_max.store(peers_max, Relaxed);
    }

    /// The limit over all queues.
    pub fn queued_max(&self) -> u64 {
        self.queued_max
    }
}

/// So many bytes in KiB, squared.
fn square(bytes: u64) -> u64 {
    (bytes >> 10).pow(2)
}

/// What the holder of a byte holds on average, where all hold so many bytes, and these are the squares of each.
fn mean(squares: u64, all: u64) -> u64 {
    let squares = u128::from(squares) << 20;
    (squares / u128::from(all.max(1))) as u64
}

/// Each lets go in proportion to what it holds, so that workers that decide at the same time do not
/// all free the whole.
fn share_of_excess(own: u64, all: u64, max: u64) -> u64 {
    let over = u128::from(all.saturating_sub(max));
    let share = over * u128::from(own) / u128::from(all.max(1));
    // Rounded up: what is left over would stay for ever.
    (share as u64).saturating_add(u64::from(over > 0 && own > 0))
}

/// Parts of what is left of which a queue may have one. With fewer, few sessions could take most of
/// the memory; with more, few could not use it: a hundred sessions that fill their queues leave a
/// fourteenth.
const SHARES: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(to_backend: u64) -> Queued {
        Queued {
            messages: [to_backend, 0],
            ..Queued::default()
        }
    }

    fn pieces(pieces: u64) -> Queued {
        Queued {
            pieces,
            ..Queued::default()
        }
    }

    #[test]
    fn seats_and_memory_run_out() {
        let capacity = Capacity::new(2, 1_000);
        capacity.on_arrival();
        assert_eq!(capacity.limit_met(), None);
        capacity.on_arrival();
        assert_eq!(capacity.limit_met(), Some(Limit::Peers(2)));
        capacity.on_departure();
        capacity.on_queued(messages(0), messages(899));
        assert_eq!(capacity.limit_met(), None);
        capacity.on_queued(messages(899), messages(900));
        assert_eq!(capacity.limit_met(), Some(Limit::QueueMemory(1_000)));
        assert_eq!(capacity.excess(messages(900)), 0);
        capacity.on_queued(messages(900), messages(1_200));
        assert_eq!(
            [0, 600, 1_200].map(|own| capacity.excess(messages(own))),
            [0, 101, 201]
        );
        capacity.on_queued(messages(1_200), messages(0));
        assert_eq!(capacity.limit_met(), None);
        assert_eq!(capacity.most_queued(), 1_200);
    }

    #[test]
    fn from_an_eighth_on_pieces_have_shares() {
        let capacity = Capacity::new(2, 16_000);
        capacity.on_queued(pieces(0), pieces(1_999));
        assert_eq!(capacity.share_of_pieces(0), None);
        assert_eq!(capacity.share_of_pieces(1), Some(250), "an eighth of 2000");
        assert_eq!(capacity.share_of_pieces(9_001), Some(0));
        assert_eq!(capacity.share(Direction::ToBackend, 0), None);
    }

    #[test]
    fn pieces_have_a_quarter() {
        let capacity = Capacity::new(2, 1_000);
        capacity.on_queued(pieces(0), pieces(250));
        assert_eq!(capacity.excess_of_pieces(pieces(250)), 0);
        capacity.on_queued(pieces(250), pieces(300));
        assert_eq!(capacity.excess_of_pieces(pieces(300)), 51);
        assert_eq!(capacity.excess(pieces(300)), 0, "the queues have room");
    }

    /// Hundreds who hold a little hardly move it.
    #[test]
    fn the_mean_is_that_of_those_who_hold_much() {
        let capacity = Capacity::new(2, 1_000);
        assert_eq!((capacity.mean_of_pieces(), capacity.mean()), (0, 0));
        let mut held = Queued::default();
        for kib in [4, 8].into_iter().chain(std::iter::repeat_n(1, 36)) {
            let before = held;
            held.add(Queued::of_session([kib << 10, 0], kib << 10));
            capacity.on_queued(before, held);
        }
        // (16 + 64 + 36) / 48 KiB; over the sessions it would be 1.3.
        assert_eq!(capacity.mean_of_pieces(), 116 * 1024 / 48);
        assert_eq!(capacity.mean(), 2 * 116 * 1024 / 48, "with messages");
        capacity.on_queued(held, pieces(0));
        assert_eq!((capacity.mean_of_pieces(), capacity.mean()), (0, 0));
    }

    #[test]
    fn from_a_quarter_on_there_are_shares() {
        let capacity = Capacity::new(2, 16_000);
        let share = |untold| capacity.share(Direction::ToBackend, untold);
        capacity.on_queued(messages(0), messages(3_999));
        assert_eq!(share(0), None);
        assert_eq!(share(1), Some(250), "an eighth of 2000");
        assert_eq!(share(1_601), Some(50));
        assert_eq!(share(2_001), Some(0));
        assert_eq!(share(9_001), Some(0));
        assert_eq!(capacity.share(Direction::ToPeer, 3_999), None);
        capacity.on_queued(messages(0), messages(1_000));
        assert_eq!(share(1_000_u64.wrapping_neg()), None);
    }

    /// However many take what they may, and in whatever order: their part holds it, as long as each
    /// could put one packet in.
    #[test]
    fn those_who_take_their_share_never_fill_the_memory() {
        let (max, packet) = (2 << 20, 500);
        for sessions in [1_usize, 8, 60, 500, 1_500] {
            let capacity = Capacity::new(usize::MAX, max);
            let mut held = vec![0; sessions];
            let mut moved = true;
            while moved {
                moved = false;
                for own in &mut held {
                    let share = capacity.share(Direction::ToBackend, 0);
                    // Who holds nothing always gets a packet in.
                    let share = share.map_or(u64::MAX, |share| share.max(1));
                    if *own < share && capacity.queued().all() < max {
                        capacity.on_queued(messages(*own), messages(*own + packet));
                        *own += packet;
                        moved = true;
                    }
                }
            }
            let most = capacity.most_queued();
            assert!(most >= max / 4, "{sessions} left {most} unused");
            assert!(most <= max / 8 * 3, "{sessions} filled {most} of {max}");
        }
    }
}
