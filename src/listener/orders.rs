//! What operators ask of a listener, between two turns of its worker.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tidegate_proto::{CloseReason, Now, PeerId};

use super::peer::{Peer, Phase};
use super::{Listener, Policy};
use crate::admission::BanError;

/// One peer, for people and scripts. Ids are text: JSON numbers lose the low digits of 64 bits.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PeerView {
    /// As in the log and in the PROXY header.
    pub session: String,
    pub listener: String,
    pub address: String,
    pub client_id: Option<String>,
    pub target: Option<String>,
    pub age_s: f64,
    pub mode: String,
    /// `None`, like the three below, where it is not measured: before the first answer, and `loss` with rudp.
    pub rtt_ms: Option<f64>,
    /// The smallest of the recent past: what the path takes when nothing waits on it.
    pub rtt_min_ms: Option<f64>,
    pub jitter_ms: Option<f64>,
    pub loss: Option<f64>,
    /// How often it got into bad mode.
    pub bad_mode: u64,
    /// Some of its queues may not grow, since memory is short.
    pub held_back: bool,
    pub packets_received: u64,
    pub packets_sent: u64,
    pub packets_lost: u64,
    pub messages_received: u64,
    pub messages_acked: u64,
    pub messages_resent: u64,
    /// Messages to it, queued or not acknowledged.
    pub unacked: u32,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    /// Longest datagram that bulk to it goes in.
    pub datagram_bytes: u16,
    /// It is sent packets under AES-256-GCM.
    pub aes_gcm: bool,
    pub to_backend_bytes: u64,
    pub to_peer_bytes: u64,
}

/// Which peers are meant.
#[derive(Clone, Copy, Debug)]
pub enum Whom {
    /// The session of this number.
    Session(u64),
    /// The sessions of this client.
    Client(u64),
    /// The sessions from these addresses.
    Range(IpNet),
    /// The session from this address and port.
    Address(SocketAddr),
}

