//! Which connect tokens were seen, so that each opens one session.
//!
//! Rule: docs/wire/netcode.md, section 8: an entry is *pending* until its client is seated, then
//! *consumed*; it lives until its token expires and is never evicted before, because eviction is
//! how a flood of tokens would open a used one again. A clock that is set forward and back again
//! makes entries go whose tokens are in their time afterwards: those stay refused, with all that
//! end no later.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::wire::TAG_BYTES;
use crate::session::Reject;

/// A token's name: the authentication tag of its private part.
pub(super) type TokenTag = [u8; TAG_BYTES];

/// A connect token that opened its session: what another process must know to refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedToken {
    /// The authentication tag of its private part: 16 bytes that no two genuine tokens share.
    pub tag: [u8; TAG_BYTES],
    /// The unix second from which it is refused for its age anyway.
    pub end: u64,
}

/// The bounded list of tokens seen. Ordered maps on purpose: tags are chosen by strangers, and an
/// ordered map has no collisions to aim at, needs no secret and behaves the same in every run.
#[derive(Debug)]
pub(super) struct History {
    capacity: usize,
    entries: BTreeMap<TokenTag, Entry>,
    /// The tags of all entries, by the unix second from which their token is refused for its age.
    by_end: BTreeSet<(u64, TokenTag)>,
    /// The latest end of an entry that is gone.
    forgotten: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first address that presented the token.
    from: SocketAddr,
    is_consumed: bool,
    end: u64,
}

