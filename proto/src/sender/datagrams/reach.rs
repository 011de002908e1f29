//! How long a datagram may be on a path that takes less than every path should.
//!
//! Such a path swallows what is longer in silence. What was lost goes again with all that is lost beside it, in a datagram
//! as long: so it would be lost for ever, and the session with it. Padding would tell the length, but only a tidegate
//! takes that; so what is sent anyway tells it, and until then the oldest message goes every second time in a datagram
//! that any path takes.

/// What arrived and what did not, by bytes of IP packets.
#[derive(Clone, Copy, Debug)]
pub(in crate::sender) struct Reach {
    /// The longest that arrived, or that any path takes.
    taken: u16,
    /// Longer ones lost in a row, each beside one that arrived.
    lost: u8,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            taken: ANY_PATH,
            lost: 0,
        }
    }
}

impl Reach {
    /// A datagram arrived. One that is longer than all before shows that the path takes such.
    pub(in crate::sender) fn on_acked(&mut self, wire_bytes: u16) {
        if wire_bytes > self.taken {
            self.taken = wire_bytes;
            self.lost = 0;
        }
    }

    /// One was lost, and one that left right before or after it was not.
    pub(in crate::sender) fn on_lost(&mut self, wire_bytes: u16) {
        if wire_bytes > self.taken {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// A message waits for very long: perhaps the path takes less than it did.
    pub(in crate::sender) fn forget(&mut self) {
        self.taken = ANY_PATH;
    }

    /// The longest that should leave, where longer ones do not arrive.
    pub(in crate::sender) fn limit(&self) -> Option<u16> {
        (self.lost >= LOST_IN_A_ROW).then_some(self.taken)
    }
}

/// Bytes of an IP packet that any path takes (RFC 791, section 3.1: 576).
pub(in crate::sender) const ANY_PATH: u16 = 576;

/// Long datagrams in a row that arrive nowhere, while others beside them do: chance does that to one row in a hundred where
/// every second datagram is lost, and only until the first long one arrives.
const LOST_IN_A_ROW: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn lose(reach: &mut Reach, wire_bytes: u16, times: u8) {
        for _ in 0..times {
            reach.on_lost(wire_bytes);
        }
    }

    #[test]
    fn a_path_that_swallows_the_long_ones_gets_what_it_took() {
        let mut reach = Reach::default();
        reach.on_acked(700);
        lose(&mut reach, 1_000, LOST_IN_A_ROW - 1);
        assert_eq!(reach.limit(), None);
        reach.on_acked(600);
        lose(&mut reach, 1_000, 1);
        assert_eq!(reach.limit(), Some(700));
        reach.on_acked(900);
        assert_eq!(reach.limit(), None, "it takes more than that");
    }

    #[test]
    fn what_any_path_takes_says_nothing_of_longer_ones() {
        let mut reach = Reach::default();
        for _ in 0..LOST_IN_A_ROW {
            reach.forget();
            reach.on_acked(500);
            lose(&mut reach, 1_228, 1);
        }
        assert_eq!(reach.limit(), Some(ANY_PATH));
    }

    #[test]
    fn what_arrived_once_is_lost_by_chance() {
        let mut reach = Reach::default();
        reach.on_acked(1_228);
        lose(&mut reach, 1_228, 100);
        assert_eq!(reach.limit(), None);
        reach.forget();
        lose(&mut reach, 576, 100);
        assert_eq!(reach.limit(), None, "any path takes those");
        lose(&mut reach, 1_228, LOST_IN_A_ROW);
        assert_eq!(reach.limit(), Some(ANY_PATH));
    }
}
