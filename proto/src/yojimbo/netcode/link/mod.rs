//! One peer's pipe of sealed packets: keys, sequences, replay window, timers. The same on both
//! ends once a client is connected.
//!
//! Rule: docs/wire/netcode.md, sections 4, 5, 6 and 9. Does not know addresses, slots' owners or what
//! payloads mean.
//!
//! ```text
//!            server                                client
//!   waiting ──admit()──▶ admitted              (admitted from the start)
//!      │ takes: payload,     │ takes: all
//!      │ disconnect          │
//!      ▼                     ▼
//!   is_timed_out      is_timed_out, also when never confirmed
//! ```

mod keep_alive;
mod recording;

use std::time::Duration;

use super::crypto::Key;
use super::gcm::EpochKey;
use super::packet::{self, Beyond, Packet, Role, keep_alive_bytes};
use super::replay::Replay;
use super::wire::{Kind, Prefix};
use crate::session::Reject;
use crate::time::{Deadline, Now, Timestamp, Wake};

pub use keep_alive::SEND_INTERVAL;
pub(in crate::yojimbo) use recording::LinkOrigin;

use keep_alive::KeepAlives;

/// How often a goodbye is said, back to back, since none of them is acknowledged.
pub const DISCONNECT_REPEATS: usize = 10;

/// The sequence of a denial that comes after the handshake was won (its backend is away).
///
/// It shares a key with the client's packets, which count from 0, and with challenges, which count
/// from 2^63; one number of its own is enough, since a token is seated once and a denial says
/// nothing: under one key this nonce only ever seals these same bytes.
const DENIAL_SEQUENCE: u64 = 3 << 62;

/// What a packet said to its link.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// What is for the layer above: 1 to 1200 bytes, or what [`Link::go_beyond`] allowed.
    Payload {
        /// The packet's sequence, unique in this direction.
        sequence: u64,
        /// What it carries.
        bytes: &'a [u8],
    },
    /// The peer is there. A client may ignore the numbers, a server always does.
    KeepAlive {
        /// The client's slot.
        client_index: u32,
        /// Slots the server has.
        max_clients: u32,
    },
    /// The peer said goodbye; it expects no answer.
    Disconnect,
    /// A step of the handshake again: nothing to do.
    Handshake,
}

/// A packet under construction: its prefix is written, its payload is being appended.
#[derive(Debug)]
#[must_use = "an unsealed packet is not a packet"]
pub struct Sealing {
    prefix: Prefix,
    /// Where the plaintext begins in the buffer.
    from: usize,
}

/// One peer's keys, sequences and timers.
///
/// A packet that fails any check changes nothing: no timer, no window. The one exception is the
/// standard's: a packet whose tag is right and whose size is wrong has used its sequence up.
#[derive(Debug)]
pub struct Link {
    role: Role,
    state: State,
    /// Something arrived since the peer was admitted.
    is_confirmed: bool,
    /// The keep-alive that goes before an unconfirmed peer's next payload was sent.
    is_prefaced: bool,
    protocol_id: u64,
    receive_key: Key,
    send_key: Key,
    send_sequence: u64,
    replay: Replay,
    beyond: Beyond,
    /// Seals payloads under the second cipher.
    send_gcm: EpochKey,
    last_send: Timestamp,
    keep_alives: KeepAlives,
    last_receive: Timestamp,
    /// Silence that ends the session; `None` never does.
    timeout: Option<Duration>,
    /// What our keep-alives say; zeros from a client.
    client_index: u32,
    max_clients: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Authenticated, its backend not there yet.
    Waiting,
    /// May send and receive. Unless something arrives until then, the peer is given up.
    Admitted { confirm_until: Timestamp },
}

#[derive(Debug)]
pub(super) struct LinkParams {
    pub(super) role: Role,
    pub(super) protocol_id: u64,
    pub(super) receive_key: Key,
    pub(super) send_key: Key,
    pub(super) timeout: Option<Duration>,
}

impl Link {
    /// A server's link to a client that answered its challenge.
    pub(super) fn waiting(
        now: Now,
        params: LinkParams,
        client_index: u32,
        max_clients: u32,
    ) -> Self {
        Self {
            state: State::Waiting,
            client_index,
            max_clients,
            ..Self::dialing(now, params)
        }
    }

    /// A client's link: sequence 0 is still to be sent.
    pub(super) fn dialing(now: Now, params: LinkParams) -> Self {
        let LinkParams {
            role,
            protocol_id,
            receive_key,
            send_key,
            timeout,
        } = params;
        Self {
            role,
            state: State::Admitted {
                confirm_until: Timestamp::MAX,
            },
            is_confirmed: false,
            is_prefaced: false,
            protocol_id,
            receive_key,
            send_key,
            send_sequence: 0,
            replay: Replay::default(),
            beyond: Beyond::default(),
            send_gcm: EpochKey::default(),
            last_send: now.mono,
            keep_alives: KeepAlives::new(timeout),
            last_receive: now.mono,
            timeout,
            client_index: 0,
            max_clients: 0,
        }
    }

