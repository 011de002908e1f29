//! From what was typed to what runs. Collects every mistake before it gives up.
//!
//! Defaults that depend on other keys are written back into the file's types, so that the listing
//! of effective values shows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::Key;

use super::file::{self, File};
use super::load::Origins;
use super::mistake::Mistake;
use super::secret::{KeyFiles, read_key_file};
use super::units::{Size, Span, parse_id, show_duration, show_size};
use super::{Admin, Backoff, Config, Drain, Log, LogFormat, Runtime};

mod backend;
mod listener;
mod protocol;
mod rate;
mod tunnel;

/// What the process was started in.
#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) key_files: KeyFiles,
    pub(super) runtime_directory: Option<PathBuf>,
    /// The file is a recording's, so there are no key files, and no key is needed.
    pub(super) is_recording: bool,
}

pub(super) fn resolve(
    file: &mut File,
    origins: &Origins,
    surroundings: &Surroundings,
) -> Result<Config, Vec<Mistake>> {
    let mut check = Checker {
        origins,
        surroundings,
        mistakes: Vec::new(),
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
        runtime: check.runtime(&file.runtime),
        admin: check.admin(&file.admin),
        log: check.log(&file.log),
        drain: check.drain(&file.drain),
        listeners,
        tunnels,
    };
    check.duplicates(&config);
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
        Err(check.mistakes)
    }
}

struct Checker<'a> {
    origins: &'a Origins,
    surroundings: &'a Surroundings,
    mistakes: Vec<Mistake>,
}

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What is wrong with this address, as far as its looks tell.
fn address_help(text: &str) -> String {
    let is_ip = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    if port.parse::<u64>().is_ok_and(|port| port > 65_535) {
        return "a port is 65535 at most".to_owned();
    }
    if host.contains(':') && is_ip(host) && port.parse::<u16>().is_ok_and(|port| port > 9_999) {
        return format!("an IPv6 address stands in brackets: write \"[{host}]:{port}\"");
    }
    match text.parse() {
        Ok(std::net::IpAddr::V4(_)) => format!("the port is missing: write \"{text}:40000\""),
        Ok(std::net::IpAddr::V6(_)) => {
            format!("brackets and port are missing: write \"[{text}]:40000\"")
        }
        Err(_) => {
            "write \"203.0.113.7:40000\" or \"[2001:db8::7]:40000\"; names are not looked up here"
                .to_owned()
        }
    }
}

