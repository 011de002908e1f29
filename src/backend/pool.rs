//! The targets of a backend: which one a new session gets, and which ones are left alone for a while.
//!
//! Shared by all workers and the control plane, touched when a stream is opened or closed, never per
//! message.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_proto::Timestamp;

use super::Address;
use crate::config::{Backend, Balance, Target};

/// A backend's targets.
#[derive(Debug)]
pub struct Pool {
    balance: Balance,
    targets: Vec<Member>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Member {
    target: Target,
    /// What the host name stands for, kept fresh by the control plane; empty until it resolves.
    addresses: Mutex<Vec<SocketAddr>>,
    /// Streams open or being opened.
    streams: AtomicU32,
    /// What the health checks say.
    up: AtomicBool,
    /// What the operator says: no new streams.
    draining: AtomicBool,
    /// Connects that failed since the last that did not.
    failures: AtomicU32,
    /// With the breaker open: nobody tries before this (nanoseconds).
    rests_until: AtomicU64,
}

/// A target chosen for one connect.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Its index in the configuration.
    pub target: usize,
    /// Where it is; none while its name was never found.
    pub address: Option<Address>,
}

impl Pool {
    /// As configured.
    pub fn of(backend: &Backend) -> Self {
        Self::new(backend.balance, &backend.targets)
    }

