//! What the demo tells its parts: the configuration of the server, the network, the players.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tidegate_proto::sim::Conditions;

use super::weather::Weather;
use super::{ANY_PORT, Demo, Spoken};
use crate::config::{self, Config, Input, Tunnel};
use crate::lag;
use crate::load::{Load, Pace};
use crate::tokens;

impl Demo {
    /// A storm of six seconds after every twenty.
    pub(super) fn weather(&self) -> Weather {
        let storms = (Duration::from_secs(20), Duration::from_secs(6));
        Weather {
            calm: Conditions {
                delay: self.delay,
                jitter: self.jitter,
                loss: self.loss,
                ..Conditions::default()
            },
            storms: self.storms.then_some(storms),
        }
    }

    /// A network for each player, in front of this server.
    pub(super) fn network(&self, server: SocketAddr) -> anyhow::Result<lag::Setup> {
        Ok(lag::Setup {
            listen: ANY_PORT,
            to: server,
            impairments: self.weather().at(Duration::ZERO),
            seed: u64::from_le_bytes(tokens::random()?),
            // A player who was denied comes again from another port.
            clients_max: 2 * self.players,
            idle: Duration::from_secs(60),
        })
    }

    /// The players: they get into this server as the tunnel says, through the network at that address.
    pub(super) fn load(&self, tunnel: Tunnel, server: SocketAddr, network: SocketAddr) -> Load {
        Load {
            tunnel: Tunnel {
                remote_host: network.ip().to_string(),
                remote_port: network.port(),
                ..tunnel
            },
            token_address: Some(server),
            clients: self.players,
            ramp: JOIN_EVERY * self.players as u32,
            patience: Duration::from_secs(15),
            pace: Pace::Every(Duration::from_secs(1) / self.rate.max(1)),
            size: (self.size, self.size),
            unreliable: 0.0,
            echoed: true,
            // The end comes from here.
            duration: Duration::MAX,
            settle: Duration::ZERO,
            threads: 1,
        }
    }

    /// The configuration that an operator would write; its key lies in a private file for as long as
    /// it takes to read it.
    pub(super) fn config(&self, backend: SocketAddr) -> anyhow::Result<Config> {
        let key = config::generate_key()?;
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
            Spoken::Yojimbo => format!("netcode = {{ key_file = \"{}\" }}", key_file.display()),
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
            # How the players get in; no local stream is taken, and the address is known later.
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

/// They come one by one, as players do, and not all in one datagram storm.
const JOIN_EVERY: Duration = Duration::from_millis(1);
