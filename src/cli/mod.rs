//! The command line: what can be typed, and which function answers.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::exit::{self, Exit, Unavailable};
use crate::sizing::{file_size, open_files};
use crate::{bugs, config, stderr};

mod answer;
mod check;
mod connect;
mod ctl;
mod demo;
mod health;
mod init;
mod input;
mod keygen;
mod lag;
mod load;
mod package;
mod probe;
mod replay;
mod run_args;
mod serve;
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
    Serve(serve::ServeArgs),
    /// Accept local streams and carry each over UDP to a remote tidegate
    Connect(connect::ConnectArgs),
    /// Check a configuration: unknown keys and bad values first, all at once, then what is missing or does not go together;
    /// uses the network only with --probe
    Check(check::CheckArgs),
    /// Print a commented configuration file to start from
    Init {
        /// Kind of file
        kind: init::InitKind,
    },
    /// Print the JSON Schema of the configuration file, for editors
    Schema,
    /// Generate a key for connect tokens
    Keygen {
        /// Output file, created with mode 0600 and never overwritten [default: standard output, also as -]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check the health of a running tidegate; exit code 0 means healthy
    Health(health::HealthArgs),
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

/// The whole program: reads the command line, runs, and says how it went.
pub fn main() -> ExitCode {
    // First of all, since whatever is written may be cut off.
    file_size::outlive();
    // Usage errors end here, with clap's own words and code 2.
    let cli = Cli::parse();
    bugs::make_fatal(|| ());
    open_files::raise();
    match run(cli.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            stderr::complain(&spell(&error));
            Exit::of(&error).into()
        }
    }
}

/// Mistakes of a configuration come with their own "error:"; everything else gets one.
fn spell(error: &anyhow::Error) -> String {
    match Exit::of(error) {
        Exit::Configuration => format!("{error:#}"),
        Exit::Done | Exit::Failure | Exit::Usage | Exit::Unavailable | Exit::Bug => {
            format!("error: {error:#}{}", exit::help_line(exit::help(error)))
        }
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Connect(args) => connect::run(args),
        Command::Check(args) => check::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Init { kind } => init::run(kind),
        Command::Schema => print(&format!("{:#}\n", config::schema())),
        Command::Keygen { out } => keygen::run(out.as_deref()),
        Command::Health(args) => health::run(&args),
        Command::Ctl(args) => ctl::run(args),
        Command::Top(args) => top::run(args),
        Command::Load(args) => load::run(args),
        Command::Lag(args) => lag::run(args),
        Command::Replay { file } => replay::run(&file),
        Command::Token(command) => token::run(command),
        Command::Completions { shell } => package::completions(shell),
        Command::Man { directory } => package::man(&directory),
    }
}

/// Standard output, for what was asked for. A reader that went away is not an error.
fn print(text: &str) -> anyhow::Result<Exit> {
    print_while_read(text).map(|_| Exit::Done)
}

/// Like [`print`]. False once nobody reads any more, as behind `| head`: who prints for ever may stop.
fn print_while_read(text: &str) -> anyhow::Result<bool> {
    write_while_read(text.as_bytes())
}

fn write_while_read(bytes: &[u8]) -> anyhow::Result<bool> {
    use std::io::Write;
    let mut out = io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Whether a file that is to be written is standard output, by the name that it has everywhere.
fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file that a command was to write.
fn cannot_write(path: &Path, error: &io::Error) -> Unavailable {
    let help = exit::help_line(exit::help_with(error));
    Unavailable(format!("cannot write {}: {error}{help}", path.display()))
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