    /// Targets in the order of the configuration. Names are resolved by somebody else:
    /// [`Pool::set_addresses`].
    pub fn new(balance: Balance, targets: &[Target]) -> Self {
        let targets = targets.iter().map(|target| Member {
            target: target.clone(),
            addresses: Mutex::new(literal(target).into_iter().collect()),
            streams: AtomicU32::new(0),
            up: AtomicBool::new(true),
            draining: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            rests_until: AtomicU64::new(0),
        });
        Self {
            balance,
            targets: targets.collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// How many targets there are.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is no target.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// A target, as configured.
    pub fn target(&self, index: usize) -> &Target {
        &self.targets[index].target
    }

    /// What a target's name stands for now.
    pub fn set_addresses(&self, index: usize, addresses: Vec<SocketAddr>) {
        *self.targets[index].lock_addresses() = addresses;
    }

    /// What the health checks found.
    pub fn set_up(&self, index: usize, up: bool) {
        self.targets[index].up.store(up, Relaxed);
    }

    /// What the operator decided: a target that drains keeps its streams and gets no new ones.
    pub fn set_draining(&self, index: usize, draining: bool) {
        self.targets[index].draining.store(draining, Relaxed);
    }

    /// The addresses a target is known under.
    pub fn addresses(&self, index: usize) -> Vec<Address> {
        let member = &self.targets[index];
        match &member.target {
            Target::Unix(path) => vec![Address::Unix(path.clone())],
            Target::Tcp { .. } => {
                let addresses = member.lock_addresses();
                addresses.iter().copied().map(Address::Tcp).collect()
            }
        }
    }

    /// Chooses a target for a session and counts it there until [`Pool::on_closed`]. `tried` is the
    /// one that just failed: another is preferred where there is one. `None` when no target may be
    /// tried now.
    pub fn pick(
        &self,
        now: Timestamp,
        client_id: Option<u64>,
        tried: Option<usize>,
    ) -> Option<Pick> {
        let usable = |index: &usize| self.targets[*index].is_usable(now);
        let fresh = |index: &usize| usable(index) && Some(*index) != tried;
        // Where all are down somebody still tries, once a rest: the first player who finds that one
        // is back need not wait for the checks to find it too.
        let last_resort = |index: &usize| self.targets[*index].may_be_tried(now);
        let chosen = self
            .choose(client_id, fresh)
            .or_else(|| self.choose(client_id, usable))
            .or_else(|| self.choose(client_id, last_resort))?;
        let member = &self.targets[chosen];
        let address = member.address(member.failures.load(Relaxed));
        member.streams.fetch_add(1, Relaxed);
        member.on_tried(now);
        Some(Pick {
            target: chosen,
            address,
        })
    }

    fn choose(&self, client_id: Option<u64>, usable: impl Fn(&usize) -> bool) -> Option<usize> {
        let count = self.targets.len();
        let from = |first: usize| (0..count).map(move |step| (first + step) % count);
        match (self.balance, client_id) {
            (Balance::First, _) => (0..count).find(usable),
            (Balance::HashClientId, Some(id)) => from(scatter(id) as usize % count).find(usable),
            (Balance::RoundRobin | Balance::HashClientId, _) => {
                from(self.turn.fetch_add(1, Relaxed) % count.max(1)).find(usable)
            }
            (Balance::LeastPeers, _) => (0..count)
                .filter(usable)
                .min_by_key(|&index| self.targets[index].streams.load(Relaxed)),
        }
    }

    /// A connect succeeded.
    pub fn on_connected(&self, index: usize) {
        self.targets[index].failures.store(0, Relaxed);
        self.targets[index].rests_until.store(0, Relaxed);
    }

    /// A connect failed: its stream is gone.
    pub fn on_failed(&self, now: Timestamp, index: usize) {
        let member = &self.targets[index];
        member.streams.fetch_sub(1, Relaxed);
        let failures = member.failures.fetch_add(1, Relaxed) + 1;
        if failures >= BREAKER_FAILURES || !member.up.load(Relaxed) {
            let until = now + BREAKER_REST;
            member.rests_until.store(until.as_nanos(), Relaxed);
        }
    }

    /// A stream that was connected is gone.
    pub fn on_closed(&self, index: usize) {
        self.targets[index].streams.fetch_sub(1, Relaxed);
    }
}

impl Member {
    fn is_usable(&self, now: Timestamp) -> bool {
        self.up.load(Relaxed) && self.may_be_tried(now)
    }

    fn may_be_tried(&self, now: Timestamp) -> bool {
        !self.draining.load(Relaxed) && self.rests_until.load(Relaxed) <= now.as_nanos()
    }

    /// With the breaker open, or down by the checks, this connect is the probe; the next one waits for
    /// its turn.
    fn on_tried(&self, now: Timestamp) {
        if self.failures.load(Relaxed) >= BREAKER_FAILURES || !self.up.load(Relaxed) {
            let until = now + BREAKER_REST;
            self.rests_until.store(until.as_nanos(), Relaxed);
        }
    }

    /// Each failure moves on to the next address of the name.
    fn address(&self, failures: u32) -> Option<Address> {
        match &self.target {
            Target::Unix(path) => Some(Address::Unix(path.clone())),
            Target::Tcp { .. } => {
                let addresses = self.lock_addresses();
                let index = failures as usize % addresses.len().max(1);
                addresses.get(index).copied().map(Address::Tcp)
            }
        }
    }

    fn lock_addresses(&self) -> std::sync::MutexGuard<'_, Vec<SocketAddr>> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A target that failed this often in a row gets one try per rest, so that a dead backend sees a
/// trickle and players hear "denied" at once.
const BREAKER_FAILURES: u32 = 5;
const BREAKER_REST: Duration = Duration::from_secs(1);

fn literal(target: &Target) -> Option<SocketAddr> {
    match target {
        Target::Tcp { host, port } => Some(SocketAddr::new(host.parse().ok()?, *port)),
        Target::Unix(_) => None,
    }
}

/// Neighbouring client ids go to different targets.
fn scatter(id: u64) -> u64 {
    (id ^ (id >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(balance: Balance, count: u16) -> Pool {
        let targets: Vec<_> = (0..count)
            .map(|index| Target::Tcp {
                host: "127.0.0.1".into(),
                port: 7000 + index,
            })
            .collect();
        Pool::new(balance, &targets)
    }

    fn picks(pool: &Pool, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| pool.pick(Timestamp::ZERO, None, None).unwrap().target)
            .collect()
    }

    #[test]
    fn balances_differ() {
        assert_eq!(picks(&pool(Balance::First, 3), 4), [0, 0, 0, 0]);
        assert_eq!(picks(&pool(Balance::RoundRobin, 3), 4), [0, 1, 2, 0]);
        let least = pool(Balance::LeastPeers, 3);
        assert_eq!(picks(&least, 3), [0, 1, 2]);
        least.on_closed(1);
        assert_eq!(picks(&least, 1), [1]);
    }

    #[test]
    fn one_client_id_keeps_its_target() {
        let pool = pool(Balance::HashClientId, 4);
        let target = |id| pool.pick(Timestamp::ZERO, Some(id), None).unwrap().target;
        let first: Vec<_> = (0..64).map(target).collect();
        let second: Vec<_> = (0..64).map(target).collect();
        assert_eq!(first, second);
        for wanted in 0..4 {
            assert!(first.contains(&wanted), "target {wanted} gets nobody");
        }
    }

    #[test]
    fn a_failed_connect_tries_elsewhere_first() {
        let pool = pool(Balance::First, 2);
        assert_eq!(pool.pick(Timestamp::ZERO, None, Some(0)).unwrap().target, 1);
        pool.set_up(1, false);
        assert_eq!(pool.pick(Timestamp::ZERO, None, Some(0)).unwrap().target, 0);
    }

    /// Health checks take seconds to find that a server is back; a player's attempt finds it at once.
    #[test]
    fn a_target_that_is_down_is_tried_once_a_rest_and_open_when_it_answers() {
        let pool = pool(Balance::First, 2);
        let at = Timestamp::from_millis;
        pool.set_up(0, false);
        assert_eq!(pool.pick(at(0), None, None).unwrap().target, 1, "it is up");
        pool.set_up(1, false);
        for (millis, expected) in [(0, Some(0)), (0, Some(1)), (999, None), (1_000, Some(0))] {
            let pick = pool.pick(at(millis), None, None).map(|pick| pick.target);
            assert_eq!(pick, expected, "after {millis} ms");
        }
        pool.on_failed(at(1_000), 0);
        assert_eq!(pool.pick(at(1_001), None, None).unwrap().target, 1);
        assert!(pool.pick(at(1_002), None, None).is_none());
        pool.on_connected(1);
        for _ in 0..3 {
            assert_eq!(pool.pick(at(1_003), None, None).unwrap().target, 1);
            pool.on_connected(1);
        }
        pool.set_draining(0, true);
        pool.set_draining(1, true);
        assert!(
            pool.pick(at(9_000), None, None).is_none(),
            "the operator's word counts"
        );
    }

    #[test]
    fn a_dead_target_gets_a_trickle() {
        let pool = pool(Balance::First, 1);
        for _ in 0..BREAKER_FAILURES {
            pool.pick(Timestamp::ZERO, None, None).unwrap();
            pool.on_failed(Timestamp::ZERO, 0);
        }
        let mut tries = 0;
        for millis in 0..10_000 {
            if pool
                .pick(Timestamp::from_millis(millis), None, None)
                .is_some()
            {
                pool.on_failed(Timestamp::from_millis(millis), 0);
                tries += 1;
            }
        }
        assert_eq!(tries, 9);
        pool.pick(Timestamp::from_millis(11_000), None, None)
            .unwrap();
        pool.on_connected(0);
        assert!(
            pool.pick(Timestamp::from_millis(11_000), None, None)
                .is_some()
        );
    }
}
