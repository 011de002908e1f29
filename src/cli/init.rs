//! `tidegate init`: configuration files to start from.

use clap::ValueEnum;

use super::print;
use crate::exit::Exit;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum InitKind {
    /// A listener for yojimbo clients
    Yojimbo,
    /// A listener for clients of the 2008 articles' protocol
    Gaffer,
    /// A listener for cloudwu/rudp clients
    Rudp,
    /// A listener for the tunnels of `tidegate connect`, in front of any TCP server
    Bridge,
    /// A tunnel to such a listener, for `tidegate connect`
    Tunnel,
    /// The reference: every key there is
    Reference,
}

impl InitKind {
    const fn text(self) -> &'static str {
        match self {
            Self::Yojimbo => include_str!("../../config/yojimbo.toml"),
            Self::Gaffer => include_str!("../../config/gaffer.toml"),
            Self::Rudp => include_str!("../../config/rudp.toml"),
            Self::Bridge => include_str!("../../config/bridge/server.toml"),
            Self::Tunnel => include_str!("../../config/bridge/client.toml"),
            Self::Reference => include_str!("../../config/tidegate.toml"),
        }
    }
}

pub(super) fn run(kind: InitKind) -> anyhow::Result<Exit> {
    print(kind.text())
}
