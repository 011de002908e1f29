//! The command line: what can be typed, and which function answers.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use crate::admin::probe;
use crate::capture::{Order, pcapng};
use crate::config::parse_size;
use crate::exit::{self, Exit};
use crate::sizing::{file_size, open_files};
use crate::{config, connect, logging, serve};

mod check;
mod ctl;
mod demo;
mod input;
mod keygen;
mod lag;
mod load;
mod package;
mod probe;
mod token;
mod top;

/// A gateway: reliable UDP for players, plain streams for servers.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show it on this machine: players on bad networks, a TCP server, live figures
    Demo(demo::DemoArgs),
    /// End UDP sessions here and forward their messages to backends
    Serve(ServeArgs),
    /// Take local streams here and carry each over UDP to a tidegate elsewhere
    Connect(ConnectArgs),
    /// Read a configuration and say everything that is wrong with it; needs no network without --probe
    Check(CheckArgs),
    /// Print a commented file to start from
    Init {
        /// What it is for
        kind: InitKind,
    },
    /// Print the JSON Schema of the file, for editors
    Schema,
    /// Make a key for connect tokens
    Keygen {
        /// Where to (mode 0600, never overwritten) [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Ask a running tidegate whether it is well: exit code 0 is yes
    Health {
        /// Ask whether it wants peers, not only whether it lives
        #[arg(long)]
        ready: bool,
        /// Its admin address
        #[arg(
            long,
            value_name = "ADDRESS",
            env = "TIDEGATE_ADMIN",
            default_value = "127.0.0.1:9477"
        )]
        admin: SocketAddr,
    },
    /// Look after a running tidegate: peers, kicks, bans, drains
    Ctl(ctl::CtlArgs),
    /// Watch the peers of a running tidegate
    Top(top::TopArgs),
    /// Be many clients of a server, check every byte that comes back, and say how long it took
    Load(load::LoadArgs),
    /// Be a bad network between clients and a UDP server: delay, loss, bursts, and worse
    Lag(lag::LagArgs),
    /// Run recorded sessions again and say where they go another way
    Replay {
        /// As written by `serve --capture --capture-content` or `ctl capture start --content`
        file: PathBuf,
    },
    /// Make a connect token, or find out why a server refuses one
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Print completions for a shell
    #[command(hide = true)]
    Completions {
        /// Which one
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each command
    #[command(hide = true)]
    Man {
        /// Where to
        directory: PathBuf,
    },
}

/// Options of everything that runs for long.
#[derive(Args, Debug)]
struct RunArgs {
    // Variables are read elsewhere (`input`, `config`): clap would hold one against a flag that means the same, and
    // the flag goes before it.
    /// Configuration file; - is standard input [env: TIDEGATE_CONFIG]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Level, or directives such as info,tidegate::listener=debug [default: info] [env: TIDEGATE_LOG_LEVEL]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// auto (text on a terminal, json elsewhere), text or json [default: auto] [env: TIDEGATE_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Say more; twice for everything
    #[arg(short, action = clap::ArgAction::Count, conflicts_with_all = ["log_level", "quiet"])]
    verbose: u8,
    /// Say warnings and errors only
    #[arg(short, conflicts_with = "log_level")]
    quiet: bool,
    /// Where the page, /metrics, /livez, /readyz and /status answer; "" is nowhere [default: 127.0.0.1:9477; of
    /// `connect` without a file nowhere] [env: TIDEGATE_ADMIN]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Where `tidegate ctl` and `top` get in; "" is nowhere [default: they find it]
    #[arg(long, value_name = "PATH")]
    control: Option<String>,
}

