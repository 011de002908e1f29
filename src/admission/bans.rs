//! Bans with an end, by address range and by client id.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use tidegate_proto::Timestamp;

/// Who is banned, and until when.
#[derive(Clone, Debug, Default)]
pub struct Bans {
    ranges: HashMap<IpNet, Ends>,
    /// How many ranges there are of each length: a look-up tries each length in use, which are few,
    /// instead of each range.
    lengths: BTreeMap<u8, usize>,
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
        let mut ordered = Self {
            clients: self.clients.clone(),
            ..Self::default()
        };
        for (range, ends) in &self.ranges {
            if ends.ordered > Timestamp::ZERO {
                let struck = Timestamp::ZERO;
                ordered.ranges.insert(*range, Ends { struck, ..*ends });
                *ordered.lengths.entry(range.prefix_len()).or_default() += 1;
            }
        }
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
        let lengths = &mut self.lengths;
        Ok(self.ranges.entry(range).or_insert_with(|| {
            *lengths.entry(range.prefix_len()).or_default() += 1;
            Ends::default()
        }))
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
        let range = range.trunc();
        let was = self.ranges.remove(&range).is_some();
        if was {
            forget(&mut self.lengths, range.prefix_len());
        }
        was
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
        self.lengths.keys().any(|length| {
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
        let lengths = &mut self.lengths;
        self.ranges.retain(|range, ends| {
            let stays = ends.last() > now;
            if !stays {
                forget(lengths, range.prefix_len());
            }
            stays
        });
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

fn forget(lengths: &mut BTreeMap<u8, usize>, length: u8) {
    if let Some(count) = lengths.get_mut(&length) {
        *count -= 1;
        if *count == 0 {
            lengths.remove(&length);
        }
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
