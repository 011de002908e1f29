//! Which strangers are worth a look: lists, bans and quotas, before any cipher.
//!
//! ```text
//!   from ──▶ can it be answered? ──▶ lists ──▶ bans ──▶ the protocol's `classify`
//!              BadSource          SourceDenied  Banned        │ well-formed, in time, not used up
//!                                                             ▼
//!                                       the listener's bucket ◀── its prefix's bucket
//!                                         ListenerLimited           SourceLimited
//! ```
//!
//! The listener's bucket is what decryption may cost. What the protocol refuses at once costs none, and one that has
//! shown a genuine token goes past it: a flood without tokens does not stand in the way of the second
//! half of a handshake. What is no part of a handshake has buckets of its own, as large: after a restart
//! the packets of yesterday's sessions keep nobody out who wants to come back.
//!
//! Source addresses are forged at will, so nothing here grows with them: the table of buckets is
//! allocated once, and prefixes that fall on one bucket share it. Where a prefix falls depends on a
//! key drawn at start, so that nobody can aim at somebody else's bucket. Datagrams of live sessions
//! do not come here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use ipnet::IpNet;
use tidegate_proto::{Reject, StrangerClass, Timestamp};

use crate::config::{Bucket, Strikes};
use crate::counters::AdmissionCounters;

mod bans;
mod networks;
mod table;

pub use bans::{BanError, Bans};
pub use networks::{Networks, canonical};
use table::{BucketTable, Lane, Place, TurnClock};

/// What one socket asks about every stranger.
pub struct Admission {
    clock: TurnClock,
    places: BucketTable,
    prefixes: RateLimiter<Place, BucketTable, TurnClock, NoOpMiddleware<Nanos>>,
    /// Time in which a prefix gets one handshake packet, or stray, more.
    stray_costs: Duration,
    listener: Whole,
    strays: Whole,
    strikes: Option<StrikeCounter>,
    bans: Bans,
    rules: SourceRules,
    /// Counted by tables that a reload replaced.
    shared_before: u64,
    bans_by_strikes: u64,
    bans_by_operator: u64,
}

impl Admission {
    /// With every bucket full. Allocates all it will ever need, but for bans.
    pub fn new(params: &Params) -> Self {
        let clock = TurnClock::default();
        let places = BucketTable::new(params.table_size, clock.clone());
        let strikes = params.strikes.map(|strikes| StrikeCounter {
            limiter: RateLimiter::new(
                strike_quota(strikes),
                BucketTable::new(params.table_size, clock.clone()),
                clock.clone(),
            ),
            ban: strikes.ban,
        });
        Self {
            prefixes: RateLimiter::new(quota(params.per_prefix), places.clone(), clock.clone()),
            stray_costs: quota(params.per_prefix).replenish_interval(),
            listener: Whole::direct_with_clock(quota(params.listener), clock.clone()),
            strays: Whole::direct_with_clock(quota(params.listener), clock.clone()),
            clock,
            places,
            strikes,
            bans: Bans::default(),
            rules: params.rules.clone(),
            shared_before: 0,
            bans_by_strikes: 0,
            bans_by_operator: 0,
        }
    }

    /// Whether a protocol may look at a stranger's datagram.
    pub fn check(&self, now: Timestamp, from: SocketAddr) -> Result<(), Reject> {
        let ip = from.ip().to_canonical();
        self.rules.check(ip, from.port())?;
        if self.bans.covers(now, ip) {
            return Err(Reject::Banned);
        }
        Ok(())
    }

