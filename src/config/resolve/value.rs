//! One value: a count, a span, an address, a name. What is wrong with it, and what to write instead.

use std::fmt::Display;
use std::net::{SocketAddr, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::Key;

use super::super::Backoff;
use super::super::mistake::{MISTAKES_MAX, Mistake};
use super::super::secret::{KeyFileError, read_key_file_on};
use super::super::units::{Size, Span, parse_id, show_duration, show_size};
use super::{Checker, DAY, MILLISECOND};

impl Checker<'_> {
    /// What several values say together, or that one is missing.
    pub(super) fn mistake(&mut self, path: &str, what: String, help: String) {
        if !self.surroundings.has_gaps {
            self.bad_value(path, what, help);
        }
    }

    /// What is wrong with a value whatever the others are.
    pub(super) fn bad_value(&mut self, path: &str, what: String, help: String) {
        self.found += 1;
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(Mistake {
                what,
                help,
                place: self.origins.place(path),
            });
        }
    }

    /// Where a Unix socket is or will be. The kernel's addresses have room for 107 bytes, whichever program makes the file.
    pub(super) fn socket_file(&mut self, path: &str, file: &Path) -> PathBuf {
        if net::SocketAddr::from_pathname(file).is_err() {
            let bytes = file.as_os_str().len();
            self.bad_value(
                path,
                format!("{path}: a socket cannot have this path of {bytes} bytes"),
                "paths of sockets have at most 107 bytes, and none of them is zero; name a shorter one".to_owned(),
            );
        }
        file.to_owned()
    }

    pub(super) fn count(&mut self, path: &str, typed: i64, accepted: RangeInclusive<i64>) -> u64 {
        if accepted.contains(&typed) {
            return typed as u64;
        }
        self.bad_value(
            path,
            format!("{path} = {typed} is out of range"),
            format!("accepted are {} to {}", accepted.start(), accepted.end()),
        );
        0
    }

    pub(super) fn span(
        &mut self,
        path: &str,
        typed: &Span,
        accepted: RangeInclusive<Duration>,
    ) -> Duration {
        self.measure(path, &typed.shown(), typed.parse(), accepted, show_duration)
    }

    pub(super) fn size(
        &mut self,
        path: &str,
        typed: &Size,
        accepted: RangeInclusive<u64>,
    ) -> usize {
        self.measure(path, &typed.shown(), typed.parse(), accepted, show_size) as usize
    }

    /// Something with a unit. Where it is wrong, the least that is accepted stands in for it.
    fn measure<T: Copy + PartialOrd>(
        &mut self,
        path: &str,
        typed: &str,
        parsed: Result<T, String>,
        accepted: RangeInclusive<T>,
        show: fn(T) -> String,
    ) -> T {
        let what = match parsed {
            Ok(value) if accepted.contains(&value) => return value,
            Ok(_) => format!("{path} = {typed} is out of range"),
            Err(problem) => format!("{path} = {typed}: {problem}"),
        };
        let (least, most) = (*accepted.start(), *accepted.end());
        let help = format!("accepted are {} to {}", show(least), show(most));
        self.bad_value(path, what, help);
        least
    }

    pub(super) fn backoff(&mut self, path: &str, typed: &[Span; 2]) -> Backoff {
        let first = self.span(&format!("{path}[0]"), &typed[0], MILLISECOND..=DAY);
        let most = self.span(&format!("{path}[1]"), &typed[1], MILLISECOND..=DAY);
        if first > most {
            self.bad_value(
                path,
                format!("{path} starts with more than its maximum"),
                "write the first pause, then the longest: [\"100ms\", \"2s\"]".to_owned(),
            );
        }
        Backoff { first, most }
    }

    /// An IP address with a port that is not 0.
    pub(super) fn address(&mut self, path: &str, text: &str) -> Option<SocketAddr> {
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Some(address),
            Ok(_) => {
                self.bad_value(
                    path,
                    format!("{path}: {text:?} has port 0"),
                    "write the port that others use, 1 to 65535".to_owned(),
                );
                None
            }
            Err(_) => {
                self.no_address(path, text, &PUBLIC);
                None
            }
        }
    }

    /// An address to listen on: port 0 means any free one, which only tests on this machine want.
    pub(super) fn bindable(
        &mut self,
        path: &str,
        text: &str,
        example: &Example,
    ) -> Option<SocketAddr> {
        match text.parse::<SocketAddr>() {
            Ok(SocketAddr::V6(address)) if lacks_interface(&address) => {
                self.bad_value(
                    path,
                    format!("{path}: {text:?} is link-local, and does not say on which interface"),
                    interface_help(&address.ip().to_string(), address.port()),
                );
                None
            }
            Ok(address) if address.port() != 0 || address.ip().is_loopback() => Some(address),
            Ok(_) => {
                self.bad_value(
                    path,
                    format!("{path}: {text:?} has port 0, so nobody would know the port"),
                    "write a port from 1 to 65535; 0 is for tests on 127.0.0.1".to_owned(),
                );
                None
            }
            Err(_) => {
                self.no_address(path, text, example);
                None
            }
        }
    }

    fn no_address(&mut self, path: &str, text: &str, example: &Example) {
        self.bad_value(
            path,
            format!("{path}: {text:?} is no IP address with a port"),
            address_help(text, example),
        );
    }

    /// "host:port", "203.0.113.7:40000" or "[2001:db8::7]:40000".
    pub(super) fn host_port(&mut self, path: &str, text: &str) -> Option<(String, u16)> {
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
                self.bad_value(
                    path,
                    format!("{path}: {text:?} has port 0"),
                    "write the port it listens on, 1 to 65535".to_owned(),
                );
                None
            }
            None => {
                self.bad_value(
                    path,
                    format!("{path}: {text:?} is no host with a port"),
                    "write \"game.example.net:40000\" or \"[2001:db8::7]:40000\"".to_owned(),
                );
                None
            }
        }
    }

    /// A 64-bit (or shorter) id. Text, because TOML has no unsigned numbers.
    pub(super) fn id(&mut self, path: &str, text: &str, most: u64) -> u64 {
        match parse_id(text) {
            Ok(id) if id <= most => id,
            Ok(_) | Err(_) => {
                self.bad_value(
                    path,
                    format!("{path} = {text:?} is no id"),
                    format!("write a number from \"0\" to \"{most:#x}\", in quotes"),
                );
                0
            }
        }
    }

    /// Names become metric labels and PROXY TLVs.
    pub(super) fn name(&mut self, section: &str, name: &str) {
        let accepted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 63 || !name.bytes().all(accepted) {
            self.bad_value(
                &format!("{section}.{name}"),
                format!("[{section}.{name:?}] is no good name"),
                "use 1 to 63 letters, digits, - and _".to_owned(),
            );
        }
    }

    /// `help` says what to do about a key that cannot be read.
    pub(super) fn key(
        &mut self,
        path: &str,
        name: &str,
        insecure: bool,
        help: impl FnOnce(&KeyFileError) -> String,
    ) -> Option<Key> {
        if self.surroundings.without_keys {
            return Some(Key::new([0; 32]));
        }
        let file = self.surroundings.key_files.locate(name);
        match read_key_file_on(&file, self.surroundings.occasion) {
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
                self.mistake(path, format!("{path}: {error}"), help(&error));
                None
            }
        }
    }
}