impl RunArgs {
    /// The file that the environment names, unless flags name another or say everything themselves.
    fn find_file(&mut self, has_flags: bool) {
        if self.config.is_none() && !has_flags {
            let named = std::env::var_os("TIDEGATE_CONFIG").filter(|name| !name.is_empty());
            self.config = named.map(PathBuf::from);
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Without a file:  tidegate serve --listen yojimbo://0.0.0.0:40000 --backend tcp://127.0.0.1:7000
With one:        tidegate init yojimbo > tidegate.toml
                 tidegate serve --config tidegate.toml")]
struct ServeArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Without a file: protocol and address, such as yojimbo://0.0.0.0:40000
    #[arg(
        long,
        value_name = "URL",
        requires = "backend",
        conflicts_with = "config"
    )]
    listen: Option<String>,
    /// Without a file: the server behind, tcp://HOST:PORT or unix:/PATH
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    backend: Option<String>,
    /// How messages are told apart on backend streams: raw (any stream protocol, as it is), u16be,
    /// u16le, u32be, u32le, varint or line [default: raw]
    #[arg(long, requires = "backend")]
    framing: Option<String>,
    /// Key of the connect tokens [default: netcode.key in $STATE_DIRECTORY or here; made if missing]
    #[arg(long, value_name = "FILE", requires = "backend")]
    key: Option<PathBuf>,
    /// Record all sessions into a new file that tshark opens; see also `tidegate ctl capture`
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Record the decrypted messages too, which `tidegate replay` needs
    #[arg(long, requires = "capture")]
    capture_content: bool,
    /// Where the recording ends
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

#[derive(Args, Debug)]
#[command(after_help = "\
Without a file:  tidegate connect --listen tcp://127.0.0.1:7000 \\
                     --remote yojimbo://HOST:40000 --key netcode.key
With one:        tidegate init tunnel > tunnel.toml
                 tidegate connect --config tunnel.toml")]
struct ConnectArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Without a file: where local streams come in, tcp://ADDRESS or unix:/PATH
    #[arg(
        long,
        value_name = "URL",
        requires = "remote",
        conflicts_with = "config"
    )]
    listen: Option<String>,
    /// Without a file: the tidegate to reach, such as yojimbo://game.example.net:40000
    #[arg(
        long,
        value_name = "URL",
        requires = "listen",
        conflicts_with = "config"
    )]
    remote: Option<String>,
    /// The framing that the far end uses for its backend [default: raw]
    #[arg(long, requires = "remote")]
    framing: Option<String>,
    #[command(flatten)]
    tokens: TokenArgs,
}

/// Where the tokens come from that let sessions in at `--remote`.
#[derive(Args, Debug)]
struct TokenArgs {
    /// The server's key: tokens are made here
    #[arg(long, value_name = "FILE", requires = "remote", group = "tokens")]
    key: Option<PathBuf>,
    /// A file that holds a fresh token for each session
    #[arg(long, value_name = "FILE", requires = "remote", group = "tokens")]
    token_file: Option<PathBuf>,
    /// A shell command that prints a fresh token for each session
    #[arg(long, value_name = "COMMAND", requires = "remote", group = "tokens")]
    token_command: Option<String>,
}

#[derive(Args, Debug)]
struct CheckArgs {
    /// Configuration file; - is standard input
    #[arg(short, long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    config: PathBuf,
    /// Print every value in force and who set it
    #[arg(long)]
    print: bool,
    /// Also bind the addresses, look names up and connect to the backends: exit code 69 when one fails
    #[arg(long)]
    probe: bool,
    /// A probe that warns is one that fails
    #[arg(long, requires = "probe")]
    strict: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum InitKind {
    /// Game clients that use yojimbo
    Yojimbo,
    /// Clients of the 2008 articles' protocol
    Gaffer,
    /// Clients of cloudwu/rudp
    Rudp,
    /// The local side of a bridge, for `tidegate connect`
    Tunnel,
    /// Every key there is
    Reference,
}

impl InitKind {
    const fn text(self) -> &'static str {
        match self {
            Self::Yojimbo => include_str!("../../config/yojimbo.toml"),
            Self::Gaffer => include_str!("../../config/gaffer.toml"),
            Self::Rudp => include_str!("../../config/rudp.toml"),
            Self::Tunnel => include_str!("../../config/bridge/client.toml"),
            Self::Reference => include_str!("../../config/tidegate.toml"),
        }
    }
}

