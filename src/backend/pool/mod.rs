//! The targets of a backend and the addresses they stand for: which one a new session gets, and which
//! ones are left alone for a while.
//!
//! ```text
//!   pool ─┬─ target tcp://game:7000 ─┬─ place 10.0.0.3:7000    a name may stand for several servers:
//!         │                          └─ place 10.0.0.4:7000    each has its own part in the balance
//!         └─ target unix:/run/game.sock ── place /run/game.sock
//! ```
//!
//! Shared by all workers and the control plane, behind one lock: it is held for a look at the places
//! when a stream is opened or closed, never per message.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::bail;
use tidegate_proto::Timestamp;
use tokio::sync::Notify;

use super::Address;
use super::place::Place;
use crate::config::{Backend, Balance, Health, Target};

/// A backend's targets.
#[derive(Debug)]
pub struct Pool {
    /// The backend's name.
    name: String,
    members: Mutex<Members>,
}

#[derive(Debug)]
struct Members {
    balance: Balance,
    /// Somebody asks whether they are there; otherwise connects tell.
    checked: bool,
    /// In the order of the counters, which a target keeps for ever: those that a reload removed are
    /// here for their streams, and in case that they come back.
    targets: Vec<Member>,
    /// Those that are in use, in the order of the configuration.
    in_use: Vec<usize>,
    /// Sessions sent somewhere.
    turn: usize,
    /// Of the next place.
    number: u32,
}

#[derive(Debug)]
struct Member {
    target: Target,
    /// What the operator says: no new streams.
    draining: bool,
    /// Never none. Those of the preferred family first, each family in the order of addresses: name
    /// servers turn theirs.
    places: Vec<Place>,
    /// A connect failed: its name may stand for another address by now.
    failed: Arc<Notify>,
    checks_ok: u64,
    checks_failed: u64,
}

/// What was chosen for one connect: a target, by its index among the counters, and one of its
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    pub target: usize,
    place: u32,
}

/// An address of a target takes connections from now on, or no longer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    pub backend: String,
    pub target: Target,
    pub address: Option<Address>,
    pub up: bool,
    /// The target with it: it was the last that did, or is the first.
    pub whole: bool,
}

/// What is known about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// One of its addresses takes connections.
    pub up: bool,
    pub draining: bool,
    /// A reload removed it.
    pub leaving: bool,
    /// How many its name stands for, and how many of them are up.
    pub addresses: usize,
    pub addresses_up: usize,
    pub checks_ok: u64,
    pub checks_failed: u64,
}

impl Pool {
    /// As configured.
    pub fn of(backend: &Backend) -> Self {
        let mut pool = Self::new(backend.balance, &backend.targets);
        pool.name.clone_from(&backend.name);
        pool.lock().checked = backend.health.is_some();
        pool
    }

    /// Targets in the order of the configuration, which nobody checks. Names are resolved by somebody
    /// else: [`Pool::set_addresses`].
    pub fn new(balance: Balance, targets: &[Target]) -> Self {
        let mut members = Members {
            balance,
            checked: false,
            targets: Vec::new(),
            in_use: Vec::new(),
            turn: 0,
            number: 0,
        };
        members.set_targets(targets);
        Self {
            name: String::new(),
            members: Mutex::new(members),
        }
    }

    /// The backend's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As configured from now on: a target that is gone keeps its streams and gets no new ones.
    pub fn update(&self, backend: &Backend) {
        let mut members = self.lock();
        members.balance = backend.balance;
        members.set_targets(&backend.targets);
        members.set_checked(backend.health.is_some());
    }

    /// Whether there is room for the counters of these targets.
    pub fn check_room(&self, targets: &[Target]) -> anyhow::Result<()> {
        let members = self.lock();
        let new = targets.iter().filter(|it| members.find(it).is_none());
        let count = members.targets.len() + new.count();
        if count > TARGETS_MAX {
            bail!(
                "backend.{}.targets: with these it has had {count} since the start, and counters are kept \
                 of {TARGETS_MAX}\n help: restart, or keep some of the old ones",
                self.name
            );
        }
        Ok(())
    }

    /// How many targets there are or were.
    pub fn len(&self) -> usize {
        self.lock().targets.len()
    }

    /// Whether there is no target.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that are in use.
    pub fn in_use(&self) -> Vec<usize> {
        self.lock().in_use.clone()
    }

    /// A target, as configured.
    pub fn target(&self, index: usize) -> Target {
        self.lock().targets[index].target.clone()
    }

    /// Over how many addresses the attempts of one session may go.
    pub fn choices(&self) -> usize {
        let members = self.lock();
        let open = members.open();
        open.map(|(_, member)| member.present().count()).sum()
    }

    /// Whether somebody checks its targets.
    pub fn is_checked(&self) -> bool {
        self.lock().checked
    }

