//! What is logged about a peer: a line when its session starts, one when it ends, and warnings for what an operator can
//! change about how it ended.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::{CloseReason, Identity, Stats, Timestamp};
use tracing::field::{DisplayValue, display};

use super::peer::{Peer, Phase};

/// What happened to a peer, for its lines.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// It was let in: messages flowed both ways, whatever its phase is by now.
    pub(super) is_seated: bool,
    /// Sessions come and go there without end, and its address, or all together, opened many more just now.
    pub(super) is_one_of_many: bool,
    /// Of a large packet of its came fragments that do not fit together here.
    pub(super) has_misfit_fragments: bool,
    /// The first that it sent was of a session with another server.
    pub(super) has_moved_on: bool,
}

impl Peer {
    pub(super) fn log_start(&self, name: &str, target: Option<&str>, identity: Identity<'_>) {
        let whose = self.whose(name);
        tracing::info!(
            event = "session_start",
            listener = whose.listener,
            tunnel = whose.tunnel,
            peer = %self.remote,
            local = whose.local,
            client = whose.client,
            session = format_args!("{:016x}", self.session),
            client_id = identity.client_id.or(whose.client_id),
            target,
            many = self.notes.is_one_of_many.then_some(true),
        );
    }

    /// A peer belongs to a listener, or to the tunnel that dialled it. Then the far end has a log of its own, with
    /// another session number: what both know goes into the lines.
    fn whose<'a>(&self, name: &'a str) -> Whose<'a> {
        match self.dialled.as_deref() {
            None => Whose {
                listener: Some(name),
                ..Whose::default()
            },
            Some(dialled) => Whose {
                listener: None,
                tunnel: Some(name),
                local: Some(display(dialled.local)),
                client: dialled.client.map(display),
                client_id: dialled.client_id,
            },
        }
    }

    /// Warnings about causes that an operator can do something about.
    pub(super) fn log_causes(
        &self,
        name: &str,
        target: Option<&str>,
        client_id: Option<u64>,
        stats: &Stats,
    ) {
        self.log_not_let_in(name);
        // Elsewhere anybody can write nonsense in a peer's name.
        if client_id.is_some() {
            self.log_misfit(name, stats);
        }
        if let Some(error) = self.stream.misread() {
            self.log_unreadable_backend(name, target, error);
        }
        if self.phase == Phase::Over(CloseReason::BackendStalled) {
            self.log_stalled_backend(name, target);
        }
    }

    /// It is who it says, and wrote what cannot be read: most likely two sides with different settings.
    fn log_misfit(&self, name: &str, stats: &Stats) {
        let (reason, help) = match self.phase.close_reason() {
            Some(CloseReason::ProtocolViolation) if self.notes.has_moved_on => (
                "another_server",
                "it acknowledges packets of another server: one that its token names told it to go, and a client \
                 of yojimbo's library then goes on to the token's next server with what it had there. Nothing is \
                 wrong with its layout; it needs a new token",
            ),
            Some(CloseReason::ProtocolViolation) if stats.messages_received == 0 => (
                "first_message",
                "channels, message types, sizes or the check word differ from the first message on: compare \
                 the client's with the layout that `tidegate check` prints",
            ),
            Some(CloseReason::ProtocolViolation) => (
                "later_message",
                "what was sent first could be read: look at blocks, the largest sizes, how many messages a \
                 packet may have, and who changed the client",
            ),
            Some(CloseReason::PeerGapStall) if self.notes.has_misfit_fragments => (
                "fragments",
                "its large packets come in fragments that do not fit together here: packet_fragment_size and \
                 max_packet_size must be the client's packetFragmentSize and maxPacketSize",
            ),
            _ => return,
        };
        let whose = self.whose(name);
        tracing::warn!(
            event = "unreadable_peer",
            reason,
            listener = whose.listener,
            tunnel = whose.tunnel,
            peer = %self.remote,
            session = format_args!("{:016x}", self.session),
            messages_received = stats.messages_received,
            help,
        );
    }

    /// Its backend wrote what is no message. That is a setting, here or there, and no player's doing.
    fn log_unreadable_backend(&self, name: &str, target: Option<&str>, error: &str) {
        let whose = self.whose(name);
        tracing::warn!(
            event = "unreadable_backend",
            reason = self.phase.reason_label(),
            listener = whose.listener,
            tunnel = whose.tunnel,
            peer = %self.remote,
            session = format_args!("{:016x}", self.session),
            target,
            error,
            help = "framing, length_includes_header, channel_byte and max_message must be those of the game \
                    server, and each frame fit a message of the layout that `tidegate check` prints",
        );
    }

    /// Its backend hangs, or reads more slowly than `stall` allows. A health check does not see that: the kernel goes on
    /// accepting connections for a program that stands still.
    fn log_stalled_backend(&self, name: &str, target: Option<&str>) {
        let whose = self.whose(name);
        tracing::warn!(
            event = "stalled_backend",
            listener = whose.listener,
            tunnel = whose.tunnel,
            peer = %self.remote,
            session = format_args!("{:016x}", self.session),
            target,
            stall_s = self.rules.stall.as_secs_f32(),
            help = "it read nothing of what waited for it for as long as `stall` allows, and the session ended: see \
                    whether the game server hangs, or only this one of its streams is not read; if its host or the way \
                    there is gone, target_down follows",
        );
    }

    /// A server that we dialled did not let us in. It refuses most things in silence, so all that may be is named.
    fn log_not_let_in(&self, name: &str) {
        let Some(reason) = self.phase.close_reason() else {
            return;
        };
        let help = match reason {
            CloseReason::ConnectTimeout => {
                "nobody is there, a firewall drops, or the server is silent on purpose: another key, protocol id or \
                 public address (`tidegate token inspect` tells), a clock that is wrong, here or there, or it began \
                 less than max_token_lifetime ago"
            }
            CloseReason::Denied => {
                "the server is full, it is draining, or its backend cannot be reached: its log has which"
            }
            CloseReason::TokenExpired => {
                "the token ran out before the server answered: get a fresh one each time"
            }
            _ => return,
        };
        let whose = self.whose(name);
        tracing::warn!(
            event = "not_let_in",
            tunnel = whose.tunnel,
            peer = %self.remote,
            local = whose.local,
            client = whose.client,
            session = format_args!("{:016x}", self.session),
            client_id = whose.client_id,
            reason = reason.label(),
            help,
        );
    }

    /// One line with everything: it stands in for metrics per peer. Without what was not measured. Who was never let in
    /// may try again as often as it likes, and so may who needs no token, so of these lines (`seated`, `many`) the log holds
    /// back what is too much.
    pub(super) fn log_end(
        &self,
        name: &str,
        target: Option<&str>,
        client_id: Option<u64>,
        now: Timestamp,
        stats: &Stats,
    ) {
        let whose = self.whose(name);
        let millis = |span: Duration| stats.is_measured().then_some(span.as_secs_f32() * 1e3);
        tracing::info!(
            event = "session_end",
            listener = whose.listener,
            tunnel = whose.tunnel,
            peer = %self.remote,
            local = whose.local,
            client = whose.client,
            session = format_args!("{:016x}", self.session),
            client_id = client_id.or(whose.client_id),
            target,
            reason = self.phase.reason_label(),
            seated = (!self.notes.is_seated).then_some(false),
            many = self.notes.is_one_of_many.then_some(true),
            dur_s = now.since(self.since).as_secs_f32(),
            messages_received = stats.messages_received,
            messages_acked = stats.messages_acked,
            unacked = stats.outbox_messages,
            bytes_received = stats.message_bytes_received,
            bytes_sent = stats.message_bytes_sent,
            packets_received = stats.packets_received,
            packets_sent = stats.packets_sent,
            packets_lost = stats.packets_lost,
            messages_resent = stats.messages_resent,
            messages_skipped = stats.messages_skipped,
            rtt_ms = millis(stats.rtt),
            rtt_min_ms = millis(stats.rtt_min),
            datagram_bytes = stats.datagram_bytes,
            aes_gcm = stats.second_cipher,
            bad_mode = stats.mode_to_bad,
        );
    }
}

/// Whose a peer is, as its lines say it.
#[derive(Default)]
struct Whose<'a> {
    listener: Option<&'a str>,
    tunnel: Option<&'a str>,
    local: Option<DisplayValue<SocketAddr>>,
    client: Option<DisplayValue<SocketAddr>>,
    client_id: Option<u64>,
}
