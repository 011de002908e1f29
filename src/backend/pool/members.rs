//! Who is in a pool: its targets, each with the addresses it stands for, and which of them is next.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_proto::Timestamp;
use tokio::sync::Notify;

use super::{Failing, Pick, Shut, TargetState};
use crate::backend::Address;
use crate::backend::place::Place;
use crate::config::{Balance, Target};

/// Behind the lock of a pool.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) balance: Balance,
    /// Somebody asks whether they are there; otherwise connects tell.
    pub(super) checked: bool,
    /// In the order of the counters, which a target keeps for ever: those that a reload removed are
    /// here for their streams, and in case that they come back.
    pub(super) targets: Vec<Member>,
    /// Those that are in use, in the order of the configuration.
    pub(super) in_use: Vec<usize>,
    /// Sessions sent somewhere.
    pub(super) turn: usize,
    /// Number of the next place.
    number: u32,
}

/// A target.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) target: Target,
    /// What the operator says: no new streams.
    pub(super) draining: bool,
    /// Never none. Those of the preferred family first, each family in the order of addresses: name
    /// servers turn theirs.
    pub(super) places: Vec<Place>,
    /// A connect failed: its name may stand for another address by now.
    pub(super) failed: Arc<Notify>,
    /// It ended many streams at once: is it there?
    pub(super) suspect: Arc<Notify>,
    checks_ok: u64,
    checks_failed: u64,
    pub(super) failing: Option<Failing>,
    pub(super) crashes: u64,
    pub(super) last_crash: Option<Timestamp>,
}

impl Members {
    pub(super) fn new(balance: Balance, targets: &[Target]) -> Self {
        let mut members = Self {
            balance,
            checked: false,
            targets: Vec::new(),
            in_use: Vec::new(),
            turn: 0,
            number: 0,
        };
        members.set_targets(targets);
        members
    }

    pub(super) fn set_targets(&mut self, targets: &[Target]) {
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
    pub(super) fn set_checked(&mut self, checked: bool) {
        self.checked = checked;
        if !checked {
            let all = self.targets.iter_mut();
            all.flat_map(|member| &mut member.places)
                .for_each(Place::forget_checks);
        }
    }

    pub(super) fn find(&self, target: &Target) -> Option<usize> {
        let mut all = self.targets.iter();
        all.position(|member| member.target == *target)
    }

    /// Those that take new streams.
    pub(super) fn open(&self) -> impl Iterator<Item = (usize, &Member)> {
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
            suspect: Arc::default(),
            checks_ok: 0,
            checks_failed: 0,
            failing: None,
            crashes: 0,
            last_crash: None,
        });
        self.number += 1;
    }

    /// What is known about each target.
    pub(super) fn states(&self) -> Vec<TargetState> {
        let states = self.targets.iter().enumerate();
        let states = states.map(|(index, member)| {
            let addresses_up = member.present().filter(|it| it.is_well(self.checked));
            let addresses_up = addresses_up.count();
            TargetState {
                up: addresses_up > 0,
                draining: member.draining,
                leaving: !self.in_use.contains(&index),
                addresses: member.present().count(),
                addresses_up,
                checks_ok: member.checks_ok,
                checks_failed: member.checks_failed,
                failing: member.failing,
                crashes: member.crashes,
                last_crash: member.last_crash,
            }
        });
        states.collect()
    }

    /// Why newcomers find no target here, if so.
    pub(super) fn shut(&self) -> Option<Shut> {
        let states = self.states();
        Shut::of(self.in_use.iter().map(|&index| states[index]))
    }

    /// What a target's name stands for now; says whether that turned it.
    pub(super) fn set_addresses(&mut self, index: usize, found: &[SocketAddr]) -> bool {
        let member = &mut self.targets[index];
        let was_up = member.is_up(self.checked);
        member.set_addresses(self.checked, &mut self.number, found);
        member.is_up(self.checked) != was_up
    }

    pub(super) fn place(&mut self, pick: Pick) -> Option<&mut Place> {
        let mut places = self.targets[pick.target].places.iter_mut();
        places.find(|place| place.number == pick.place)
    }

    pub(super) fn choose(
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
            // Whichever targets come or go, the others keep theirs.
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
    pub(super) fn present(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| !place.gone)
    }

    pub(super) fn count_check(&mut self, well: bool) {
        self.checks_ok += u64::from(well);
        self.checks_failed += u64::from(!well);
        if !well {
            self.failed.notify_one();
        }
    }

    pub(super) fn is_up(&self, checked: bool) -> bool {
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

    pub(super) fn forget_those_who_left(&mut self) {
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
