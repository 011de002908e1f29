//! Which sessions have their lines in the log. Where no token is needed, or everybody knows the key that makes them, anybody
//! may open sessions and leave as often as `ip_handshakes` and `handshakes` allow, from as many addresses as they have. And
//! where a game server ends sessions as soon as they have begun, all its players come back as fast as they get tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use tidegate_proto::{CloseReason, Timestamp};

use crate::admission::prefix;

/// Shared by all sockets of a listener.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(Arc<Mutex<Window>>);

impl Arrivals {
    /// Whether this session is one of so many that it needs no lines: never where sessions take a token and last.
    pub(super) fn note(&self, now: Timestamp, from: IpAddr, takes_token: bool) -> bool {
        let mut window = self.window();
        if takes_token && !window.is_restless(now) {
            return false;
        }
        window.turn(now);
        window.note(prefix(from))
    }

    /// A session is over that lasted so long.
    pub(super) fn on_end(&self, now: Timestamp, reason: CloseReason, lasted: Duration) {
        if lasted < BRIEF && is_by_backend(reason) {
            self.window().restless_until = now + WINDOW;
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The game server, and not the player, ended a session that had begun.
fn is_by_backend(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::BackendClosed
            | CloseReason::BackendReset
            | CloseReason::BackendProtocolError
            | CloseReason::MessageTooLarge
    )
}

#[derive(Debug)]
struct Window {
    since: Timestamp,
    /// As many sessions may have their lines.
    left: u32,
    /// A backend has ended a session that had just begun.
    restless_until: Timestamp,
    /// The sources of this window, and how many sessions each has opened in it.
    opened: HashMap<IpNet, u32>,
}

impl Window {
    fn is_restless(&self, now: Timestamp) -> bool {
        now < self.restless_until
    }

    fn turn(&mut self, now: Timestamp) {
        let windows = now.since(self.since).as_secs() / WINDOW.as_secs();
        if windows > 0 {
            let more = u32::try_from(windows).map_or(MOST, |windows| windows.saturating_mul(EACH));
            self.left = self.left.saturating_add(more).min(MOST);
            self.since = now;
            self.opened.clear();
        }
    }

    /// Who opened few comes before who opened many: each address may open a quarter of what is left for all. So one
    /// that does nothing else leaves most to others, and a house full of players has its lines.
    fn note(&mut self, source: IpNet) -> bool {
        let opened = if self.opened.len() < SOURCES_MAX || self.opened.contains_key(&source) {
            let opened = self.opened.entry(source).or_default();
            *opened = opened.saturating_add(1);
            *opened
        } else {
            1
        };
        let is_one_of_many = opened > self.left.div_ceil(4);
        if !is_one_of_many {
            self.left -= 1;
        }
        is_one_of_many
    }
}

impl Default for Window {
    fn default() -> Self {
        Self {
            since: Timestamp::ZERO,
            left: MOST,
            restless_until: Timestamp::ZERO,
            opened: HashMap::new(),
        }
    }
}

const WINDOW: Duration = Duration::from_secs(10);

/// Nobody plays for so short a time, unless he is sent off.
const BRIEF: Duration = Duration::from_secs(10);

/// As many play at one listener by default, and all come back when their game server does.
const MOST: u32 = 4096;

/// So many sessions more may have their lines with each window: 36,000 in an hour, and 23 MB.
const EACH: u32 = 100;

/// Sources that are counted: some 50 KiB of them. What others open counts as the first of each.
const SOURCES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many sessions have their lines.
    fn named(arrivals: &Arrivals, secs: u64, from: impl Into<IpAddr>, times: u32) -> usize {
        let (at, from) = (Timestamp::ZERO + Duration::from_secs(secs), from.into());
        let noted = (0..times).filter(|_| !arrivals.note(at, from, false));
        noted.count()
    }

    fn address(index: u32) -> [u8; 4] {
        (0x7f00_0000 + index).to_be_bytes()
    }

    /// A botnet has a thousand addresses, and opens sessions from each all night.
    #[test]
    fn a_thousand_addresses_have_no_more_lines_than_one() {
        for addresses in [1, 3, 100, 1000, 50_000] {
            let arrivals = Arrivals::default();
            let sessions = 100_000 / addresses;
            let window = |secs| -> usize {
                let of = |index| named(&arrivals, secs, address(index), sessions);
                (0..addresses).map(of).sum()
            };
            let first: usize = (0..30).map(|index| window(index * 10)).sum();
            assert!(first <= 4096 + 30 * 100, "{addresses}: {first}");
            let later = window(300) + window(310);
            assert!((190..=210).contains(&later), "{addresses}: {later}");
        }
    }

    /// Who has a token has lines, however many come, unless their game server sends them off and they come again.
    #[test]
    fn sessions_that_a_backend_ends_at_once_are_too_many_in_the_end() {
        let arrivals = Arrivals::default();
        let named = |secs| -> usize {
            let at = Timestamp::ZERO + Duration::from_secs(secs);
            let noted = |n: &u32| !arrivals.note(at, address(*n).into(), true);
            (0..5000).filter(noted).count()
        };
        let end = |secs, reason, lasted| {
            let at = Timestamp::ZERO + Duration::from_secs(secs);
            arrivals.on_end(at, reason, Duration::from_secs(lasted));
        };
        assert_eq!(named(0), 5000);
        end(1, CloseReason::BackendReset, 10);
        end(1, CloseReason::PeerDisconnect, 0);
        assert_eq!(named(2), 5000, "they played, or left of their own accord");
        for secs in 10..100 {
            end(secs, CloseReason::BackendReset, 1);
            let most = if secs == 10 { 4096 } else { 100 };
            assert!(named(secs) <= most, "at {secs} s");
        }
        assert_eq!(named(109), 5000, "the game server is well again");
    }

    /// A game server is back, and so are all its players.
    #[test]
    fn all_players_may_come_at_once() {
        let arrivals = Arrivals::default();
        let come: usize = (0..4096).map(|n| named(&arrivals, 20, address(n), 1)).sum();
        assert_eq!(come, 4096);
        assert_eq!(named(&arrivals, 21, address(5000), 1), 0);
        assert_eq!(named(&arrivals, 40, address(5000), 1), 1, "the next window");
        let come: usize = (0..4096)
            .map(|n| named(&arrivals, 900, address(n), 1))
            .sum();
        assert_eq!(come, 4096, "all of it comes back");
    }

    /// Behind one address is a school.
    #[test]
    fn hundreds_may_play_behind_one_address() {
        let arrivals = Arrivals::default();
        assert_eq!(named(&arrivals, 20, [10, 0, 0, 1], 800), 800);
    }

    #[test]
    fn one_machine_leaves_lines_to_others() {
        let arrivals = Arrivals::default();
        for window in 2..100 {
            named(&arrivals, window * 10, [10, 0, 0, 1], 5000);
        }
        let others = (0..250).map(|n| named(&arrivals, 999, [10, 0, 1, n], 1));
        assert_eq!(others.sum::<usize>(), 250);
        assert_eq!(named(&arrivals, 999, [10, 0, 0, 1], 1000), 0);
    }

    #[test]
    fn one_host_may_have_a_whole_64() {
        let arrivals = Arrivals::default();
        let v6 = |last| IpAddr::from([0xfd00, 0, 0, 1, 0, 0, 0, last]);
        let sessions = (0..5000).map(|last| named(&arrivals, 20, v6(last), 1));
        assert_eq!(sessions.sum::<usize>(), 820);
    }

    #[test]
    fn sources_are_bounded() {
        let arrivals = Arrivals::default();
        for index in 0..10_000 {
            named(&arrivals, 0, address(index), 1);
        }
        assert_eq!(arrivals.0.lock().unwrap().opened.len(), 1024);
    }
}
