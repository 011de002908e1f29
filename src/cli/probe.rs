//! `tidegate check --probe`: what `serve` and `connect` need of this machine, tried and given back.
//!
//! UDP addresses are bound without sharing, so a running tidegate never loses a datagram to this;
//! an address that it holds is said to be its own. Backends see a connection that says nothing (or,
//! with PROXY protocol, the header for checks) and closes.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::ctl;
use crate::admin;
use crate::backend::{advice, health};
use crate::config::{Backend, Config, Listener, LocalAddress, PublicAddresses, Tunnel};
use crate::control::Request;
use crate::exit::{Exit, Transport, help_line};
use crate::names;
use crate::running_listener::socket_options;
use crate::sizing::{memory, open_files};
use crate::socket_file;
use crate::token_history;
use crate::tokens;
use crate::udp::{Options, UdpSocket};

/// One thing that was tried.
pub(super) struct Finding {
    /// Of which table: `listener.game`.
    of: String,
    /// What was tried, with what: `bind udp 0.0.0.0:40000`.
    tried: String,
    verdict: Verdict,
}

/// What came of it.
enum Verdict {
    /// There, with what is worth knowing about it.
    Good(String),
    /// It would start, and hurt later.
    Warning(String),
    /// It would not start, or nobody could play.
    Failed(String),
}

impl From<Result<String, String>> for Verdict {
    fn from(outcome: Result<String, String>) -> Self {
        match outcome {
            Ok(detail) => Self::Good(detail),
            Err(why) => Self::Failed(why),
        }
    }
}

impl Finding {
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }

    pub(super) fn warns(&self) -> bool {
        matches!(self.verdict, Verdict::Warning(_))
    }

    pub(super) fn json(&self) -> Value {
        let (ok, key, text) = match &self.verdict {
            Verdict::Good(detail) => (true, "detail", detail),
            Verdict::Warning(why) => (true, "warning", why),
            Verdict::Failed(why) => (false, "detail", why),
        };
        json!({"probe": self.tried, "of": self.of, "ok": ok, key: text})
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { of, tried, verdict } = self;
        let (word, text) = match verdict {
            Verdict::Good(detail) => ("ok", detail),
            Verdict::Warning(why) => ("WARNING", why),
            Verdict::Failed(why) => ("FAILED", why),
        };
        write!(f, "{word:<8}{of}: {tried}")?;
        match text.as_str() {
            "" => Ok(()),
            text => write!(f, ": {}", text.replace('\n', "\n       ")),
        }
    }
}

/// The exit code that the findings add up to, with warnings or without.
pub(super) fn exit(findings: &[Finding], strict: bool) -> Exit {
    let counts = |finding: &Finding| finding.has_failed() || (strict && finding.warns());
    if findings.iter().any(counts) {
        Exit::Unavailable
    } else {
        Exit::Done
    }
}

pub(super) async fn run(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let running = Running::find(config);
    let memory = memory::Shortage::find(config).map(|it| short("memory limit", &it));
    let files = open_files::Shortage::find(config).map(|it| short("open files", &it));
    let mut findings = Vec::from_iter(memory.into_iter().chain(files));
    findings.extend(state_directory(config));
    for listener in &config.listeners {
        for &address in &listener.bind {
            findings.push(bind_udp(config, listener, address, &running));
        }
        findings.extend(examples(listener));
    }
    findings.extend(admin(config, &running));
    findings.extend(control(config));
    let mut seen: Vec<&str> = Vec::new();
    for listener in &config.listeners {
        let backend = &*listener.backend;
        if !seen.contains(&backend.name.as_str()) {
            seen.push(&backend.name);
            findings.extend(connect_all(backend).await);
        }
    }
    for tunnel in &config.tunnels {
        findings.extend(listen(tunnel));
        findings.push(resolve(tunnel).await);
    }
    Ok(findings)
}

/// The tidegate that runs here with this configuration, if one does.
struct Running {
    bound: Vec<SocketAddr>,
}

