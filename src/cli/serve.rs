//! `tidegate serve`.

use std::path::PathBuf;

use clap::Args;

use super::run_args::RunArgs;
use super::{input, keygen};
use crate::capture::Order;
use crate::config::{Override, ServeFlags, parse_size};
use crate::exit::{Exit, Misused};
use crate::serve;

#[derive(Args, Debug)]
#[command(after_help = "\
Without a file:  tidegate serve --listen yojimbo://0.0.0.0:40000 --backend tcp://127.0.0.1:7000
With one:        tidegate init yojimbo > tidegate.toml
                 tidegate serve --config tidegate.toml")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Protocol and address to listen on, such as yojimbo://0.0.0.0:40000 (instead of --config)
    #[arg(
        long,
        value_name = "URL",
        requires = "backend",
        conflicts_with = "config"
    )]
    listen: Option<String>,
    /// Server to forward to, tcp://HOST:PORT or unix:/PATH (instead of --config)
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    backend: Option<String>,
    /// Framing of messages on backend streams: raw (no framing, for any stream protocol), u16be,
    /// u16le, u32be, u32le, varint or line [default: raw]
    #[arg(long, requires = "backend")]
    framing: Option<String>,
    /// Key of the connect tokens [default: netcode.key in $STATE_DIRECTORY or the working directory; created if missing]
    #[arg(long, value_name = "FILE", requires = "backend")]
    key: Option<PathBuf>,
    /// Record all sessions to a new file, readable by tshark; see also `tidegate ctl capture`
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Also record decrypted messages, as `tidegate replay` needs
    #[arg(long, requires = "capture")]
    capture_content: bool,
    /// Largest size of the recording
    #[arg(
        long,
        value_name = "SIZE",
        requires = "capture",
        value_parser = parse_size,
        default_value = "64MiB"
    )]
    capture_size: u64,
}

impl ServeArgs {
    fn capture(&self) -> Option<Order> {
        Some(Order {
            file: self.capture.clone()?,
            listener: None,
            peer: None,
            content: self.capture_content,
            bytes_max: self.capture_size,
        })
    }
}

pub(super) fn run(mut args: ServeArgs) -> anyhow::Result<Exit> {
    args.run.find_file(args.backend.is_some());
    let flags = flags(&args)?;
    make_own_key(&args, &flags)?;
    let (loaded, logging, source) = input::start(&args.run, flags)?;
    let outcome = serve::run(&loaded, logging.clone(), source, args.capture());
    logging.flush();
    outcome.map(|()| Exit::Done)
}

fn flags(args: &ServeArgs) -> anyhow::Result<Vec<Override>> {
    let Some(backend) = &args.backend else {
        return input::need_file(&args.run.config, "--listen URL --backend URL", "yojimbo");
    };
    let listen = args
        .listen
        .clone()
        .unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
    let key = match &args.key {
        Some(path) => Some(path.clone()),
        None => own_key(&listen),
    };
    let flags = ServeFlags {
        listen,
        backend: backend.clone(),
        framing: args.framing.clone(),
        key: key.as_deref().map(input::absolute).transpose()?,
    };
    flags
        .overrides()
        .map_err(|error| Misused(error.to_string()).into())
}

/// The key of a server without a configuration, in its state directory.
fn own_key(listen: &str) -> Option<PathBuf> {
    let state = || input::directory("STATE_DIRECTORY").unwrap_or_else(|| PathBuf::from("."));
    let needs_one = listen.starts_with("yojimbo://");
    needs_one.then(|| state().join("netcode.key"))
}

/// Makes the key that `flags` name, where nobody gave one and there is none yet. All else is checked before: a
/// start that fails for a mistyped address leaves no key that looks like the one in use.
fn make_own_key(args: &ServeArgs, flags: &[Override]) -> anyhow::Result<()> {
    let listen = args.listen.as_deref().unwrap_or(DEFAULT_LISTEN);
    let own = args.backend.as_ref().and_then(|_| own_key(listen));
    let Some(key) = own.filter(|key| args.key.is_none() && !key.exists()) else {
        return Ok(());
    };
    let mut overrides = flags.to_vec();
    overrides.extend(args.run.overrides());
    input::check_without_keys(overrides)?;
    keygen::make(&key)
}

/// The main protocol on the port of the examples, where only a backend was given.
const DEFAULT_LISTEN: &str = "yojimbo://0.0.0.0:40000";
