//! `tidegate load`: many clients with one server, and what became of each of their messages.
//!
//! ```text
//!   clients (worker.rs, one thread or more) ══ UDP ══▶ the server ──▶ a backend that echoes (echo.rs)
//!      │ client.rs: session, socket, timetable                           │
//!      ◀───────────────────────────────────────────────────────────────┘
//!      echo_check.rs checks every byte that comes back, outstanding.rs its place, tally.rs counts
//!
//!   running.rs, which waits for them ◀── progress.rs ── each worker's tally
//! ```
//!
//! Each client has a UDP socket of its own, as players have. Servers tell gaffer and rudp clients apart
//! by nothing but the address, a NAT or `tidegate lag` in between sees what it would see, and the kernel
//! says per client when nobody listens. A connected socket has one peer, so sessions are driven
//! directly and no `Endpoint` has to route. The price is one descriptor a client (`ulimit -n`) and a
//! system call per client instead of one for all.
//!
//! Messages leave by a timetable that was fixed before, and their round trip counts from the time they
//! were due. A server that stands still for a second thus makes a second's messages late, although few
//! of them could be sent meanwhile.

mod channels;
mod client;
mod connect_tokens;
mod content;
pub mod echo;
mod echo_check;
mod outstanding;
mod plan;
mod progress;
pub mod report;
mod running;
mod tally;
mod worker;
mod workspace;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
pub use running::{Cost, Phase, Running};
pub use tally::Tally;

use crate::clock::Clock;
use crate::config::Tunnel;
use crate::exit::{Misused, Unavailable};
use crate::metrics::Usage;
use crate::names;
use crate::protocol::Dialer;
use crate::tokens;
use channels::Channels;
use connect_tokens::ConnectTokens;
use content::{HEADER_BYTES, Shape};
use plan::Plan;
use progress::Progress;
use worker::Worker;

/// What can be asked of it.
#[derive(Clone, Debug)]
pub struct Load {
    /// How to get in; its `listen` and framing are not used.
    pub tunnel: Tunnel,
    /// Where a token should lead, when it is not where the clients dial.
    pub token_address: Option<SocketAddr>,
    /// How many.
    pub clients: usize,
    /// They begin one by one over this time.
    pub ramp: Duration,
    /// Each has so long to get in; one that is denied or not answered tries again meanwhile.
    pub patience: Duration,
    /// When each sends.
    pub pace: Pace,
    /// Bytes of a message: from, to.
    pub size: (usize, usize),
    /// Share of the messages that is sent unreliably.
    pub unreliable: f64,
    /// Whether what is sent comes back.
    pub echoed: bool,
    /// How long messages are sent.
    pub duration: Duration,
    /// How long those under way may take after that.
    pub settle: Duration,
    /// Threads that clients are spread over.
    pub threads: usize,
}

/// When a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So long after the one before, whatever the server does.
    Every(Duration),
    /// The next one when one came back; so many under way.
    Window(usize),
}

impl Load {
    /// Looks up the server and starts the clients.
    pub async fn start(self) -> anyhow::Result<Running> {
        let channels = Channels::of(&self.tunnel.protocol);
        let shape = self.shape(channels)?;
        self.check_files()?;
        let remote = self.look_up().await?;
        let mut clock = Clock::start();
        let plan = Arc::new(Plan {
            channels,
            shape,
            remote,
            dialer: Dialer::new(&self.tunnel),
            tokens: ConnectTokens::of(&self, remote).await?,
            began: clock.now().mono,
            load: self,
        });
        let progress = Arc::new(Progress::new());
        let workers = spawn_workers(&plan, &progress, &clock)?;
        Ok(Running::new(plan, clock, progress, workers))
    }

    fn shape(&self, channels: Channels) -> anyhow::Result<Shape> {
        let (least, most) = self.size;
        if least < HEADER_BYTES {
            bail!(Misused(format!(
                "--size {least}: a message that can be checked has {HEADER_BYTES} bytes at least"
            )));
        }
        let possible = channels.size_max(&self.tunnel.protocol, self.unreliable);
        if most > possible {
            bail!(Misused(format!(
                "--size {most}: the longest message of this protocol and its settings has \
                 {possible} bytes"
            )));
        }
        if self.unreliable > 0.0 && channels.unreliable.is_none() {
            bail!(Misused(format!(
                "--unreliable: {} has reliable messages only, as it is configured",
                self.tunnel.protocol.label()
            )));
        }
        Ok(Shape {
            run: u64::from_le_bytes(tokens::random()?),
            least,
            most,
        })
    }

    /// Better now than after half of them have begun.
    fn check_files(&self) -> anyhow::Result<()> {
        let usage = Usage::read();
        let needed = usage.open_fds.unwrap_or(0) + self.clients as u64 + FILES_BESIDE;
        if let Some(allowed) = usage.max_fds
            && needed > allowed
        {
            return Err(Unavailable(format!(
                "{} clients need a UDP socket each, and no more than {allowed} open files are allowed: raise the \
                 hard limit to {needed} (`ulimit -Hn`) before",
                self.clients
            ))
            .into());
        }
        Ok(())
    }

    async fn look_up(&self) -> anyhow::Result<SocketAddr> {
        let (host, port) = (&self.tunnel.remote_host, self.tunnel.remote_port);
        let found = names::look_up(host, port).await;
        let found = found.map_err(|error| Unavailable(format!("cannot find {host}: {error}")))?;
        found
            .first()
            .copied()
            .with_context(|| format!("{host} has no address"))
    }
}

fn spawn_workers(
    plan: &Arc<Plan>,
    progress: &Arc<Progress>,
    clock: &Clock,
) -> std::io::Result<Vec<JoinHandle<anyhow::Result<Tally>>>> {
    let Load {
        clients, threads, ..
    } = plan.load;
    let threads = threads.clamp(1, clients.max(1));
    let spawn = |first: usize| {
        let members = (first..clients).step_by(threads).collect();
        let (plan, progress, clock) = (plan.clone(), progress.clone(), clock.clone());
        std::thread::Builder::new()
            .name(format!("load {first}"))
            .spawn(move || Worker::new(plan, progress, clock, members)?.run())
    };
    (0..threads).map(spawn).collect()
}

/// Descriptors of the process that are no client's.
const FILES_BESIDE: u64 = 32;
