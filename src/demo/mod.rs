//! `tidegate demo`: the whole thing on one machine, with nothing to set up.
//!
//! ```text
//!   players ──▶ a bad network each ──▶ UDP ──▶ tidegate serve ──▶ TCP ──▶ echo server
//!    player.rs     weather.rs, sim::Link          the real one               load/echo.rs
//! ```
//!
//! Sockets, handshakes, encryption and streams are real; only the badness of the network is made here.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use tidegate_proto::yojimbo::netcode::{Key, UserData};

use crate::config::{self, Config, Input};
use crate::control_plane;
use crate::load;
use crate::protocol::Dialer;
use crate::serve::Server;
use crate::shutdown::StopSignals;
use crate::tokens;

mod player;
mod players;
mod screen;
mod weather;

use player::Habits;
use players::{Plan, Progress};
use weather::Weather;

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

    /// The longest message.
    pub const fn size_max(self) -> usize {
        match self {
            Self::Yojimbo | Self::Gaffer => 7_000,
            Self::Rudp => 1_468,
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
    pub connected: usize,
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
        let stops = StopSignals::catch()?;
        let backend =
            load::echo::start(SocketAddr::from(([127, 0, 0, 1], 0))).context("the echo server")?;
        let key = Key::new(tokens::random()?);
        let mut config = self.config(backend, &key)?;
        let server = match Server::open(&config).await {
            // Most likely another tidegate has the usual port: any other will do.
            Err(_) if self.admin.is_none() => {
                config.admin.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
                Server::open(&config).await?
            }
            opened => opened?,
        };
        let address = *server
            .addresses()
            .first()
            .context("a listener without an address")?;
        let page = server.admin_address();
        let plan = self.plan(address, key, &config)?;
        let progress = Progress::new();
        let players = {
            let progress = progress.clone();
            std::thread::Builder::new()
                .name("players".into())
                .spawn(move || players::play(&plan, &progress))?
        };
        self.say(&screen::opening(self, address, backend, page))?;
        tokio::select! {
            ended = server.run(stops) => ended?,
            shown = self.show(&progress) => shown?,
        }
        let last = progress.look();
        progress.stop();
        match players.join() {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        self.say(&screen::closing(&last))?;
        Ok(Verdict {
            connected: last.connected,
            echoed: last.echoed,
            wrong: last.wrong_echoes,
            lost: last.lost,
        })
    }

    async fn show(&self, progress: &Progress) -> anyhow::Result<()> {
        let mut before = progress.look();
        let mut second = 0;
        while self
            .duration
            .is_none_or(|duration| Duration::from_secs(second) < duration)
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
            second += 1;
            let now = progress.look();
            let is_watched = std::io::stdout().is_terminal();
            if second == 1 || is_watched && second % screen::HEADING_EVERY == 1 {
                self.say(&screen::heading(self.protocol.has_modes()))?;
            }
            self.say(&screen::line(
                second,
                &before,
                &now,
                self.protocol.has_modes(),
            ))?;
            before = now;
        }
        Ok(())
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    fn plan(&self, server: SocketAddr, key: Key, config: &Config) -> anyhow::Result<Plan> {
        let tunnel = config.tunnels.first().context("a demo without a tunnel")?;
        let storms = (Duration::from_secs(20), Duration::from_secs(6));
        Ok(Plan {
            server,
            players: self.players,
            habits: Habits {
                every: Duration::from_secs(1) / self.rate.max(1),
                message_bytes: self.size,
            },
            weather: Weather {
                calm: players::calm(self.delay, self.jitter, self.loss),
                storms: self.storms.then_some(storms),
            },
            dialer: Dialer::new(tunnel),
            token: (self.protocol == Spoken::Yojimbo).then(|| {
                let recipe = tokens::Recipe {
                    protocol_id: PROTOCOL_ID,
                    client_id: 0,
                    servers: vec![server],
                    lifetime: Duration::from_secs(30),
                    timeout: Duration::from_secs(10),
                    user_data: UserData::empty(),
                };
                (recipe, key)
            }),
            seed: u64::from_le_bytes(tokens::random()?),
        })
    }

    /// The configuration that an operator would write; its key lies in a private file for as long as
    /// it takes to read it.
    fn config(&self, backend: SocketAddr, key: &Key) -> anyhow::Result<Config> {
        let name = format!(
            "tidegate-demo-{:016x}.key",
            u64::from_le_bytes(tokens::random()?)
        );
        let path = std::env::temp_dir().join(name);
        config::write_new_secret(&path, key.as_bytes())
            .with_context(|| path.display().to_string())?;
        let config = self.load_config(backend, &path);
        std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        config
    }

    fn load_config(&self, backend: SocketAddr, key_file: &Path) -> anyhow::Result<Config> {
        let netcode = match self.protocol {
            Spoken::Yojimbo => format!(
                "netcode = {{ key_file = \"{}\", protocol_id = \"{PROTOCOL_ID:#x}\" }}",
                key_file.display()
            ),
            Spoken::Gaffer | Spoken::Rudp => String::new(),
        };
        let text = format!(
            r#"
            version = 1
            [listener.demo]
            protocol = "{protocol}"
            bind = ["127.0.0.1:0"]
            backend = "echo"
            max_peers = {players}
            {netcode}
            [listener.demo.limits]
            ip_handshakes = {{ rate = 5000, burst = 10000 }}
            [backend.echo]
            targets = ["tcp://{backend}"]
            framing = "u16be"
            # How the players' sessions are set up; no local stream is taken.
            [tunnel.players]
            protocol = "{protocol}"
            listen = ["tcp://127.0.0.1:0"]
            remote = "127.0.0.1:1"
            framing = "u16be"
            {netcode}
            "#,
            protocol = self.protocol.label(),
            // Room for some more, or the page would say that it is almost full.
            players = self.players * 5 / 4 + 16,
        );
        let file = Some((PathBuf::from("the demo's own configuration"), text));
        let mut config = config::load(&Input {
            file,
            ..Input::default()
        })?
        .config;
        config.admin.listen = self.admin.or(config.admin.listen);
        Ok(config)
    }
}

/// The default profile's protocol id: "tidegat1" on the wire.
const PROTOCOL_ID: u64 = u64::from_le_bytes(*b"tidegat1");
