//! What the log says of a listener that begins.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::config::{Listener, Protocol, PublicAddresses, Runtime};
use crate::udp::UdpSocket;

/// A line for each address that is served from now on.
pub(super) fn addresses(listener: &Listener, bound: &[SocketAddr]) {
    let targets = listed(&listener.backend.targets);
    let layout = match &listener.protocol {
        Protocol::Yojimbo(own) => Some(format!("{:016x}", own.layout.fingerprint())),
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

/// The kernel caps what a socket may ask for, and says nothing: what is lost by it is lost in a busy moment.
pub(super) fn short_buffers<'a>(
    listener: &Listener,
    runtime: &Runtime,
    sockets: impl Iterator<Item = &'a UdpSocket>,
) {
    let granted = sockets.filter_map(|socket| socket.granted().ok());
    let least = granted.map(|(receive, _)| receive).min();
    if let Some(least) = least.filter(|least| *least < runtime.udp_recv_buffer) {
        tracing::warn!(
            event = "udp_buffer_short",
            listener = %listener.name,
            granted_kib = least >> 10,
            udp_recv_buffer_kib = runtime.udp_recv_buffer >> 10,
            help = "raise net.core.rmem_max (for a container on its host), or datagrams are lost whenever a worker is late for a moment",
        );
    }
}

/// Where anybody can get in, or read and forge what players say.
pub(super) fn insecurity(listener: &Listener) {
    if let Protocol::Yojimbo(own) = &listener.protocol {
        if own.netcode.insecure {
            tracing::warn!(
                event = "insecure_listener",
                listener = %listener.name,
                protocol = listener.protocol.label(),
                "the all-zero key is accepted (insecure = true): anybody can make tokens",
            );
        }
    } else {
        tracing::warn!(
            event = "insecure_listener",
            listener = %listener.name,
            protocol = listener.protocol.label(),
            sources = allowed(&listener.limits.allow),
            "no authentication, no encryption: anybody who sees this traffic, or guesses address and \
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