/// The whole program: reads the command line, runs, and says how it went.
pub fn main() -> ExitCode {
    // First of all, since whatever is written may be cut off.
    file_size::outlive();
    // Usage errors end here, with clap's own words and code 2.
    let cli = Cli::parse();
    logging::end_with_bugs(|| ());
    open_files::raise();
    match run(cli.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            logging::complain(&spell(&error));
            Exit::of(&error).into()
        }
    }
}

/// Mistakes of a configuration come with their own "error:"; everything else gets one.
fn spell(error: &anyhow::Error) -> String {
    match Exit::of(error) {
        Exit::Configuration => format!("{error:#}"),
        Exit::Done | Exit::Failure | Exit::Usage | Exit::Unavailable | Exit::Bug => {
            let help =
                exit::help(error).map_or_else(String::new, |help| format!("\n help: {help}"));
            format!("error: {error:#}{help}")
        }
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(mut args) => {
            args.run.find_file(args.backend.is_some());
            let flags = input::serve_flags(&args)?;
            input::make_own_key(&args, &flags)?;
            let (loaded, logging, source) = input::start(&args.run, flags)?;
            let outcome = serve::run(&loaded, logging.clone(), source, args.capture());
            logging.flush();
            outcome.map(|()| Exit::Done)
        }
        Command::Connect(mut args) => {
            args.run.find_file(args.remote.is_some());
            let (loaded, logging, _) = input::start(&args.run, input::connect_flags(&args)?)?;
            let outcome = connect::run(loaded.config, logging.clone());
            logging.flush();
            outcome.map(|()| Exit::Done)
        }
        Command::Check(args) => check::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Init { kind } => print(kind.text()),
        Command::Schema => print(&format!("{:#}\n", config::schema())),
        Command::Keygen { out } => keygen::run(out.as_deref()),
        Command::Health { ready, admin } => health(admin, ready),
        Command::Ctl(args) => ctl::run(args),
        Command::Top(args) => top::run(args),
        Command::Load(args) => load::run(args),
        Command::Lag(args) => lag::run(args),
        Command::Replay { file } => replay(&file),
        Command::Token(command) => token::run(command),
        Command::Completions { shell } => package::completions(shell),
        Command::Man { directory } => package::man(&directory),
    }
}

fn replay(file: &Path) -> anyhow::Result<Exit> {
    let reading = || format!("reading {}", file.display());
    let mut recording = File::open(file).with_context(reading)?;
    // What does not begin like a recording is not read to its end: a device has none.
    let mut bytes = Vec::new();
    let mut beginning = (&mut recording).take(pcapng::BEGIN_BYTES);
    beginning.read_to_end(&mut bytes).with_context(reading)?;
    pcapng::Packets::new(&bytes).with_context(reading)?;
    recording.read_to_end(&mut bytes).with_context(reading)?;
    let report = crate::replay::replay(&bytes)?;
    if let Some(difference) = report.difference {
        print(&format!("first difference: {difference}\n"))?;
        return Ok(Exit::Failure);
    }
    print(&format!(
        "the same result: {} sessions, {} calls, {:.1} s\n",
        report.sessions,
        report.calls,
        report.span.as_secs_f64()
    ))
}

/// For images without a shell: `HEALTHCHECK CMD ["/tidegate", "health"]`.
fn health(admin: SocketAddr, ready: bool) -> anyhow::Result<Exit> {
    let path = if ready { "/readyz" } else { "/livez" };
    let (code, text) = probe(admin, path, Duration::from_secs(2))
        .with_context(|| format!("asking http://{admin}{path}"))?;
    print(&text)?;
    Ok(if code == 200 {
        Exit::Done
    } else {
        Exit::Failure
    })
}

/// Standard output, for what was asked for. A reader that went away is not an error.
fn print(text: &str) -> anyhow::Result<Exit> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
