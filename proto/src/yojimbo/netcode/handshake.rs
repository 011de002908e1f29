//! A server's side of the handshake: from a stranger's datagram to a seated client.
//!
//! Rule: docs/wire/netcode.md, sections 5, 7, 8 and 9. One per worker; what must be one per
//! listener is in the roster. Checks go from cheap to expensive, and answers are always smaller than
//! what they answer.
//!
//! ```text
//!   request ──▶ pending (keyed by source address) ──response──▶ seated: handed to the caller
//!                  │ every genuine request is answered             │
//!                  ▼ with a challenge                              ▼
//!               expires                                   the pending entry is gone
//! ```

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::challenge;
use super::crypto::Key;
use super::history::TokenTag;
use super::link::{Link, LinkParams};
use super::packet::{self, Beyond, Packet, Proof, Role, proof_bytes};
use super::pending::{Pending, PendingTable};
use super::roster::{Roster, Seat};
use super::token::{PrivateToken, UserData};
use super::wire::{Kind, Prefix, Request, RequestHead, is_same_address};
use crate::session::{Reject, Stranger, StrangerClass};
use crate::time::{Deadline, Now, Wake};

/// What a listener wants of a handshake.
#[derive(Clone, Debug)]
pub struct Params {
    /// Which game, and which version of it.
    pub protocol_id: u64,
    /// Addresses clients know this listener by; a token must list one of them.
    pub public_addresses: Vec<SocketAddr>,
    /// Whatever server a token names, it is taken. Only for a server that shares its key with no
    /// other: else a token that was used there opens a session here too.
    pub any_address: bool,
    /// Keys of the token service, current first. A second one lets keys be rotated.
    pub private_keys: Vec<Key>,
    /// Longest lifetime, in seconds, that the token service gives a token. From it follow the
    /// restart rule and the refusal of tokens from the future; `None` switches both off.
    pub max_token_lifetime: Option<u64>,
    /// Seconds the token service's clock may be off.
    pub clock_skew: u64,
    /// What to make of a token's timeout.
    pub timeout: TimeoutPolicy,
    /// Handshakes under way at once, in this worker.
    pub max_pending: usize,
}

impl Params {
    /// Sensible values for a listener with so many slots.
    pub fn new(protocol_id: u64, public_addresses: Vec<SocketAddr>, slots: u32) -> Self {
        Self {
            protocol_id,
            public_addresses,
            any_address: false,
            private_keys: Vec::new(),
            max_token_lifetime: Some(30),
            clock_skew: 0,
            timeout: TimeoutPolicy::Clamp(1..=60),
            max_pending: slots as usize * 4,
        }
    }
}

/// What to make of a token's timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeoutPolicy {
    /// Move it into this range of seconds; refuse tokens that never time out.
    Clamp(RangeInclusive<u16>),
    /// As the token says, never included.
    AsIssued,
}

impl TimeoutPolicy {
    fn apply(&self, seconds: i32) -> Result<Option<Duration>, Reject> {
        let issued = u64::try_from(seconds).unwrap_or(0);
        match self {
            Self::AsIssued => Ok((issued > 0).then(|| Duration::from_secs(issued))),
            Self::Clamp(_) if issued == 0 => Err(Reject::TokenInvalid),
            Self::Clamp(range) => {
                let (low, high) = (u64::from(*range.start()), u64::from(*range.end()));
                Ok(Some(Duration::from_secs(issued.clamp(low, high.max(low)))))
            }
        }
    }
}

/// What a stranger's datagram led to, when it was not rejected.
#[derive(Debug)]
pub enum Outcome {
    /// A challenge is in the reply.
    Challenged,
    /// A denial is in the reply; counted under this reason.
    Denied(Reject),
    /// The client proved who it is. Its keep-alive waits for [`Link::admit`].
    Seated(Box<Seated>),
}

/// A client that answered its challenge.
#[derive(Debug)]
pub struct Seated {
    /// Its packets, from now on.
    pub link: Link,
    /// Its slot and client id, held until dropped.
    pub seat: Seat,
    /// What its token carried for the backend.
    pub user_data: UserData,
}

/// First number of a worker's own sequence space, for challenges and denials.
///
/// Those are sealed with the same keys as a client's packets, which count from 0, so they count
/// from 2^63 up; 9 bits of worker and 32 bits of start time keep workers and restarts apart while
/// fewer than 2^21 are sent each second. Bit 62 stays clear: see [`Link::deny`].
pub const fn global_sequence_start(worker: u16, started_unix: u64) -> u64 {
    1 << 63 | (worker as u64 & 0x1ff) << 53 | (started_unix & 0xffff_ffff) << 21
}

/// Handshakes under way in one worker.
#[derive(Debug)]
pub struct Handshake {
    params: Params,
    roster: Roster,
    challenge_key: Key,
    challenge_sequence: u64,
    global_sequence: u64,
    pending: PendingTable,
}

