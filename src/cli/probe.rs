//! `tidegate check --probe`: what `serve` and `connect` need of this machine, tried and given back.
//!
//! UDP addresses are bound without sharing, so a running tidegate never loses a datagram to this;
//! an address that it holds is said to be its own. Backends see a connection that says nothing (or,
//! with PROXY protocol, the header for checks) and closes.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::ctl;
use crate::admin;
use crate::backend::health;
use crate::config::{Backend, Config, Listener, LocalAddress, Tunnel};
use crate::control::Request;
use crate::exit::{Exit, Transport};
use crate::running_listener::socket_options;
use crate::sizing::{memory, open_files};
use crate::udp::{Options, UdpSocket};

/// One thing that was tried.
pub(super) struct Finding {
    /// Of which table: `listener.game`.
    of: String,
    /// What was tried, with what: `bind udp 0.0.0.0:40000`.
    tried: String,
    /// What is good about it, or what is not.
    verdict: Result<String, String>,
}

impl Finding {
    pub(super) fn is_good(&self) -> bool {
        self.verdict.is_ok()
    }

    pub(super) fn json(&self) -> Value {
        let (ok, detail) = match &self.verdict {
            Ok(detail) => (true, detail),
            Err(why) => (false, why),
        };
        json!({"probe": self.tried, "of": self.of, "ok": ok, "detail": detail})
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { of, tried, verdict } = self;
        match verdict {
            Ok(detail) if detail.is_empty() => write!(f, "ok      {of}: {tried}"),
            Ok(detail) => write!(f, "ok      {of}: {tried}: {detail}"),
            Err(why) => write!(
                f,
                "FAILED  {of}: {tried}: {}",
                why.replace('\n', "\n       ")
            ),
        }
    }
}

/// The exit code that the findings add up to.
pub(super) fn exit(findings: &[Finding]) -> Exit {
    if findings.iter().all(Finding::is_good) {
        Exit::Done
    } else {
        Exit::Unavailable
    }
}

pub(super) fn run(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let running = Running::find(config);
    let memory = memory::Shortage::find(config).map(|it| short("memory limit", &it));
    let files = open_files::Shortage::find(config).map(|it| short("open files", &it));
    let mut findings = Vec::from_iter(memory.into_iter().chain(files));
    for listener in &config.listeners {
        for &address in &listener.bind {
            findings.push(bind_udp(config, listener, address, &running));
        }
    }
    findings.extend(admin(config, &running));
    findings.extend(control(config));
    let mut seen: Vec<&str> = Vec::new();
    for listener in &config.listeners {
        let backend = &*listener.backend;
        if !seen.contains(&backend.name.as_str()) {
            seen.push(&backend.name);
            findings.extend(runtime.block_on(connect_all(backend)));
        }
    }
    for tunnel in &config.tunnels {
        findings.extend(listen(tunnel));
        findings.push(runtime.block_on(resolve(tunnel)));
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
        verdict: Ok(shortage.to_string()),
    }
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
            Ok((granted, _)) if granted < wanted => Ok(format!(
                "the kernel grants {} KiB of the {} KiB in udp_recv_buffer; raise net.core.rmem_max",
                granted >> 10,
                wanted >> 10
            )),
            Ok(_) => Ok(String::new()),
            Err(error) => Err(error.to_string()),
        },
        Err(error) if in_use(&error) && running.as_ref().is_some_and(|r| r.holds(address)) => {
            Ok(HELD.to_owned())
        }
        Err(error) => Err(Transport::Udp.cannot_bind(address, &error)),
    };
    Finding {
        of: format!("listener.{}", listener.name),
        tried: format!("bind udp {address}"),
        verdict,
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
        verdict,
    })
}

fn control(config: &Config) -> Option<Finding> {
    let path = config.admin.control_socket.as_deref()?;
    Some(Finding {
        of: "admin".to_owned(),
        tried: format!("control socket {}", path.display()),
        verdict: place_for_socket(path),
    })
}

/// A socket is made in a directory that must be there; one that is left over is taken over.
fn place_for_socket(path: &Path) -> Result<String, String> {
    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => Err(format!(
            "{} is something else than a socket\n help: remove it or choose another path",
            path.display()
        )),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => Ok(HELD.to_owned()),
        Ok(_) => Ok("left over by a dead process; it is taken over".to_owned()),
        Err(_) => match path.parent() {
            Some(parent) if parent.is_dir() => Ok(String::new()),
            Some(parent) => Err(format!(
                "there is no directory {}\n help: make it, or let systemd do so with \
                 RuntimeDirectory=",
                parent.display()
            )),
            None => Err("no path for a file".to_owned()),
        },
    }
}

async fn connect_all(backend: &Backend) -> Vec<Finding> {
    let mut findings = Vec::new();
    for target in &backend.targets {
        let verdict = match timeout(backend.connect_timeout, health::try_out(backend, target)).await
        {
            Ok(Ok(address)) => Ok(address),
            Ok(Err(error)) => {
                let help = health::help(target, &error);
                let help = help.map_or_else(String::new, |help| format!("\n help: {help}"));
                Err(format!("{error}{help}"))
            }
            Err(_) => Err(format!(
                "no answer in {:?}\n help: a firewall, or a server whose queue of connections is full",
                backend.connect_timeout
            )),
        };
        findings.push(Finding {
            of: format!("backend.{}", backend.name),
            tried: format!("connect {target}"),
            verdict,
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
            verdict,
        }
    });
    found.collect()
}

async fn resolve(tunnel: &Tunnel) -> Finding {
    let host = tunnel.remote_host.as_str();
    let verdict = match timeout(PATIENCE, lookup_host((host, tunnel.remote_port))).await {
        Ok(Ok(mut found)) => match found.next() {
            Some(address) => Ok(address.to_string()),
            None => Err("the name has no address".to_owned()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the name servers do not answer".to_owned()),
    };
    Finding {
        of: format!("tunnel.{}", tunnel.name),
        tried: format!("look up {host}"),
        verdict,
    }
}

fn in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

const HELD: &str = "held by the tidegate that runs here";

const PATIENCE: Duration = Duration::from_secs(2);