    /// What is known about each target.
    pub fn states(&self) -> Vec<TargetState> {
        let members = self.lock();
        let states = members.targets.iter().enumerate();
        let states = states.map(|(index, member)| {
            let well = |place: &&Place| place.is_well(members.checked);
            let addresses_up = member.present().filter(well).count();
            TargetState {
                up: addresses_up > 0,
                draining: member.draining,
                leaving: !members.in_use.contains(&index),
                addresses: member.present().count(),
                addresses_up,
                checks_ok: member.checks_ok,
                checks_failed: member.checks_failed,
            }
        });
        states.collect()
    }

    /// What a target's name stands for now, those that a connect should prefer first. A new one of a
    /// target that is down has to be found up first.
    pub fn set_addresses(&self, index: usize, found: &[SocketAddr]) -> Option<Turned> {
        let mut members = self.lock();
        let Members {
            checked,
            targets,
            number,
            ..
        } = &mut *members;
        let member = &mut targets[index];
        let was_up = member.is_up(*checked);
        member.set_addresses(*checked, number, found);
        (member.is_up(*checked) != was_up).then(|| Turned {
            backend: self.name.clone(),
            target: member.target.clone(),
            address: None,
            up: !was_up,
            whole: true,
        })
    }

    /// The addresses of a target, for checks.
    pub fn addresses(&self, index: usize) -> Vec<(Pick, Option<Address>)> {
        let members = self.lock();
        let places = members.targets[index].present().map(|place| {
            let pick = Pick {
                target: index,
                place: place.number,
            };
            (pick, place.address.clone())
        });
        places.collect()
    }

    /// Told when a connect to a target has failed.
    pub fn failed(&self, index: usize) -> Arc<Notify> {
        self.lock().targets[index].failed.clone()
    }

    /// What the operator decided: a target that drains keeps its streams and gets no new ones. Says
    /// whether it is one.
    pub fn set_draining(&self, target: &str, draining: bool) -> bool {
        let mut members = self.lock();
        let is_meant = |index: &&usize| members.targets[**index].target.to_string() == target;
        let Some(index) = members.in_use.iter().find(is_meant).copied() else {
            return false;
        };
        members.targets[index].draining = draining;
        true
    }

    /// Chooses for a session and counts it there until [`Pool::on_closed`]. `tried` is the one that
    /// just failed: another is preferred where there is one. `None` when nothing may be tried now; no
    /// address while the name of all that may be was never found.
    pub fn pick(
        &self,
        now: Timestamp,
        client_id: Option<u64>,
        tried: Option<Pick>,
    ) -> Option<(Pick, Option<Address>)> {
        let mut members = self.lock();
        let is_other = |pick: Pick| Some(pick) != tried;
        // Where all are down somebody still tries, once a rest: the first player who finds that one
        // is back need not wait for the checks to find it too.
        let pick = members
            .choose(client_id, |pick, place| {
                place.is_usable(now) && is_other(pick)
            })
            .or_else(|| members.choose(client_id, |_, place| place.is_usable(now)))
            .or_else(|| members.choose(client_id, |_, place| place.may_be_tried(now)))?;
        members.turn = members.turn.wrapping_add(1);
        let place = members.place(pick)?;
        place.on_tried(now);
        Some((pick, place.address.clone()))
    }

    /// A connect succeeded.
    pub fn on_connected(&self, pick: Pick) -> Option<Turned> {
        self.change(pick, Place::on_connected)
    }

    /// A connect failed: its stream is gone.
    pub fn on_failed(&self, now: Timestamp, pick: Pick) -> Option<Turned> {
        self.lock().targets[pick.target].failed.notify_one();
        self.change(pick, |place| place.on_failed(now))
    }

    /// A stream that was connected is gone.
    pub fn on_closed(&self, pick: Pick) {
        self.change(pick, Place::on_closed);
    }

    /// A check has an answer.
    pub fn on_checked(&self, pick: Pick, well: bool, health: &Health) -> Option<Turned> {
        self.lock().targets[pick.target].count_check(well);
        self.change(pick, |place| place.on_checked(well, health))
    }

