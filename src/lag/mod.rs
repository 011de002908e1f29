//! `tidegate lag`: a bad network on demand, between clients and one UDP server.
//!
//! ```text
//!            front socket                                        one socket per client
//!   client ──────────────▶ receive ──▶ up: sim::Link ──▶ deliver ─────────────────────▶ server
//!          ◀────────────── deliver ◀── down: sim::Link ◀── receive ◀───────────────────
//! ```
//!
//! The link is the one that the simulator uses. Each client has a network of its own, as
//! players have: its own bursts, its own bottleneck, and its own draws, which follow from the seed and
//! the order in which clients came. So one client's fate does not depend on how busy the others are.
//!
//! One thread owns the sockets. The owner of the [`Lag`] changes the impairments, gives clients new source
//! ports, and asks for counts.

mod clients;
pub mod control;
mod impairments;
mod relay;
pub mod report;

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::bail;
use mio::Waker;

pub use impairments::{BadWord, Impairments, WORDS};
use relay::{Order, Relay};
pub use report::Report;

use crate::exit::{Transport, Unavailable};

/// What a bad network is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Where clients send to.
    pub listen: SocketAddr,
    pub to: SocketAddr,
    pub impairments: Impairments,
    /// One seed does the same things to the same datagrams of the same clients each time.
    pub seed: u64,
    /// Clients at a time; datagrams of others are refused.
    pub clients_max: usize,
    /// A client that is silent for so long, both ways, is forgotten.
    pub idle: Duration,
}

/// A bad network that runs until it is dropped or stopped.
pub struct Lag {
    address: SocketAddr,
    impairments: Mutex<Impairments>,
    orders: Sender<Order>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Lag {
    /// Binds, and relays from now on.
    pub fn start(setup: Setup) -> anyhow::Result<Self> {
        let (orders, inbox) = channel();
        let (relay, address, waker) = Relay::open(setup, inbox)
            .map_err(|error| Unavailable(Transport::Udp.cannot_bind(setup.listen, &error)))?;
        let thread = std::thread::Builder::new()
            .name("lag".into())
            .spawn(move || relay.run())?;
        Ok(Self {
            address,
            impairments: Mutex::new(setup.impairments),
            orders,
            waker,
            thread: Some(thread),
        })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it is like now.
    pub fn impairments(&self) -> Impairments {
        *self.lock()
    }

    /// Changes what these words say and leaves the rest; on a mistake nothing changes.
    pub fn change(&self, words: &str) -> anyhow::Result<Impairments> {
        let mut impairments = self.lock();
        let mut next = *impairments;
        next.change(words.split_whitespace())?;
        self.order(Order::Impairments(Box::new(next)))?;
        *impairments = next;
        Ok(next)
    }

    /// Makes it like this.
    pub fn set(&self, next: Impairments) -> anyhow::Result<()> {
        let mut impairments = self.lock();
        self.order(Order::Impairments(Box::new(next)))?;
        *impairments = next;
        Ok(())
    }

    /// Gives every client a new source port, as a NAT that forgot them would.
    pub fn rebind(&self) -> anyhow::Result<()> {
        self.order(Order::Rebind)
    }

    /// What it did so far.
    pub fn report(&self) -> anyhow::Result<Report> {
        let (answer, reports) = channel();
        self.order(Order::Report(answer))?;
        match reports.recv_timeout(PATIENCE) {
            Ok(report) => Ok(report),
            Err(_) => bail!("the relay has ended"),
        }
    }

    /// Ends it, and says what ended it if that was something else.
    pub fn stop(mut self) -> anyhow::Result<()> {
        // A relay that has ended takes no orders; how it ended is asked next.
        self.order(Order::Stop).ok();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => Ok(outcome?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Impairments> {
        self.impairments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) -> anyhow::Result<()> {
        if self.orders.send(order).is_err() {
            bail!("the relay has ended");
        }
        Ok(self.waker.wake()?)
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.order(Order::Stop).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// A turn of the relay takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
