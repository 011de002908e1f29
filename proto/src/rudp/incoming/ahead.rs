//! What it says when a peer sends from beyond the window: it went on without us, and everything up to there was sent.
//!
//! Otherwise a peer that does not have the next message any more would be heard for ever and believed never.

/// Messages from beyond the window in a row, with none delivered between them, that say the peer went on without us.
/// One or two are too easy to forge, or come late.
const IN_A_ROW: usize = 4;

/// Messages from beyond the window.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The latest since one was delivered, in no order: a peer that sends much at once is seen further ahead with each.
    latest: [u64; IN_A_ROW],
    /// How many since then.
    messages: usize,
    sent_below: u64,
}

impl Ahead {
    /// A message came from there.
    pub(super) fn on_message(&mut self, id: u64) {
        self.latest[self.messages % IN_A_ROW] = id;
        self.messages += 1;
        if self.messages >= IN_A_ROW {
            let lowest = self.latest.into_iter().fold(id, u64::min);
            self.sent_below = self.sent_below.max(lowest);
        }
    }

    /// The next message was delivered, or given up.
    pub(super) fn on_delivered(&mut self) {
        self.messages = 0;
    }

    /// All below this was sent: the peer was seen beyond it.
    pub(super) fn sent_below(&self) -> u64 {
        self.sent_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_in_a_row_are_believed_and_no_more_than_the_lowest_of_them() {
        let mut ahead = Ahead::default();
        for id in [5_000, 5_002, 5_001] {
            ahead.on_message(id);
            assert_eq!(ahead.sent_below(), 0);
        }
        ahead.on_message(5_003);
        assert_eq!(ahead.sent_below(), 5_000);
        ahead.on_message(4_000);
        assert_eq!(ahead.sent_below(), 5_000, "it was seen further ahead");
    }

    #[test]
    fn a_burst_is_believed_up_to_its_end() {
        let mut ahead = Ahead::default();
        for id in 1_024..5_000 {
            ahead.on_message(id);
        }
        assert_eq!(ahead.sent_below(), 4_996);
    }

    #[test]
    fn what_is_delivered_between_them_begins_the_count_anew() {
        let mut ahead = Ahead::default();
        for id in 5_000..5_020 {
            if id % 3 == 0 {
                ahead.on_delivered();
            }
            ahead.on_message(id);
        }
        assert_eq!(ahead.sent_below(), 0);
    }
}
