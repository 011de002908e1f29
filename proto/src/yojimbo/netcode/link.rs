//! One peer's pipe of sealed packets: keys, sequences, replay window, timers. The same on both
//! ends once a client is connected.
//!
//! Rule: docs/wire/netcode.md, sections 4, 5, 6 and 9. Does not know addresses, slots' owners or what
//! payloads mean.
//!
//! ```text
//!            server                                client
//!   waiting ──admit()──▶ admitted              (admitted from the start)
//!      │ takes: disconnect  │ takes: all
//!      ▼                    ▼
//!   is_timed_out      is_timed_out, also when never confirmed
//! ```

use std::time::Duration;

use super::crypto::{self, Key};
use super::packet::{self, Packet, Role, keep_alive_bytes};
use super::replay::Replay;
use super::wire::{Kind, MAX_DATAGRAM_BYTES, MAX_PAYLOAD_BYTES, Prefix, TAG_BYTES};
use crate::session::{Reject, Way};
use crate::time::{Deadline, Now, Timestamp, Wake};

/// How often a goodbye is said, back to back, since none of them is acknowledged.
pub const DISCONNECT_REPEATS: usize = 10;
/// Silence after which a keep-alive is due; also the pace of handshake packets.
pub const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// Keep-alives of a link with nothing to say thin out to this. What they are for bears it: a NAT
/// forgets a mapping after 30 s at the earliest, and the far end's timeout counts in seconds.
const QUIET_INTERVAL: Duration = Duration::from_secs(1);

/// But at least so many fall into a timeout, so that losing a few in a row ends nothing.
const KEEP_ALIVES_PER_TIMEOUT: u32 = 10;

/// After so many keep-alives a session that has just said something waits as long as an idle one.
const SETTLED: u32 = 24;

/// The sequence of a denial that comes after the handshake was won (its backend is away).
///
/// It shares a key with the client's packets, which count from 0, and with challenges, which count
/// from 2^63; one number of its own is enough, since a token is seated once and a denial says
/// nothing: under one key this nonce only ever seals these same bytes.
pub(super) const DENIAL_SEQUENCE: u64 = 3 << 62;

/// In an origin: a timeout that never comes.
const NEVER: u64 = u64::MAX;

/// What a packet said to its link.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// 1 to 1200 bytes for the layer above.
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
    last_send: Timestamp,
    /// Keep-alives sent since anything else was.
    keep_alives: u32,
    /// All there were.
    keep_alives_ever: u32,
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