impl Handshake {
    /// No handshakes yet. `challenge_key` is random and used by no other worker or run;
    /// `global_sequence` is where this worker's challenges and denials are counted from, see
    /// [`global_sequence_start`].
    pub fn new(params: Params, roster: Roster, challenge_key: Key, global_sequence: u64) -> Self {
        assert!(
            global_sequence >> 62 == 0b10,
            "sequences below 2^63 belong to clients' packets, the top quarter to denials"
        );
        Self {
            params,
            roster,
            challenge_key,
            challenge_sequence: 0,
            global_sequence,
            pending: PendingTable::default(),
        }
    }

    /// Takes new private keys and addresses; handshakes under way go on.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    /// Everything about a datagram that costs no cryptography. [`Handshake::handle`] asks the same
    /// again: time may pass in between.
    pub fn classify(
        &self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        let pending = self.pending.get(from);
        let pending = pending.filter(|pending| pending.lives(now.mono));
        match datagram.first() {
            None => Err(Reject::Malformed),
            Some(0) => {
                let head = RequestHead::parse(datagram, self.params.protocol_id)?;
                self.check_head(now, from, &head)?;
                Ok(match pending {
                    Some(pending) if pending.tag == head.tag => StrangerClass::Awaited,
                    Some(_) | None => StrangerClass::Unproven,
                })
            }
            // Perhaps a peer's whose address changed; who that is, only its key can tell.
            Some(_) if pending.is_none() => Ok(StrangerClass::Stray),
            Some(_) => match Prefix::parse(datagram)?.kind {
                Kind::Response => Ok(StrangerClass::Awaited),
                Kind::Payload => Ok(StrangerClass::Early),
                _ => Err(Reject::Unexpected),
            },
        }
    }

    /// Judges a datagram from an address without a session. A reply, if the outcome has one, is
    /// appended to its buffer. A rejected datagram changes nothing but, at most, the token history.
    /// A genuine client is denied for the reason in `refusing`, if there is one.
    pub fn handle(
        &mut self,
        now: Now,
        stranger: Stranger<'_>,
        refusing: Option<Reject>,
    ) -> Result<Outcome, Reject> {
        match stranger.datagram.first() {
            None => Err(Reject::Malformed),
            Some(0) => self.handle_request(now, stranger, refusing),
            Some(_) => self.handle_response(now, stranger, refusing),
        }
    }

    /// Forgets handshakes that ran out of time.
    pub fn handle_timeout(&mut self, now: Now) {
        self.pending.expire(now.mono);
    }

