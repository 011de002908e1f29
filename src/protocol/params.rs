//! From what an operator wrote to what a session is told.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::{self, TimeoutPolicy};
use tidegate_proto::{gaffer, rudp, sender, yojimbo};

use crate::config::{self, GafferMode, OnMissing, PublicAddresses, Rate, RateProfile};

/// Bytes a session may hold each way.
#[derive(Clone, Copy)]
pub(super) struct Queues {
    inbox: usize,
    outbox: usize,
}

impl Queues {
    pub(super) fn of_listener(listener: &config::Listener) -> Self {
        Self {
            inbox: listener.backend.queue_to_backend,
            outbox: listener.backend.queue_to_peer,
        }
    }

    pub(super) fn of_tunnel(tunnel: &config::Tunnel) -> Self {
        Self {
            inbox: tunnel.queue_to_stream,
            outbox: tunnel.queue_to_remote,
        }
    }
}

/// Whose sessions. A tunnel ends at a tidegate's listener, which takes datagrams that the standard does
/// not know; who comes to a listener may be anybody, until it sent one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Listener,
    Tunnel,
}

pub(super) fn yojimbo_params(
    own: &config::Yojimbo,
    rate: &Rate,
    queues: Queues,
    side: Side,
) -> yojimbo::Params {
    let params = yojimbo::Params::new(own.layout.clone(), sender_params(rate, queues));
    let mut params = params.with_path_mtu(own.path_mtu_max, side == Side::Tunnel);
    params.inbox_max = queues.inbox;
    params
}

/// Of a listener's sessions.
pub(super) fn listener_params(
    listener: &config::Listener,
    own: &config::Yojimbo,
    queues: Queues,
) -> yojimbo::Params {
    yojimbo::Params {
        ack: listener.ack,
        ..yojimbo_params(own, &listener.rate, queues, Side::Listener)
    }
}

/// Peers of a listener, as netcode counts them.
pub(super) fn slots(listener: &config::Listener) -> u32 {
    u32::try_from(listener.max_peers).unwrap_or(u32::MAX)
}

pub(super) fn gaffer_params(
    own: &config::Gaffer,
    rate: &Rate,
    idle_timeout: Duration,
    queues: Queues,
) -> gaffer::Params {
    gaffer::Params {
        protocol_id: own.protocol_id,
        payload: match own.mode {
            GafferMode::Raw => gaffer::Payload::Raw {
                late: gaffer::Late::default(),
            },
            GafferMode::Reliable => gaffer::Payload::Messages,
        },
        message_bytes_max: own.max_message,
        idle_timeout,
        sender: sender_params(rate, queues),
        inbox_max: queues.inbox,
        ..gaffer::Params::default()
    }
}

pub(super) fn rudp_params(
    own: &config::Rudp,
    idle_timeout: Duration,
    queues: Queues,
) -> rudp::Params {
    let base = rudp::Params::default();
    let ticks = |span: Duration| {
        u32::try_from(span.as_nanos() / base.tick.as_nanos().max(1)).unwrap_or(u32::MAX)
    };
    rudp::Params {
        send_delay: ticks(own.send_delay).max(1),
        expired_time: ticks(own.expired_time).max(1),
        mtu: own.mtu,
        message_bytes_max: own.max_message,
        on_missing: match own.on_missing {
            OnMissing::Close => rudp::OnMissing::Close,
            OnMissing::Skip => rudp::OnMissing::Skip,
        },
        idle_timeout,
        probe: own.probe,
        send_queue_bytes_max: queues.outbox,
        inbox_max: queues.inbox,
        ..base
    }
}

pub(super) fn handshake_params(
    listener: &config::Listener,
    own: &config::Netcode,
    bound: &[SocketAddr],
) -> netcode::Params {
    let (public, any_address) = match &listener.public_addresses {
        PublicAddresses::Bound => (bound.to_vec(), false),
        PublicAddresses::Listed(listed) => (listed.clone(), false),
        PublicAddresses::Any => (bound.to_vec(), true),
    };
    netcode::Params {
        any_address,
        private_keys: own.keys.clone(),
        max_token_lifetime: own.lifetime_max().map(|lifetime| lifetime.as_secs()),
        clock_skew: own.clock_skew.as_secs(),
        timeout: TimeoutPolicy::Clamp(1..=60),
        ..netcode::Params::new(own.protocol_id, public, slots(listener))
    }
}

fn sender_params(rate: &Rate, queues: Queues) -> sender::Params {
    let base = match rate.profile {
        RateProfile::Adaptive(own) => sender::Params {
            packets: sender::PacketRates {
                good_max: f64::from(own.good_rate_max),
                ..sender::PacketRates::default()
            },
            path: sender::PathLimits {
                queue_max: own.queue_max,
                queue_max_messages: own.queue_max_messages,
                base_window: own.base_window,
                loss_max: own.loss_max,
            },
            bulk: sender::BulkRates {
                start: own.bulk_start,
                min: own.bulk_min,
                max: own.bulk_max,
                ..sender::BulkRates::default()
            },
            ..sender::Params::default()
        },
        RateProfile::Article(own) => sender::Params {
            profile: sender::Profile::Article {
                rtt_max: own.rtt_max,
                resend_after: own.resend_after,
            },
            ..sender::Params::article()
        },
    };
    sender::Params {
        packets: sender::PacketRates {
            good: f64::from(rate.good_rate),
            bad: f64::from(rate.bad_rate),
            burst: f64::from(rate.burst),
            ..base.packets
        },
        penalty: rate.penalty,
        redundancy: base.redundancy && rate.redundancy,
        outbox_bytes_max: queues.outbox,
        ..base
    }
}
