//! What a new configuration asks for, compared with what runs. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::bail;

use crate::config::{Listener, Runtime};
use crate::listener::HeldAddress;
use crate::running_listener::{BoundAddress, socket_options};

/// Every value in force, by its path.
pub type Values = BTreeMap<String, String>;

/// A listener that runs, as far as a comparison goes.
pub(super) struct Running {
    pub(super) name: String,
    pub(super) backend: String,
    pub(super) addresses: Vec<BoundAddress>,
    /// It and its backend as a file, as it runs.
    pub(super) recorded: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) added: Vec<Listener>,
    pub(super) removed: Vec<String>,
    pub(super) changed: Vec<Change>,
    /// Paths that take their new values.
    pub(super) applied: BTreeSet<String>,
    /// Paths whose new values wait for a restart.
    pub(super) waiting: Vec<String>,
}

/// A listener that stays, with other rules or other addresses.
#[derive(Debug)]
pub(super) struct Change {
    /// As configured now.
    pub(super) listener: Listener,
    /// To be bound.
    pub(super) added: Vec<SocketAddr>,
    /// As bound; to be let go.
    pub(super) removed: Vec<SocketAddr>,
}

impl Plan {
    pub(super) fn new(
        old: &Values,
        new: &Values,
        listeners: Vec<Listener>,
        running: &[Running],
    ) -> Self {
        let wanted: BTreeSet<&str> = listeners.iter().map(|l| l.name.as_str()).collect();
        let (stay, go): (Vec<&Running>, Vec<&Running>) = running
            .iter()
            .partition(|running| wanted.contains(running.name.as_str()));
        let differ = differences(old, new, &stay);
        let mut plan = Self {
            removed: go.iter().map(|running| running.name.clone()).collect(),
            ..Self::default()
        };
        for listener in listeners {
            match stay.iter().find(|running| running.name == listener.name) {
                Some(running) => plan.compare(listener, running, &differ),
                None => plan.added.push(listener),
            }
        }
        plan.applied.extend(
            differ
                .iter()
                .filter(|path| *path == LEVEL || *path == PEERS_MAX)
                .cloned(),
        );
        let waits = |path: &String| !plan.applied.contains(path);
        plan.waiting = differ.into_iter().filter(waits).collect();
        plan
    }

    /// A listener that stays gets all of its new values or none: a part of the new rules could contradict what has
    /// to stay. One that got none may lack what other listeners have of the backend since, and is still asked for
    /// when the file no longer differs.
    fn compare(&mut self, listener: Listener, running: &Running, differ: &[String]) {
        let own = format!("listener.{}.", running.name);
        let behind = format!("backend.{}.", running.backend);
        let mine = |path: &&String| path.starts_with(&own) || path.starts_with(&behind);
        let mine: Vec<&String> = differ.iter().filter(mine).collect();
        if !mine.iter().all(|path| can_change(path)) {
            return;
        }
        if mine.is_empty() && listener.recorded != running.recorded {
            self.applied.insert(format!("listener.{}", running.name));
        } else if mine.is_empty() {
            return;
        }
        self.applied.extend(mine.into_iter().cloned());
        self.changed.push(Change::new(listener, &running.addresses));
    }

    /// Backends of listeners that come or change.
    pub(super) fn touched_backends(&self) -> BTreeSet<String> {
        let changed = self.changed.iter().map(|change| &change.listener);
        let all = self.added.iter().chain(changed);
        all.map(|listener| listener.backend.name.clone()).collect()
    }

    /// Whether an address is wanted that a socket of ours still has: the kernel would refuse it, or
    /// worse, share it.
    pub(super) fn check_room(&self, runtime: &Runtime, held: &[HeldAddress]) -> anyhow::Result<()> {
        let added = self.added.iter().map(|listener| (listener, &listener.bind));
        let moved = self
            .changed
            .iter()
            .map(|change| (&change.listener, &change.added));
        for (listener, addresses) in added.chain(moved) {
            for &address in addresses {
                let takes_v4 =
                    address.is_ipv4() || !socket_options(runtime, listener, address).only_v6;
                let Some(other) = held.iter().find(|held| overlap(address, takes_v4, held)) else {
                    continue;
                };
                bail!(
                    "listener.{} cannot have {address}: listener.{} has {} until its last peer there \
                     is gone\n help: take it away in one reload, wait until `tidegate ctl stats` shows \
                     it gone, and give it to the other in a second one",
                    listener.name,
                    other.listener,
                    other.address
                );
            }
        }
        Ok(())
    }
}

impl Change {
    fn new(listener: Listener, addresses: &[BoundAddress]) -> Self {
        let had = |asked: &SocketAddr| addresses.iter().any(|address| address.asked == *asked);
        let added = listener.bind.iter().filter(|asked| !had(asked));
        let gone = addresses
            .iter()
            .filter(|address| !listener.bind.contains(&address.asked));
        Self {
            added: added.copied().collect(),
            removed: gone.map(|address| address.bound).collect(),
            listener,
        }
    }
}

/// Paths whose values are not the same, but for those of tables that come, go or are not in use:
/// these are named as a whole.
fn differences(old: &Values, new: &Values, stay: &[&Running]) -> Vec<String> {
    let concerns = |path: &&String| match path.splitn(3, '.').collect::<Vec<_>>()[..] {
        ["listener", name, _] => stay.iter().any(|running| running.name == name),
        ["backend", name, _] => stay.iter().any(|running| running.backend == name),
        ["tunnel", ..] => false,
        _ => true,
    };
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).filter(concerns).collect();
    let differ = paths
        .into_iter()
        .filter(|path| old.get(*path) != new.get(*path));
    differ.cloned().collect()
}

