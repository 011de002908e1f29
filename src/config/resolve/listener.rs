//! `[listener.NAME]`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tidegate_proto::AckPolicy;

use super::super::file;
use super::super::{Backend, Bucket, Limits, Listener, Protocol, PublicAddresses, Rudp, Strikes};
use super::value::BIND;
use super::{Checker, DAY, GIB, KIB, MILLISECOND, SECOND};

impl Checker<'_> {
    pub(super) fn listener(
        &mut self,
        name: &str,
        typed: &mut file::Listener,
        backends: &BTreeMap<String, Arc<Backend>>,
    ) -> Option<Listener> {
        self.name("listener", name);
        let at = format!("listener.{name}");
        let key = |key: &str| format!("{at}.{key}");
        let bind: Vec<_> = (typed.bind.iter().enumerate())
            .filter_map(|(index, text)| self.bindable(&format!("{at}.bind[{index}]"), text, &BIND))
            .collect();
        if typed.bind.is_empty() {
            self.mistake(
                &key("bind"),
                format!("{at}.bind is missing"),
                "write bind = [\"0.0.0.0:40000\"]".to_owned(),
            );
        }
        let public_addresses = self.public_addresses(&at, typed);
        let limits = self.limits(&at, typed.protocol, &mut typed.limits);
        let rate = self.rate(&at, typed.protocol, &mut typed.rate);
        let max_peers = self.count(&key("max_peers"), typed.max_peers, 1..=65_535) as usize;
        let idle_timeout = self.span(
            &key("idle_timeout"),
            &typed.idle_timeout,
            SECOND..=600 * SECOND,
        );
        let ack = self.ack(&key("ack"), typed);
        let protocol = self.listener_protocol(&at, typed);
        if let Some(Protocol::Rudp(rudp)) = &protocol {
            self.unprobed_have_a_list(&at, rudp, &limits);
        }
        let backend = self.backend_of(&at, typed.backend.as_deref(), backends);
        if let (Some(protocol), Some(backend)) = (&protocol, &backend) {
            self.raw_needs_a_stream(&key("backend"), backend.codec.framing(), protocol);
        }
        Some(Listener {
            name: name.to_owned(),
            bind,
            public_addresses,
            backend: backend?,
            max_peers,
            idle_timeout,
            ack,
            follow_address_change: typed.follow_address_change,
            limits,
            rate,
            protocol: protocol?,
            // Known once the whole file is.
            recorded: "".into(),
        })
    }

    /// Sessions of the other protocols know no write.
    fn ack(&mut self, path: &str, typed: &file::Listener) -> AckPolicy {
        match typed.ack {
            file::Ack::Strict if self.only_for_yojimbo(path, " = \"strict\"", typed.protocol) => {
                AckPolicy::Strict
            }
            file::Ack::Strict | file::Ack::Queued => AckPolicy::Queued,
        }
    }

    /// Whether what was typed, the key at `path` with this `value`, does anything.
    fn only_for_yojimbo(&mut self, path: &str, value: &str, protocol: file::Protocol) -> bool {
        if protocol == file::Protocol::Yojimbo {
            return true;
        }
        self.mistake(
            path,
            format!("{path}{value} does nothing with {}", protocol.label()),
            "it is for yojimbo; delete the line".to_owned(),
        );
        false
    }

    fn backend_of(
        &mut self,
        at: &str,
        typed: Option<&str>,
        backends: &BTreeMap<String, Arc<Backend>>,
    ) -> Option<Arc<Backend>> {
        let known: Vec<_> = backends.keys().map(|name| format!("{name:?}")).collect();
        let known = match known.as_slice() {
            [] => "add a [backend.NAME] with targets and framing, and name it here".to_owned(),
            names => format!("this file has {}", names.join(", ")),
        };
        let path = format!("{at}.backend");
        let Some(name) = typed else {
            self.mistake(&path, format!("{path} is missing"), known);
            return None;
        };
        let found = backends.get(name).cloned();
        if found.is_none() {
            self.mistake(
                &path,
                format!("{path} = {name:?}: there is no [backend.{name}]"),
                known,
            );
        }
        found
    }

    /// Only connect tokens name addresses, so other protocols need none.
    fn public_addresses(&mut self, at: &str, typed: &file::Listener) -> PublicAddresses {
        let path = format!("{at}.public_addresses");
        if !typed.public_addresses.is_empty() {
            self.only_for_yojimbo(&path, "", typed.protocol);
        }
        if typed.public_addresses.iter().any(|text| text == "any") {
            if typed.public_addresses.len() > 1 {
                self.mistake(
                    &path,
                    format!("{path}: \"any\" stands beside other addresses"),
                    "write [\"any\"], or the addresses alone".to_owned(),
                );
            }
            return PublicAddresses::Any;
        }
        if !typed.public_addresses.is_empty() {
            let listed = typed.public_addresses.iter().enumerate();
            let listed = listed
                .filter_map(|(index, text)| self.address(&format!("{path}[{index}]"), text))
                .collect();
            return PublicAddresses::Listed(listed);
        }
        if typed.protocol == file::Protocol::Yojimbo
            && typed.bind.iter().any(|text| is_wildcard(text))
        {
            self.mistake(
                &path,
                format!("{path} is missing, and bind names no address a connect token could name"),
                "list the addresses that players connect to, as your tokens name them; or [\"any\"] \
                 if no other server uses this key"
                    .to_owned(),
            );
        }
        PublicAddresses::Bound
    }

    fn limits(&mut self, at: &str, protocol: file::Protocol, typed: &mut file::Limits) -> Limits {
        let key = |key: &str| format!("{at}.limits.{key}");
        self.allowed_by_default(&key("allow_any_source"), protocol, typed);
        let bytes = &typed.peer_bytes;
        Limits {
            peer_packets: self.bucket(&key("peer_packets"), &typed.peer_packets),
            peer_bytes: Bucket {
                rate: self.size(&key("peer_bytes.rate"), &bytes.rate, KIB..=GIB) as u32,
                burst: self.size(&key("peer_bytes.burst"), &bytes.burst, 2 * KIB..=GIB) as u32,
            },
            peer_messages: self.bucket(&key("peer_messages"), &typed.peer_messages),
            strict: typed.strict,
            ip_handshakes: self.bucket(&key("ip_handshakes"), &typed.ip_handshakes),
            handshakes: self.bucket(&key("handshakes"), &typed.handshakes),
            table_size: self.count(&key("table_size"), typed.table_size, 64..=1 << 24) as usize,
            strikes: self.strikes(&key("strikes"), protocol, &typed.strikes),
            allow: self.networks(&key("allow"), &typed.allow),
            deny: self.networks(&key("deny"), &typed.deny),
        }
    }

    /// Where nothing proves who sent a datagram, anybody could strike for somebody else.
    fn strikes(
        &mut self,
        at: &str,
        protocol: file::Protocol,
        typed: &file::Strikes,
    ) -> Option<Strikes> {
        let key = |key: &str| format!("{at}.{key}");
        let strikes = Strikes {
            limit: self.count(&key("limit"), typed.limit, 0..=1_000_000) as u32,
            window: self.span(&key("window"), &typed.window, MILLISECOND..=DAY),
            ban: self.span(&key("ban"), &typed.ban, MILLISECOND..=DAY),
        };
        if strikes.limit == 0 {
            return None;
        }
        // Every listener has them unless told otherwise; who says how many wants them.
        if *typed == file::Strikes::default() {
            return (protocol == file::Protocol::Yojimbo).then_some(strikes);
        }
        self.only_for_yojimbo(at, "", protocol).then_some(strikes)
    }

    /// A protocol without authentication is for closed networks unless somebody says otherwise.
    fn allowed_by_default(
        &mut self,
        path: &str,
        protocol: file::Protocol,
        typed: &mut file::Limits,
    ) {
        if typed.allow_any_source && !typed.allow.is_empty() {
            self.mistake(
                path,
                format!("{path} stands beside a list of who may come"),
                "delete it, or the list in allow".to_owned(),
            );
        }
        let authenticates = protocol == file::Protocol::Yojimbo;
        if !authenticates && !typed.allow_any_source && typed.allow.is_empty() {
            typed.allow = PRIVATE_NETWORKS.map(str::to_owned).to_vec();
        }
    }

    /// Without a probe one forged datagram opens a session, and what the backend says goes to the address that it names.
    fn unprobed_have_a_list(&mut self, at: &str, rudp: &Rudp, limits: &Limits) {
        let takes_all = |network: &IpNet| network.prefix_len() == 0;
        let is_open = limits.allow.is_empty() || limits.allow.iter().any(takes_all);
        if !rudp.probe && is_open {
            let path = format!("{at}.rudp.probe");
            self.mistake(
                &path,
                format!("{path} = false, and {at}.limits lets every address in"),
                "list in limits.allow who may come: otherwise a forged address gets all that the backend says"
                    .to_owned(),
            );
        }
    }

    fn bucket(&mut self, path: &str, typed: &file::Bucket) -> Bucket {
        Bucket {
            rate: self.count(&format!("{path}.rate"), typed.rate, 1..=10_000_000) as u32,
            burst: self.count(&format!("{path}.burst"), typed.burst, 1..=10_000_000) as u32,
        }
    }

    fn networks(&mut self, path: &str, typed: &[String]) -> Vec<IpNet> {
        let mut networks = Vec::new();
        for (index, text) in typed.iter().enumerate() {
            let address = text.parse::<IpAddr>().map(IpNet::from).ok();
            match text.parse::<IpNet>().ok().or(address) {
                Some(network) => networks.push(network),
                None => self.bad_value(
                    &format!("{path}[{index}]"),
                    format!("{path}: {text:?} is no network"),
                    "write \"192.0.2.0/24\", \"2001:db8::/32\" or one address".to_owned(),
                ),
            }
        }
        networks
    }
}

/// Whether this names every address of the machine, however that is spelt. Its port may be wrong: that is another
/// mistake, told beside.
fn is_wildcard(text: &str) -> bool {
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.is_ok_and(|ip| ip.to_canonical().is_unspecified())
}

/// This machine, private networks and single links. The addresses that providers share between
/// customers (100.64.0.0/10) are not private.
const PRIVATE_NETWORKS: [&str; 8] = [
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
];
