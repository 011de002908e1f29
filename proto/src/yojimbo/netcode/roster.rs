//! What all workers of one listener share: slots, connected client ids, used tokens, since when they are known.
//!
//! Touched by handshakes only, never by a packet of a session. Rule: docs/wire/netcode.md,
//! sections 7 and 8.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError};

use super::history::{History, TokenTag, UsedToken};
use crate::Now;
use crate::session::Reject;

/// How large a roster is.
#[derive(Clone, Copy, Debug)]
pub struct RosterParams {
    /// Sessions at once, 1 to 65,536; told to each client as "max clients".
    pub slots: u32,
    /// Connect tokens remembered; one more is refused, not one forgotten. 65,536 last for 1,456
    /// new tokens a second that live 45 seconds.
    pub history: usize,
    /// Whether somebody asks [`Roster::poll_used`] which tokens were used, after each seat.
    pub tells_used: bool,
}

impl Default for RosterParams {
    fn default() -> Self {
        Self {
            slots: 1024,
            history: 65_536,
            tells_used: false,
        }
    }
}

/// A handle on the shared state; clones are the same roster.
#[derive(Clone, Debug)]
pub struct Roster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tells_used: bool,
    since_unix: u64,
    /// The first reading of both clocks: a calendar that has moved against the other clock since was set, and what
    /// was dated before moves with it.
    began: OnceLock<Now>,
    #[expect(
        clippy::disallowed_types,
        reason = "the one exception: slots, client ids and used tokens must be one per listener, \
                  and only handshakes touch them"
    )]
    state: std::sync::Mutex<State>,
}

#[derive(Debug)]
struct State {
    slots: u32,
    history: History,
    /// For [`Roster::poll_used`].
    used: VecDeque<UsedToken>,
    /// Slots given back, all below `untouched`.
    freed: BTreeSet<u32>,
    /// Every slot from here up was never taken.
    untouched: u32,
    /// Which slot a connected client id holds. A policy that lets a newer session replace a silent
    /// older one of the same client would look here.
    connected: BTreeMap<u64, u32>,
}

impl State {
    fn is_full(&self) -> bool {
        self.connected.len() >= self.slots as usize
    }
}