/// Whether one datagram could go to either of two sockets.
fn overlap(address: SocketAddr, takes_v4: bool, held: &HeldAddress) -> bool {
    let (one, other) = (address.ip(), held.address.ip());
    let families = one.is_ipv4() == other.is_ipv4() || (takes_v4 && held.takes_v4);
    let ips = one == other || one.is_unspecified() || other.is_unspecified();
    address.port() != 0 && address.port() == held.address.port() && families && ips
}

/// Whether a listener's or backend's value can change while it serves: not where its sockets and
/// counters are laid out by it.
fn can_change(path: &str) -> bool {
    let key = path.splitn(3, '.').nth(2).unwrap_or_default();
    let fixed = ["protocol", "backend", "follow_address_change"];
    !(path.starts_with("listener.") && fixed.contains(&key))
}

pub(super) const LEVEL: &str = "log.level";
pub(super) const PEERS_MAX: &str = "runtime.max_peers";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Input, load};

    #[test]
    fn what_lays_out_a_listener_stays() {
        for path in [
            "listener.game.protocol",
            "listener.game.backend",
            "listener.game.follow_address_change",
        ] {
            assert!(!can_change(path), "{path}");
        }
        for path in [
            "listener.game.bind",
            "listener.game.max_peers",
            "listener.game.limits.peer_packets.rate",
            "listener.game.netcode.keys",
            "listener.game.netcode.protocol_id",
            "backend.game.connect_timeout",
            "backend.game.targets",
            "backend.game.health.interval",
        ] {
            assert!(can_change(path), "{path}");
        }
    }

    #[test]
    fn sockets_overlap_where_a_datagram_could_go_to_either() {
        for (wanted, takes_v4, has, has_v4, expected) in [
            ("127.0.0.1:7", true, "127.0.0.1:7", true, true),
            ("127.0.0.1:7", true, "127.0.0.1:8", true, false),
            ("127.0.0.1:7", true, "127.0.0.2:7", true, false),
            ("127.0.0.1:7", true, "0.0.0.0:7", true, true),
            ("0.0.0.0:7", true, "127.0.0.1:7", true, true),
            ("0.0.0.0:7", true, "[::]:7", true, true),
            ("0.0.0.0:7", true, "[::]:7", false, false),
            ("[::]:7", false, "0.0.0.0:7", true, false),
            ("[::]:7", true, "0.0.0.0:7", true, true),
            ("[::1]:7", true, "[::]:7", false, true),
            ("127.0.0.1:0", true, "127.0.0.1:7", true, false),
        ] {
            let held = HeldAddress {
                listener: String::new(),
                address: has.parse().unwrap(),
                takes_v4: has_v4,
            };
            let found = overlap(wanted.parse().unwrap(), takes_v4, &held);
            assert_eq!(found, expected, "{wanted} beside {has}");
        }
    }

    fn values(pairs: &[(&str, &str)]) -> Values {
        let pairs = pairs.iter().map(|(path, value)| (path, value));
        pairs
            .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn running(name: &str, recorded: &Arc<str>) -> Running {
        Running {
            name: name.into(),
            backend: "game".into(),
            addresses: Vec::new(),
            recorded: recorded.clone(),
        }
    }

    /// Two listeners have one backend. One of them could not change when it did.
    #[test]
    fn a_listener_that_was_left_behind_catches_up() {
        let text = "version = 1\n[backend.game]\ntargets = [\"tcp://127.0.0.1:9\"]\nframing = \"raw\"\n\
                    [listener.lobby]\nprotocol = \"rudp\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n";
        let input = Input {
            file: Some(("lobby.toml".into(), text.to_owned())),
            ..Input::default()
        };
        let listeners = load(&input).unwrap().config.listeners;
        let plan = |recorded: &Arc<str>, new: &[(&str, &str)]| {
            let running = [running("lobby", recorded)];
            Plan::new(&Values::new(), &values(new), listeners.clone(), &running)
        };
        let (today, before) = (&listeners[0].recorded, &Arc::from("with another backend"));
        let same = plan(today, &[]);
        assert_eq!((same.changed.len(), same.applied.len()), (0, 0));
        let fixed = plan(before, &[("listener.lobby.protocol", "rudp")]);
        assert_eq!((fixed.changed.len(), fixed.applied.len()), (0, 0));
        let late = plan(before, &[]);
        assert_eq!(late.changed.len(), 1);
        assert!(late.applied.contains("listener.lobby"), "{late:?}");
    }

    #[test]
    fn only_what_is_in_use_differs() {
        let old = values(&[
            ("runtime.workers", "1"),
            ("listener.game.max_peers", "1"),
            ("listener.old.max_peers", "1"),
            ("backend.game.stall", "1"),
            ("backend.spare.stall", "1"),
            ("tunnel.home.framing", "1"),
        ]);
        let new = values(&[
            ("runtime.workers", "2"),
            ("listener.game.max_peers", "2"),
            ("listener.new.max_peers", "2"),
            ("backend.game.stall", "2"),
            ("backend.spare.stall", "2"),
        ]);
        assert_eq!(
            differences(&old, &new, &[&running("game", &Arc::default())]),
            [
                "backend.game.stall",
                "listener.game.max_peers",
                "runtime.workers"
            ]
        );
    }
}