    /// Whether what a protocol saw may cost us cryptography; takes it from the quotas.
    pub fn charge(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        class: StrangerClass,
    ) -> Result<(), Reject> {
        let ip = from.ip().to_canonical();
        self.clock.set(now);
        let lane = match class {
            StrangerClass::Unproven => Lane::Handshakes,
            StrangerClass::Awaited => Lane::Proven,
            StrangerClass::Stray => Lane::Strays,
            // What is in front of it paid, and few may follow.
            StrangerClass::Early => return Ok(()),
        };
        let place = self.places.place(prefix(ip), lane);
        if self.prefixes.check_key(&place).is_err() {
            return Err(Reject::SourceLimited);
        }
        let whole = match class {
            StrangerClass::Unproven => self.listener.check(),
            StrangerClass::Stray => self.strays.check(),
            StrangerClass::Awaited | StrangerClass::Early => Ok(()),
        };
        whole.map_err(|_| Reject::ListenerLimited)
    }

    /// A stray datagram from there was a peer's, by a proof under its key: what it took is given back. So a NAT that
    /// gives hundreds of peers new ports costs none of them its session, and forged datagrams pay as before.
    pub fn refund_stray(&mut self, from: SocketAddr) {
        let place = self
            .places
            .place(prefix(from.ip().to_canonical()), Lane::Strays);
        self.places.give_back(place, self.stray_costs);
    }

    /// Whether strikes make a ban.
    pub fn counts_strikes(&self) -> bool {
        self.strikes.is_some()
    }

    /// A peer did what no honest peer does; says so when its prefix is banned for it.
    ///
    /// Only for what a peer proved to have sent itself, such as an authenticated packet that breaks
    /// the protocol. Anything that can be forged would let a stranger ban somebody else.
    pub fn on_strike(&mut self, now: Timestamp, from: SocketAddr) -> Option<StrikeBan> {
        let ban = self.on_strike_elsewhere(now, from);
        self.bans_by_strikes += u64::from(ban.is_some());
        ban
    }

    /// A peer of another worker of this listener did what no honest peer does. That worker counts the ban, and it holds
    /// here too: the kernel may send the next peer of that address here.
    pub fn on_strike_elsewhere(&mut self, now: Timestamp, from: SocketAddr) -> Option<StrikeBan> {
        let strikes = self.strikes.as_ref()?;
        self.clock.set(now);
        let range = prefix(from.ip().to_canonical());
        let place = self.places.place(range, Lane::Handshakes);
        if strikes.limiter.check_key(&place).is_ok() {
            return None;
        }
        let span = strikes.ban;
        self.bans.strike_out(now, range, now + span).ok()?;
        Some(StrikeBan { range, span })
    }

    /// Bans a range until then, or for good.
    pub fn ban(
        &mut self,
        now: Timestamp,
        range: IpNet,
        until: Option<Timestamp>,
    ) -> Result<(), BanError> {
        self.bans.ban(now, range, until)?;
        self.bans_by_operator += 1;
        Ok(())
    }

    /// Bans a client id until then, or for good. Its owner is known only once it has proved it, so
    /// sessions are judged, not datagrams.
    pub fn ban_client(
        &mut self,
        now: Timestamp,
        client: u64,
        until: Option<Timestamp>,
    ) -> Result<(), BanError> {
        self.bans.ban_client(now, client, until)?;
        self.bans_by_operator += 1;
        Ok(())
    }

    /// Lifts the ban of a client id; false when there is none.
    pub fn unban_client(&mut self, client: u64) -> bool {
        self.bans.unban_client(client)
    }

    /// Lifts a ban of exactly this range; false when there is none.
    pub fn unban(&mut self, range: IpNet) -> bool {
        self.bans.unban(range)
    }

    /// The bans, to look at: live sessions are not judged here.
    pub fn bans(&self) -> &Bans {
        &self.bans
    }

    /// Bans that are in force elsewhere, for one that comes later.
    pub fn adopt(&mut self, bans: Bans) {
        self.bans = bans;
    }

    /// After a reload: new lists, new buckets, and every ban and count as it was.
    pub fn set_params(&mut self, params: &Params) {
        *self = Self {
            bans: std::mem::take(&mut self.bans),
            shared_before: self.shared(),
            bans_by_strikes: self.bans_by_strikes,
            bans_by_operator: self.bans_by_operator,
            ..Self::new(params)
        };
    }

