//! `tidegate load`: many clients with one server, and what became of each of their messages.
//!
//! ```text
//!   clients (crew.rs, one thread or more) ══ UDP ══▶ the server ──▶ a backend that echoes (echo.rs)
//!      │ client.rs: session, socket, timetable                           │
//!      ◀───────────────────────────────────────────────────────────────┘
//!      ears.rs checks every byte that comes back, lane.rs its place, tally.rs counts
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

mod client;
mod content;
mod crew;
mod ears;
pub mod echo;
mod lane;
pub mod report;
mod tally;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate_proto::yojimbo::channels::Delivery;
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, UserData};
use tidegate_proto::{Channel, Timestamp};
use tokio::net::lookup_host;

pub use tally::Tally;

use crate::clock::Clock;
use crate::config::{GafferMode, Protocol, TokenSource, Tunnel};
use crate::exit::{Misused, Unavailable};
use crate::metrics::Usage;
use crate::protocol::Dialer;
use crate::tokens;
use client::{Habits, Pace};
use content::{HEADER_BYTES, Shape};
use crew::{Crew, Window};

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
    /// Each has so long to get in; one that is denied tries again meanwhile.
    pub patience: Duration,
    /// Messages a second of each, or messages that each has under way.
    pub pace: Pacing,
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// Messages a second, whatever the server does.
    Rate(f64),
    /// The next one when one came back; so many under way.
    Window(usize),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Clients get in.
    Ramp,
    /// Messages are sent.
    Measure,
    /// The last of them come back.
    Settle,
}

impl Phase {
    /// One word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ramp => "ramp",
            Self::Measure => "measure",
            Self::Settle => "settle",
        }
    }
}

/// Clients under way; dropping it ends them.
pub struct Running {
    clock: Clock,
    window: Arc<Window>,
    crews: Vec<JoinHandle<anyhow::Result<Tally>>>,
    load: Load,
    remote: SocketAddr,
    /// Since when the measurement runs; 0 before.
    went: Arc<AtomicU64>,
    began: Timestamp,
    /// What was used up to then.
    usage: Usage,
    usage_at: Timestamp,
    cost: Cost,
}