/// The whole file.
impl Checker<'_> {
    fn version(&mut self, typed: Option<i64>) {
        match typed {
            Some(1) => {}
            Some(other) => self.mistake(
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

    fn runtime(&mut self, typed: &file::Runtime) -> Runtime {
        let workers = self.count("runtime.workers", typed.workers, 0..=256) as usize;
        Runtime {
            workers: if workers == 0 {
                std::thread::available_parallelism().map_or(1, usize::from)
            } else {
                workers
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
        let control_socket = match typed.control_socket.as_str() {
            "auto" => self.directory("auto").map(|it| it.join("control.sock")),
            other => self.directory(other),
        };
        let mode = u32::from_str_radix(&typed.control_mode, 8).ok();
        let control_mode = mode.filter(|mode| *mode <= 0o777).unwrap_or_else(|| {
            self.mistake(
                "admin.control_mode",
                format!(
                    "admin.control_mode = {:?} is no file mode",
                    typed.control_mode
                ),
                "write three octal digits, for example \"0660\"".to_owned(),
            );
            0
        });
        Admin {
            listen: match typed.listen.as_str() {
                "" => None,
                text => self.address("admin.listen", text),
            },
            control_socket,
            control_mode,
        }
    }

    fn log(&mut self, typed: &file::Log) -> Log {
        if let Err(problem) = crate::logging::check_level(&typed.level) {
            self.mistake(
                "log.level",
                format!("log.level = {:?}: {problem}", typed.level),
                "write error, warn, info, debug or trace, or directives such as \
                 \"info,tidegate::listener=debug\""
                    .to_owned(),
            );
        }
        Log {
            format: match typed.format {
                file::LogFormat::Auto => LogFormat::Auto,
                file::LogFormat::Text => LogFormat::Text,
                file::LogFormat::Json => LogFormat::Json,
            },
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

    /// Two listeners on one port would each get a part of the datagrams.
    fn duplicates(&mut self, config: &Config) {
        let mut seen: BTreeMap<SocketAddr, &str> = BTreeMap::new();
        for listener in &config.listeners {
            for bind in listener.bind.iter().filter(|bind| bind.port() != 0) {
                if let Some(other) = seen.insert(*bind, &listener.name) {
                    self.mistake(
                        &format!("listener.{}.bind", listener.name),
                        format!(
                            "listener.{}.bind: {bind} is bound by listener.{other} already",
                            listener.name
                        ),
                        "every listener needs addresses of its own".to_owned(),
                    );
                }
            }
        }
    }
}

/// One value.
impl Checker<'_> {
    fn mistake(&mut self, path: &str, what: String, help: String) {
        self.mistakes.push(Mistake {
            what,
            help,
            place: self.origins.place(path),
        });
    }

    fn count(&mut self, path: &str, typed: i64, accepted: RangeInclusive<i64>) -> u64 {
        if accepted.contains(&typed) {
            return typed as u64;
        }
        self.mistake(
            path,
            format!("{path} = {typed} is out of range"),
            format!("accepted are {} to {}", accepted.start(), accepted.end()),
        );
        0
    }

    fn span(&mut self, path: &str, typed: &Span, accepted: RangeInclusive<Duration>) -> Duration {
        let range = || {
            let (least, most) = (*accepted.start(), *accepted.end());
            format!(
                "accepted are {} to {}",
                show_duration(least),
                show_duration(most)
            )
        };
        match typed.parse() {
            Ok(duration) if accepted.contains(&duration) => duration,
            Ok(_) => {
                let what = format!("{path} = {} is out of range", typed.shown());
                self.mistake(path, what, range());
                *accepted.start()
            }
            Err(problem) => {
                self.mistake(
                    path,
                    format!("{path} = {}: {problem}", typed.shown()),
                    range(),
                );
                *accepted.start()
            }
        }
    }

    fn size(&mut self, path: &str, typed: &Size, accepted: RangeInclusive<u64>) -> usize {
        let range = || {
            let (least, most) = (*accepted.start(), *accepted.end());
            format!("accepted are {} to {}", show_size(least), show_size(most))
        };
        let size = match typed.parse() {
            Ok(size) if accepted.contains(&size) => size,
            Ok(_) => {
                let what = format!("{path} = {} is out of range", typed.shown());
                self.mistake(path, what, range());
                *accepted.start()
            }
            Err(problem) => {
                self.mistake(
                    path,
                    format!("{path} = {}: {problem}", typed.shown()),
                    range(),
                );
                *accepted.start()
            }
        };
        size as usize
    }

    fn backoff(&mut self, path: &str, typed: &[Span; 2]) -> Backoff {
        let first = self.span(&format!("{path}[0]"), &typed[0], MILLISECOND..=DAY);
        let most = self.span(&format!("{path}[1]"), &typed[1], MILLISECOND..=DAY);
        if first > most {
            self.mistake(
                path,
                format!("{path} starts with more than its maximum"),
                "write the first pause, then the longest: [\"100ms\", \"2s\"]".to_owned(),
            );
        }
        Backoff { first, most }
    }

    /// An IP address with a port that is not 0.
    fn address(&mut self, path: &str, text: &str) -> Option<SocketAddr> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Some(address),
            Ok(_) => {
                self.mistake(
                    path,
                    format!("{path}: {text:?} has port 0"),
                    "write the port that others use, 1 to 65535".to_owned(),
                );
                None
            }
            Err(_) => {
                self.no_address(path, text);
                None
            }
        }
    }

    /// An address to listen on: port 0 means any free one, which only tests on this machine want.
    fn bindable(&mut self, path: &str, text: &str) -> Option<SocketAddr> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 || address.ip().is_loopback() => Some(address),
            Ok(_) => {
                self.mistake(
                    path,
                    format!("{path}: {text:?} has port 0, so nobody would know the port"),
                    "write a port from 1 to 65535; 0 is for tests on 127.0.0.1".to_owned(),
                );
                None
            }
            Err(_) => {
                self.no_address(path, text);
                None
            }
        }
    }

    fn no_address(&mut self, path: &str, text: &str) {
        self.mistake(
            path,
            format!("{path}: {text:?} is no IP address with a port"),
            address_help(text),
        );
    }

    /// "host:port", "203.0.113.7:40000" or "[2001:db8::7]:40000".
    fn host_port(&mut self, path: &str, text: &str) -> Option<(String, u16)> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| {
            let bare = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            let known = bare.is_some() || !host.contains(':');
            let host = bare.unwrap_or(host);
            let port = port.parse::<u16>().ok()?;
            (known && !host.is_empty() && !host.contains(['/', ' '])).then_some((host, port))
        });
        match parts {
            Some((host, port)) if port != 0 => Some((host.to_owned(), port)),
            Some(_) => {
                self.mistake(
                    path,
                    format!("{path}: {text:?} has port 0"),
                    "write the port it listens on, 1 to 65535".to_owned(),
                );
                None
            }
            None => {
                self.mistake(
                    path,
                    format!("{path}: {text:?} is no host with a port"),
                    "write \"game.example.net:40000\" or \"[2001:db8::7]:40000\"".to_owned(),
                );
                None
            }
        }
    }

    /// A 64-bit (or shorter) id. Text, because TOML has no unsigned numbers.
    fn id(&mut self, path: &str, text: &str, most: u64) -> u64 {
        match parse_id(text) {
            Ok(id) if id <= most => id,
            Ok(_) | Err(_) => {
                self.mistake(
                    path,
                    format!("{path} = {text:?} is no id"),
                    format!("write a number from \"0\" to \"{most:#x}\", in quotes"),
                );
                0
            }
        }
    }

    /// Names become metric labels and PROXY TLVs.
    fn name(&mut self, section: &str, name: &str) {
        let accepted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 63 || !name.bytes().all(accepted) {
            self.mistake(
                &format!("{section}.{name}"),
                format!("[{section}.{name:?}] is no good name"),
                "use 1 to 63 letters, digits, - and _".to_owned(),
            );
        }
    }

    fn key(&mut self, path: &str, name: &str, insecure: bool) -> Option<Key> {
        if self.surroundings.is_recording {
            return Some(Key::new([0; 32]));
        }
        let file = self.surroundings.key_files.locate(name);
        match read_key_file(&file) {
            Ok(key) if key.is_zero() && !insecure => {
                self.mistake(
                    path,
                    format!(
                        "{path}: the key in {} is all zero, which everybody knows",
                        file.display()
                    ),
                    "make one with: tidegate keygen --out FILE; or, for tests only, set \
                     insecure = true beside it"
                        .to_owned(),
                );
                None
            }
            Ok(key) => Some(key),
            Err(error) => {
                self.mistake(path, format!("{path}: {error}"), error.help());
                None
            }
        }
    }
}
