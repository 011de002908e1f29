//! `[tunnel.NAME]`.

use std::path::Path;
use std::time::Duration;

use super::super::file;
use super::super::{LocalAddress, Netcode, Protocol, TokenMint, TokenSource, Tunnel, Yojimbo};
use super::value::Example;
use super::{Checker, MILLISECOND, SECOND};

impl Checker<'_> {
    pub(super) fn tunnel(&mut self, name: &str, typed: &mut file::Tunnel) -> Option<Tunnel> {
        self.name("tunnel", name);
        let at = format!("tunnel.{name}");
        let key = |key: &str| format!("{at}.{key}");
        let listen = self.local_addresses(&key("listen"), &typed.listen);
        let remote = self.remote(&key("remote"), typed.remote.as_deref());
        let codec = self.codec(
            &at,
            typed.framing,
            typed.length_includes_header,
            typed.channel_byte,
            &typed.max_message,
        );
        let rate = self.rate(&at, typed.protocol, &mut typed.rate);
        let protocol = self.tunnel_protocol(&at, typed);
        let max_streams = self.count(&key("max_streams"), typed.max_streams, 1..=65_535) as usize;
        let connect_timeout = self.span(
            &key("connect_timeout"),
            &typed.connect_timeout,
            100 * MILLISECOND..=60 * SECOND,
        );
        let idle_timeout = self.span(
            &key("idle_timeout"),
            &typed.idle_timeout,
            SECOND..=600 * SECOND,
        );
        let queue_to_stream = self.queue(&key("queue_to_stream"), &typed.queue_to_stream);
        let queue_to_remote = self.queue(&key("queue_to_remote"), &typed.queue_to_remote);
        let linger = self.span(&key("linger"), &typed.linger, Duration::ZERO..=60 * SECOND);
        // Only now may the first missing piece end it: every mistake has been told.
        let (remote_host, remote_port) = remote?;
        let (protocol, tokens) = protocol?;
        self.raw_needs_a_stream(&key("framing"), codec.framing(), &protocol);
        Some(Tunnel {
            name: name.to_owned(),
            listen,
            remote_host,
            remote_port,
            codec,
            max_streams,
            connect_timeout,
            idle_timeout,
            queue_to_stream,
            queue_to_remote,
            linger,
            rate,
            protocol,
            tokens,
        })
    }

    fn local_addresses(&mut self, path: &str, typed: &[String]) -> Vec<LocalAddress> {
        if typed.is_empty() {
            self.mistake(
                path,
                format!("{path} is missing"),
                "write listen = [\"tcp://127.0.0.1:7000\"]".to_owned(),
            );
        }
        let mut addresses = Vec::new();
        for (index, text) in typed.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let is_port_0 = text.ends_with(":0");
            if typed[..index].contains(text) && !is_port_0 {
                self.mistake(
                    &path,
                    format!("{path}: {text:?} stands here twice"),
                    "every address once; delete the other".to_owned(),
                );
            }
            addresses.extend(self.local_address(&path, text));
        }
        addresses
    }

    fn local_address(&mut self, path: &str, text: &str) -> Option<LocalAddress> {
        if let Some(address) = text.strip_prefix("tcp://") {
            return self.bindable(path, address, &LOCAL).map(LocalAddress::Tcp);
        }
        if let Some(file) = text.strip_prefix("unix:").filter(|f| f.starts_with('/')) {
            return Some(LocalAddress::Unix(self.socket_file(path, Path::new(file))));
        }
        self.bad_value(
            path,
            format!("{path}: {text:?} is nothing to listen on"),
            "write \"tcp://127.0.0.1:7000\" or \"unix:/path/to/socket\"".to_owned(),
        );
        None
    }

    fn remote(&mut self, path: &str, typed: Option<&str>) -> Option<(String, u16)> {
        let Some(text) = typed else {
            self.mistake(
                path,
                format!("{path} is missing"),
                "write remote = \"game.example.net:40000\"".to_owned(),
            );
            return None;
        };
        self.host_port(path, text)
    }

    fn tunnel_protocol(
        &mut self,
        at: &str,
        typed: &mut file::Tunnel,
    ) -> Option<(Protocol, Option<TokenSource>)> {
        self.only_its_own(
            at,
            typed.protocol,
            [
                typed.netcode.is_some(),
                typed.yojimbo.is_some(),
                typed.gaffer.is_some(),
                typed.rudp.is_some(),
            ],
        );
        Some(match typed.protocol {
            file::Protocol::Yojimbo => {
                let (own, tokens) = self.tunnel_yojimbo(at, typed)?;
                (Protocol::Yojimbo(own), Some(tokens))
            }
            file::Protocol::Gaffer => {
                let gaffer = self.gaffer(at, typed.gaffer.get_or_insert_default());
                (Protocol::Gaffer(gaffer), None)
            }
            file::Protocol::Rudp => {
                let rudp = self.rudp(at, typed.rudp.get_or_insert_default());
                (Protocol::Rudp(rudp), None)
            }
        })
    }

    fn tunnel_yojimbo(
        &mut self,
        at: &str,
        typed: &mut file::Tunnel,
    ) -> Option<(Yojimbo, TokenSource)> {
        let own = typed.yojimbo.get_or_insert_default();
        let (layout, path_mtu_max) = (self.layout(at, own), self.path_mtu_max(at, own));
        let netcode = typed.netcode.get_or_insert_default();
        let at = format!("{at}.netcode");
        let key = |key: &str| format!("{at}.{key}");
        let lifetime = self.span(
            &key("token_lifetime"),
            &netcode.token_lifetime,
            Netcode::LIFETIMES,
        );
        let tokens = self.token_source(&at, netcode, lifetime);
        let keys = match &tokens {
            Some(TokenSource::Key(mint)) => vec![mint.key.clone()],
            Some(TokenSource::File(_) | TokenSource::Command(_)) | None => Vec::new(),
        };
        let netcode = Netcode {
            protocol_id: self.id(&key("protocol_id"), &netcode.protocol_id, u64::MAX),
            keys,
            max_token_lifetime: lifetime,
            // A client has nothing to compare.
            clock_skew: Duration::ZERO,
            insecure: netcode.insecure,
        };
        let yojimbo = Yojimbo {
            netcode,
            layout: layout?,
            path_mtu_max,
        };
        Some((yojimbo, tokens?))
    }

    fn token_source(
        &mut self,
        at: &str,
        typed: &file::TunnelNetcode,
        lifetime: Duration,
    ) -> Option<TokenSource> {
        match (&typed.key_file, &typed.token_file, &typed.token_command) {
            (Some(name), None, None) => self
                .token_mint(at, name, typed, lifetime)
                .map(TokenSource::Key),
            (None, Some(name), None) => {
                Some(TokenSource::File(self.surroundings.key_files.locate(name)))
            }
            (None, None, Some(command)) => Some(TokenSource::Command(command.clone())),
            (None, None, None) => {
                self.mistake(
                    at,
                    format!("{at}: there is nothing to get connect tokens from"),
                    "set key_file (the server's key), token_file or token_command; without a file: --key, \
                     --token-file or --token-command"
                        .to_owned(),
                );
                None
            }
            _ => {
                self.mistake(
                    at,
                    format!("{at}: key_file, token_file and token_command exclude each other"),
                    "keep one of them".to_owned(),
                );
                None
            }
        }
    }

    fn token_mint(
        &mut self,
        at: &str,
        key_file: &str,
        typed: &file::TunnelNetcode,
        lifetime: Duration,
    ) -> Option<TokenMint> {
        let key = self.key(
            &format!("{at}.key_file"),
            key_file,
            typed.insecure,
            |error| {
                error.help_unless_made(
                    "copy the server's key: one that is made here opens nothing there",
                )
            },
        );
        let client_id = typed.client_id.as_deref();
        let client_id = client_id.map(|id| self.id(&format!("{at}.client_id"), id, u64::MAX));
        let path = format!("{at}.server_addresses");
        let servers = typed.server_addresses.iter().enumerate();
        let server_addresses = servers
            .filter_map(|(index, text)| self.address(&format!("{path}[{index}]"), text))
            .collect();
        Some(TokenMint {
            key: key?,
            client_id,
            server_addresses,
            lifetime,
        })
    }
}

/// Where local programs dial.
const LOCAL: Example = Example {
    v4: "127.0.0.1",
    v6: "::1",
    port: 7_000,
};