    /// Takes and sends what is beyond the standard from now on, for a peer that does too.
    pub fn go_beyond(&mut self, beyond: Beyond) {
        self.beyond = beyond;
    }

    /// Takes a datagram from the peer's address, decrypting it in place.
    pub fn open<'a>(&mut self, now: Now, datagram: &'a mut [u8]) -> Result<Received<'a>, Reject> {
        let is_waiting = self.is_waiting();
        if is_waiting {
            // A client may speak behind its answer. The rest it says only once it was told that it is in.
            // Left unread, such a packet also keeps its sequence.
            let kind = Prefix::parse(datagram)?.kind;
            if matches!(kind, Kind::GcmPayload | Kind::KeepAlive) {
                return Err(Reject::Unexpected);
            }
        }
        let received = match self.open_quietly(datagram)? {
            Packet::Payload { sequence, bytes } => Received::Payload { sequence, bytes },
            Packet::KeepAlive {
                client_index,
                max_clients,
            } => Received::KeepAlive {
                client_index,
                max_clients,
            },
            Packet::Disconnect => Received::Disconnect,
            Packet::Denied | Packet::Challenge(_) | Packet::Response(_) => {
                // Responses are not replay protected, so they prove little; but while a client
                // waits for us they are all it may say.
                if is_waiting {
                    self.last_receive = now.mono;
                }
                return Ok(Received::Handshake);
            }
        };
        self.hear(now);
        self.is_confirmed = !is_waiting;
        Ok(received)
    }

    /// Opens without touching timers, for a client that is still connecting.
    pub(super) fn open_quietly<'a>(
        &mut self,
        datagram: &'a mut [u8],
    ) -> Result<Packet<'a>, Reject> {
        packet::open(
            self.role,
            &self.receive_key,
            self.protocol_id,
            &mut self.beyond,
            Some(&mut self.replay),
            datagram,
        )
    }

    /// The peer was heard.
    pub(super) fn hear(&mut self, now: Now) {
        self.last_receive = now.mono;
    }

    /// Starts over with another server of the same token: a fresh window, but the same keys and so
    /// the next sequence, never the first again.
    pub(super) fn redial(&mut self, now: Now) {
        self.replay = Replay::default();
        self.last_receive = now.mono;
    }

    /// True if the peer certainly made this datagram, and we have not seen it before. Changes
    /// nothing. For a peer whose address changed: only kinds with replay protection vouch.
    pub fn vouches_for(&self, datagram: &[u8]) -> bool {
        let Ok(prefix) = Prefix::parse(datagram) else {
            return false;
        };
        if !prefix.kind.is_replay_protected() || self.replay.check(prefix.sequence).is_err() {
            return false;
        }
        // As opening does, but before a stranger's bytes are copied.
        if datagram.len() > usize::from(self.beyond.sizes.datagram) {
            return false;
        }
        let (role, key, id) = (self.role, &self.receive_key, self.protocol_id);
        let copy = &mut datagram.to_vec();
        packet::open(role, key, id, &mut self.beyond.again(), None, copy).is_ok()
    }

    /// True if this datagram says that it is a payload, which its first byte does in the clear.
    pub(in crate::yojimbo) fn reads_as_payload(datagram: &[u8]) -> bool {
        Prefix::parse(datagram).is_ok_and(|prefix| prefix.kind == Kind::Payload)
    }

    /// True if this datagram says that it is a goodbye, which its first byte does in the clear.
    pub fn reads_as_goodbye(datagram: &[u8]) -> bool {
        Prefix::parse(datagram).is_ok_and(|prefix| prefix.kind == Kind::Disconnect)
    }

    /// Seats the peer: appends the keep-alive that tells it so. Unless something arrives within
    /// `confirm_within`, the link counts as timed out. Call it once.
    pub fn admit(&mut self, now: Now, confirm_within: Option<Duration>, out: &mut Vec<u8>) {
        self.state = State::Admitted {
            confirm_until: confirm_within.map_or(Timestamp::MAX, |span| now.mono + span),
        };
        // The peer need not have spoken while it waited, so its silence starts to count now.
        self.last_receive = now.mono;
        self.keep_alive(now, out);
    }

    /// True until [`Link::admit`]: the peer was not told that it is seated.
    pub fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// Refuses a peer that was never admitted: appends a denied packet, or returns false. May be
    /// repeated, for a peer that keeps responding; the bytes are the same each time.
    pub fn deny(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.is_waiting() {
            return false;
        }
        packet::emit(
            out,
            &self.send_key,
            self.protocol_id,
            Kind::Denied,
            DENIAL_SEQUENCE,
            &[],
        );
        true
    }

    /// Begins a payload packet: append 1 to 1200 bytes to `out` (or what [`Link::go_beyond`] allowed),
    /// then [`Link::seal`]. A packet that is begun and thrown away costs its sequence, which is harmless.
    pub fn begin(&mut self, out: &mut Vec<u8>) -> Sealing {
        self.begin_kind(Kind::Payload, out)
    }

    /// Begins a payload packet under the second cipher, for a peer that opens it; see [`Link::begin`].
    pub fn begin_gcm(&mut self, out: &mut Vec<u8>) -> Sealing {
        self.begin_kind(Kind::GcmPayload, out)
    }

    /// Encrypts what was appended since [`Link::begin`] and appends the tag.
    ///
    /// Panics if the payload is empty or longer than that: the layer above packs it.
    pub fn seal(&mut self, now: Now, out: &mut Vec<u8>, sealing: Sealing) {
        let length = out.len() - sealing.from;
        assert!(
            (1..=usize::from(self.beyond.sizes.payload)).contains(&length),
            "a payload of {length} bytes"
        );
        self.is_prefaced = false;
        self.keep_alives.on_payload();
        self.finish(now, out, sealing);
    }

    /// Until the client is known to know that it is connected, each payload to it is preceded by a
    /// keep-alive: appends that one and returns true, and then false once.
    pub fn preface(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.role == Role::Client || self.is_confirmed || self.is_prefaced {
            return false;
        }
        self.keep_alive(now, out);
        self.is_prefaced = true;
        true
    }

    /// Appends a keep-alive.
    pub fn keep_alive(&mut self, now: Now, out: &mut Vec<u8>) {
        let sealing = self.begin_kind(Kind::KeepAlive, out);
        out.extend_from_slice(&keep_alive_bytes(self.client_index, self.max_clients));
        self.keep_alives.on_sent();
        self.finish(now, out, sealing);
    }

    /// Appends one goodbye. The caller sends [`DISCONNECT_REPEATS`] of them, each a datagram.
    pub fn disconnect(&mut self, now: Now, out: &mut Vec<u8>) {
        let sealing = self.begin_kind(Kind::Disconnect, out);
        self.finish(now, out, sealing);
    }

    /// Appends any packet of the handshake.
    pub(super) fn send(&mut self, now: Now, kind: Kind, plain: &[u8], out: &mut Vec<u8>) {
        let sealing = self.begin_kind(kind, out);
        out.extend_from_slice(plain);
        self.finish(now, out, sealing);
    }

    /// Uses a sequence up for a packet that is not sealed with it (a client's requests).
    pub(super) fn skip_sequence(&mut self, now: Now) {
        self.send_sequence += 1;
        self.last_send = now.mono;
    }

    /// Whether nothing was sent for so long that a keep-alive must be.
    pub fn is_keep_alive_due(&self, now: Now) -> bool {
        matches!(self.state, State::Admitted { .. }) && now.mono >= self.keep_alive_at()
    }

    /// Whether the peer was silent for too long. A server's limit is reached exactly at the
    /// timeout, a client's just after it.
    pub fn is_timed_out(&self, now: Now) -> bool {
        self.silent_until().is_some_and(|until| now.mono >= until)
    }

    /// When [`Link::is_keep_alive_due`] or [`Link::is_timed_out`] changes next.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let keep_alive = match self.state {
            State::Waiting => None,
            State::Admitted { .. } => Some(self.keep_alive_at()),
        };
        Deadline::earliest([
            Deadline::of(self.silent_until(), Wake::Idle),
            Deadline::of(keep_alive, Wake::KeepAlive),
        ])
    }

    /// Whether anything arrived since the peer was admitted.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// When the peer was last heard.
    pub fn last_receive(&self) -> Timestamp {
        self.last_receive
    }

    fn keep_alive_at(&self) -> Timestamp {
        let heard = self.is_confirmed.then_some(self.last_receive);
        self.keep_alives.due_at(self.last_send, heard)
    }

    fn silent_until(&self) -> Option<Timestamp> {
        let grace = match self.role {
            Role::Server => Duration::ZERO,
            Role::Client => Duration::from_nanos(1),
        };
        let silent = self.timeout.map(|span| self.last_receive + span + grace);
        match self.state {
            State::Admitted { confirm_until }
                if !self.is_confirmed && confirm_until < Timestamp::MAX =>
            {
                Some(silent.map_or(confirm_until, |silent| silent.min(confirm_until)))
            }
            State::Admitted { .. } | State::Waiting => silent,
        }
    }

    fn begin_kind(&mut self, kind: Kind, out: &mut Vec<u8>) -> Sealing {
        let prefix = Prefix::new(kind, self.send_sequence);
        // Counted here and not when sealed: two packets begun at once must not share a nonce.
        self.send_sequence += 1;
        prefix.emit(out);
        Sealing {
            prefix,
            from: out.len(),
        }
    }

    fn finish(&mut self, now: Now, out: &mut Vec<u8>, sealing: Sealing) {
        let Sealing { prefix, from } = sealing;
        let (key, gcm) = (&self.send_key, &mut self.send_gcm);
        packet::seal(&prefix, key, gcm, self.protocol_id, out, from);
        self.last_send = now.mono;
    }
}

#[cfg(test)]
mod tests;