impl Load {
    /// Looks up the server and starts the clients.
    pub async fn start(self) -> anyhow::Result<Running> {
        let lanes = Lanes::of(&self.tunnel.protocol);
        let shape = self.shape(lanes)?;
        self.check_files()?;
        let remote = self.look_up().await?;
        let mut clock = Clock::start();
        let tickets = self.tickets(remote).await?;
        let window = Arc::new(Window::new());
        let went = window.go.clone();
        let began = clock.now().mono;
        let plan = Arc::new(crew::Plan {
            remote,
            habits: Habits {
                lanes,
                shape,
                unreliable: self.unreliable,
                pace: match self.pace {
                    Pacing::Rate(rate) => Pace::Every(Duration::from_secs_f64(1.0 / rate)),
                    Pacing::Window(count) => Pace::Window(count),
                },
                echoed: self.echoed,
            },
            dialer: Dialer::new(&self.tunnel),
            tickets,
            patience: self.patience,
            ramp: self.ramp,
            clients: self.clients,
            duration: self.duration,
            settle: self.settle,
            began,
        });
        let threads = self.threads.clamp(1, self.clients.max(1));
        let crews = (0..threads)
            .map(|first| {
                let members = (first..self.clients).step_by(threads).collect();
                let (plan, window, clock) = (plan.clone(), window.clone(), clock.clone());
                std::thread::Builder::new()
                    .name(format!("crew {first}"))
                    .spawn(move || Crew::new(plan, window, clock, members)?.run())
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Running {
            clock,
            window,
            crews,
            load: self,
            remote,
            went,
            began,
            usage: Usage::read(),
            usage_at: began,
            cost: Cost::default(),
        })
    }

    fn shape(&self, lanes: Lanes) -> anyhow::Result<Shape> {
        let (least, most) = self.size;
        if least < HEADER_BYTES {
            bail!(Misused(format!(
                "--size {least}: a message that can be checked has {HEADER_BYTES} bytes at least"
            )));
        }
        let possible = lanes.size_max(&self.tunnel.protocol, self.unreliable);
        if most > possible {
            bail!(Misused(format!(
                "--size {most}: the longest message of this protocol and its settings has \
                 {possible} bytes"
            )));
        }
        if self.unreliable > 0.0 && lanes.unreliable.is_none() {
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
        let needed = usage.open_fds + self.clients as u64 + FILES_BESIDE;
        if usage.max_fds > 0 && needed > usage.max_fds {
            return Err(Unavailable(format!(
                "{} clients need a UDP socket each, and {} open files are allowed: run `ulimit -n \
                 {needed}` before",
                self.clients, usage.max_fds
            ))
            .into());
        }
        Ok(())
    }

    async fn look_up(&self) -> anyhow::Result<SocketAddr> {
        let (host, port) = (&self.tunnel.remote_host, self.tunnel.remote_port);
        let found = lookup_host((host.as_str(), port)).await;
        let mut found =
            found.map_err(|error| Unavailable(format!("cannot find {host}: {error}")))?;
        found
            .next()
            .with_context(|| format!("{host} has no address"))
    }

    /// What lets clients in.
    async fn tickets(&self, remote: SocketAddr) -> anyhow::Result<Tickets> {
        let (Some(source), Protocol::Yojimbo(own)) = (&self.tunnel.tokens, &self.tunnel.protocol)
        else {
            return Ok(Tickets::None);
        };
        let (protocol_id, idle) = (own.netcode.protocol_id, self.tunnel.idle_timeout);
        match source {
            TokenSource::Key(mint) => {
                let servers = match (self.token_address, mint.server_addresses.as_slice()) {
                    (Some(address), _) => vec![address],
                    (None, []) => vec![remote],
                    (None, listed) => listed.to_vec(),
                };
                Ok(Tickets::Mint(Box::new(Mint {
                    recipe: tokens::Recipe {
                        protocol_id,
                        // Sessions of an earlier run may still be seated.
                        client_id: u64::from_le_bytes(tokens::random()?),
                        servers,
                        lifetime: mint.lifetime,
                        timeout: idle,
                        user_data: UserData::empty(),
                    },
                    key: mint.key.clone(),
                })))
            }
            TokenSource::File(_) if self.clients > 1 => Err(Misused(
                "a connect token lets one client in: give --clients 1, --key or --token-command"
                    .to_owned(),
            )
            .into()),
            TokenSource::File(_) | TokenSource::Command(_) => {
                let mut tokens = Vec::with_capacity(self.clients);
                for _ in 0..self.clients {
                    tokens.push(tokens::obtain(source, protocol_id, remote, idle).await?);
                }
                Ok(Tickets::Given(tokens))
            }
        }
    }
}

impl Running {
    /// Where the clients dial.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Since the start.
    pub fn elapsed(&mut self) -> Duration {
        self.clock.now().mono.since(self.began)
    }

    /// What was counted, with the round trips since the last look; and how far it is.
    pub fn look(&mut self) -> (Tally, Phase) {
        let now = self.clock.now().mono;
        let tally = self.window.look();
        let phase = match self.went.load(Ordering::Relaxed) {
            0 => Phase::Ramp,
            at if now < Timestamp::from_nanos(at) + self.load.duration => Phase::Measure,
            _ => Phase::Settle,
        };
        if phase == Phase::Measure && now > self.usage_at + HEADS_UP {
            let usage = Usage::read();
            let seconds = now.since(self.usage_at).as_secs_f64();
            self.cost = Cost {
                cores: (usage.cpu_seconds - self.usage.cpu_seconds) / seconds,
                resident_bytes: usage.resident_bytes,
            };
        }
        (tally, phase)
    }

    /// Starts the measurement once every client is in, or out for good.
    pub fn keep_going(&mut self) {
        if self.went.load(Ordering::Relaxed) == 0 {
            let tally = self.window.glance();
            if tally.connected + tally.failed() >= self.load.clients as u64 {
                // Crews hear of it before it begins.
                let begin = self.clock.now().mono + HEADS_UP;
                self.went.store(begin.as_nanos(), Ordering::Relaxed);
                (self.usage, self.usage_at) = (Usage::read(), begin);
            }
        }
    }

    /// Whether all clients are done.
    pub fn is_over(&self) -> bool {
        self.crews.iter().all(JoinHandle::is_finished)
    }

    /// Ends them early.
    pub fn stop(&self) {
        self.window.stop();
    }

    /// What became of everything, and what it cost here.
    pub fn finish(mut self) -> anyhow::Result<(Tally, Cost)> {
        let mut total = Tally::default();
        for crew in std::mem::take(&mut self.crews) {
            match crew.join() {
                Ok(tally) => total.absorb(&tally?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok((total, self.cost))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.window.stop();
    }
}

/// What this process used itself while it measured, as far as was looked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU seconds a second.
    pub cores: f64,
    /// Memory.
    pub resident_bytes: u64,
}

/// What lets clients in.
enum Tickets {
    /// Nothing is needed.
    None,
    /// A token each, made when needed.
    Mint(Box<Mint>),
    /// These, by client.
    Given(Vec<ConnectToken>),
}

struct Mint {
    recipe: tokens::Recipe,
    key: Key,
}

impl Tickets {
    /// For one dial of a client.
    fn ticket(&self, client: usize) -> anyhow::Result<Option<ConnectToken>> {
        match self {
            Self::None => Ok(None),
            Self::Mint(mint) => {
                let recipe = tokens::Recipe {
                    client_id: mint.recipe.client_id.wrapping_add(client as u64),
                    ..mint.recipe.clone()
                };
                Ok(Some(tokens::mint(recipe, &mint.key)?))
            }
            Self::Given(tokens) => Ok(tokens.get(client).cloned()),
        }
    }

    /// Whether a second try is possible.
    fn are_endless(&self) -> bool {
        !matches!(self, Self::Given(_))
    }
}

/// The channels that messages go out on.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    reliable: Option<Channel>,
    unreliable: Option<Channel>,
}

impl Lanes {
    fn of(protocol: &Protocol) -> Self {
        match protocol {
            Protocol::Yojimbo(own) => {
                let find = |delivery| {
                    let mut channels = own.profile.channels().iter();
                    channels
                        .position(|channel| channel.delivery == delivery)
                        .and_then(|index| Channel::try_from(index).ok())
                };
                Self {
                    reliable: find(Delivery::ReliableOrdered),
                    unreliable: find(Delivery::UnreliableUnordered),
                }
            }
            Protocol::Gaffer(own) if own.mode == GafferMode::Raw => Self {
                reliable: None,
                unreliable: Some(0),
            },
            Protocol::Gaffer(_) | Protocol::Rudp(_) => Self {
                reliable: Some(0),
                unreliable: None,
            },
        }
    }

    fn size_max(self, protocol: &Protocol, unreliable: f64) -> usize {
        match protocol {
            Protocol::Yojimbo(own) => {
                let used = [
                    self.reliable.filter(|_| unreliable < 1.0),
                    self.unreliable
                        .filter(|_| unreliable > 0.0 || self.reliable.is_none()),
                ];
                let sizes = used.into_iter().flatten();
                sizes
                    .filter_map(|channel| own.profile.payload_bytes_max(channel))
                    .min()
                    .unwrap_or(0)
            }
            Protocol::Gaffer(own) => own.max_message,
            Protocol::Rudp(own) => own.max_message,
        }
    }
}

/// Longer than a crew's turn.
const HEADS_UP: Duration = Duration::from_millis(100);
/// Descriptors of the process that are no client's.
const FILES_BESIDE: u64 = 32;
