//! Listeners as they run: each has its sockets on every worker, what lets its peers in, and where
//! their streams go. One worker's share of it is [`crate::listener`].
//!
//! ```text
//!   Opening::new    sockets, one for each address and worker; acceptors, parts for the workers
//!      │            nothing is served or seen yet; dropped, it is gone
//!      ▼ show
//!   RunningListener, on the board and in the log
//! ```

mod announce;
mod opening;
mod settings;
mod sockets;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::admission::Admission;
use crate::backend::Pool;
use crate::board::{Board, ListenerInfo, Reporter, WorkerSocket};
use crate::capacity::Capacity;
use crate::capture::Tap;
use crate::clock::Clock;
use crate::config::{Listener, Runtime};
use crate::listener::{Arrivals, Parts, PeerCount, Policy, Siblings};
use crate::protocol::Acceptors;
use crate::token_history::StateDirectory;
use crate::tokens::random;
use crate::udp::UdpSocket;
pub use opening::Opening;
pub use sockets::{BoundAddress, Sockets, bind, socket_options};

/// What all listeners are built with.
#[derive(Clone)]
pub struct Common {
    pub runtime: Runtime,
    pub board: Arc<Board>,
    pub capacity: Arc<Capacity>,
    pub clock: Clock,
    pub tap: Tap,
    pub state: Option<StateDirectory>,
}

/// A listener that runs.
pub struct RunningListener {
    name: String,
    backend: String,
    pool: Arc<Pool>,
    acceptors: Acceptors,
    addresses: Vec<BoundAddress>,
    peer_count: PeerCount,
    arrivals: Arrivals,
}

/// What each worker gets.
pub type Shares = Vec<Vec<Parts>>;

impl RunningListener {
    /// A listener on these sockets, which nobody sees yet.
    fn open(
        common: &Common,
        listener: &Listener,
        pool: &Arc<Pool>,
        sockets: Sockets,
    ) -> anyhow::Result<(Self, Shares)> {
        let addresses: Vec<BoundAddress> = sockets.iter().map(|(address, _)| *address).collect();
        let bound: Vec<_> = addresses.iter().map(|address| address.bound).collect();
        let mut running = Self {
            name: listener.name.clone(),
            backend: listener.backend.name.clone(),
            pool: pool.clone(),
            acceptors: Acceptors::new(common, listener, &bound)?,
            addresses,
            peer_count: PeerCount::default(),
            arrivals: Arrivals::default(),
        };
        let shares = running.parts_for(common, listener, sockets)?;
        Ok((running, shares))
    }

    /// Puts the listener on the board, and into the log.
    fn show(&self, common: &Common, listener: &Listener, shares: &mut Shares) {
        let about = ListenerInfo {
            name: listener.name.clone(),
            protocol: listener.protocol.label(),
            bind: self.bound(),
            backend: listener.backend.name.clone(),
            peers_max: listener.max_peers as u64,
        };
        let reporters = common.board.add_listener(about, &sockets_by_worker(shares));
        give(shares, reporters);
        announce::addresses(listener, &self.bound());
        announce::short_buffers(listener, &common.runtime, sockets_of(shares));
        announce::insecurity(listener);
    }

    /// Parts for more sockets, which nobody sees yet.
    pub fn parts_for(
        &mut self,
        common: &Common,
        listener: &Listener,
        sockets: Sockets,
    ) -> anyhow::Result<Shares> {
        let mut shares: Shares = (0..common.runtime.workers).map(|_| Vec::new()).collect();
        for (_, sockets) in sockets {
            let siblings = Siblings::new(sockets.len());
            for ((share, socket), siblings) in shares.iter_mut().zip(sockets).zip(siblings) {
                share.push(Parts {
                    siblings,
                    ..self.parts(common, listener, socket)?
                });
            }
        }
        Ok(shares)
    }

    /// Has other addresses now: those that were `removed` are gone, `added` are there with these parts.
    pub fn rebind(
        &mut self,
        common: &Common,
        listener: &Listener,
        removed: &[SocketAddr],
        added: &[BoundAddress],
        shares: &mut Shares,
    ) {
        self.addresses
            .retain(|address| !removed.contains(&address.bound));
        self.addresses.extend(added);
        let now = common.clock.clone().now().mono;
        let sockets = sockets_by_worker(shares);
        let reporters = common
            .board
            .extend_listener(&self.name, self.bound(), &sockets, now);
        give(shares, reporters);
        let added: Vec<_> = added.iter().map(|address| address.bound).collect();
        announce::addresses(listener, &added);
        announce::short_buffers(listener, &common.runtime, sockets_of(shares));
    }

    /// Peers are let in by these rules from now on; what workers need to know of them.
    pub fn update(&mut self, common: &Common, listener: &Listener) -> anyhow::Result<Policy> {
        self.acceptors.update(listener, &self.bound())?;
        let peers_max = listener.max_peers as u64;
        common.board.set_peers_max(&self.name, peers_max);
        Ok(self.policy(common, listener))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// It and its backend as a file, as they were when it last changed.
    pub fn recorded(&self) -> &Arc<str> {
        self.acceptors.recorded()
    }

    pub fn addresses(&self) -> &[BoundAddress] {
        &self.addresses
    }

    /// Where its sockets are.
    pub fn bound(&self) -> Vec<SocketAddr> {
        self.addresses.iter().map(|address| address.bound).collect()
    }

    fn policy(&self, common: &Common, listener: &Listener) -> Policy {
        let bound = self.bound();
        let shards = bound.len() * common.runtime.workers;
        settings::policy(listener, &self.pool, &bound, shards)
    }

    fn parts(
        &mut self,
        common: &Common,
        listener: &Listener,
        socket: UdpSocket,
    ) -> anyhow::Result<Parts> {
        let policy = self.policy(common, listener);
        Ok(Parts {
            name: listener.name.as_str().into(),
            protocol: listener.protocol.label(),
            socket: Some(socket),
            endpoint: self.acceptors.endpoint(listener)?,
            admission: Some(Admission::new(&policy.admission)),
            terms: policy.terms,
            capacity: Arc::clone(&common.capacity),
            reporter: None,
            siblings: Siblings::default(),
            peer_count: self.peer_count.clone(),
            arrivals: self.arrivals.clone(),
            seed: u64::from_le_bytes(random()?),
        })
    }
}

fn sockets_of(shares: &Shares) -> impl Iterator<Item = &UdpSocket> {
    let parts = shares.iter().flatten();
    parts.filter_map(|parts| parts.socket.as_ref())
}

/// For the board: the sockets of the first worker, then those of the next.
fn sockets_by_worker(shares: &Shares) -> Vec<WorkerSocket> {
    let of_worker = |(worker, share): (usize, &Vec<Parts>)| {
        let addresses = share.iter().map(|parts| parts.socket.as_ref());
        let addresses = addresses.map(|socket| socket.map(UdpSocket::local_addr));
        addresses
            .map(|address| WorkerSocket { worker, address })
            .collect::<Vec<_>>()
    };
    shares.iter().enumerate().flat_map(of_worker).collect()
}

/// Each socket its reporter, in the same order.
fn give(shares: &mut Shares, reporters: Vec<Reporter>) {
    for (parts, reporter) in shares.iter_mut().flatten().zip(reporters) {
        parts.reporter = Some(reporter);
    }
}
