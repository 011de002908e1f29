//! What the log says of a listener that begins.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::config::{Listener, Protocol, PublicAddresses};

/// A line for each address that is served from now on.
pub(super) fn addresses(listener: &Listener, bound: &[SocketAddr]) {
    let targets = listed(&listener.backend.targets);
    let layout = match &listener.protocol {
        Protocol::Yojimbo(own) => Some(format!("{:016x}", own.profile.fingerprint())),
        Protocol::Gaffer(_) | Protocol::Rudp(_) => None,
    };
    let public_addresses = match (&listener.protocol, &listener.public_addresses) {
        (Protocol::Gaffer(_) | Protocol::Rudp(_), _) => None,
        (Protocol::Yojimbo(_), PublicAddresses::Any) => Some("any".to_owned()),
        (Protocol::Yojimbo(_), PublicAddresses::Bound) => Some(listed(bound)),
        (Protocol::Yojimbo(_), PublicAddresses::Listed(addresses)) => Some(listed(addresses)),
    };
    for address in bound {
        tracing::info!(
            event = "listening",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            layout,
            address = %address,
            public_addresses,
            backend = %listener.backend.name,
            targets,
        );
    }
}

/// Where anybody can read and forge what players say.
pub(super) fn insecurity(listener: &Listener) {
    if !matches!(listener.protocol, Protocol::Yojimbo(_)) {
        tracing::warn!(
            event = "insecure_listener",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            sources = allowed(&listener.limits.allow),
            "no authentication, no encryption: whoever sees this traffic, or guesses address and \
             port, can read it, forge messages and end sessions. For closed networks and VPNs only",
        );
    }
}

fn allowed(networks: &[IpNet]) -> String {
    match networks {
        [] => "any".to_owned(),
        some => listed(some),
    }
}

fn listed(all: &[impl ToString]) -> String {
    let all: Vec<_> = all.iter().map(ToString::to_string).collect();
    all.join(" ")
}
