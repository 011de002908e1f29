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

mod members;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::bail;
use tidegate_proto::Timestamp;
use tokio::sync::Notify;

use members::Members;

use super::Address;
use super::place::Place;
use crate::config::{Backend, Balance, Health, Target};
use crate::counters::ConnectFailure;

/// A backend's targets.
#[derive(Debug)]
pub struct Pool {
    /// The backend's name.
    name: String,
    members: Mutex<Members>,
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
    /// Why newcomers find no target of the backend now, if so.
    pub shut: Option<Shut>,
}

/// What is known about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// One of its addresses takes connections.
    pub up: bool,
    pub draining: bool,
    /// A reload removed it, or its backend.
    pub leaving: bool,
    /// How many its name stands for, and how many of them are up.
    pub addresses: usize,
    pub addresses_up: usize,
    pub checks_ok: u64,
    pub checks_failed: u64,
    /// The last check of it failed.
    pub failing: Option<Failing>,
    /// How often it has crashed since the start, and when it did last.
    pub crashes: u64,
    pub last_crash: Option<Timestamp>,
}

/// Checks of a target that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// When the first of them did, of those in a row.
    pub since: Timestamp,
    /// Why the last of them did.
    pub why: ConnectFailure,
}

/// Why newcomers find no target of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// None is up.
    Down,
    /// All are drained by hand, whether or not they are up.
    Drained,
    /// None that is up takes newcomers: it is drained by hand, and the others are down.
    DownOrDrained,
}

impl Shut {
    /// Why these targets take no newcomers, if they do not. A backend without targets is not shut.
    pub fn of(targets: impl Iterator<Item = TargetState> + Clone) -> Option<Self> {
        let mut all = targets.clone().peekable();
        all.peek()?;
        if all.any(|target| target.up && !target.draining) {
            return None;
        }
        let (mut ups, mut drains) = (targets.clone(), targets);
        Some(match (ups.any(|it| it.up), drains.all(|it| it.draining)) {
            (_, true) => Self::Drained,
            (true, false) => Self::DownOrDrained,
            (false, false) => Self::Down,
        })
    }

    /// For the operator whose order made it so.
    pub fn warning(self, backend: &str) -> String {
        let why = self.text();
        format!("no target of backend {backend} {why}; newcomers are denied")
    }

    /// The end of "no target of backend game ...".
    pub const fn text(self) -> &'static str {
        match self {
            Self::Down => "is up",
            Self::Drained => "takes newcomers: all are drained by hand",
            Self::DownOrDrained => "takes newcomers: each is down or drained by hand",
        }
    }
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
        Self {
            name: String::new(),
            members: Mutex::new(Members::new(balance, targets)),
        }
    }

    /// The backend's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As configured from now on: a target that is gone keeps its streams and gets no new ones. Of those that come, what
    /// their names were found to stand for.
    pub fn update(&self, backend: &Backend, found: &[(Target, Vec<SocketAddr>)]) {
        let mut members = self.lock();
        let come = |(target, _): &&(Target, _)| members.find(target).is_none();
        let come: Vec<_> = found.iter().filter(come).collect();
        members.balance = backend.balance;
        members.set_targets(&backend.targets);
        members.set_checked(backend.health.is_some());
        for (target, addresses) in come {
            if let Some(index) = members.find(target) {
                // It was up, as all that come are, and still is.
                members.set_addresses(index, addresses);
            }
        }
    }

    /// Those of these targets that have not been here before, and have to be looked up.
    pub fn new_names(&self, targets: &[Target]) -> Vec<Target> {
        let members = self.lock();
        let is_new = |target: &&Target| target.has_name() && members.find(target).is_none();
        targets.iter().filter(is_new).cloned().collect()
    }

    /// Targets in use whose name was never found.
    pub fn never_found(&self) -> Vec<Target> {
        let members = self.lock();
        let in_use = members.in_use.iter().map(|&index| &members.targets[index]);
        let lost = in_use.filter(|member| member.places.iter().all(|it| it.address.is_none()));
        lost.map(|member| member.target.clone()).collect()
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
        self.lock().states()
    }

    /// Why newcomers find no target here, if so.
    pub fn shut(&self) -> Option<Shut> {
        self.lock().shut()
    }

    /// What a target's name stands for now, those that a connect should prefer first. A new one of a
    /// target that is down has to be found up first.
    pub fn set_addresses(&self, index: usize, found: &[SocketAddr]) -> Option<Turned> {
        let mut members = self.lock();
        let turned = members.set_addresses(index, found);
        let member = &members.targets[index];
        turned.then(|| Turned {
            backend: self.name.clone(),
            target: member.target.clone(),
            address: None,
            up: member.is_up(members.checked),
            whole: true,
            shut: members.shut(),
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

    /// Which of a target's addresses it was, if its name stands for some.
    pub fn address_of(&self, pick: Pick) -> Option<Address> {
        let mut members = self.lock();
        let has_name = members.targets[pick.target].target.has_name();
        let place = members.place(pick)?;
        place.address.clone().filter(|_| has_name)
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

    /// A target ended a stream. Once it has ended many since the last check, another one is due at once. Who drains a game
    /// server wants to stop it.
    pub fn on_ended(&self, pick: Pick) {
        let mut members = self.lock();
        let is_wanted = members.targets[pick.target].draining;
        if members.checked && !is_wanted && members.place(pick).is_some_and(Place::on_ended) {
            members.targets[pick.target].suspect.notify_one();
        }
    }

    /// Whether [`Pool::on_ended`] asked for a check of this address since this was last asked.
    pub fn take_suspicion(&self, pick: Pick) -> bool {
        let mut members = self.lock();
        members.place(pick).is_some_and(Place::take_suspicion)
    }

    /// Whether another check is to say why one of its addresses ended many streams.
    pub fn is_suspect(&self, index: usize) -> bool {
        self.lock().targets[index]
            .places
            .iter()
            .any(Place::is_suspect)
    }

    /// It had ended many streams, and was not there right after. False of one that is known to have crashed.
    pub(crate) fn on_crash(&self, now: Timestamp, pick: Pick) -> bool {
        let mut members = self.lock();
        let is_news = members.place(pick).is_some_and(Place::on_crash);
        if is_news {
            let member = &mut members.targets[pick.target];
            member.crashes += 1;
            member.last_crash = Some(now);
        }
        is_news
    }

    /// A check failed for this reason, or none and did not.
    pub(crate) fn note_failure(&self, now: Timestamp, pick: Pick, why: Option<ConnectFailure>) {
        let member = &mut self.lock().targets[pick.target];
        let since = member.failing.map_or(now, |failing| failing.since);
        member.failing = why.map(|why| Failing { since, why });
    }

    /// Told when a check is due before its time.
    pub fn suspect(&self, index: usize) -> Arc<Notify> {
        self.lock().targets[index].suspect.clone()
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
        members.targets[pick.target].forget_those_who_left();
        let member = &members.targets[pick.target];
        (up != was_well).then(|| Turned {
            backend: self.name.clone(),
            target: member.target.clone(),
            address,
            up,
            whole: member.is_up(checked) != was_up,
            shut: members.shut(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Targets of one backend that ever were: each costs every worker its counters.
const TARGETS_MAX: usize = 1024;

#[cfg(test)]
mod tests;
