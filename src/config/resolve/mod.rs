//! From what was typed to what runs. Collects every mistake before it gives up.
//!
//! Defaults that depend on other keys are written back into the file's types, so that the listing
//! of effective values shows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::file::{self, File};
use super::mistake::{Mistake, Refusal};
use super::origins::Origins;
use super::secret::KeyFiles;
use super::{Admin, Config, Drain, Listener, Log, Runtime};
use value::Example;

use crate::given_file::Occasion;
use crate::protocol::SOCKETS_MAX;

mod backend;
mod listener;
mod protocol;
mod rate;
mod tunnel;
mod value;

/// What counts beside the file: what the process was started in, and what the configuration is read for.
#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) key_files: KeyFiles,
    pub(super) runtime_directory: Option<PathBuf>,
    pub(super) session_socket: Option<PathBuf>,
    pub(super) occasion: Occasion,
    /// Key files are not read: a replay needs no keys, and a key may be about to be made.
    pub(super) without_keys: bool,
    /// Something was taken out of the file: what seems to be missing may have been there, so that each value is judged by
    /// itself alone.
    pub(super) has_gaps: bool,
}

pub(super) fn resolve(
    file: &mut File,
    origins: &Origins,
    surroundings: &Surroundings,
) -> Result<Config, Refusal> {
    let mut check = Checker {
        origins,
        surroundings,
        mistakes: Vec::new(),
        found: 0,
    };
    check.version(file.version);
    let backends: BTreeMap<String, _> = file
        .backend
        .iter()
        .map(|(name, typed)| (name.clone(), Arc::new(check.backend(name, typed))))
        .collect();
    let listeners = file
        .listener
        .iter_mut()
        .filter_map(|(name, typed)| check.listener(name, typed, &backends))
        .collect();
    let tunnels = file
        .tunnel
        .iter_mut()
        .filter_map(|(name, typed)| check.tunnel(name, typed))
        .collect();
    let config = Config {
        runtime: check.runtime(&file.runtime, !file.listener.is_empty()),
        admin: check.admin(&file.admin),
        log: check.log(&file.log),
        drain: check.drain(&file.drain),
        listeners,
        tunnels,
    };
    check.duplicates(&config);
    check.tokens_of_two(&config);
    check.sockets(&config);
    if config.listeners.is_empty() && config.tunnels.is_empty() && check.mistakes.is_empty() {
        check.mistake(
            "listener",
            "nothing to run: no [listener.NAME] and no [tunnel.NAME]".to_owned(),
            "start from: tidegate init yojimbo".to_owned(),
        );
    }
    if check.mistakes.is_empty() {
        Ok(config)
    } else {
        Err(Refusal {
            has_more: check.found > check.mistakes.len(),
            ..Refusal::of_all(check.mistakes)
        })
    }
}

