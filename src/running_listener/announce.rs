//! What the log says of a listener that begins.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::config::{Listener, Protocol};

/// A line for each address that is served from now on.
pub(super) fn addresses(listener: &Listener, bound: &[SocketAddr]) {
    let targets: Vec<_> = listener
        .backend
        .targets
        .iter()
        .map(ToString::to_string)
        .collect();
    let layout = match &listener.protocol {
        Protocol::Yojimbo(own) => Some(format!("{:016x}", own.profile.fingerprint())),
        Protocol::Gaffer(_) | Protocol::Rudp(_) => None,
    };
    for address in bound {
        tracing::info!(
            event = "listening",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            layout,
            address = %address,
            backend = %listener.backend.name,
            targets = targets.join(" "),
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
    let networks: Vec<_> = networks.iter().map(ToString::to_string).collect();
    match networks.as_slice() {
        [] => "any".to_owned(),
        some => some.join(" "),
    }
}
