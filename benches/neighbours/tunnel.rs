//! Ours and the neighbours', both ends of each.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tidegate::lag::Lag;

use crate::stand::backend::Backend;
use crate::stand::link;
use crate::stand::program::{Place, Program};

/// What carries TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// Ours, frame by frame: a frame is a message.
    Tidegate,
    /// Ours, as a stream of bytes.
    TidegateRaw,
    Quinn,
    Kcp,
    /// The kernel's TCP, which no link of ours carries: what the machine can at most.
    Tcp,
    /// TCP with all that passes sealed as ours is: what a tunnel that encrypts can at most.
    SealedTcp,
}

impl Tunnel {
    /// Whether our links, which carry UDP, carry it.
    pub(crate) fn is_udp(self) -> bool {
        !matches!(self, Self::Tcp | Self::SealedTcp)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::TidegateRaw => "tidegate, raw",
            Self::Quinn => "quinn",
            Self::Kcp => "tokio_kcp",
            Self::Tcp => "no protocol (TCP)",
            Self::SealedTcp => "no protocol (TCP), sealed",
        }
    }
}

/// Where they run.
pub(crate) struct Field {
    place: Place,
    tunnels: PathBuf,
}

/// A tunnel that is open; it closes when dropped.
pub(crate) struct Open {
    /// Where TCP connections go in.
    pub(crate) client: Program,
    pub(crate) link: Option<Lag>,
    /// Where they come out.
    pub(crate) server: Program,
}

impl Field {
    /// Builds the neighbours' tunnels, so that none is older than its source.
    pub(crate) fn build() -> Self {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or("cargo".to_owned()));
        cargo
            .args(["build", "--release", "--package", "tidegate-tunnels"])
            .args(["--manifest-path", manifest])
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit());
        // What cargo tells a bench of its package would look like a change to build scripts that ask
        // for theirs, and all behind them would be built again, each time.
        for (name, _) in std::env::vars() {
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(name);
            }
        }
        let built = cargo.output().unwrap();
        assert!(built.status.success(), "the tunnels do not build");
        let told = String::from_utf8(built.stdout).unwrap();
        let mut executables = told.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(PathBuf::from(line["executable"].as_str()?))
        });
        Self {
            place: Place::new(),
            tunnels: executables.next_back().unwrap(),
        }
    }

    /// Both ends, and between them a link of these words, if any; with none they speak directly.
    pub(crate) fn open(
        &self,
        tunnel: Tunnel,
        backend: &Backend,
        impairments: Option<&str>,
        seed: u64,
    ) -> Open {
        let server = self.server(tunnel, backend);
        let link = impairments.map(|words| link::start(server.address, words, seed));
        let remote = link.as_ref().map_or(server.address, Lag::address);
        Open {
            client: self.client(tunnel, remote),
            link,
            server,
        }
    }

    fn server(&self, tunnel: Tunnel, backend: &Backend) -> Program {
        let to = &backend.addresses[0];
        match tunnel {
            Tunnel::Tidegate => Program::serve(&self.place, &backend.targets(), "u16be"),
            Tunnel::TidegateRaw => Program::serve(&self.place, &backend.targets(), "raw"),
            Tunnel::Quinn => self.neighbour("quinn", "serve", to),
            Tunnel::Kcp => self.neighbour("kcp", "serve", to),
            Tunnel::Tcp => self.neighbour("tcp", "serve", to),
            Tunnel::SealedTcp => self.neighbour("sealed-tcp", "serve", to),
        }
    }

    fn client(&self, tunnel: Tunnel, remote: SocketAddr) -> Program {
        match tunnel {
            Tunnel::Tidegate => Program::connect(&self.place, remote, "u16be"),
            Tunnel::TidegateRaw => Program::connect(&self.place, remote, "raw"),
            Tunnel::Quinn => self.neighbour("quinn", "connect", remote),
            Tunnel::Kcp => self.neighbour("kcp", "connect", remote),
            Tunnel::Tcp => self.neighbour("tcp", "connect", remote),
            Tunnel::SealedTcp => self.neighbour("sealed-tcp", "connect", remote),
        }
    }

    fn neighbour(&self, protocol: &str, end: &str, to: impl Display) -> Program {
        let to = to.to_string();
        Program::start(Command::new(&self.tunnels).args([protocol, end, "127.0.0.1:0", &to]))
    }
}
