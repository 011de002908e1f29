//! The command line: what can be typed, and which function answers.

use std::fs::File;
use std::io::{self, Read};
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

mod answer;
mod check;
mod ctl;
mod demo;
mod input;
mod keygen;
mod lag;
mod load;
mod package;
mod probe;
mod table;
mod token;
mod top;

/// Gateway between reliable-UDP game protocols and TCP or Unix-socket servers.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a demo on this machine: players on bad networks, a TCP server, live figures
    Demo(demo::DemoArgs),
    /// Terminate UDP sessions and forward their messages to backends
    Serve(ServeArgs),
    /// Accept local streams and carry each over UDP to a remote tidegate
    Connect(ConnectArgs),
    /// Check a configuration: unknown keys and kinds of values first, all at once, then what the values say; uses the
    /// network only with --probe
    Check(CheckArgs),
    /// Print a commented configuration file to start from
    Init {
        /// Kind of file
        kind: InitKind,
    },
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
    /// Generate a key for connect tokens
    Keygen {
        /// Output file, created with mode 0600 and never overwritten [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check the health of a running tidegate; exit code 0 means healthy
    Health {
        /// Check readiness for new peers (/readyz) instead of liveness (/livez)
        #[arg(long)]
        ready: bool,
        /// Admin address of the running tidegate
        #[arg(
            long,
            value_name = "ADDRESS",
            env = "TIDEGATE_ADMIN",
            default_value = "127.0.0.1:9477"
        )]
        admin: SocketAddr,
    },
    /// Control a running tidegate: peers, kicks, bans, drains, reloads
    Ctl(ctl::CtlArgs),
    /// Watch the peers of a running tidegate
    Top(top::TopArgs),
    /// Generate load: simulate many clients, check every byte that comes back, report latencies
    Load(load::LoadArgs),
    /// Emulate a bad network between clients and a UDP server: delay, loss, bursts, and more
    Lag(lag::LagArgs),
    /// Replay recorded sessions and report the first difference
    Replay {
        /// Recording made with `serve --capture --capture-content` or `ctl capture start --content`
        file: PathBuf,
    },
    /// Create connect tokens, or explain why a server refuses one
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Print shell completions
    #[command(hide = true)]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command
    #[command(hide = true)]
    Man {
        /// Output directory
        directory: PathBuf,
    },
}

/// Options of the commands that run until stopped.
#[derive(Args, Debug)]
struct RunArgs {
    // Variables are read elsewhere (`input`, `config`): clap would hold one against a flag that means the same, and
    // the flag goes before it.
    /// Configuration file; - reads standard input [env: TIDEGATE_CONFIG]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log level, or directives such as info,tidegate::listener=debug [default: info] [env: TIDEGATE_LOG_LEVEL]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Log format: auto (text on a terminal, json elsewhere), text or json [default: auto] [env: TIDEGATE_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log more: -v for debug, -vv for everything
    #[arg(short, action = clap::ArgAction::Count, conflicts_with_all = ["log_level", "quiet"])]
    verbose: u8,
    /// Log warnings and errors only
    #[arg(short, conflicts_with = "log_level")]
    quiet: bool,
    /// Address of the status page, /metrics, /livez, /readyz and /status; "" disables it [default: 127.0.0.1:9477;
    /// `connect` without a file: disabled] [env: TIDEGATE_ADMIN]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Control socket for `tidegate ctl` and `top`; "" disables it [default: a path where they find it]
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

#[derive(Args, Debug)]
#[command(after_help = "\
Without a file:  tidegate connect --listen tcp://127.0.0.1:7000 \\
                     --remote yojimbo://HOST:40000 --key netcode.key
With one:        tidegate init tunnel > tunnel.toml
                 tidegate connect --config tunnel.toml")]
struct ConnectArgs {
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
struct TokenArgs {
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

#[derive(Args, Debug)]
struct CheckArgs {
    /// Configuration file; - reads standard input
    #[arg(short, long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    config: PathBuf,
    /// Print every effective value and where it was set
    #[arg(long)]
    print: bool,
    /// Also bind the addresses, resolve names and connect to the backends; exit code 69 if any fails
    #[arg(long)]
    probe: bool,
    /// Treat warnings of the probe as failures
    #[arg(long, requires = "probe")]
    strict: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum InitKind {
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
        .map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => io::Error::other(format!(
                "{error}\n help: nobody is there; if a tidegate runs with another admin address, name that with --admin \
                 or $TIDEGATE_ADMIN"
            )),
            _ => error,
        })
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
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
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