impl Running {
    fn find(config: &Config) -> Option<Self> {
        let control = config.admin.control_socket.as_deref();
        let stats = control.and_then(|path| ctl::ask(path, &Request::Stats).ok());
        let answer = stats.or_else(|| {
            let (code, text) = admin::probe(config.admin.listen?, "/status", PATIENCE).ok()?;
            (code == 200).then_some(())?;
            serde_json::from_str(&text).ok()
        })?;
        let listeners = answer["listeners"].as_array()?.iter();
        let binds = listeners.flat_map(|listener| match &listener["bind"] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            Value::String(text) => text.split(' ').collect(),
            _ => Vec::new(),
        });
        let bound = binds.filter_map(|text| text.parse().ok()).collect();
        Some(Self { bound })
    }

    fn holds(&self, address: SocketAddr) -> bool {
        self.bound.iter().any(|bound| {
            let (one, other) = (bound.ip(), address.ip());
            let same = one == other || one.is_unspecified() || other.is_unspecified();
            bound.port() == address.port() && same
        })
    }
}

/// A limit of the process that this runs in, which may be another than the service's.
fn short(limit: &str, shortage: &dyn Display) -> Finding {
    Finding {
        of: "runtime".to_owned(),
        tried: limit.to_owned(),
        verdict: Verdict::Warning(shortage.to_string()),
    }
}

/// Where used tokens are kept: a start does without, and refuses every token from before it.
fn state_directory(config: &Config) -> Option<Finding> {
    let path = config.runtime.state_directory.as_deref()?;
    let verdict = match write_and_remove(path) {
        Ok(()) if token_history::is_on_disk(path) => Verdict::Warning(format!(
            "it is on a disk\n help: {}",
            token_history::ON_DISK
        )),
        Ok(()) => Verdict::Good(String::new()),
        Err(error) => Verdict::Warning(format!(
            "no file can be written there: {error}. Used tokens are not remembered, and after each restart all tokens \
             from before it are refused for max_token_lifetime{}",
            help_line(token_history::help(&error))
        )),
    };
    Some(Finding {
        of: "runtime".to_owned(),
        tried: format!("state directory {}", path.display()),
        verdict,
    })
}

/// On a disk that is full a file can still be made, as long as nothing is in it.
fn write_and_remove(directory: &Path) -> io::Result<()> {
    let trial = trial(directory)?;
    let written = File::create_new(&trial)?.write_all(b"probe");
    let removed = std::fs::remove_file(trial);
    written.and(removed)
}

/// A name there that no other probe has or had: in a container each has the same number, and one that was killed left
/// its file behind.
fn trial(directory: &Path) -> io::Result<PathBuf> {
    let number: [u8; 4] = tokens::random().map_err(io::Error::other)?;
    let number = u32::from_ne_bytes(number);
    Ok(directory.join(format!(".probe-{number:08x}")))
}

fn bind_udp(
    config: &Config,
    listener: &Listener,
    address: SocketAddr,
    running: &Option<Running>,
) -> Finding {
    let wanted = config.runtime.udp_recv_buffer;
    let options = Options {
        reuse_port: false,
        ..socket_options(&config.runtime, listener, address)
    };
    let verdict = match UdpSocket::bind(address, options) {
        Ok(socket) => match socket.granted() {
            Ok((granted, _)) if granted < wanted => Verdict::Warning(format!(
                "the kernel grants {} KiB of the {} KiB in udp_recv_buffer; raise net.core.rmem_max",
                granted >> 10,
                wanted >> 10
            )),
            Ok(_) => Verdict::Good(String::new()),
            Err(error) => Verdict::Failed(error.to_string()),
        },
        Err(error) if in_use(&error) && running.as_ref().is_some_and(|r| r.holds(address)) => {
            Verdict::Good(HELD.to_owned())
        }
        Err(error) => Verdict::Failed(Transport::Udp.cannot_bind(address, &error)),
    };
    Finding {
        of: format!("listener.{}", listener.name),
        tried: format!("bind udp {address}"),
        verdict,
    }
}

/// Public addresses that `init` printed and nobody replaced: no server has them, and every token names another one.
fn examples(listener: &Listener) -> Vec<Finding> {
    let listed = match &listener.public_addresses {
        PublicAddresses::Listed(listed) => listed.as_slice(),
        PublicAddresses::Any | PublicAddresses::Bound => &[],
    };
    let examples = listed.iter().filter(|address| is_example(address.ip()));
    let warn = |address| Finding {
        of: format!("listener.{}", listener.name),
        tried: format!("public address {address}"),
        verdict: Verdict::Warning(ONLY_AN_EXAMPLE.to_owned()),
    };
    examples.map(warn).collect()
}

