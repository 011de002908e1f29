//! By which names a request may call us.
//!
//! A web page whose name pointed elsewhere when it was loaded can have it point to loopback afterwards (DNS
//! rebinding); the browser that shows it then hands it our answers as its own. All that gives such a
//! request away is that name, in `Host`. An IP address cannot be rebound, and `localhost` is never asked of DNS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Request;
use hyper::header::HOST;
use hyper::http::uri::Authority;

/// Who may be asked for, besides IP addresses and `localhost`.
#[derive(Debug)]
pub(super) enum Hosts {
    /// Anybody: Prometheus and probes elsewhere know us by names that we do not.
    Any,
    /// These.
    Named(Vec<String>),
}

impl Hosts {
    /// For a server at `address`, and what `admin.allowed_hosts` has.
    pub(super) fn new(address: IpAddr, allowed: &[String]) -> Self {
        if allowed.is_empty() && !address.to_canonical().is_loopback() {
            return Self::Any;
        }
        Self::Named(allowed.to_vec())
    }

    /// A request without a host (HTTP/1.0, or a probe by hand) comes from no browser.
    pub(super) fn admit<B>(&self, request: &Request<B>) -> bool {
        let Self::Named(names) = self else {
            return true;
        };
        let is_known = |host: &str| {
            let host = host.strip_suffix('.').unwrap_or(host);
            is_ip(host)
                || host.eq_ignore_ascii_case("localhost")
                || names.iter().any(|name| host.eq_ignore_ascii_case(name))
        };
        let is_known_header = |bytes: &[u8]| match Authority::try_from(bytes) {
            Ok(authority) => is_known(authority.host()),
            Err(_) => bytes.is_empty(),
        };
        let mut headers = request.headers().get_all(HOST).iter();
        headers.all(|value| is_known_header(value.as_bytes()))
            && request.uri().host().is_none_or(is_known)
    }
}

fn is_ip(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

/// What a request by another name is told.
pub(super) const UNKNOWN: &str = "not known by this name: ask for an IP address or localhost, or add the name to \
    admin.allowed_hosts\n";