    fn change(&self, pick: Pick, change: impl FnOnce(&mut Place)) -> Option<Turned> {
        let mut members = self.lock();
        let checked = members.checked;
        let was_up = members.targets[pick.target].is_up(checked);
        let place = members.place(pick)?;
        let was_well = place.is_well(checked);
        change(place);
        let (up, address) = (place.is_well(checked), place.address.clone());
        let member = &mut members.targets[pick.target];
        member.forget_those_who_left();
        (up != was_well).then(|| Turned {
            backend: self.name.clone(),
            target: member.target.clone(),
            address,
            up,
            whole: member.is_up(checked) != was_up,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn set_targets(&mut self, targets: &[Target]) {
        let was_in_use = std::mem::take(&mut self.in_use);
        for target in targets {
            let index = self.find(target).unwrap_or_else(|| {
                self.add(target);
                self.targets.len() - 1
            });
            // An order to drain does not outlive what it was for.
            self.targets[index].draining &= was_in_use.contains(&index);
            self.in_use.push(index);
        }
    }

    /// Its targets are checked from now on, or no more.
    fn set_checked(&mut self, checked: bool) {
        self.checked = checked;
        if !checked {
            let all = self.targets.iter_mut();
            all.flat_map(|member| &mut member.places)
                .for_each(Place::forget_checks);
        }
    }

    fn find(&self, target: &Target) -> Option<usize> {
        let mut all = self.targets.iter();
        all.position(|member| member.target == *target)
    }

    /// Those that take new streams.
    fn open(&self) -> impl Iterator<Item = (usize, &Member)> {
        let in_use = self.in_use.iter();
        let all = in_use.map(|&index| (index, &self.targets[index]));
        all.filter(|(_, member)| !member.draining)
    }

    fn add(&mut self, target: &Target) {
        let address = match target {
            Target::Unix(path) => Some(Address::Unix(path.clone())),
            Target::Tcp { host, port } => {
                let ip = host.parse().ok();
                ip.map(|ip| Address::Tcp(SocketAddr::new(ip, *port)))
            }
        };
        self.targets.push(Member {
            target: target.clone(),
            draining: false,
            places: vec![Place::new(self.number, address, true)],
            failed: Arc::default(),
            checks_ok: 0,
            checks_failed: 0,
        });
        self.number += 1;
    }

    fn place(&mut self, pick: Pick) -> Option<&mut Place> {
        let mut places = self.targets[pick.target].places.iter_mut();
        places.find(|place| place.number == pick.place)
    }

    fn choose(
        &self,
        client_id: Option<u64>,
        usable: impl Fn(Pick, &Place) -> bool,
    ) -> Option<Pick> {
        let usable = &usable;
        let mut candidates = self.open().flat_map(|(target, member)| {
            let pick = move |place: &Place| Pick {
                target,
                place: place.number,
            };
            let places = member.candidates(move |place| usable(pick(place), place));
            places.map(move |place| (pick(place), place))
        });
        let chosen = match (self.balance, client_id) {
            (Balance::First, _) => candidates.next(),
            // Whoever comes or goes, the others keep theirs.
            (Balance::HashClientId, Some(id)) => {
                candidates.max_by_key(|(_, place)| affinity(id, place.address.as_ref()))
            }
            (Balance::RoundRobin | Balance::HashClientId, _) => {
                let mut candidates: Vec<_> = candidates.collect();
                let next = self.turn.checked_rem(candidates.len());
                next.map(|next| candidates.swap_remove(next))
            }
            // The first of those with the fewest.
            (Balance::LeastPeers, _) => candidates.min_by_key(|(_, place)| place.streams),
        };
        chosen.map(|(pick, _)| pick)
    }
}

impl Member {
    /// Those that the target stands for now.
    fn present(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| !place.gone)
    }

    fn count_check(&mut self, well: bool) {
        self.checks_ok += u64::from(well);
        self.checks_failed += u64::from(!well);
        if !well {
            self.failed.notify_one();
        }
    }

    fn is_up(&self, checked: bool) -> bool {
        self.present().any(|place| place.is_well(checked))
    }

    /// Those of one family: the two that a name has lead to the same servers as a rule, so the other
    /// is there for when nothing of the preferred one is (`localhost`, and a server that has one).
    fn candidates(&self, usable: impl Fn(&Place) -> bool) -> impl Iterator<Item = &Place> {
        let family = |place: &Place| matches!(place.address, Some(Address::Tcp(SocketAddr::V6(_))));
        let first = self.places.iter().find(|place| usable(place)).map(family);
        let places = self.places.iter();
        places.filter(move |place| first == Some(family(place)) && usable(place))
    }

    fn set_addresses(&mut self, checked: bool, number: &mut u32, found: &[SocketAddr]) {
        let Some(preferred) = found.first() else {
            return;
        };
        let mut found = found.to_vec();
        found.sort_by_key(|address| (address.is_ipv4() != preferred.is_ipv4(), *address));
        found.dedup();
        let up = self.is_up(checked);
        let mut before = std::mem::take(&mut self.places);
        before.iter_mut().for_each(|place| place.gone = true);
        for address in found.into_iter().map(Address::Tcp).map(Some) {
            let known = before.iter().position(|place| place.address == address);
            let place = known.map(|known| before.swap_remove(known));
            let mut place = place.unwrap_or_else(|| {
                *number += 1;
                Place::new(*number - 1, address, up)
            });
            place.gone = false;
            self.places.push(place);
        }
        self.places.append(&mut before);
        self.forget_those_who_left();
    }

    fn forget_those_who_left(&mut self) {
        self.places.retain(|place| !place.gone || place.streams > 0);
    }
}

/// How much a client belongs to an address: each to one of them, and another for its neighbour.
fn affinity(id: u64, address: Option<&Address>) -> u64 {
    let text = address.map(ToString::to_string).unwrap_or_default();
    // FNV-1a, then the mixer of splitmix64: the same everywhere, so that several tidegates agree.
    let bytes = id.to_le_bytes().into_iter().chain(text.into_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Targets of one backend that ever were: each costs every worker its counters.
const TARGETS_MAX: usize = 1024;

#[cfg(test)]
mod tests;
