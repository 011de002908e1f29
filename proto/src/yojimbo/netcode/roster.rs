//! What all workers of one listener share: slots, connected client ids, used tokens, the calendar.
//!
//! Touched by handshakes only, never by a packet of a session. Rule: docs/wire/netcode.md,
//! sections 7 and 8.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::history::{History, TokenTag, UsedToken};
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
    slots: u32,
    tells_used: bool,
    started_unix: u64,
    /// Latest unix second any worker saw. Time for tokens never runs backwards: a clock that is set
    /// back must not bring tokens back whose history entry is gone.
    latest_unix: AtomicU64,
    #[expect(
        clippy::disallowed_types,
        reason = "the one exception: slots, client ids and used tokens must be one per listener, \
                  and only handshakes touch them"
    )]
    state: std::sync::Mutex<State>,
}

#[derive(Debug)]
struct State {
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

impl Roster {
    /// An empty roster. `started_unix` is since when every used token is known: the start of the
    /// process, or of the first one whose tokens come in through [`Roster::restore`].
    pub fn new(params: RosterParams, started_unix: u64) -> Self {
        assert!(
            (1..=65_536).contains(&params.slots),
            "{} slots: 1 to 65,536 are possible",
            params.slots
        );
        let state = State {
            history: History::new(params.history),
            used: VecDeque::new(),
            freed: BTreeSet::new(),
            untouched: 0,
            connected: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            slots: params.slots,
            tells_used: params.tells_used,
            started_unix,
            latest_unix: AtomicU64::new(started_unix),
            state: state.into(),
        }))
    }

    /// Slots there are.
    pub fn slots(&self) -> u32 {
        self.0.slots
    }

    /// Slots taken, admitted or not.
    pub fn seated(&self) -> usize {
        self.with(|state| state.connected.len())
    }

    /// Connect tokens remembered.
    pub fn remembered(&self) -> usize {
        self.with(|state| state.history.len())
    }

    /// Refuses tokens that were used before this process began. At most [`RosterParams::history`].
    pub fn restore(&self, used: &[UsedToken]) {
        self.with(|state| used.iter().for_each(|used| state.history.restore(*used)));
    }

    /// The next token that was used and not told yet; see [`RosterParams::tells_used`].
    pub fn poll_used(&self) -> Option<UsedToken> {
        self.with(|state| state.used.pop_front())
    }

    /// Since when every used token is known, unix seconds.
    pub(super) fn started_unix(&self) -> u64 {
        self.0.started_unix
    }

    /// The calendar for tokens: the latest second any worker saw.
    pub(super) fn calendar(&self, unix_secs: u64) -> u64 {
        let before = self.0.latest_unix.fetch_max(unix_secs, Ordering::Relaxed);
        before.max(unix_secs)
    }

    /// What the history alone can say about a tag, before anything is decrypted.
    pub(super) fn check_tag(&self, tag: &TokenTag, from: SocketAddr) -> Result<(), Reject> {
        self.with(|state| state.history.check(tag, from))
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
        self.with(|state| state.connected.len() >= self.0.slots as usize)
    }

    /// Takes the lowest free slot and consumes the token, or does neither.
    pub(super) fn seat(&self, client_id: u64, tag: &TokenTag) -> Result<Seat, Reject> {
        self.with(|state| {
            if state.connected.contains_key(&client_id) {
                return Err(Reject::ClientIdInUse);
            }
            state.history.check_pending(tag)?;
            let slot = match state.freed.pop_first() {
                Some(slot) => slot,
                None if state.untouched < self.0.slots => {
                    state.untouched += 1;
                    state.untouched - 1
                }
                None => return Err(Reject::Full),
            };
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

    #[test]
    fn the_calendar_never_runs_backwards() {
        let roster = Roster::new(RosterParams::default(), 100);
        let other = roster.clone();
        assert_eq!(roster.calendar(50), 100, "not before the start");
        assert_eq!(roster.calendar(200), 200);
        assert_eq!(
            other.calendar(150),
            200,
            "another worker's clock counts too"
        );
    }
}
