//! `tidegate ctl`: a question over the control socket, and its answer for people.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::{answer, input, print};
use crate::capture::Order;
use crate::config::{parse_size, parse_whole_seconds};
use crate::control::{self, Request};
use crate::exit::{Exit, Misused, Unavailable};
use crate::socket_file;

#[derive(Args, Debug)]
pub(super) struct Connection {
    /// Control socket [default: that of the running tidegate]
    #[arg(long, global = true, value_name = "PATH", env = "TIDEGATE_CONTROL")]
    control: Option<PathBuf>,
    /// Print the raw answer, one JSON object
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Connection {
    /// The socket that was named or, if exactly one process answers at the usual places, that one's.
    pub(super) fn socket(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.control {
            return Ok(path.clone());
        }
        let service = service_socket();
        let mut found = control::answering(&service, input::session_directory().as_deref());
        match found.len() {
            0 => Ok(service),
            1 => Ok(found.remove(0)),
            count => {
                let paths = found.iter().map(|path| path.display().to_string());
                let paths = paths.collect::<Vec<_>>().join(" ");
                Err(Misused(format!(
                    "{count} tidegates run here: {paths}\n help: choose one with --control"
                ))
                .into())
            }
        }
    }
}

/// Where a service has it.
fn service_socket() -> PathBuf {
    let directory = input::directory("RUNTIME_DIRECTORY");
    let directory = directory.unwrap_or_else(|| PathBuf::from(SERVICE_DIRECTORY));
    directory.join("control.sock")
}

#[derive(Args, Debug)]
pub(super) struct CtlArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// List the peers
    Peers {
        /// Only this listener
        #[arg(long)]
        listener: Option<String>,
    },
    /// Show one peer
    Peer {
        /// Session (16 hexadecimal digits, as in the log), client id, IP or IP:PORT
        whom: String,
    },
    /// End a session, or all sessions of a client or an address
    Kick {
        /// Session (16 hexadecimal digits, as in the log), client id, IP or IP:PORT
        whom: String,
    },
    /// End sessions and refuse new ones; no ban survives a restart
    Ban {
        /// Network, address or client id
        whom: String,
        /// Duration of the ban, such as 1h [default: until the restart]
        #[arg(long = "for", value_name = "DURATION", value_parser = parse_whole_seconds)]
        span: Option<Duration>,
    },
    /// Lift a ban
    Unban {
        /// What was banned, as it was given
        whom: String,
    },
    /// List the bans
    Bans,
    /// List all backend targets
    Backends,
    /// Drain or enable a backend target
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Stop accepting new peers; connected peers stay
    Drain {
        /// Disconnect the remaining peers after this time
        #[arg(long, value_name = "DURATION", value_parser = parse_whole_seconds)]
        grace: Option<Duration>,
    },
    /// Accept new peers again
    Undrain,
    /// Reload the configuration; with a mistake in it nothing changes
    Reload,
    /// Show or change the log level
    Log {
        /// Level, or directives such as info,tidegate::listener=debug [default: show the current one]
        level: Option<String>,
        /// Duration, such as 10m, after which the previous level returns [default: until changed again]
        #[arg(long = "for", value_name = "DURATION", value_parser = parse_whole_seconds, requires = "level")]
        span: Option<Duration>,
    },
    /// Record sessions to a file, readable by tshark
    #[command(subcommand)]
    Capture(CaptureCommand),
    /// Show statistics of the process
    Stats,
}

#[derive(Debug, Subcommand)]
enum CaptureCommand {
    /// Start recording the sessions that begin from now on
    Start {
        /// New file, a path as the daemon sees it
        file: PathBuf,
        /// Only this listener
        #[arg(long)]
        listener: Option<String>,
        /// Only this address
        #[arg(long, value_name = "ADDRESS")]
        peer: Option<IpAddr>,
        /// Also record decrypted messages, as `tidegate replay` needs
        #[arg(long)]
        content: bool,
        /// Largest size of the file
        #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
        size: u64,
    },
    /// Stop the recording
    Stop,
}

#[derive(Debug, Subcommand)]
enum BackendCommand {
    /// Give a target no new sessions; its sessions stay
    Drain {
        /// Target, as written in the configuration
        target: String,
    },
    /// Give a target new sessions again
    Enable {
        /// Target, as written in the configuration
        target: String,
    },
}

pub(super) fn run(args: CtlArgs) -> anyhow::Result<Exit> {
    let answer = ask(&args.connection.socket()?, &args.command.request())?;
    if args.connection.json {
        print(&format!("{answer}\n"))?;
    } else if answer["ok"] == true {
        print(&match &args.command {
            CtlCommand::Peer { .. } => answer::details(&answer["peers"]),
            CtlCommand::Ban { .. } => answer::ban(&answer),
            CtlCommand::Drain { grace } => answer::drain(&answer, seconds(*grace)),
            CtlCommand::Reload => answer::reload(&answer),
            _ => answer::readable(&answer),
        })?;
    }
    if answer["ok"] == true {
        return Ok(Exit::Done);
    }
    let error = answer["error"].as_str().unwrap_or("refused");
    // It gets its own "error:" like everything else.
    bail!("{}", error.strip_prefix("error: ").unwrap_or(error))
}