struct Checker<'a> {
    origins: &'a Origins,
    surroundings: &'a Surroundings,
    /// The first of them.
    mistakes: Vec<Mistake>,
    /// How many there are.
    found: usize,
}

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The whole file.
impl Checker<'_> {
    fn version(&mut self, typed: Option<i64>) {
        match typed {
            Some(1) => {}
            Some(other) => self.bad_value(
                "version",
                format!("version = {other} is unknown to this program"),
                "it reads version = 1".to_owned(),
            ),
            None => self.mistake(
                "version",
                "version is missing".to_owned(),
                "write version = 1 at the top of the file".to_owned(),
            ),
        }
    }

    fn runtime(&mut self, typed: &file::Runtime, listens: bool) -> Runtime {
        let workers = self.count("runtime.workers", typed.workers, 0..=256) as usize;
        Runtime {
            workers: match (workers, listens) {
                (0, true) => std::thread::available_parallelism().map_or(1, usize::from),
                // Whose machine it is has other things to do, and one worker batches what two would do apart.
                (0, false) => 1,
                (workers, _) => workers,
            },
            max_peers: self.count("runtime.max_peers", typed.max_peers, 1..=1_000_000) as usize,
            queue_memory: self.size("runtime.queue_memory", &typed.queue_memory, MIB..=1 << 40),
            udp_recv_buffer: self.size(
                "runtime.udp_recv_buffer",
                &typed.udp_recv_buffer,
                64 * KIB..=GIB,
            ),
            udp_send_buffer: self.size(
                "runtime.udp_send_buffer",
                &typed.udp_send_buffer,
                64 * KIB..=GIB,
            ),
            state_directory: self.directory(&typed.state_directory),
        }
    }

    /// `auto` is what systemd made for the process, if it did.
    fn directory(&self, typed: &str) -> Option<PathBuf> {
        match typed {
            "" => None,
            "auto" => self.surroundings.runtime_directory.clone(),
            path => Some(PathBuf::from(path)),
        }
    }

    fn admin(&mut self, typed: &file::Admin) -> Admin {
        let control_socket = self.control_socket(&typed.control_socket);
        let control_mode = self.control_mode(&typed.control_mode);
        self.host_names(&typed.allowed_hosts);
        Admin {
            allowed_hosts: typed.allowed_hosts.clone(),
            listen: match typed.listen.as_str() {
                "" => None,
                text => self.bindable("admin.listen", text, &ADMIN),
            },
            control_socket,
            control_named: typed.control_socket != "auto",
            control_mode,
        }
    }

    fn control_socket(&mut self, typed: &str) -> Option<PathBuf> {
        if typed == "auto" {
            return match self.directory("auto") {
                Some(directory) => Some(directory.join("control.sock")),
                None => self.surroundings.session_socket.clone(),
            };
        }
        let named = self.directory(typed);
        named.map(|file| self.socket_file("admin.control_socket", &file))
    }

    fn control_mode(&mut self, typed: &str) -> u32 {
        let mode = u32::from_str_radix(typed, 8).ok();
        let mode = mode.filter(|mode| *mode <= 0o777).unwrap_or_else(|| {
            self.bad_value(
                "admin.control_mode",
                format!("admin.control_mode = {typed:?} is no file mode"),
                "write three octal digits, for example \"0660\"".to_owned(),
            );
            0
        });
        if mode & 0o002 != 0 {
            self.bad_value(
                "admin.control_mode",
                format!(
                    "admin.control_mode = {typed:?} lets every user of this machine drain, reload and record"
                ),
                "write 0660, and put those who may into the socket's group".to_owned(),
            );
        }
        mode
    }

    fn host_names(&mut self, typed: &[String]) {
        for name in typed {
            if !is_host_name(name) {
                self.bad_value(
                    "admin.allowed_hosts",
                    format!("admin.allowed_hosts: {name:?} is no host name"),
                    "write the name alone, for example \"tidegate.example.net\": no port, no https://; IP addresses \
                     and localhost need not be listed"
                        .to_owned(),
                );
            }
        }
    }

    fn log(&mut self, typed: &file::Log) -> Log {
        if let Err(problem) = crate::logging::check_level(&typed.level) {
            self.bad_value(
                "log.level",
                format!("log.level = {:?}: {problem}", typed.level),
                "write error, warn, info, debug or trace, or directives such as \
                 \"info,tidegate::listener=debug\""
                    .to_owned(),
            );
        }
        Log {
            format: typed.format,
            level: typed.level.clone(),
            repeat_window: self.span(
                "log.repeat_window",
                &typed.repeat_window,
                Duration::ZERO..=DAY,
            ),
        }
    }

    fn drain(&mut self, typed: &file::Drain) -> Drain {
        Drain {
            grace: self.span("drain.grace", &typed.grace, Duration::ZERO..=DAY),
            ready_delay: self.span(
                "drain.ready_delay",
                &typed.ready_delay,
                Duration::ZERO..=DAY,
            ),
        }
    }

    /// Each socket draws netcode's sequence numbers from a range of its own.
    fn sockets(&mut self, config: &Config) {
        let workers = config.runtime.workers;
        for listener in &config.listeners {
            let (name, addresses) = (&listener.name, listener.bind.len());
            let sockets = workers * addresses;
            if sockets > usize::from(SOCKETS_MAX) {
                self.mistake(
                    &format!("listener.{name}.bind"),
                    format!(
                        "listener.{name}.bind: {addresses} addresses for each of {workers} workers are {sockets} \
                         sockets; a listener has at most {SOCKETS_MAX}"
                    ),
                    format!(
                        "set runtime.workers to {} at most, or bind fewer addresses",
                        (usize::from(SOCKETS_MAX) / addresses).max(1)
                    ),
                );
            }
        }
    }

    /// A token that two listeners take opens two sessions, since each remembers its own; both have that token's keys and
    /// count from zero, so that two packets could be sealed under one nonce.
    fn tokens_of_two(&mut self, config: &Config) {
        // Earlier ones by the addresses that their tokens name, or by none: of thousands, few are named alike.
        let mut named: BTreeMap<Option<SocketAddr>, Vec<usize>> = BTreeMap::new();
        for (index, listener) in config.listeners.iter().enumerate() {
            let names = listener.names();
            let shares = |other: &usize| config.listeners[*other].shares_tokens(listener);
            let other = if names.contains(&None) {
                (0..index).find(shares)
            } else {
                let alike = names
                    .iter()
                    .chain([&None])
                    .filter_map(|name| named.get(name));
                alike.flatten().copied().filter(shares).min()
            };
            for name in names {
                named.entry(name).or_default().push(index);
            }
            if let Some(other) = other.map(|other| &config.listeners[other]) {
                let (name, other) = (&listener.name, &other.name);
                self.mistake(
                    &format!("listener.{name}.public_addresses"),
                    format!("listener.{name} takes the same connect tokens as listener.{other}"),
                    "a token would open a session at each: make them one listener with all of the bind addresses, or give \
                     each a key, a protocol_id or public_addresses of its own"
                        .to_owned(),
                );
            }
        }
    }

    /// Two listeners on one port would each get a part of the datagrams. And the kernel refuses an address beside a
    /// wildcard that stands for it: it would say that another program has it.
    fn duplicates(&mut self, config: &Config) {
        // By port: on another one, nothing of a listener is taken.
        let mut seen: BTreeMap<u16, Vec<(&Listener, SocketAddr)>> = BTreeMap::new();
        let bound = config.listeners.iter().flat_map(|listener| {
            let fixed = listener.bind.iter().filter(|bind| bind.port() != 0);
            fixed.map(move |bind| (listener, *bind))
        });
        for (listener, bind) in bound {
            let name = &listener.name;
            let seen = seen.entry(bind.port()).or_default();
            let takes = |other: &&(&Listener, SocketAddr)| {
                takes(listener, bind, other.1) || takes(other.0, other.1, bind)
            };
            match seen.iter().find(takes) {
                Some((other, taken)) if *taken == bind => self.mistake(
                    &format!("listener.{name}.bind"),
                    format!(
                        "listener.{name}.bind: {bind} is bound by listener.{} already",
                        other.name
                    ),
                    "every listener needs addresses of its own".to_owned(),
                ),
                Some((other, taken)) => self.mistake(
                    &format!("listener.{name}.bind"),
                    format!(
                        "listener.{name}.bind: {bind} and {taken} of listener.{} are one socket's",
                        other.name
                    ),
                    "a wildcard stands for every address of this host: keep one of the two, or name each address"
                        .to_owned(),
                ),
                None => {}
            }
            seen.push((listener, bind));
        }
    }
}

/// Whether a socket of this listener at `bind` leaves nothing of `other`. `[::]` takes IPv4 too, unless its listener binds
/// that on the same port by itself.
fn takes(listener: &Listener, bind: SocketAddr, other: SocketAddr) -> bool {
    let is_v4_of_port = |it: &SocketAddr| it.is_ipv4() && it.port() == bind.port();
    let takes_both = bind.is_ipv6() && !listener.bind.iter().any(is_v4_of_port);
    let is_wide = bind.ip().is_unspecified()
        && bind.port() == other.port()
        && (bind.is_ipv4() == other.is_ipv4() || takes_both);
    bind == other || is_wide
}

/// Where the status page is: on this machine alone.
const ADMIN: Example = Example {
    v4: "127.0.0.1",
    v6: "::1",
    port: 9_477,
};

/// What a name in `admin.allowed_hosts` is made of: a port, a scheme or a wildcard would never match.
fn is_host_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= 253 && !text.ends_with('.') && text.bytes().all(fits)
}
