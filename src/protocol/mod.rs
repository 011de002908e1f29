//! From a listener's or tunnel's configuration to the protocol that speaks there. The only place that
//! knows protocols by name.
//!
//! ```text
//!   a stranger's datagram ──▶ ReloadableAcceptor, one per endpoint ◀── Acceptors, one per listener ◀── reload
//!   a local connection ─────▶ Dialer
//!   a recording ────────────▶ replayed()                  params.rs: what each session is told
//! ```

mod acceptors;
mod dialer;
mod params;
mod reloadable_acceptor;

use std::sync::Arc;

use tidegate_proto::{Now, Origin, Session, gaffer, rudp, sender, yojimbo};

use crate::config::{self, Protocol};
use crate::framing::{FrameCodec, Framing};

pub use acceptors::{Acceptors, SOCKETS_MAX};
pub use dialer::{Dialer, RejectAll};

use params::{Queues, gaffer_params, listener_params, rudp_params};

/// A session of this listener that repeats a recorded one.
pub fn replayed(listener: &config::Listener, origin: Origin, now: Now) -> Box<dyn Session> {
    let queues = Queues::of_listener(listener);
    match &listener.protocol {
        Protocol::Yojimbo(own) => {
            // Whatever the processor here: the one that it was recorded on had its reasons.
            let params = listener_params(listener, own, queues).with_second_cipher(true);
            Box::new(yojimbo::Session::replayed(now, Arc::new(params), origin))
        }
        Protocol::Gaffer(own) => {
            let params = gaffer_params(own, &listener.rate, listener.idle_timeout, queues);
            Box::new(gaffer::Session::replayed(now, &params, origin))
        }
        Protocol::Rudp(own) => {
            let params = rudp_params(own, listener.idle_timeout, queues);
            Box::new(rudp::Session::replayed(now, params))
        }
    }
}

/// The codec as configured, for what is spoken here. What does not say its channel is for the first reliable
/// one, wherever that stands, and a raw stream is cut into pieces that travel well: one packet each.
pub fn fitting(codec: FrameCodec, protocol: &Protocol) -> FrameCodec {
    let channel = protocol.reliable_channel().unwrap_or(0);
    match codec.framing() {
        Framing::Raw => {
            let piece = codec.max_message().min(piece_bytes(protocol));
            FrameCodec::new(Framing::Raw, false, false, piece).on_channel(channel)
        }
        Framing::U16Be
        | Framing::U16Le
        | Framing::U32Be
        | Framing::U32Le
        | Framing::Varint
        | Framing::Line => codec.on_channel(channel),
    }
}

/// The longest piece that a stream without frames is cut into.
pub(crate) fn piece_bytes(protocol: &Protocol) -> usize {
    match protocol {
        Protocol::Yojimbo(own) => {
            yojimbo::Params::new(own.layout.clone(), sender::Params::default())
                .with_path_mtu(own.path_mtu_max, false)
                .piece_bytes_max()
        }
        Protocol::Gaffer(own) => own.max_message.min(RAW_PIECE_BYTES),
        // A record that is larger than the MTU travels alone, with an empty datagram behind it.
        Protocol::Rudp(own) => (own.max_message)
            .min(own.mtu - rudp::wire::RECORD_OVERHEAD)
            .min(RAW_PIECE_BYTES),
    }
}

/// Fits one datagram where no configuration says how long those are, with room beside it.
const RAW_PIECE_BYTES: usize = 1_000;