impl CtlCommand {
    fn request(&self) -> Request {
        match self {
            Self::Peers { listener } => Request::Peers {
                listener: listener.clone(),
            },
            Self::Peer { whom } => Request::Peer { whom: whom.clone() },
            Self::Kick { whom } => Request::Kick { whom: whom.clone() },
            Self::Ban { whom, span } => Request::Ban {
                whom: whom.clone(),
                seconds: seconds(*span),
            },
            Self::Unban { whom } => Request::Unban { whom: whom.clone() },
            Self::Bans => Request::Bans,
            Self::Backends => Request::Backends,
            Self::Backend(BackendCommand::Drain { target }) => Request::BackendDrain {
                target: target.clone(),
            },
            Self::Backend(BackendCommand::Enable { target }) => Request::BackendEnable {
                target: target.clone(),
            },
            Self::Drain { grace } => Request::Drain {
                seconds: seconds(*grace),
            },
            Self::Undrain => Request::Undrain,
            Self::Reload => Request::Reload,
            Self::Log { level, span } => Request::Log {
                level: level.clone(),
                seconds: seconds(*span),
            },
            Self::Capture(CaptureCommand::Start {
                file,
                listener,
                peer,
                content,
                size,
            }) => Request::CaptureStart(Order {
                file: file.clone(),
                listener: listener.clone(),
                peer: *peer,
                content: *content,
                bytes_max: *size,
            }),
            Self::Capture(CaptureCommand::Stop) => Request::CaptureStop,
            Self::Stats => Request::Stats,
        }
    }
}

/// Exactly: what is no whole number of them was refused.
fn seconds(span: Option<Duration>) -> Option<u64> {
    span.map(|span| span.as_secs())
}

pub(super) fn ask(path: &Path, request: &Request) -> anyhow::Result<Value> {
    let connected = socket_file::connect(path, PATIENCE).map_err(|error| {
        let help = match error.kind() {
            _ if is_something_else(path) => "this is no socket; name tidegate's with --control",
            io::ErrorKind::ConnectionRefused => "the process that made it is dead; start tidegate",
            io::ErrorKind::WouldBlock => {
                "the process that made it takes no connections: it is stopped, or hangs; nothing was asked of it"
            }
            io::ErrorKind::PermissionDenied => {
                "admin.control_mode lets only some users in; be one of them"
            }
            // Where it is looked for when nobody named one.
            _ if path == service_socket() => {
                "no tidegate was found; if one runs, name its control socket with --control or \
                 $TIDEGATE_CONTROL, or start it with one (serve --control PATH)"
            }
            _ => {
                "no tidegate has its control socket there: its log names it (`control`), or start it with \
                 this one (serve --control PATH)"
            }
        };
        let path = path.display();
        Unavailable(format!("cannot reach {path}: {error}\n help: {help}"))
    });
    let mut stream = connected?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    writeln!(stream, "{}", serde_json::to_string(request)?)?;
    let mut line = String::new();
    let read = BufReader::new(stream).read_line(&mut line);
    read.map_err(|error| no_answer(path, &error))?;
    if line.is_empty() {
        let error = io::ErrorKind::UnexpectedEof.into();
        return Err(no_answer(path, &error).into());
    }
    serde_json::from_str(&line).map_err(|_| {
        let (path, said) = (path.display(), line.trim_end());
        let what = format!("{path} is no tidegate's control socket: it answers {said:?}");
        anyhow::Error::new(Unavailable(format!(
            "{what}\n help: name the right one with --control or $TIDEGATE_CONTROL"
        )))
    })
}

/// Somebody took the question. Whether it was done, only the other side knows.
fn no_answer(path: &Path, error: &io::Error) -> Unavailable {
    let path = path.display();
    Unavailable(match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "{path} gave no answer in {} s\n help: it may still do what it was asked for, as a reload does once the \
             names of its backends are found: its log says so. `tidegate health` says whether it is well",
            PATIENCE.as_secs()
        ),
        _ => format!(
            "{path} ended the connection without an answer: {error}\n help: if it is a tidegate's, that one has \
             just ended; its log says why"
        ),
    })
}

/// A file, say, or a directory.
fn is_something_else(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Runtime directory of the systemd unit.
const SERVICE_DIRECTORY: &str = "/run/tidegate";

/// Beyond what the other side takes to find out that a worker does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