impl History {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: BTreeMap::new(),
            by_end: BTreeSet::new(),
            forgotten: 0,
        }
    }

    /// Whether a token with this tag, which is refused for its age from `end` on, may be presented from this
    /// address, as far as is known.
    pub(super) fn check(&self, tag: &TokenTag, from: SocketAddr, end: u64) -> Result<(), Reject> {
        match self.entries.get(tag) {
            Some(entry) if entry.is_consumed => Err(Reject::TokenReused),
            Some(entry) if entry.from != from => Err(Reject::TokenOtherAddress),
            Some(_) => Ok(()),
            None if end <= self.forgotten => Err(Reject::TokenExpired),
            None => Ok(()),
        }
    }

    /// Remembers a genuine token as pending, or finds it so. Never prolongs an entry.
    pub(super) fn present(
        &mut self,
        tag: TokenTag,
        from: SocketAddr,
        end: u64,
        now: u64,
    ) -> Result<(), Reject> {
        self.check(&tag, from, end)?;
        if self.entries.contains_key(&tag) {
            return Ok(());
        }
        self.forget_until(now);
        if self.entries.len() >= self.capacity {
            return Err(Reject::TokenHistoryFull);
        }
        let entry = Entry {
            from,
            is_consumed: false,
            end,
        };
        self.entries.insert(tag, entry);
        self.by_end.insert((end, tag));
        Ok(())
    }

    /// Remembers a token that another process saw used. What is beyond the capacity is not taken.
    pub(super) fn restore(&mut self, used: UsedToken) {
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&used.tag) {
            return;
        }
        let entry = Entry {
            // Nobody may present it, so nobody's address matters.
            from: SocketAddr::from(([0; 4], 0)),
            is_consumed: true,
            end: used.end,
        };
        if let Some(before) = self.entries.insert(used.tag, entry) {
            self.by_end.remove(&(before.end, used.tag));
        }
        self.by_end.insert((used.end, used.tag));
    }

    /// Whether [`History::consume`] would succeed.
    ///
    /// A token whose entry is gone expired during its handshake. It is refused: without an entry
    /// nothing would stop a second handshake under the same keys.
    pub(super) fn check_pending(&self, tag: &TokenTag) -> Result<(), Reject> {
        match self.entries.get(tag) {
            Some(entry) if entry.is_consumed => Err(Reject::TokenReused),
            Some(_) => Ok(()),
            None => Err(Reject::TokenExpired),
        }
    }

    /// The token's one session begins; the token, if its entry was there.
    pub(super) fn consume(&mut self, tag: &TokenTag) -> Option<UsedToken> {
        let entry = self.entries.get_mut(tag)?;
        entry.is_consumed = true;
        Some(UsedToken {
            tag: *tag,
            end: entry.end,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn forget_until(&mut self, now: u64) {
        while let Some((end, tag)) = self.by_end.first().copied()
            && end <= now
        {
            self.by_end.pop_first();
            self.entries.remove(&tag);
            self.forgotten = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "192.0.2.1:1000";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_pending_token_belongs_to_its_first_address() {
        let mut history = History::new(4);
        assert_eq!(history.present([1; 16], address(HOME), 100, 50), Ok(()));
        assert_eq!(history.present([1; 16], address(HOME), 100, 50), Ok(()));
        assert_eq!(
            history.present([1; 16], address("192.0.2.1:1001"), 100, 50),
            Err(Reject::TokenOtherAddress)
        );
        assert_eq!(history.len(), 1);
    }

    #[test]
    fn a_consumed_token_is_refused_everywhere_until_it_expires() {
        let mut history = History::new(4);
        history.present([1; 16], address(HOME), 100, 50).unwrap();
        history.consume(&[1; 16]);
        for from in [HOME, "192.0.2.2:1"] {
            let refused = history.present([1; 16], address(from), 100, 99);
            assert_eq!(refused, Err(Reject::TokenReused));
        }
        assert_eq!(history.check_pending(&[1; 16]), Err(Reject::TokenReused));
    }

    /// The calendar went to 500 and came back to 60: what was forgotten there might be in its time again.
    #[test]
    fn what_is_forgotten_stays_refused_when_time_goes_back() {
        let mut history = History::new(4);
        history.present([1; 16], address(HOME), 100, 50).unwrap();
        history.consume(&[1; 16]);
        history.present([2; 16], address(HOME), 530, 500).unwrap();
        assert_eq!(history.len(), 1);
        for end in [99, 100] {
            let refused = history.present([1; 16], address(HOME), end, 60);
            assert_eq!(refused, Err(Reject::TokenExpired));
        }
        assert_eq!(history.present([3; 16], address(HOME), 101, 60), Ok(()));
    }

    #[test]
    fn a_token_used_before_a_restart_is_refused_until_it_expires() {
        let mut before = History::new(4);
        before.present([1; 16], address(HOME), 100, 50).unwrap();
        let used = before.consume(&[1; 16]).unwrap();
        let mut after = History::new(2);
        after.restore(used);
        after.restore(used);
        assert_eq!(after.len(), 1);
        assert_eq!(
            after.present([1; 16], address(HOME), 100, 99),
            Err(Reject::TokenReused)
        );
        after.present([2; 16], address(HOME), 120, 99).unwrap();
        let refused = after.present([3; 16], address(HOME), 120, 99);
        assert_eq!(refused, Err(Reject::TokenHistoryFull));
        assert_eq!(after.present([3; 16], address(HOME), 120, 100), Ok(()));
    }

    /// What an earlier process knew may be more than this one has room for.
    #[test]
    fn no_more_is_restored_than_there_is_room_for() {
        let mut history = History::new(2);
        for (tag, end) in [(1, 100), (2, 100), (3, 100), (2, 130)] {
            let tag = [tag; 16];
            history.restore(UsedToken { tag, end });
        }
        assert_eq!(history.len(), 2);
        let tell = |tag: u8| history.check(&[tag; 16], address(HOME), 100);
        let refused = Err(Reject::TokenReused);
        assert_eq!([1, 2, 3].map(tell), [refused, refused, Ok(())]);
        // What is known already is told anew, and then lives as long as was said last.
        history.present([4; 16], address(HOME), 150, 129).unwrap();
        assert_eq!(history.check_pending(&[2; 16]), refused);
    }

    #[test]
    fn a_full_history_refuses_and_takes_again_when_tokens_expire() {
        let mut history = History::new(2);
        history.present([1; 16], address(HOME), 100, 50).unwrap();
        history.present([2; 16], address(HOME), 101, 50).unwrap();
        let refused = history.present([3; 16], address(HOME), 120, 99);
        assert_eq!(refused, Err(Reject::TokenHistoryFull));
        assert_eq!(history.present([3; 16], address(HOME), 120, 100), Ok(()));
        assert_eq!(history.len(), 2, "the one that expired made room");
        assert_eq!(history.check_pending(&[1; 16]), Err(Reject::TokenExpired));
    }
}
