//! A new configuration while peers play: all of it is read, checked and bound before anything
//! changes.
//!
//! ```text
//!   read ──▶ check ──▶ compare ──▶ bind new sockets ──▶ serve them, change rules, let old ones go
//!     └────────┴──────────┴──────────────┴── a mistake: nothing changes, and the answer says which
//! ```
//!
//! New sessions get the new values; sessions that live keep theirs. Listeners that did not change
//! are not touched; those that are gone tell their peers, and have `drain.grace` for it. What only
//! a restart can change is left as it is, and said.

mod outcome;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::backend::{Pool, advice, health};
use crate::backends::Backends;
use crate::config::{Backend, Drain, Listener, Loaded, Protocol, Target, fingerprint};
use crate::listener::HeldAddress;
use crate::logging::Logging;
use crate::running_listener::{
    BoundAddress, Common, Opening, RunningListener, Shares, Sockets, bind,
};
use crate::workers::Workers;
pub use outcome::{NoReload, Outcome};
pub use plan::Values;
use plan::{Change, LEVEL, PEERS_MAX, Plan, Running};

/// Where the configuration comes from, each time it is asked.
pub type Source = Box<dyn Fn() -> anyhow::Result<Loaded> + Send>;

/// What is in force, and the ways to change it.
pub struct Reloader {
    pub source: Source,
    pub values: Values,
    pub common: Common,
    /// As the process began: a restart changes it.
    pub drain: Drain,
    pub listeners: Vec<RunningListener>,
    pub backends: Arc<Backends>,
    pub workers: Workers,
    pub logging: Logging,
}

/// Backends that come, by name, with the pools that their listeners have already.
type NewBackends = BTreeMap<String, (Arc<Backend>, Arc<Pool>)>;

/// A listener that changes, with its new sockets bound.
struct Moving {
    change: Change,
    addresses: Vec<BoundAddress>,
    shares: Shares,
}

impl Reloader {
    /// Reads again; on an error nothing has changed, unless it is a bug.
    pub async fn reload(&mut self) -> anyhow::Result<Outcome> {
        self.refuse_at_the_end()?;
        let loaded = (self.source)()?;
        let new = values(&loaded);
        let running: Vec<Running> = self.listeners.iter().map(Running::from).collect();
        let mut plan = Plan::new(&self.values, &new, loaded.config.listeners, &running);
        self.check_names(&plan)?;
        let held = self.workers.ask(|_, own| own.held_address()).await?;
        let held: Vec<HeldAddress> = held.into_iter().flatten().collect();
        plan.check_room(&self.common.runtime, &held)?;
        self.check_targets(&plan)?;
        let touched = plan.touched_backends();
        // Before anything changes: newcomers find the targets that come at once.
        let found = health::find(self.new_names(&plan)).await;
        let mut pools = BTreeMap::new();
        let added = std::mem::take(&mut plan.added);
        let openings = self.open(&added, &mut pools)?;
        let moves = self.bind_moves(std::mem::take(&mut plan.changed))?;

        let mut outcome = Outcome::default();
        self.look_up(pools, &mut outcome).await;
        // That may have taken seconds. A worker that ends takes no listener, and one that is shown and never
        // reports looks like a worker that hangs.
        self.refuse_at_the_end()?;
        // From here on nothing fails for what is in the file: of what can still return an error, the level was
        // read with the file, and a listener whose protocol differs is not among the moves.
        self.begin(openings, &mut outcome);
        self.change(moves, &found, &mut outcome)?;
        self.end(&plan.removed, &mut outcome);
        if plan.applied.contains(PEERS_MAX) {
            let peers_max = loaded.config.runtime.max_peers;
            self.common.capacity.set_peers_max(peers_max);
        }
        if plan.applied.contains(LEVEL) {
            let level = &loaded.config.log.level;
            let set = self.logging.set_level(level).map_err(anyhow::Error::msg);
            set.context(LEVEL)?;
        }
        self.remember(new, &plan, &outcome);
        self.warn_of_names(&touched, &mut outcome);
        // The caller may count on it that the workers have it. One that is late has it in its queue.
        outcome.unconfirmed = self.workers.ask(|_, _| ()).await.is_err();
        outcome.applied = plan.applied.into_iter().collect();
        outcome.needs_restart = plan.waiting;
        let waiting = outcome.needs_restart.clone();
        let board = &self.common.board;
        board.update_process(|process| process.needs_restart = waiting);
        Ok(outcome)
    }

