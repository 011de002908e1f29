//! `tidegate token mint` and `tidegate token inspect`.

mod inspect;
mod mint;

use std::path::Path;

use clap::Subcommand;
use tidegate_proto::yojimbo::netcode::Key;

use crate::config::{KeyFileError, read_key_file};
use crate::exit::{Exit, Unavailable};

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Create a connect token, as a matchmaker would
    Mint(mint::MintArgs),
    /// Show what a token says, and why a server would refuse it
    Inspect(inspect::InspectArgs),
}

/// "tidegat1".
const DEFAULT_PROTOCOL_ID: &str = "0x3174616765646974";

pub(super) fn run(command: TokenCommand) -> anyhow::Result<Exit> {
    match command {
        TokenCommand::Mint(args) => mint::mint(args),
        TokenCommand::Inspect(args) => inspect::inspect(&args),
    }
}

fn read_key(path: &Path) -> anyhow::Result<Key> {
    read_key_file(path).map_err(|error| {
        let text = format!("{error}\n help: {}", error.help());
        match error {
            KeyFileError::Unreadable(_, why) if why.is_unavailable() => Unavailable(text).into(),
            _ => anyhow::anyhow!(text),
        }
    })
}
