//! Strangers' datagrams, from when they were received until those who play have had their turn.
//!
//! What waits is bounded in number and bytes: what finds no room is refused, and its sender tries again.
//! First come, first served, so that the datagrams of one stranger stay in order.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::udp::Route;

/// Datagrams that wait.
#[derive(Debug, Default)]
pub(super) struct StrangerQueue {
    /// Whose, and how long.
    entries: VecDeque<(Route, usize)>,
    /// One after the other; those before `taken` are gone.
    bytes: Vec<u8>,
    taken: usize,
}

impl StrangerQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keeps a copy for later; false when there is no room for it.
    pub(super) fn take_in(&mut self, route: Route, datagram: &[u8]) -> bool {
        let waiting = self.bytes.len() - self.taken;
        if self.entries.len() >= DATAGRAMS_MAX || waiting + datagram.len() > BYTES_MAX {
            return false;
        }
        if waiting == 0 || self.taken >= BYTES_MAX {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(datagram);
        self.entries.push_back((route, datagram.len()));
        true
    }

    /// Whether something from there waits, and not much, and what comes behind it leaves room for others.
    pub(super) fn takes_more_of(&self, from: SocketAddr) -> bool {
        let waiting = self.bytes.len() - self.taken;
        let has_room = self.entries.len() < DATAGRAMS_MAX / 2 && waiting < BYTES_MAX / 2;
        let theirs = || self.entries.iter().filter(|(route, _)| route.from == from);
        has_room && (1..EACH_MAX).contains(&theirs().count())
    }

    /// The one that has waited longest.
    pub(super) fn next(&mut self) -> Option<(Route, &mut [u8])> {
        let (route, length) = self.entries.pop_front()?;
        let start = self.taken;
        self.taken += length;
        Some((route, &mut self.bytes[start..self.taken]))
    }
}

/// Enough for the requests of a thousand clients that come at once, 1,078 bytes each.
const DATAGRAMS_MAX: usize = 1024;
const BYTES_MAX: usize = 1280 * 1024;

/// An answer, and twice what a session begins with.
const EACH_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn from(port: u16) -> Route {
        Route {
            from: ([192, 0, 2, 1], port).into(),
            to: None,
        }
    }

    /// Through many fillings and emptyings, so that places are used again.
    #[test]
    fn strangers_leave_in_the_order_they_came() {
        let mut queue = StrangerQueue::default();
        let (mut came, mut left) = (0u16, 0u16);
        for _ in 0..40 {
            while queue.take_in(from(came), &[came as u8; 2_000]) {
                came += 1;
            }
            assert!(queue.bytes.len() <= 2 * BYTES_MAX, "places are used again");
            for _ in 0..100 {
                let (route, datagram) = queue.next().unwrap();
                assert_eq!((route, &*datagram), (from(left), &[left as u8; 2_000][..]));
                left += 1;
            }
        }
        while let Some((route, _)) = queue.next() {
            assert_eq!(route, from(left));
            left += 1;
        }
        assert_eq!(came, left);
        assert!(queue.is_empty());
    }

    /// One that speaks behind its answer, in front of many that have not been heard yet.
    #[test]
    fn who_waits_may_say_a_little_more_while_half_is_free() {
        let mut queue = StrangerQueue::default();
        assert!(!queue.takes_more_of(from(1).from), "nothing of it waits");
        queue.take_in(from(1), &[0; 326]);
        assert!(!queue.takes_more_of(from(2).from));
        for port in 1..100 {
            queue.take_in(from(port), &[0; 326]);
            while queue.takes_more_of(from(port).from) {
                assert!(queue.take_in(from(port), &[0; 1_200]));
            }
        }
        let of = |queue: &StrangerQueue, port| {
            let theirs = queue
                .entries
                .iter()
                .filter(|(route, _)| *route == from(port));
            theirs.count()
        };
        assert_eq!(
            [1, 2, 99].map(|port| of(&queue, port)),
            [EACH_MAX, EACH_MAX, 1]
        );
        while queue.next().is_some_and(|(route, _)| route != from(2)) {}
        assert!(!queue.takes_more_of(from(1).from), "it had its turn");
    }

    /// Those who have not been heard have the other half.
    #[test]
    fn who_waits_may_say_nothing_more_in_a_queue_that_is_half_full() {
        for (length, half) in [(1, DATAGRAMS_MAX / 2), (2_560, BYTES_MAX / 2 / 2_560)] {
            let mut queue = StrangerQueue::default();
            // Places that were used before count for nothing.
            while queue.take_in(from(1), &vec![0; length]) {}
            while queue.next().is_some() {}
            for port in 1..half as u16 {
                assert!(queue.take_in(from(port), &vec![0; length]));
            }
            assert!(queue.takes_more_of(from(1).from), "{length} bytes each");
            assert!(queue.take_in(from(0), &vec![0; length]));
            assert!(!queue.takes_more_of(from(1).from), "{length} bytes each");
        }
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut queue = StrangerQueue::default();
        let mut fill = |length: usize| {
            while queue.next().is_some() {}
            let datagram = vec![0; length];
            (0..2_000)
                .take_while(|_| queue.take_in(from(1), &datagram))
                .count()
        };
        assert_eq!(fill(0), DATAGRAMS_MAX, "an empty one takes a place too");
        assert_eq!(fill(1_078), DATAGRAMS_MAX);
        assert_eq!(fill(65_507), BYTES_MAX / 65_507);
        assert_eq!(fill(BYTES_MAX), 1, "to the last byte");
    }
}