    fn refuse_at_the_end(&self) -> Result<(), NoReload> {
        match self.common.board.is_stopping() {
            true => Err(NoReload("the process is stopping")),
            false => Ok(()),
        }
    }

    /// Metrics and logs know listeners and backends by their names, so one that drains keeps its own.
    fn check_names(&self, plan: &Plan) -> anyhow::Result<()> {
        let (listeners, backends) = self.common.board.leaving();
        let mut wanted = plan.added.iter().flat_map(|listener| {
            let backend = &listener.backend.name;
            let own = listeners.contains(&listener.name);
            let behind = backends.contains(backend) && self.backends.pool(backend).is_none();
            let own = own.then(|| format!("listener.{}", listener.name));
            own.into_iter()
                .chain(behind.then(|| format!("backend.{backend}")))
        });
        match wanted.next() {
            Some(name) => bail!(
                "{name} was removed and is still telling its peers\n help: reload again when \
                 `tidegate ctl stats` shows it gone, or choose another name"
            ),
            None => Ok(()),
        }
    }

    /// Counters of targets are kept, and there is an end to how many.
    fn check_targets(&self, plan: &Plan) -> anyhow::Result<()> {
        for change in &plan.changed {
            let backend = &change.listener.backend;
            if let Some(pool) = self.backends.pool(&backend.name) {
                pool.check_room(&backend.targets)?;
            }
        }
        Ok(())
    }

    /// Targets that come to backends that stay, and have to be looked up.
    fn new_names(&self, plan: &Plan) -> BTreeSet<Target> {
        let backends = plan.changed.iter().map(|change| &change.listener.backend);
        let names = backends.filter_map(|backend| {
            let pool = self.backends.pool(&backend.name)?;
            Some(pool.new_names(&backend.targets))
        });
        names.flatten().collect()
    }

    /// A name that leads nowhere is no mistake in the file, but whoever made it is still there to mend it.
    fn warn_of_names(&self, backends: &BTreeSet<String>, outcome: &mut Outcome) {
        for name in backends {
            let pool = self.backends.pool(name);
            let lost = pool.map(|pool| pool.never_found()).unwrap_or_default();
            let lost = lost.iter().map(|target| advice::never_found(name, target));
            outcome.warnings.extend(lost);
        }
    }