impl Roster {
    /// An empty roster. `since_unix` is since when every used token is known: the start of the
    /// process, or of the first one whose tokens come in through [`Roster::restore`].
    pub fn new(params: RosterParams, since_unix: u64) -> Self {
        assert!(
            (1..=65_536).contains(&params.slots),
            "{} slots: 1 to 65,536 are possible",
            params.slots
        );
        let state = State {
            slots: params.slots,
            history: History::new(params.history),
            used: VecDeque::new(),
            freed: BTreeSet::new(),
            untouched: 0,
            connected: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            tells_used: params.tells_used,
            since_unix,
            began: OnceLock::new(),
            state: state.into(),
        }))
    }

    /// Slots there are.
    pub fn slots(&self) -> u32 {
        self.with(|state| state.slots)
    }

    /// Changes the number of slots, 1 to 65,536. Clients in slots beyond it stay.
    pub fn set_slots(&self, slots: u32) {
        self.with(|state| state.slots = slots.clamp(1, 65_536));
    }

    /// Slots taken, admitted or not.
    pub fn seated(&self) -> usize {
        self.with(|state| state.connected.len())
    }

    /// Connect tokens remembered.
    pub fn remembered(&self) -> usize {
        self.with(|state| state.history.len())
    }

    /// Refuses tokens that were used before this process began, which it does now. At most
    /// [`RosterParams::history`].
    pub fn restore(&self, used: &[UsedToken], now: Now) {
        self.began(now);
        self.with(|state| used.iter().for_each(|used| state.history.restore(*used)));
    }

    /// The next token that was used and not told yet; see [`RosterParams::tells_used`].
    pub fn poll_used(&self) -> Option<UsedToken> {
        self.with(|state| state.used.pop_front())
    }

    /// Since when every used token is known, unix seconds by the calendar of `now`.
    pub(super) fn since_unix(&self, now: Now) -> u64 {
        self.0.since_unix.saturating_add_signed(self.set_by(now))
    }

    /// When this process began, unix seconds by the calendar of `now`: what ended before, earlier ones may have
    /// forgotten.
    pub(super) fn began_unix(&self, now: Now) -> u64 {
        let began = self.began(now).unix_secs;
        began.saturating_add_signed(self.set_by(now))
    }

    /// By how many seconds the calendar was set since the beginning, forward or back.
    fn set_by(&self, now: Now) -> i64 {
        let ahead = |now: Now| {
            let mono_secs = now.mono.as_nanos() / 1_000_000_000;
            now.unix_secs
                .cast_signed()
                .saturating_sub_unsigned(mono_secs)
        };
        let set_by = ahead(now).saturating_sub(ahead(self.began(now)));
        // Two readings may each be off by a second, because seconds are whole.
        if set_by.abs() <= 2 { 0 } else { set_by }
    }

    fn began(&self, now: Now) -> Now {
        *self.0.began.get_or_init(|| now)
    }

    /// What the history alone can say about a tag, before anything is decrypted.
    pub(super) fn check_tag(
        &self,
        tag: &TokenTag,
        from: SocketAddr,
        end: u64,
    ) -> Result<(), Reject> {
        self.with(|state| state.history.check(tag, from, end))
    }

    /// A genuine token was presented: its client id must not be connected, and the token new or
    /// pending from the same address. It is remembered until `end`.
    pub(super) fn present(
        &self,
        client_id: u64,
        tag: TokenTag,
        from: SocketAddr,
        end: u64,
        now: u64,
    ) -> Result<(), Reject> {
        self.with(|state| {
            if state.connected.contains_key(&client_id) {
                return Err(Reject::ClientIdInUse);
            }
            state.history.present(tag, from, end, now)
        })
    }

    /// Whether every slot is taken.
    pub(super) fn is_full(&self) -> bool {
        self.with(|state| state.is_full())
    }

    /// Takes the lowest free slot and consumes the token, or does neither.
    pub(super) fn seat(&self, client_id: u64, tag: &TokenTag) -> Result<Seat, Reject> {
        self.with(|state| {
            if state.connected.contains_key(&client_id) {
                return Err(Reject::ClientIdInUse);
            }
            state.history.check_pending(tag)?;
            if state.is_full() {
                return Err(Reject::Full);
            }
            // With fewer taken than there are, the lowest that is free is one of them.
            let slot = state.freed.pop_first().unwrap_or_else(|| {
                state.untouched += 1;
                state.untouched - 1
            });
            let used = state.history.consume(tag);
            state.used.extend(used.filter(|_| self.0.tells_used));
            state.connected.insert(client_id, slot);
            Ok(Seat {
                roster: self.clone(),
                slot,
                client_id,
            })
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        // A panic elsewhere cannot leave the state half-changed in a way that matters more than
        // going on does: every change is an insert or a remove.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut state)
    }
}

/// A slot and a client id, held; dropping it gives both back.
#[derive(Debug)]
pub struct Seat {
    roster: Roster,
    slot: u32,
    client_id: u64,
}

impl Seat {
    /// The slot, from 0: what the client is told as its index.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Whose it is.
    pub fn client_id(&self) -> u64 {
        self.client_id
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.roster.with(|state| {
            state.connected.remove(&self.client_id);
            state.freed.insert(self.slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(roster: &Roster, client_id: u64) -> Result<Seat, Reject> {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&client_id.to_le_bytes());
        tag[8] = roster.remembered() as u8;
        let from = "192.0.2.1:7".parse().unwrap();
        roster.present(client_id, tag, from, 1000, 0)?;
        roster.seat(client_id, &tag)
    }

    #[test]
    fn the_lowest_free_slot_is_taken_and_given_back() {
        let params = RosterParams {
            slots: 300,
            ..RosterParams::default()
        };
        let roster = Roster::new(params, 0);
        let mut seats: Vec<_> = (0..300).map(|id| seat(&roster, id).unwrap()).collect();
        assert_eq!(seats[299].slot(), 299);
        assert!(roster.is_full());
        assert_eq!(seat(&roster, 300).unwrap_err(), Reject::Full);
        drop(seats.remove(280));
        drop(seats.remove(17));
        assert_eq!(roster.seated(), 298);
        assert_eq!(
            seat(&roster, 301).unwrap().slot(),
            17,
            "freed at once again"
        );
        let low = seat(&roster, 302).unwrap();
        let high = seat(&roster, 303).unwrap();
        assert_eq!((low.slot(), high.slot()), (17, 280));
    }

    #[test]
    fn one_session_per_client_id() {
        let roster = Roster::new(RosterParams::default(), 0);
        let first = seat(&roster, 9).unwrap();
        assert_eq!(seat(&roster, 9).unwrap_err(), Reject::ClientIdInUse);
        drop(first);
        assert!(seat(&roster, 9).is_ok());
    }

    /// Two workers may each have a handshake under way with one token: under the same keys there is one session, and none
    /// once nothing is known of the token any more.
    #[test]
    fn a_token_is_good_for_one_seat() {
        let roster = Roster::new(RosterParams::default(), 0);
        let (tag, from) = ([7; 16], "192.0.2.1:7".parse().unwrap());
        assert_eq!(roster.seat(9, &tag).unwrap_err(), Reject::TokenExpired);
        roster.present(9, tag, from, 1000, 0).unwrap();
        drop(roster.seat(9, &tag).unwrap());
        assert_eq!(roster.seat(9, &tag).unwrap_err(), Reject::TokenReused);
    }

    #[test]
    fn used_tokens_are_told_once_and_only_on_request() {
        for tells_used in [false, true] {
            let params = RosterParams {
                tells_used,
                ..RosterParams::default()
            };
            let roster = Roster::new(params, 0);
            let _seat = seat(&roster, 5).unwrap();
            assert_eq!(
                roster.poll_used().map(|used| used.end),
                tells_used.then_some(1000)
            );
            assert_eq!(roster.poll_used(), None);
        }
    }

    /// A board without a battery starts years ago, and somebody sets its clock: what was dated then moves along.
    #[test]
    fn what_was_dated_before_the_clock_was_set_moves_with_it() {
        let at = |mono_secs: u64, unix_secs: u64| Now {
            mono: crate::Timestamp::from_millis(mono_secs * 1000),
            unix_secs,
        };
        let roster = Roster::new(RosterParams::default(), 990);
        roster.restore(&[], at(5, 1000));
        for (now, since) in [
            (at(65, 1060), 990),
            (at(65, 1062), 990),
            (at(65, 9060), 8990),
            (at(65, 560), 490),
            (at(65, 0), 0),
        ] {
            assert_eq!(roster.since_unix(now), since, "{now:?}");
        }
        assert_eq!(roster.began_unix(at(65, 9060)), 9000);
    }
}