const ONLY_AN_EXAMPLE: &str =
    "it is for examples, and no server has it\n help: list the address and port that players dial";

/// Set aside for pages and files such as ours (RFC 5737, RFC 3849).
fn is_example(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_documentation(),
        IpAddr::V6(ip) => ip.segments()[..2] == [0x2001, 0x0db8],
    }
}

fn admin(config: &Config, running: &Option<Running>) -> Option<Finding> {
    let address = config.admin.listen?;
    let verdict = match TcpListener::bind(address) {
        Ok(_) => Ok(String::new()),
        Err(error) if in_use(&error) && running.is_some() => Ok(HELD.to_owned()),
        Err(error) => Err(Transport::Tcp.cannot_bind(address, &error)),
    };
    Some(Finding {
        of: "admin".to_owned(),
        tried: format!("bind tcp {address}"),
        verdict: verdict.into(),
    })
}

fn control(config: &Config) -> Option<Finding> {
    let path = config.admin.control_socket.as_deref()?;
    Some(Finding {
        of: "admin".to_owned(),
        tried: format!("control socket {}", path.display()),
        verdict: place_for_socket(path).into(),
    })
}

/// A socket is made in a directory that must be there; one that is left over is taken over.
fn place_for_socket(path: &Path) -> Result<String, String> {
    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => Err(format!(
            "{} is something else than a socket\n help: remove it or choose another path",
            path.display()
        )),
        Ok(_) if socket_file::knock(path).is_ok() => Ok(HELD.to_owned()),
        Ok(_) => {
            try_beside(path).map(|()| "left over by a dead process; it is taken over".to_owned())
        }
        Err(_) => match path.parent() {
            // A bare name's is empty: the directory that this is started in.
            Some(parent) if parent.as_os_str().is_empty() || parent.is_dir() => {
                try_beside(path).map(|()| String::new())
            }
            Some(parent) => Err(format!(
                "there is no directory {}\n help: make it, or let systemd do so with \
                 RuntimeDirectory=",
                parent.display()
            )),
            None => Err("no path for a file".to_owned()),
        },
    }
}

fn try_beside(path: &Path) -> Result<(), String> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let trial = trial(directory).map_err(|error| error.to_string())?;
    socket_file::try_at(&trial)
}

async fn connect_all(backend: &Backend) -> Vec<Finding> {
    let mut findings = Vec::new();
    for target in &backend.targets {
        let verdict = health::try_out(backend, target)
            .await
            .map_err(|error| format!("{error}{}", help_line(advice::help(target, &error))));
        findings.push(Finding {
            of: format!("backend.{}", backend.name),
            tried: format!("connect {target}"),
            verdict: verdict.into(),
        });
    }
    findings
}

fn listen(tunnel: &Tunnel) -> Vec<Finding> {
    let found = tunnel.listen.iter().map(|address| {
        let (tried, verdict) = match address {
            LocalAddress::Tcp(address) => {
                let bound = TcpListener::bind(address).map(|_| String::new());
                let bound = bound.map_err(|error| Transport::Tcp.cannot_bind(*address, &error));
                (format!("listen tcp {address}"), bound)
            }
            LocalAddress::Unix(path) => (
                format!("listen unix {}", path.display()),
                place_for_socket(path),
            ),
        };
        Finding {
            of: format!("tunnel.{}", tunnel.name),
            tried,
            verdict: verdict.into(),
        }
    });
    found.collect()
}

async fn resolve(tunnel: &Tunnel) -> Finding {
    let host = tunnel.remote_host.as_str();
    let verdict = match timeout(PATIENCE, names::look_up(host, tunnel.remote_port)).await {
        Ok(Ok(found)) => match found.first() {
            Some(address) => Ok(address.to_string()),
            None => Err("the name has no address".to_owned()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the name servers do not answer".to_owned()),
    };
    Finding {
        of: format!("tunnel.{}", tunnel.name),
        tried: format!("look up {host}"),
        verdict: verdict.into(),
    }
}

fn in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

const HELD: &str = "held by the tidegate that runs here";

const PATIENCE: Duration = Duration::from_secs(2);