/// As it was understood: a network without what its mask hides.
impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(session) => write!(f, "session {session:016x}"),
            Self::Client(client) => write!(f, "client {client}"),
            Self::Range(range) => write!(f, "{}", range.trunc()),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Listener {
    /// As configured.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn views(&self, now: Now) -> Vec<PeerView> {
        self.peers.iter().map(|peer| self.view(now, peer)).collect()
    }

    /// The peers that are meant.
    pub fn views_of(&self, now: Now, whom: Whom) -> Vec<PeerView> {
        let meant = self.peers.iter().filter(|peer| self.is_meant(whom, peer));
        meant.map(|peer| self.view(now, peer)).collect()
    }

    pub(super) fn is_meant(&self, whom: Whom, peer: &Peer) -> bool {
        let remote = canonical(peer.remote);
        match whom {
            Whom::Session(session) => peer.session == session,
            Whom::Client(client) => self.client_of(peer.id) == Some(client),
            Whom::Range(range) => range.contains(&remote.ip()),
            Whom::Address(address) => remote == canonical(address),
        }
    }

    fn view(&self, now: Now, peer: &Peer) -> PeerView {
        let stats = self.endpoint.stats(peer.id).unwrap_or_default();
        let measured = |value: f64| stats.is_measured().then_some(value);
        let client_id = self.client_of(peer.id);
        let target = self.target_of(peer.id);
        let inbox = self.endpoint.inbox_bytes(peer.id) + peer.stream.queued();
        let mode = match peer.phase {
            Phase::Joining => "joining",
            Phase::Playing if stats.in_bad_mode => "bad",
            Phase::Playing => "good",
            Phase::Over(_) => "closing",
        };
        PeerView {
            session: format!("{:016x}", peer.session),
            listener: self.name.to_string(),
            address: peer.remote.to_string(),
            client_id: client_id.map(|id| id.to_string()),
            target,
            age_s: now.mono.since(peer.since).as_secs_f64(),
            mode: mode.to_owned(),
            rtt_ms: measured(stats.rtt.as_secs_f64() * 1e3),
            rtt_min_ms: measured(stats.rtt_min.as_secs_f64() * 1e3),
            jitter_ms: measured(stats.rtt_variation.as_secs_f64() * 1e3),
            loss: stats.known_loss().map(f64::from),
            bad_mode: stats.mode_to_bad,
            held_back: peer.accounted.is_held_back(),
            packets_received: stats.packets_received,
            packets_sent: stats.packets_sent,
            packets_lost: stats.packets_lost,
            messages_received: stats.messages_received,
            messages_acked: stats.messages_acked,
            messages_resent: stats.messages_resent,
            unacked: stats.outbox_messages,
            bytes_received: stats.message_bytes_received,
            bytes_sent: stats.message_bytes_sent,
            datagram_bytes: stats.datagram_bytes,
            aes_gcm: stats.second_cipher,
            to_backend_bytes: inbox as u64,
            to_peer_bytes: u64::from(stats.outbox_bytes),
        }
    }

    /// Ends these sessions; says how many. One that is on its way here from another worker ends when it comes, and is
    /// not among them.
    pub fn end(&mut self, now: Now, whom: Whom, reason: CloseReason) -> usize {
        self.handovers.on_order(now, whom, reason);
        let meant = self.peers.iter().filter(|peer| self.is_meant(whom, peer));
        let ids: Vec<PeerId> = meant.map(|peer| peer.id).collect();
        for &id in &ids {
            self.endpoint.close(now, id, reason);
            self.touch(id);
        }
        ids.len()
    }

    /// Bans, and ends the sessions it concerns; says how many.
    pub fn ban(&mut self, now: Now, whom: Whom, span: Option<Duration>) -> Result<usize, BanError> {
        let until = span.map(|span| now.mono + span);
        if let Some(admission) = &mut self.strangers.admission {
            match whom {
                Whom::Range(range) => admission.ban(now.mono, range, until)?,
                Whom::Client(client) => admission.ban_client(now.mono, client, until)?,
                Whom::Session(_) | Whom::Address(_) => {}
            }
        }
        Ok(self.end(now, whom, CloseReason::Banned))
    }

    /// Lifts a ban; false when there is none.
    pub fn unban(&mut self, whom: Whom) -> bool {
        match (&mut self.strangers.admission, whom) {
            (Some(admission), Whom::Range(range)) => admission.unban(range),
            (Some(admission), Whom::Client(client)) => admission.unban_client(client),
            (Some(_), Whom::Session(_) | Whom::Address(_)) | (None, _) => false,
        }
    }

    /// Who is banned, and for how many more seconds (`None`: for good).
    pub fn bans(&self, now: Now) -> Vec<(String, Option<u64>)> {
        let Some(admission) = &self.strangers.admission else {
            return Vec::new();
        };
        // Rounded up: what has no second left is over.
        let seconds = |left: Duration| left.as_nanos().div_ceil(1_000_000_000) as u64;
        let left =
            |end: Option<tidegate_proto::Timestamp>| end.map(|end| seconds(end.since(now.mono)));
        let ranges = admission.bans().ranges();
        let ranges = ranges
            .into_iter()
            .map(|(range, end)| (Whom::Range(range).to_string(), left(end)));
        let clients = admission.bans().clients();
        let clients = clients
            .into_iter()
            .map(|(id, end)| (Whom::Client(id).to_string(), left(end)));
        ranges.chain(clients).collect()
    }

    /// Takes over what was ordered of all listeners before this one came: bans, and a drain. The worker does this when
    /// it adds the listener: a caller that asked for the orders beforehand could miss one that comes in between. What peers
    /// did at another listener is no order, and may be nothing here; at another address of the same one it is the same.
    pub fn inherit(&mut self, elder: &Self) {
        self.stage.set_draining(!elder.stage.takes_newcomers());
        if let (Some(own), Some(admission)) =
            (&mut self.strangers.admission, &elder.strangers.admission)
        {
            own.adopt(match self.name == elder.name {
                true => admission.bans().clone(),
                false => admission.bans().ordered(),
            });
        }
    }

    /// New sessions get this; those that live keep what they began with.
    pub fn set_policy(&mut self, policy: Policy) {
        self.terms = policy.terms;
        self.endpoint.set_peers_max(policy.peers_max);
        if let Some(admission) = &mut self.strangers.admission {
            admission.set_params(&policy.admission);
        }
    }

    /// Takes no newcomers, or takes them again; those who are here stay, but for those who were told to go.
    pub fn set_draining(&mut self, draining: bool) {
        self.stage.set_draining(draining);
    }

    pub fn peers(&self) -> usize {
        self.peers.iter().count()
    }

    pub(super) fn is_banned(&self, now: Now, id: PeerId) -> bool {
        self.client_of(id).is_some_and(|client| {
            let admission = self.strangers.admission.as_ref();
            admission.is_some_and(|own| own.bans().covers_client(now.mono, client))
        })
    }

    fn client_of(&self, id: PeerId) -> Option<u64> {
        self.endpoint.identity(id).and_then(|whom| whom.client_id)
    }
}

/// An IPv4 address is one, also where a socket of both families has it in IPv6's clothes.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