/// Each interface has all of `fe80::/10`, so that the kernel refuses such an address by itself.
fn lacks_interface(address: &SocketAddrV6) -> bool {
    address.ip().is_unicast_link_local() && address.scope_id() == 0
}

fn interface_help(ip: &str, port: impl Display) -> String {
    format!("write \"[{ip}%2]:{port}\", with the number of the interface for 2; `ip link` says it")
}

/// An address as it may be written where one is missing. What stands there is copied: the status page must not come to
/// a public address by it.
pub(super) struct Example {
    pub(super) v4: &'static str,
    pub(super) v6: &'static str,
    pub(super) port: u16,
}

/// Where players arrive: on whatever address the host has.
pub(super) const BIND: Example = Example {
    v4: "0.0.0.0",
    v6: "::",
    port: 40_000,
};

/// Where players dial.
const PUBLIC: Example = Example {
    v4: "203.0.113.7",
    v6: "2001:db8::7",
    port: 40_000,
};

/// What is wrong with this address, as far as its looks tell.
fn address_help(text: &str, example: &Example) -> String {
    let example_port = example.port;
    let is_ip = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    // Addresses take interfaces by number only.
    if let Some((ip, _)) = host.strip_prefix('[').and_then(|host| host.split_once('%'))
        && is_ip(ip)
    {
        return interface_help(ip, port);
    }
    if port.parse::<u64>().is_ok_and(|port| port > 65_535) {
        return "a port is 65535 at most".to_owned();
    }
    if host.contains(':') && is_ip(host) && port.parse::<u16>().is_ok_and(|port| port > 9_999) {
        return format!("an IPv6 address stands in brackets: write \"[{host}]:{port}\"");
    }
    match text.parse() {
        Ok(std::net::IpAddr::V4(_)) => {
            format!("the port is missing: write \"{text}:{example_port}\"")
        }
        Ok(std::net::IpAddr::V6(_)) => {
            format!("brackets and port are missing: write \"[{text}]:{example_port}\"")
        }
        Err(_) => {
            let Example { v4, v6, port } = example;
            format!("write \"{v4}:{port}\" or \"[{v6}]:{port}\"; names are not looked up here")
        }
    }
}
