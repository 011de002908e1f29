//! `[backend.NAME]`.

use std::path::Path;
use std::time::Duration;

use super::super::file;
use super::super::units::{Size, Span};
use super::super::{Backend, Health, Target};
use super::{Checker, DAY, KIB, MIB, MILLISECOND, SECOND};
use crate::backend::KEEPALIVE;
use crate::framing::{FrameCodec, Framing};
use crate::proxy_protocol::{ProxyHeader, ProxyTlvs, ProxyVersion};

impl Checker<'_> {
    pub(super) fn backend(&mut self, name: &str, typed: &file::Backend) -> Backend {
        self.name("backend", name);
        let at = format!("backend.{name}");
        let key = |key: &str| format!("{at}.{key}");
        let hour = Duration::from_secs(3600);
        Backend {
            name: name.to_owned(),
            targets: self.targets(&at, &typed.targets),
            balance: typed.balance,
            codec: self.codec(
                &at,
                typed.framing,
                typed.length_includes_header,
                typed.channel_byte,
                &typed.max_message,
            ),
            unreliable: typed.unreliable,
            proxy: proxy_header(typed),
            connect_timeout: self.span(
                &key("connect_timeout"),
                &typed.connect_timeout,
                10 * MILLISECOND..=60 * SECOND,
            ),
            connect_attempts: self.count(&key("connect_attempts"), typed.connect_attempts, 1..=20)
                as u32,
            retry_backoff: self.backoff(&key("retry_backoff"), &typed.retry_backoff),
            queue_to_backend: self.queue(&key("queue_to_backend"), &typed.queue_to_backend),
            queue_to_peer: self.queue(&key("queue_to_peer"), &typed.queue_to_peer),
            stall: self.span(&key("stall"), &typed.stall, 100 * MILLISECOND..=hour),
            tcp_nodelay: typed.tcp_nodelay,
            tcp_keepalive: self.keepalive(&key("tcp_keepalive"), &typed.tcp_keepalive),
            linger: self.span(&key("linger"), &typed.linger, Duration::ZERO..=60 * SECOND),
            dns_refresh: self.span(&key("dns_refresh"), &typed.dns_refresh, SECOND..=DAY),
            health: self.health(&at, &typed.health),
        }
    }

    /// `None` is off. What the kernel does not take would fail each connection.
    fn keepalive(&mut self, path: &str, typed: &Span) -> Option<Duration> {
        if typed.parse() == Ok(Duration::ZERO) {
            return None;
        }
        Some(self.span(path, typed, KEEPALIVE))
    }

    pub(super) fn queue(&mut self, path: &str, typed: &Size) -> usize {
        self.size(path, typed, 4 * KIB..=64 * MIB)
    }

    fn targets(&mut self, at: &str, typed: &[String]) -> Vec<Target> {
        if typed.is_empty() {
            self.mistake(
                &format!("{at}.targets"),
                format!("{at}.targets is missing"),
                "write targets = [\"tcp://127.0.0.1:7000\"]".to_owned(),
            );
        }
        let mut targets = Vec::new();
        for (index, text) in typed.iter().enumerate() {
            let path = format!("{at}.targets[{index}]");
            let Some(target) = self.target(&path, text) else {
                continue;
            };
            // Their figures could not be told apart, nor orders for one of them.
            if targets.contains(&target) {
                self.mistake(
                    &path,
                    format!("{path}: {text:?} stands here twice"),
                    "every target once; delete the other".to_owned(),
                );
            }
            targets.push(target);
        }
        targets
    }

    fn target(&mut self, path: &str, text: &str) -> Option<Target> {
        if let Some(address) = text.strip_prefix("tcp://") {
            let (host, port) = self.host_port(path, address)?;
            return Some(Target::Tcp { host, port });
        }
        match text.strip_prefix("unix:") {
            Some(file) if file.starts_with('/') => {
                Some(Target::Unix(self.socket_file(path, Path::new(file))))
            }
            Some(_) | None => {
                self.bad_value(
                    path,
                    format!("{path}: {text:?} is no target"),
                    target_help(text),
                );
                None
            }
        }
    }

    /// Also for tunnels, whose local streams have frames like a backend's.
    pub(super) fn codec(
        &mut self,
        at: &str,
        framing: Option<Framing>,
        length_includes_header: bool,
        channel_byte: bool,
        max_message: &Size,
    ) -> FrameCodec {
        let Some(framing) = framing else {
            self.mistake(
                &format!("{at}.framing"),
                format!("{at}.framing is missing, and there is no safe guess"),
                "how are messages told apart on the stream? \"raw\" for any stream protocol as it \
                 is, else u16be u16le u32be u32le varint line"
                    .to_owned(),
            );
            return FrameCodec::new(Framing::Raw, false, false, 1);
        };
        let counted = !matches!(framing, Framing::Varint | Framing::Line | Framing::Raw);
        if length_includes_header && !counted {
            self.mistake(
                &format!("{at}.length_includes_header"),
                format!(
                    "{at}.length_includes_header does nothing with {}",
                    framing.label()
                ),
                "it is for u16be u16le u32be u32le; delete the line".to_owned(),
            );
        }
        if channel_byte && framing == Framing::Raw {
            self.mistake(
                &format!("{at}.channel_byte"),
                format!("{at}.channel_byte does nothing with raw, which has no frames"),
                "choose a framing with frames, or delete the line".to_owned(),
            );
        }
        let limit = self.size(&format!("{at}.max_message"), max_message, 1..=16 * MIB);
        FrameCodec::new(framing, length_includes_header, channel_byte, limit)
    }

    fn health(&mut self, at: &str, typed: &file::Health) -> Option<Health> {
        let key = |key: &str| format!("{at}.health.{key}");
        let health = Health {
            interval: self.span(&key("interval"), &typed.interval, 100 * MILLISECOND..=DAY),
            timeout: self.span(
                &key("timeout"),
                &typed.timeout,
                10 * MILLISECOND..=60 * SECOND,
            ),
            up_after: self.count(&key("up_after"), typed.up_after, 1..=100) as u32,
            down_after: self.count(&key("down_after"), typed.down_after, 1..=100) as u32,
        };
        match typed.kind {
            file::HealthKind::Off => None,
            file::HealthKind::Connect => Some(health),
        }
    }
}

fn proxy_header(typed: &file::Backend) -> Option<ProxyHeader> {
    let has = |tlv| typed.proxy_tlvs.contains(&tlv);
    Some(ProxyHeader {
        version: match typed.proxy_protocol {
            file::ProxyVersion::Off => return None,
            file::ProxyVersion::V1 => ProxyVersion::V1,
            file::ProxyVersion::V2 => ProxyVersion::V2,
        },
        transport: typed.proxy_transport,
        tlvs: ProxyTlvs {
            unique_id: has(file::ProxyTlv::UniqueId),
            listener: has(file::ProxyTlv::Listener),
            client_id: has(file::ProxyTlv::ClientId),
            user_data: has(file::ProxyTlv::UserData),
            protocol: has(file::ProxyTlv::Protocol),
        },
    })
}

/// What was meant, as far as its looks tell.
fn target_help(text: &str) -> String {
    let file = text.strip_prefix("unix:").unwrap_or(text);
    if file.starts_with('/') {
        format!("write \"unix:{file}\"")
    } else if text.starts_with("unix:") {
        "a socket's path begins at the root: \"unix:/path/to/socket\"".to_owned()
    } else if text.contains(':') && !text.contains("//") {
        format!("write \"tcp://{text}\"")
    } else {
        "write \"tcp://host:port\" or \"unix:/path/to/socket\"".to_owned()
    }
}
