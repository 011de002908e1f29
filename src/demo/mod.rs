//! `tidegate demo`: the whole thing on one machine, with nothing to set up.
//!
//! ```text
//!   load's clients ══ UDP ══▶ lag ══ UDP ══▶ serve ── TCP ──▶ load's echo server
//! ```
//!
//! All of that is what `tidegate load`, `lag` and `serve` run too. Here is only what they are told (scene.rs), when
//! a storm comes (weather.rs) and what is seen of it (screen.rs).

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::config::Config;
use crate::control_plane;
use crate::lag::Lag;
use crate::load::{self, Running};
use crate::serve::Server;
use crate::shutdown::StopSignals;

mod scene;
mod screen;
mod weather;

use screen::Seen;

/// What the demo's players speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spoken {
    /// The main one, with tokens and encryption.
    Yojimbo,
    /// Reliable messages over the 2008 articles' packets.
    Gaffer,
    /// cloudwu/rudp.
    Rudp,
}

impl Spoken {
    const fn label(self) -> &'static str {
        match self {
            Self::Yojimbo => "yojimbo",
            Self::Gaffer => "gaffer",
            Self::Rudp => "rudp",
        }
    }

    /// rudp measures nothing, so it has no good and bad mode.
    const fn has_modes(self) -> bool {
        match self {
            Self::Yojimbo | Self::Gaffer => true,
            Self::Rudp => false,
        }
    }
}

/// What can be asked of the demo.
#[derive(Clone, Debug)]
pub struct Demo {
    /// What they speak.
    pub protocol: Spoken,
    /// Players.
    pub players: usize,
    /// Messages a second that each says.
    pub rate: u32,
    /// Bytes of each.
    pub size: usize,
    /// Share of datagrams lost, each way.
    pub loss: f64,
    /// One way.
    pub delay: Duration,
    /// Plus or minus.
    pub jitter: Duration,
    /// Whether a storm comes now and then.
    pub storms: bool,
    /// How long it goes on; `None` until interrupted.
    pub duration: Option<Duration>,
    /// Where the page is; `None` for the usual place, or any free port when that is taken.
    pub admin: Option<SocketAddr>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Players who were connected at the end.
    pub connected: u64,
    /// Messages that came back.
    pub echoed: u64,
    /// Messages that came back wrong, or out of order. There are none.
    pub wrong: u64,
    /// Datagrams the bad network lost.
    pub lost: u64,
}

impl Demo {
    /// Runs it, with a line a second on standard output.
    pub fn run(&self) -> anyhow::Result<Verdict> {
        control_plane::run(self.play())?
    }

    async fn play(&self) -> anyhow::Result<Verdict> {
        let mut stops = StopSignals::catch()?;
        let backend = load::echo::start(ANY_PORT).context("the echo server")?;
        let mut config = self.config(backend)?;
        let tunnel = config.tunnels.pop().context("a demo without a tunnel")?;
        let server = self.serve(config).await?;
        let address = *server
            .addresses()
            .first()
            .context("a listener without an address")?;
        let page = server.admin_address();
        let lag = Lag::start(self.network(address)?)?;
        let players = self.load(tunnel, address, lag.address());
        let mut players = players.start().await?;
        say(&screen::opening(self, address, backend, page))?;
        let serving = server.run(StopSignals::catch()?);
        tokio::pin!(serving);
        tokio::select! {
            // The server must not hear of a signal first: sessions that it ends would look like sessions lost.
            biased;
            _ = stops.next() => {}
            ended = &mut serving => ended?,
            shown = self.show(&mut players, &lag) => shown?,
        }
        let network = lag.report()?.both();
        players.stop();
        let (tally, _) = players.finish()?;
        let seen = Seen { tally, network };
        say(&screen::closing(&seen))?;
        Ok(Verdict {
            connected: seen.tally.connected,
            echoed: seen.tally.reliable.back,
            wrong: seen.tally.harmed(),
            lost: seen.network.lost,
        })
    }

    /// A line a second, each under the weather of its second.
    async fn show(&self, players: &mut Running, lag: &Lag) -> anyhow::Result<()> {
        let (weather, has_modes) = (self.weather(), self.protocol.has_modes());
        let mut before = Seen::default();
        players.begin();
        for second in 1.. {
            let since = Duration::from_secs(second - 1);
            let is_over = self.duration.is_some_and(|duration| since >= duration);
            // A worker that failed says why when it is asked for its tally.
            if is_over || players.is_over() {
                break;
            }
            lag.set(weather.at(since))?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = Seen {
                tally: players.look().0,
                network: lag.report()?.both(),
            };
            let is_watched = std::io::stdout().is_terminal();
            if second == 1 || is_watched && second % screen::HEADING_EVERY == 1 {
                say(&screen::heading(has_modes))?;
            }
            let storm = weather.is_storm(since);
            say(&screen::line(second, &before, &now, storm, has_modes))?;
            before = now;
        }
        Ok(())
    }

    async fn serve(&self, mut config: Config) -> anyhow::Result<Server> {
        match Server::open(&config).await {
            // Most likely another tidegate has the usual port: any other will do.
            Err(_) if self.admin.is_none() => {
                config.admin.listen = Some(ANY_PORT);
                Server::open(&config).await
            }
            opened => opened,
        }
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
