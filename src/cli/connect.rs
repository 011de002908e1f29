//! `tidegate connect`.

use std::path::PathBuf;

use clap::Args;

use super::input;
use super::run_args::RunArgs;
use crate::config::{ConnectFlags, Override};
use crate::connect;
use crate::exit::{Exit, Misused};

#[derive(Args, Debug)]
#[command(after_help = "\
Without a file:  tidegate connect --listen tcp://127.0.0.1:7000 \\
                     --remote yojimbo://HOST:40000 --key netcode.key
With one:        tidegate init tunnel > tunnel.toml
                 tidegate connect --config tunnel.toml")]
pub(super) struct ConnectArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Address for local streams, tcp://ADDRESS or unix:/PATH (instead of --config)
    #[arg(
        long,
        value_name = "URL",
        requires = "remote",
        conflicts_with = "config"
    )]
    listen: Option<String>,
    /// Remote tidegate, such as yojimbo://game.example.net:40000 (instead of --config)
    #[arg(
        long,
        value_name = "URL",
        requires = "listen",
        conflicts_with = "config"
    )]
    remote: Option<String>,
    /// Framing that the remote tidegate uses for its backend [default: raw]
    #[arg(long, requires = "remote")]
    framing: Option<String>,
    #[command(flatten)]
    tokens: TokenArgs,
}

/// Where the tokens come from that let sessions in at `--remote`.
#[derive(Args, Debug)]
pub(super) struct TokenArgs {
    /// The server's key, to create tokens with
    #[arg(long, value_name = "FILE", requires = "remote", group = "tokens")]
    key: Option<PathBuf>,
    /// File that is read for a fresh token for each session
    #[arg(long, value_name = "FILE", requires = "remote", group = "tokens")]
    token_file: Option<PathBuf>,
    /// Shell command that prints a fresh token for each session
    #[arg(long, value_name = "COMMAND", requires = "remote", group = "tokens")]
    token_command: Option<String>,
}

pub(super) fn run(mut args: ConnectArgs) -> anyhow::Result<Exit> {
    args.run.find_file(args.remote.is_some());
    let (loaded, logging, _) = input::start(&args.run, flags(&args)?)?;
    let outcome = connect::run(loaded.config, logging.clone());
    logging.flush();
    outcome.map(|()| Exit::Done)
}

fn flags(args: &ConnectArgs) -> anyhow::Result<Vec<Override>> {
    let (Some(listen), Some(remote)) = (&args.listen, &args.remote) else {
        return input::need_file(&args.run.config, "--listen URL --remote URL", "tunnel");
    };
    tunnel_flags(listen, remote, args.framing.as_deref(), &args.tokens)
}

/// The one tunnel of a process without a configuration.
pub(super) fn tunnel_flags(
    listen: &str,
    remote: &str,
    framing: Option<&str>,
    tokens: &TokenArgs,
) -> anyhow::Result<Vec<Override>> {
    let flags = ConnectFlags {
        listen: listen.to_owned(),
        remote: remote.to_owned(),
        framing: framing.map(str::to_owned),
        key: tokens.key.as_deref().map(input::absolute).transpose()?,
        token_file: tokens
            .token_file
            .as_deref()
            .map(input::absolute)
            .transpose()?,
        token_command: tokens.token_command.clone(),
    };
    flags
        .overrides()
        .map_err(|error| Misused(error.to_string()).into())
}