    fn shared(&self) -> u64 {
        self.shared_before + self.places.shared()
    }

    /// For the board. Forgets bans that are over, and looks at every bucket while one is in use: a few times a
    /// second, not for every datagram.
    pub fn counters(&mut self, now: Timestamp) -> AdmissionCounters {
        self.bans.expire(now);
        AdmissionCounters {
            buckets_used: self.places.used(now),
            buckets: self.places.len() as u64,
            buckets_shared: self.shared(),
            bans: self.bans.len() as u64,
            bans_by_operator: self.bans_by_operator,
            bans_by_strikes: self.bans_by_strikes,
        }
    }
}

/// What a listener allows strangers, for one worker.
#[derive(Clone, Debug)]
pub struct Params {
    /// For each /32 or /64.
    pub per_prefix: Bucket,
    /// For all of them together.
    pub listener: Bucket,
    /// Buckets.
    pub table_size: usize,
    /// `None`: strikes are not counted.
    pub strikes: Option<Strikes>,
    pub rules: SourceRules,
}

/// The quota of such a bucket.
fn quota(bucket: Bucket) -> Quota {
    Quota::per_second(at_least_one(bucket.rate)).allow_burst(at_least_one(bucket.burst))
}

/// A bucket that holds the limit and refills over the window: one strike more than it holds is a ban, and one each
/// `window / limit` never is.
fn strike_quota(strikes: Strikes) -> Quota {
    let limit = at_least_one(strikes.limit);
    let each = (strikes.window / limit.get()).max(Duration::from_nanos(1));
    Quota::with_period(each)
        .unwrap_or(Quota::per_second(limit))
        .allow_burst(limit)
}

fn at_least_one(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN)
}

/// A ban that strikes brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrikeBan {
    pub range: IpNet,
    /// From now on.
    pub span: Duration,
}

/// Which sources are refused whatever they send.
#[derive(Clone, Debug, Default)]
pub struct SourceRules {
    /// When not empty, only these may come.
    pub allow: Networks,
    /// These may not, even when allowed.
    pub deny: Networks,
    /// The listener's own sockets.
    pub own: Vec<SocketAddr>,
}

impl SourceRules {
    fn check(&self, ip: IpAddr, port: u16) -> Result<(), Reject> {
        if !can_be_answered(ip, port) || self.is_own(ip, port) {
            return Err(Reject::BadSource);
        }
        if self.deny.contain(ip) || (!self.allow.is_empty() && !self.allow.contain(ip)) {
            return Err(Reject::SourceDenied);
        }
        Ok(())
    }

    /// A datagram from one of our own sockets could bounce for ever.
    fn is_own(&self, ip: IpAddr, port: u16) -> bool {
        self.own.iter().any(|own| {
            let bound = own.ip().to_canonical();
            own.port() == port && (bound == ip || (bound.is_unspecified() && ip.is_loopback()))
        })
    }
}

/// Whether an answer could be sent at all: the kernel refuses to send to these, and some libraries
/// take that for a broken network card.
fn can_be_answered(ip: IpAddr, port: u16) -> bool {
    port != 0 && !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// What counts as one source: an IPv4 address, or the /64 that an IPv6 host may roam in.
pub fn prefix(ip: IpAddr) -> IpNet {
    match ip {
        IpAddr::V4(_) => IpNet::from(ip),
        IpAddr::V6(v6) => {
            let network = Ipv6Addr::from(u128::from(v6) & (u128::MAX << 64));
            IpNet::new_assert(IpAddr::V6(network), 64)
        }
    }
}

/// The bucket of all sources together.
type Whole = RateLimiter<NotKeyed, InMemoryState, TurnClock, NoOpMiddleware<Nanos>>;

/// Counts the strikes of each prefix.
struct StrikeCounter {
    limiter: RateLimiter<Place, BucketTable, TurnClock, NoOpMiddleware<Nanos>>,
    ban: Duration,
}

#[cfg(test)]
mod tests;
