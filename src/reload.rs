//! A new configuration while peers play: all of it is read and checked before anything changes.
//!
//! ```text
//!   read ──▶ check ──▶ what changed ──▶ build ──▶ swap, listener by listener
//!     └────────┴── a mistake: nothing changes, and the answer says which
//! ```
//!
//! New sessions get the new values; sessions that live keep theirs. Listeners that did not change
//! are not touched. What only a restart can change is left as it is, and said.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use anyhow::Context;

use crate::config::{Listener, Loaded, Protocol, fingerprint};
use crate::logging::Logging;
use crate::protocol::Door;

/// Where the configuration comes from, each time it is asked.
pub type Source = Box<dyn Fn() -> anyhow::Result<Loaded> + Send>;

/// What is in force, and the ways to change it.
pub struct Site {
    source: Source,
    /// Every value in force, by its path.
    values: BTreeMap<String, String>,
    /// By the names of their listeners.
    posts: HashMap<String, Post>,
    logging: Logging,
}

/// A listener that can be given new rules.
pub struct Post {
    /// What lets peers in.
    pub door: Door,
    /// Where its sockets are.
    pub bound: Vec<SocketAddr>,
    /// How many endpoints it has over all workers.
    pub shards: usize,
}

/// What a reload did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Paths whose new values are in force.
    pub applied: Vec<String>,
    /// Paths whose new values wait for a restart.
    pub waiting: Vec<String>,
    /// Listeners with new rules, to be handed to the workers.
    pub changed: Vec<Changed>,
}

/// A listener with new rules.
#[derive(Debug)]
pub struct Changed {
    /// As configured now.
    pub listener: Listener,
    /// Where its sockets are.
    pub bound: Vec<SocketAddr>,
    /// How many endpoints it has over all workers.
    pub shards: usize,
}

impl Site {
    /// As started.
    pub fn new(
        source: Source,
        loaded: &Loaded,
        posts: HashMap<String, Post>,
        logging: Logging,
    ) -> Self {
        Self {
            source,
            values: values(loaded),
            posts,
            logging,
        }
    }

    /// Reads again; on an error nothing has changed.
    pub fn reload(&mut self) -> anyhow::Result<Outcome> {
        let loaded = (self.source)()?;
        let new = values(&loaded);
        let paths: BTreeSet<&String> = self.values.keys().chain(new.keys()).collect();
        let differ = paths
            .into_iter()
            .filter(|path| self.values.get(*path) != new.get(*path));
        let differ: Vec<String> = differ.cloned().collect();
        let mut outcome = Outcome::default();
        let mut taken = BTreeSet::new();
        for listener in loaded.config.listeners {
            let own = format!("listener.{}.", listener.name);
            let behind = format!("backend.{}.", listener.backend.name);
            let mine = |path: &&String| path.starts_with(&own) || path.starts_with(&behind);
            let mine: Vec<&String> = differ.iter().filter(mine).collect();
            // A part of the new rules could contradict what has to stay.
            let fits = mine.iter().all(|path| can_change(path));
            let Some(post) = self
                .posts
                .get_mut(&listener.name)
                .filter(|_| fits && !mine.is_empty())
            else {
                continue;
            };
            post.door.update(&listener, &post.bound)?;
            taken.extend(mine.into_iter().cloned());
            outcome.changed.push(Changed {
                bound: post.bound.clone(),
                shards: post.shards,
                listener,
            });
        }
        if differ.iter().any(|path| path == LEVEL) {
            let level = &loaded.config.log.level;
            self.logging
                .set_level(level)
                .map_err(anyhow::Error::msg)
                .context(LEVEL)?;
            taken.insert(LEVEL.to_owned());
        }
        for path in differ {
            if !taken.contains(&path) {
                outcome.waiting.push(path);
                continue;
            }
            match new.get(&path) {
                Some(value) => self.values.insert(path.clone(), value.clone()),
                None => self.values.remove(&path),
            };
            outcome.applied.push(path);
        }
        Ok(outcome)
    }
}

const LEVEL: &str = "log.level";

/// Every value as one would type it; keys by fingerprint, since a file's name says nothing about
/// what is in it.
fn values(loaded: &Loaded) -> BTreeMap<String, String> {
    let typed = loaded.effective.iter();
    let mut values: BTreeMap<_, _> = typed
        .map(|value| (value.path.clone(), value.value.clone()))
        .collect();
    for listener in &loaded.config.listeners {
        if let Protocol::Yojimbo(own) = &listener.protocol {
            let keys: Vec<_> = own.netcode.keys.iter().map(fingerprint).collect();
            let path = format!("listener.{}.netcode.keys", listener.name);
            values.insert(path, keys.join(" "));
        }
    }
    values
}

/// Whether a listener's or backend's value can change while it serves: not where its sockets,
/// seats and counters are laid out by it.
fn can_change(path: &str) -> bool {
    let key = path.splitn(3, '.').nth(2).unwrap_or_default();
    let fixed = if path.starts_with("listener.") {
        &[
            "protocol",
            "bind",
            "backend",
            "max_peers",
            "follow_address_change",
        ][..]
    } else {
        &["targets", "balance", "dns_refresh", "health"][..]
    };
    !fixed.iter().any(|fixed| {
        key.strip_prefix(fixed)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lays_out_a_listener_stays() {
        for path in [
            "listener.game.bind",
            "listener.game.max_peers",
            "backend.game.targets",
            "backend.game.health.interval",
        ] {
            assert!(!can_change(path), "{path}");
        }
        for path in [
            "listener.game.limits.peer_packets.rate",
            "listener.game.netcode.keys",
            "listener.game.netcode.protocol_id",
            "backend.game.connect_timeout",
        ] {
            assert!(can_change(path), "{path}");
        }
    }
}