/// What a link is made of.
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
            last_send: now.mono,
            keep_alives: 0,
            keep_alives_ever: 0,
            last_receive: now.mono,
            timeout,
            client_index: 0,
            max_clients: 0,
        }
    }

    /// A server's link for a replay: made again from [`Link::origin`], under keys that are all
    /// zeros. What it seals is for nobody else.
    pub(in crate::yojimbo) fn replayed(now: Now, origin: [u64; 4]) -> Self {
        let [protocol_id, timeout, client_index, max_clients] = origin;
        let params = LinkParams {
            role: Role::Server,
            protocol_id,
            receive_key: Key::new([0; 32]),
            send_key: Key::new([0; 32]),
            timeout: (timeout != NEVER).then(|| Duration::from_nanos(timeout)),
        };
        Self::waiting(now, params, client_index as u32, max_clients as u32)
    }

    /// What a server's link is made of, but for its keys.
    pub(in crate::yojimbo) fn origin(&self) -> [u64; 4] {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(NEVER);
        [
            self.protocol_id,
            self.timeout.map_or(NEVER, nanos),
            self.client_index.into(),
            self.max_clients.into(),
        ]
    }

    /// Appends a packet as it would be without encryption: prefix, plaintext, and zeros for the
    /// tag. False when its tag is wrong. Changes nothing.
    pub(in crate::yojimbo) fn reveal(
        &self,
        way: Way,
        datagram: &[u8],
        clear: &mut Vec<u8>,
    ) -> bool {
        let Ok(prefix) = Prefix::parse(datagram) else {
            return false;
        };
        let key = match way {
            Way::FromPeer => &self.receive_key,
            Way::ToPeer => &self.send_key,
        };
        let data = prefix.associated_data(self.protocol_id);
        let from = clear.len();
        clear.extend_from_slice(datagram);
        let sealed = &mut clear[from + prefix.size()..];
        let tag = sealed.len() - TAG_BYTES;
        let opened = crypto::open(key, prefix.sequence, &data, sealed).is_ok();
        if opened {
            sealed[tag..].fill(0);
        } else {
            clear.truncate(from);
        }
        opened
    }

    /// Appends the packet that [`Link::reveal`] reads as `clear`, as the peer would seal it.
    pub(in crate::yojimbo) fn conceal(&self, clear: &[u8], datagram: &mut Vec<u8>) -> bool {
        let Ok(prefix) = Prefix::parse(clear) else {
            return false;
        };
        let from = datagram.len() + prefix.size();
        datagram.extend_from_slice(&clear[..clear.len() - TAG_BYTES]);
        let data = prefix.associated_data(self.protocol_id);
        crypto::seal(&self.receive_key, prefix.sequence, &data, datagram, from);
        true
    }

    /// Takes a datagram from the peer's address, decrypting it in place.
    pub fn open<'a>(&mut self, now: Now, datagram: &'a mut [u8]) -> Result<Received<'a>, Reject> {
        let is_waiting = self.state == State::Waiting;
        if is_waiting {
            // Nothing may flow before there is somewhere for it to flow to. Left unread, such a
            // packet also keeps its sequence.
            let kind = Prefix::parse(datagram)?.kind;
            if matches!(kind, Kind::Payload | Kind::KeepAlive) {
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
        self.is_confirmed = true;
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
        let mut copy = [0; MAX_DATAGRAM_BYTES];
        let copy = &mut copy[..datagram.len()];
        copy.copy_from_slice(datagram);
        packet::open(self.role, &self.receive_key, self.protocol_id, None, copy).is_ok()
    }

    /// Seats the peer: appends the keep-alive that tells it so. Unless something arrives within
    /// `confirm_within`, the link counts as timed out. Call it once.
    pub fn admit(&mut self, now: Now, confirm_within: Option<Duration>, out: &mut Vec<u8>) {
        self.state = State::Admitted {
            confirm_until: confirm_within.map_or(Timestamp::MAX, |span| now.mono + span),
        };
        // The peer could not speak while it waited, so its silence starts to count now.
        self.last_receive = now.mono;
        self.keep_alive(now, out);
    }

    /// Refuses a peer that was never admitted: appends a denied packet, or returns false. May be
    /// repeated, for a peer that keeps responding; the bytes are the same each time.
    pub fn deny(&mut self, out: &mut Vec<u8>) -> bool {
        if self.state != State::Waiting {
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

    /// Begins a payload packet: append 1 to 1200 bytes to `out`, then [`Link::seal`]. A packet that
    /// is begun and thrown away costs its sequence, which is harmless.
    pub fn begin(&mut self, out: &mut Vec<u8>) -> Sealing {
        self.begin_kind(Kind::Payload, out)
    }

    /// Encrypts what was appended since [`Link::begin`] and appends the tag.
    ///
    /// Panics if the payload is empty or longer than 1200 bytes: the layer above packs it.
    pub fn seal(&mut self, now: Now, out: &mut Vec<u8>, sealing: Sealing) {
        let length = out.len() - sealing.from;
        assert!(
            (1..=MAX_PAYLOAD_BYTES).contains(&length),
            "a payload of {length} bytes"
        );
        self.is_prefaced = false;
        self.keep_alives = 0;
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
        self.keep_alives = self.keep_alives.saturating_add(1);
        self.keep_alives_ever = self.keep_alives_ever.saturating_add(1);
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
        let idle = self.silent_until().map(|at| Deadline {
            at,
            why: Wake::Idle,
        });
        let keep_alive = match self.state {
            State::Waiting => None,
            State::Admitted { .. } => Some(Deadline {
                at: self.keep_alive_at(),
                why: Wake::KeepAlive,
            }),
        };
        Deadline::earlier(idle, keep_alive)
    }

    /// Whether anything arrived since the peer was admitted.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// When the peer was last heard.
    pub fn last_receive(&self) -> Timestamp {
        self.last_receive
    }

    /// After 0.1 s, as the reference, until the peer is known to be there and whenever it has fallen
    /// silent itself: what keeps its packets from us may keep ours from it. Else each keep-alive in
    /// a row waits twice as long as the one before it (docs/wire/netcode.md, section 9), until the session
    /// has lasted: who says something now and then is no more in doubt than who says nothing.
    fn keep_alive_at(&self) -> Timestamp {
        let soon = self.last_send + SEND_INTERVAL;
        if !self.is_confirmed {
            return soon;
        }
        let quiet = self.timeout.map_or(QUIET_INTERVAL, |span| {
            (span / KEEP_ALIVES_PER_TIMEOUT).clamp(SEND_INTERVAL, QUIET_INTERVAL)
        });
        let wait = if self.keep_alives_ever < SETTLED {
            SEND_INTERVAL * (1 << self.keep_alives.min(4))
        } else {
            quiet
        };
        let silent = self.last_receive + 2 * quiet;
        (self.last_send + wait.min(quiet)).min(soon.max(silent))
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
        let data = prefix.associated_data(self.protocol_id);
        crypto::seal(&self.send_key, prefix.sequence, &data, out, from);
        self.last_send = now.mono;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keep-alives of both ends in this span, in milliseconds; each end says all that is due.
    fn keep_alives(ends: &mut [Link; 2], millis: std::ops::Range<u64>) -> Vec<u64> {
        let mut sent = Vec::new();
        for at in millis.step_by(10) {
            let now = Now {
                mono: Timestamp::from_millis(at),
                unix_secs: 0,
            };
            for from in [0, 1] {
                let mut datagram = Vec::new();
                if ends[from].is_keep_alive_due(now) {
                    ends[from].keep_alive(now, &mut datagram);
                    ends[1 - from].open(now, &mut datagram).unwrap();
                    sent.push(at);
                }
            }
        }
        sent
    }

    /// Dense after whatever is said at first, so that losing some of them keeps nobody out; then one a
    /// second after whatever was said last: a message now and then brings nothing after it.
    #[test]
    fn a_session_that_talks_seldom_sends_no_more_keep_alives_than_an_idle_one() {
        let now = Now::default();
        let params = |role| LinkParams {
            role,
            protocol_id: 7,
            receive_key: Key::new([9; 32]),
            send_key: Key::new([9; 32]),
            timeout: Some(Duration::from_secs(10)),
        };
        let mut ends = [
            Link::waiting(now, params(Role::Server), 3, 64),
            Link::dialing(now, params(Role::Client)),
        ];
        let mut seated = Vec::new();
        ends[0].admit(now, None, &mut seated);
        ends[1].open(now, &mut seated).unwrap();
        let first = keep_alives(&mut ends, 0..1_600);
        assert!((6..=10).contains(&first.len()), "both ends: {first:?}");
        for round in 2..30 {
            let now = Now {
                mono: Timestamp::from_millis(round * 900),
                unix_secs: 0,
            };
            for from in [0, 1] {
                let mut datagram = Vec::new();
                let sealing = ends[from].begin(&mut datagram);
                datagram.push(1);
                ends[from].seal(now, &mut datagram, sealing);
                ends[1 - from].open(now, &mut datagram).unwrap();
            }
            let next = keep_alives(&mut ends, round * 900..(round + 1) * 900);
            match round {
                2..8 => assert_eq!(next.len(), 6, "at 0.1, 0.3 and 0.7 s: {next:?}"),
                12.. => assert!(next.is_empty(), "{next:?}"),
                _ => {}
            }
        }
        assert_eq!(keep_alives(&mut ends, 27_000..27_200), [27_100, 27_100]);
    }

    /// What a peer said can be written down without its seal, and said again under another key.
    #[test]
    fn what_is_revealed_can_be_concealed_again() {
        let now = Now::default();
        let origin = [7, 5_000_000_000, 3, 64];
        let replayed = Link::replayed(now, origin);
        assert_eq!(replayed.origin(), origin);
        let params = |key: u8, role| LinkParams {
            role,
            protocol_id: 7,
            receive_key: Key::new([key; 32]),
            send_key: Key::new([key; 32]),
            timeout: None,
        };
        let recorded = Link::waiting(now, params(9, Role::Server), 3, 64);
        let mut client = Link::dialing(now, params(9, Role::Client));
        let mut datagram = Vec::new();
        let sealing = client.begin(&mut datagram);
        datagram.extend_from_slice(b"in secret");
        client.seal(now, &mut datagram, sealing);

        let mut clear = Vec::new();
        assert!(recorded.reveal(Way::FromPeer, &datagram, &mut clear));
        assert_eq!(clear.len(), datagram.len());
        assert!(clear[2..].starts_with(b"in secret"));
        assert_eq!(clear[clear.len() - TAG_BYTES..], [0; TAG_BYTES]);

        let (mut again, mut clear_again) = (Vec::new(), Vec::new());
        assert!(replayed.conceal(&clear, &mut again));
        assert_ne!(again, datagram, "another key");
        assert!(replayed.reveal(Way::FromPeer, &again, &mut clear_again));
        assert_eq!(clear_again, clear);

        // The nearest datagram that is not the peer's.
        datagram[5] ^= 1;
        clear.clear();
        assert!(!recorded.reveal(Way::FromPeer, &datagram, &mut clear));
        assert!(clear.is_empty());
    }
}
