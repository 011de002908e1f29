//! What the data plane knows of a listener's configuration, in its own types.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::admission;
use crate::backend::{Pool, SocketOptions, StreamRules};
use crate::config::Listener;
use crate::listener::{Destination, PeerLimits, Policy, Terms};
use crate::protocol;

/// For one of the `shards` that share the listener's budgets, one for each of its sockets. `bound`
/// are all of its addresses: no datagram of a stranger comes from there.
pub(super) fn policy(
    listener: &Listener,
    pool: &Arc<Pool>,
    bound: &[SocketAddr],
    shards: usize,
) -> Policy {
    Policy {
        terms: Terms {
            destination: Some(destination(listener, pool)),
            rules: Arc::new(rules(listener)),
            limits: Some(peer_limits(listener)),
            is_open: listener.protocol.is_open(),
        },
        peers_max: listener.max_peers,
        admission: admission_params(listener, bound, shards),
    }
}

fn destination(listener: &Listener, pool: &Arc<Pool>) -> Destination {
    let backend = &listener.backend;
    Destination {
        pool: pool.clone(),
        timeout: backend.connect_timeout,
        attempts: backend.connect_attempts,
        backoff: backend.retry_backoff,
        proxy: backend.proxy,
        socket: SocketOptions {
            nodelay: backend.tcp_nodelay,
            keepalive: backend.tcp_keepalive,
            user_timeout: backend.stall,
        },
    }
}

fn rules(listener: &Listener) -> StreamRules {
    let backend = &listener.backend;
    StreamRules {
        codec: protocol::fitting(backend.codec, &listener.protocol),
        unreliable: backend.unreliable,
        ack: listener.ack,
        stall: backend.stall,
        linger: backend.linger,
    }
}

fn peer_limits(listener: &Listener) -> PeerLimits {
    PeerLimits {
        packets: listener.limits.peer_packets,
        bytes: listener.limits.peer_bytes,
        messages: listener.limits.peer_messages,
        strict: listener.limits.strict,
    }
}

fn admission_params(listener: &Listener, bound: &[SocketAddr], shards: usize) -> admission::Params {
    let limits = &listener.limits;
    admission::Params {
        per_prefix: limits.ip_handshakes,
        listener: limits.handshakes.share_of(shards),
        table_size: limits.table_size,
        strikes: limits.strikes,
        rules: admission::SourceRules {
            allow: admission::Networks::new(&limits.allow),
            deny: admission::Networks::new(&limits.deny),
            own: bound.to_vec(),
        },
    }
}
