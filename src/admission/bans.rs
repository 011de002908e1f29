//! Bans with an end, by address range and by client id.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use tidegate_proto::Timestamp;

/// Who is banned, and until when.
#[derive(Clone, Debug, Default)]
pub struct Bans {
    ranges: HashMap<IpNet, Ends>,
    /// The lengths that ranges have or had: a look-up tries each of them, which are few, instead of each range.
    lengths: BTreeSet<u8>,
    /// `Timestamp::MAX` is for good.
    clients: HashMap<u64, Timestamp>,
}

/// Until when a range is banned, by an operator or for strikes. `Timestamp::MAX` is for good, `Timestamp::ZERO` not at all.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    ordered: Timestamp,
    struck: Timestamp,
}

impl Ends {
    fn last(self) -> Timestamp {
        self.ordered.max(self.struck)
    }
}

impl Bans {
    /// Bans a range until then, or for good. Banned again, the later end counts.
    pub fn ban(
        &mut self,
        now: Timestamp,
        range: IpNet,
        until: Option<Timestamp>,
    ) -> Result<(), BanError> {
        let ends = self.ends(now, range)?;
        ends.ordered = ends.ordered.max(until.unwrap_or(Timestamp::MAX));
        Ok(())
    }

    /// Bans a range until then for what its peers did.
    pub fn strike_out(
        &mut self,
        now: Timestamp,
        range: IpNet,
        until: Timestamp,
    ) -> Result<(), BanError> {
        let ends = self.ends(now, range)?;
        ends.struck = ends.struck.max(until);
        Ok(())
    }

    /// Those that somebody ordered, without those for what peers did.
    #[must_use]
    pub fn ordered(&self) -> Self {
        let mut ordered = self.clone();
        ordered.ranges.retain(|_, ends| {
            ends.struck = Timestamp::ZERO;
            ends.ordered > Timestamp::ZERO
        });
        ordered
    }

    fn ends(&mut self, now: Timestamp, range: IpNet) -> Result<&mut Ends, BanError> {
        let range = range.trunc();
        if range.prefix_len() < shortest(range) {
            return Err(BanError::TooWide);
        }
        if !self.ranges.contains_key(&range) {
            self.make_room(now)?;
        }
        self.lengths.insert(range.prefix_len());
        Ok(self.ranges.entry(range).or_default())
    }

    /// Bans a client id, for protocols that know one.
    pub fn ban_client(
        &mut self,
        now: Timestamp,
        client: u64,
        until: Option<Timestamp>,
    ) -> Result<(), BanError> {
        if !self.clients.contains_key(&client) {
            self.make_room(now)?;
        }
        let until = until.unwrap_or(Timestamp::MAX);
        let end = self.clients.entry(client).or_insert(until);
        *end = until.max(*end);
        Ok(())
    }

    /// Lifts the ban of exactly this range.
    pub fn unban(&mut self, range: IpNet) -> bool {
        self.ranges.remove(&range.trunc()).is_some()
    }

    /// Lifts the ban of a client id.
    pub fn unban_client(&mut self, client: u64) -> bool {
        self.clients.remove(&client).is_some()
    }

    /// Whether this address is banned now.
    pub fn covers(&self, now: Timestamp, ip: IpAddr) -> bool {
        if self.ranges.is_empty() {
            return false;
        }
        let ip = ip.to_canonical();
        self.lengths.iter().any(|length| {
            IpNet::new(ip, *length)
                .ok()
                .and_then(|range| self.ranges.get(&range.trunc()))
                .is_some_and(|ends| ends.last() > now)
        })
    }

    /// Whether this client is banned now.
    pub fn covers_client(&self, now: Timestamp, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|end| *end > now)
    }

    /// Forgets bans that are over.
    pub fn expire(&mut self, now: Timestamp) {
        self.ranges.retain(|_, ends| ends.last() > now);
        self.clients.retain(|_, end| *end > now);
    }

    /// Ranges and clients.
    pub fn len(&self) -> usize {
        self.ranges.len() + self.clients.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Banned ranges and their ends (`None` is for good), in order.
    pub fn ranges(&self) -> Vec<(IpNet, Option<Timestamp>)> {
        let end = |end: Timestamp| (end != Timestamp::MAX).then_some(end);
        let mut ranges: Vec<_> = self
            .ranges
            .iter()
            .map(|(r, e)| (*r, end(e.last())))
            .collect();
        ranges.sort();
        ranges
    }

    /// Banned clients and their ends, in order.
    pub fn clients(&self) -> Vec<(u64, Option<Timestamp>)> {
        let end = |end: Timestamp| (end != Timestamp::MAX).then_some(end);
        let mut clients: Vec<_> = self.clients.iter().map(|(c, e)| (*c, end(*e))).collect();
        clients.sort();
        clients
    }

    fn make_room(&mut self, now: Timestamp) -> Result<(), BanError> {
        if self.len() >= BANS_MAX {
            self.expire(now);
        }
        if self.len() >= BANS_MAX {
            return Err(BanError::Full);
        }
        Ok(())
    }
}

/// A wider range is a slip of the hand: it bans a continent.
fn shortest(range: IpNet) -> u8 {
    match range {
        IpNet::V4(_) => 8,
        IpNet::V6(_) => 16,
    }
}

/// Why a ban was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanError {
    /// The list of bans is full.
    #[error("there are {BANS_MAX} bans already")]
    Full,
    /// The range covers too much of the internet.
    #[error("the range is too wide (at least /8, or /16 for IPv6)")]
    TooWide,
}

/// Bans in force at most, 5 MiB of them; a longer list belongs into a firewall.
const BANS_MAX: usize = 65_536;