    /// Listeners that come, and the pools of backends that come with them.
    fn open<'a>(
        &self,
        added: &'a [Listener],
        pools: &mut NewBackends,
    ) -> anyhow::Result<Vec<Opening<'a>>> {
        let mut openings = Vec::new();
        for listener in added {
            let backend = &listener.backend;
            let pool = self.backends.pool(&backend.name).unwrap_or_else(|| {
                let pool = pools.entry(backend.name.clone());
                let opened = pool.or_insert_with(|| (backend.clone(), Arc::new(Pool::of(backend))));
                opened.1.clone()
            });
            openings.push(Opening::new(&self.common, listener, &pool)?);
        }
        Ok(openings)
    }

    fn bind_moves(&mut self, changes: Vec<Change>) -> anyhow::Result<Vec<Moving>> {
        let mut bound: Vec<(Change, Sockets)> = Vec::new();
        for change in changes {
            let sockets = bind(&self.common.runtime, &change.listener, &change.added)
                .with_context(|| format!("listener {}", change.listener.name))?;
            bound.push((change, sockets));
        }
        let mut moves = Vec::new();
        for (change, sockets) in bound {
            let addresses = sockets.iter().map(|(address, _)| *address).collect();
            let name = &change.listener.name;
            let Some(running) = named(&mut self.listeners, name) else {
                continue;
            };
            let shares = running
                .parts_for(&self.common, &change.listener, sockets)
                .with_context(|| format!("listener {name}"))?;
            moves.push(Moving {
                change,
                addresses,
                shares,
            });
        }
        Ok(moves)
    }

    /// Watches over the backends that come, until each of their names was looked up once.
    async fn look_up(&mut self, pools: NewBackends, outcome: &mut Outcome) {
        let mut names = Vec::new();
        for (name, (backend, pool)) in pools {
            names.push(self.backends.open(&backend, pool));
            outcome.added.push(format!("backend.{name}"));
        }
        for looks in names {
            looks.done().await;
        }
    }

    fn begin(&mut self, openings: Vec<Opening<'_>>, outcome: &mut Outcome) {
        for opening in openings {
            let (running, shares) = opening.show(&self.common);
            self.workers.add(shares);
            outcome.added.push(format!("listener.{}", running.name()));
            self.listeners.push(running);
        }
    }

    fn change(
        &mut self,
        moves: Vec<Moving>,
        found: &[(Target, Vec<SocketAddr>)],
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        for mut moving in moves {
            let Change {
                listener, removed, ..
            } = moving.change;
            let name = listener.name.clone();
            let Some(running) = named(&mut self.listeners, &name) else {
                continue;
            };
            running.rebind(
                &self.common,
                &listener,
                &removed,
                &moving.addresses,
                &mut moving.shares,
            );
            let policy = running.update(&self.common, &listener)?;
            if let Some(why) = self.backends.update(&listener.backend, found) {
                let backend = &listener.backend.name;
                advice::warn_of_shut(backend, None, why);
                outcome.warnings.push(why.warning(backend));
            }
            self.workers.add(moving.shares);
            let grace = self.drain.grace;
            self.workers.each(move |now, listener| {
                let mine = listener.name() == name;
                let held = listener.held_address().filter(|_| mine);
                if held.is_some_and(|held| removed.contains(&held.address)) {
                    listener.retire(now, grace);
                } else if mine {
                    listener.set_policy(policy.clone());
                }
            });
        }
        Ok(())
    }

    fn end(&mut self, removed: &[String], outcome: &mut Outcome) {
        for name in removed {
            let (grace, named) = (self.drain.grace, name.clone());
            self.workers.each(move |now, listener| {
                if listener.name() == named {
                    listener.retire(now, grace);
                }
            });
            self.common.board.retire_listener(name);
            outcome.removed.push(format!("listener.{name}"));
        }
        self.listeners
            .retain(|running| !removed.iter().any(|name| name == running.name()));
        let listeners = &self.listeners;
        let used = |name: &str| listeners.iter().any(|running| running.backend() == name);
        let unused = self.backends.retain(used);
        let unused = unused.into_iter().map(|name| format!("backend.{name}"));
        outcome.removed.extend(unused);
    }

    fn remember(&mut self, mut new: Values, plan: &Plan, outcome: &Outcome) {
        let under = |path: &str, tables: &[String]| {
            let mut tables = tables.iter();
            tables.any(|table| {
                path.strip_prefix(table.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
            })
        };
        self.values
            .retain(|path, _| !under(path, &outcome.removed) && !plan.applied.contains(path));
        new.retain(|path, _| under(path, &outcome.added) || plan.applied.contains(path));
        self.values.append(&mut new);
    }
}

fn named<'a>(listeners: &'a mut [RunningListener], name: &str) -> Option<&'a mut RunningListener> {
    listeners.iter_mut().find(|running| running.name() == name)
}

impl From<&RunningListener> for Running {
    fn from(listener: &RunningListener) -> Self {
        Self {
            name: listener.name().to_owned(),
            backend: listener.backend().to_owned(),
            addresses: listener.addresses().to_vec(),
            recorded: listener.recorded().clone(),
        }
    }
}

/// Every value as one would type it; keys by fingerprint, since a file's name says nothing about
/// what is in it.
pub fn values(loaded: &Loaded) -> Values {
    let typed = loaded.effective.iter();
    let mut values: Values = typed
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
