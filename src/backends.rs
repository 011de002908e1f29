//! The backends in use, by name: their pools, and the tasks that watch over them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use crate::backend::health::{self, FirstLook};
use crate::backend::{Pool, Shut};
use crate::board::Board;
use crate::clock::Clock;
use crate::config::{Backend, Target};

pub struct Backends {
    board: Arc<Board>,
    /// The clock of the process.
    clock: Clock,
    in_use: Mutex<BTreeMap<String, InUse>>,
}

struct InUse {
    pool: Arc<Pool>,
    /// Name look-ups and health checks; they end with this.
    watch: JoinSet<()>,
}

impl Backends {
    /// None yet.
    pub fn new(board: Arc<Board>, clock: Clock) -> Self {
        Self {
            board,
            clock,
            in_use: Mutex::default(),
        }
    }

    pub fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        self.lock().get(name).map(|backend| backend.pool.clone())
    }

    /// Makes a backend visible and watches over it.
    pub fn open(&self, backend: &Arc<Backend>, pool: Arc<Pool>) -> FirstLook {
        self.board.add_backend(&backend.name, pool.clone());
        let (watch, names) = health::watch(backend, &pool, &self.clock);
        let in_use = InUse { pool, watch };
        self.lock().insert(backend.name.clone(), in_use);
        names
    }

    /// A backend that is in use is as configured from now on, and its targets are checked anew; `found` is what the names of
    /// new ones stand for. Why newcomers find no target there, where a target that somebody drained is among what is
    /// left, and they found one before.
    pub fn update(
        &self,
        backend: &Arc<Backend>,
        found: &[(Target, Vec<SocketAddr>)],
    ) -> Option<Shut> {
        let mut in_use = self.lock();
        let own = in_use.get_mut(&backend.name)?;
        let before = own.pool.shut();
        own.pool.update(backend, found);
        (own.watch, _) = health::watch(backend, &own.pool, &self.clock);
        let after = own.pool.shut();
        after.filter(|why| before.is_none() && *why != Shut::Down)
    }

    /// Keeps only these; says which are gone. Sessions keep the pool they began with.
    pub fn retain(&self, used: impl Fn(&str) -> bool) -> Vec<String> {
        let mut in_use = self.lock();
        let unused: Vec<String> = in_use.keys().filter(|name| !used(name)).cloned().collect();
        for name in &unused {
            in_use.remove(name);
            self.board.retire_backend(name);
        }
        unused
    }

    /// Takes a target out of use, wherever it is one, or back in. The names of the backends that have it, each
    /// with why newcomers find no target there any more, if so.
    pub fn set_draining(&self, target: &str, draining: bool) -> Vec<(String, Option<Shut>)> {
        let in_use = self.lock();
        let found = in_use.iter();
        let found = found.filter(|(_, backend)| backend.pool.set_draining(target, draining));
        let found = found.map(|(name, backend)| (name.clone(), backend.pool.shut()));
        found.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, InUse>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