    /// When [`Handshake::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let until = self.pending.first_end()?;
        Some(Deadline {
            at: until + Duration::from_nanos(1),
            why: Wake::Handshake,
        })
    }

    /// Handshakes under way.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn handle_request(
        &mut self,
        now: Now,
        stranger: Stranger<'_>,
        refusing: Option<Reject>,
    ) -> Result<Outcome, Reject> {
        let Stranger {
            from,
            datagram,
            reply,
        } = stranger;
        let protocol_id = self.params.protocol_id;
        let request = Request::parse(datagram, protocol_id)?;
        let RequestHead { expire, tag } = request.head();
        self.check_head(now, from, &request.head())?;
        let (_, token) = PrivateToken::open(request, protocol_id, &self.params.private_keys)?;
        let ours = &self.params.public_addresses;
        let is_ours = |server: &SocketAddr| ours.iter().any(|own| is_same_address(own, server));
        if !self.params.any_address && !token.servers.iter().any(is_ours) {
            return Err(Reject::TokenAddress);
        }
        let timeout = self.params.timeout.apply(token.timeout_seconds)?;
        let end = self.remembered_until(now, expire);
        self.roster
            .present(token.client_id, tag, from, end, now.unix_secs)?;
        let full = self.roster.is_full().then_some(Reject::Full);
        if let Some(reason) = refusing.or(full) {
            return Ok(self.deny(&token.server_to_client, reason, reply));
        }
        self.handle_timeout(now);
        self.remember(now, from, tag, token, timeout)?;
        self.send_challenge(from, reply);
        Ok(Outcome::Challenged)
    }

    /// Everything that a request says in the clear.
    fn check_head(&self, now: Now, from: SocketAddr, head: &RequestHead) -> Result<(), Reject> {
        self.check_dates(now, head.expire)?;
        let end = self.remembered_until(now, head.expire);
        self.roster.check_tag(&head.tag, from, end)
    }

    /// When the history may forget a token. Of those that are held to no lifetime some never expire, and would hold their
    /// places for ever.
    fn remembered_until(&self, now: Now, expire: u64) -> u64 {
        let end = expire.saturating_add(self.params.clock_skew);
        match self.params.max_token_lifetime {
            Some(_) => end,
            None => end.min(now.unix_secs.saturating_add(UNBOUNDED_REMEMBERED)),
        }
    }

    /// Everything a token's expiry says before the token itself is read.
    fn check_dates(&self, now: Now, expire: u64) -> Result<(), Reject> {
        let skew = self.params.clock_skew;
        let end = expire.saturating_add(skew);
        if end <= now.unix_secs || end <= self.roster.began_unix(now) {
            return Err(Reject::TokenExpired);
        }
        let Some(lifetime) = self.params.max_token_lifetime else {
            return Ok(());
        };
        if expire > now.unix_secs.saturating_add(lifetime).saturating_add(skew) {
            return Err(Reject::TokenFuture);
        }
        // What could have been used before we started may have been: our history does not know.
        if expire < self.roster.since_unix(now).saturating_add(lifetime) {
            return Err(Reject::TokenBeforeStart);
        }
        Ok(())
    }

    /// Creates or renews the handshake of this address.
    fn remember(
        &mut self,
        now: Now,
        from: SocketAddr,
        tag: TokenTag,
        token: PrivateToken,
        timeout: Option<Duration>,
    ) -> Result<(), Reject> {
        let until = now.mono + timeout.map_or(PENDING_MAX, |span| span.min(PENDING_MAX));
        if self.pending.renew(from, &tag, until) {
            return Ok(());
        }
        // A new token from the same address starts over; otherwise there must be room.
        let starts_over = self.pending.get(from).is_some();
        if !starts_over && self.pending.len() >= self.params.max_pending {
            return Err(Reject::HandshakesFull);
        }
        let pending = Pending::new(tag, token, timeout, until);
        self.pending.insert(from, pending);
        Ok(())
    }

    fn send_challenge(&mut self, from: SocketAddr, reply: &mut Vec<u8>) {
        let Some(pending) = self.pending.get_mut(from) else {
            return;
        };
        // One that goes again has the same sequence and the same contents, so the same bytes.
        let sequence = pending.challenge(&mut self.challenge_sequence);
        let token = challenge::seal(
            &self.challenge_key,
            sequence,
            pending.client_id,
            &pending.user_data,
        );
        let key = pending.server_to_client.clone();
        self.answer(&key, Kind::Challenge, &proof_bytes(sequence, &token), reply);
    }

    fn handle_response(
        &mut self,
        now: Now,
        stranger: Stranger<'_>,
        refusing: Option<Reject>,
    ) -> Result<Outcome, Reject> {
        let Stranger {
            from,
            datagram,
            reply,
        } = stranger;
        self.handle_timeout(now);
        let pending = self.pending.get(from).ok_or(Reject::UnknownPeer)?;
        if Prefix::parse(datagram)?.kind != Kind::Response {
            return Err(Reject::Unexpected);
        }
        let protocol_id = self.params.protocol_id;
        let opened = packet::open(
            Role::Server,
            &pending.client_to_server,
            protocol_id,
            &mut Beyond::default(),
            None,
            datagram,
        )?;
        let Packet::Response(Proof { sequence, token }) = opened else {
            return Err(Reject::Unexpected);
        };
        // The sequence ties the challenge to this token, this address and this handshake; the tag
        // proves that we sealed it. Its contents are not read: who this is, the connect token said.
        if !pending.was_given(sequence) {
            return Err(Reject::ChallengeFailed);
        }
        challenge::open(&self.challenge_key, sequence, token)?;
        let seated = match refusing {
            Some(reason) => Err(reason),
            None => self.roster.seat(pending.client_id, &pending.tag),
        };
        match seated {
            Ok(seat) => Ok(Outcome::Seated(Box::new(self.hand_over(now, from, seat)?))),
            Err(reason) if reason == Reject::Full || refusing.is_some() => {
                let key = pending.server_to_client.clone();
                Ok(self.deny(&key, reason, reply))
            }
            Err(reason) => Err(reason),
        }
    }

    /// Turns the handshake into a link.
    fn hand_over(&mut self, now: Now, from: SocketAddr, seat: Seat) -> Result<Seated, Reject> {
        let pending = self.pending.take(from).ok_or(Reject::UnknownPeer)?;
        let params = LinkParams {
            role: Role::Server,
            protocol_id: self.params.protocol_id,
            receive_key: pending.client_to_server,
            send_key: pending.server_to_client,
            timeout: pending.timeout,
        };
        let link = Link::waiting(now, params, seat.slot(), self.roster.slots());
        Ok(Seated {
            link,
            seat,
            user_data: pending.user_data,
        })
    }

    fn deny(&mut self, key: &Key, reason: Reject, reply: &mut Vec<u8>) -> Outcome {
        self.answer(key, Kind::Denied, &[], reply);
        Outcome::Denied(reason)
    }

    /// Seals each answer under a sequence that no other has.
    fn answer(&mut self, key: &Key, kind: Kind, plain: &[u8], reply: &mut Vec<u8>) {
        let protocol_id = self.params.protocol_id;
        packet::emit(reply, key, protocol_id, kind, self.global_sequence, plain);
        self.global_sequence += 1;
    }
}

/// Longest life of a handshake after its last request.
const PENDING_MAX: Duration = Duration::from_secs(15);

/// Seconds. Who may make tokens that never expire can make another as well, so it is no replay that this keeps out: one
/// address, at the 200 handshakes a second that it may have, fills no history of 65,536.
const UNBOUNDED_REMEMBERED: u64 = 300;
