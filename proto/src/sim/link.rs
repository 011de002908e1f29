//! One direction of a bad network: delay, jitter, loss at random and by turns, bursts, reordering, duplicates, bit flips, a
//! rate with a bounded queue or a policer. Takes datagrams and times, gives datagrams and times; reads no clock.
//!
//! Simulations drive it in virtual time, `tidegate lag` in real time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::AddAssign;
use std::time::Duration;

use crate::ip::IPV4_UDP_HEADER_BYTES;
use crate::random::Random;
use crate::time::Timestamp;

/// How a link behaves. The default is perfect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// One way.
    pub delay: Duration,
    /// Uniform, plus or minus. Does not reorder, as a queue would not.
    pub jitter: Duration,
    /// Share of datagrams lost, each by itself.
    pub loss: f64,
    /// One of so many datagrams offered is lost, and which: `(4, 1)` loses the first, the fifth, the ninth; of 0 none is.
    /// Where two kinds of packet take turns, it can hit one kind only, which loss at random does not.
    pub nth: (u32, u32),
    /// Outages: mean time of a bad spell and of a good one; everything is lost in a bad spell.
    pub bursts: Option<(Duration, Duration)>,
    /// Share of datagrams held back, and for how long; later ones pass them.
    pub reorder: (f64, Duration),
    /// Share of datagrams delivered twice.
    pub duplicate: f64,
    /// Share of datagrams with one bit flipped.
    pub corrupt: f64,
    /// Bits per second, headers included; 0 is no limit.
    pub rate: u64,
    /// Bytes that wait for the rate at most; more are dropped.
    pub queue: usize,
    /// Nothing waits for the rate: `queue` is the burst that passes, and what is above that is dropped (RFC 2697).
    pub polices: bool,
    /// Bytes of the longest IP packet, headers included; longer ones are dropped and nobody is told.
    /// 0 is no limit.
    pub mtu: usize,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            nth: (0, 0),
            bursts: None,
            reorder: (0.0, Duration::ZERO),
            duplicate: 0.0,
            corrupt: 0.0,
            rate: 0,
            queue: 64 * 1024,
            polices: false,
            mtu: 0,
        }
    }
}

/// What a link did; the proof that it was bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Datagrams offered.
    pub offered: u64,
    /// Bytes offered, headers included.
    pub offered_bytes: u64,
    /// Delivered, duplicates included.
    pub delivered: u64,
    /// Lost at random, in their turn or in a burst.
    pub lost: u64,
    /// Dropped by the full queue or the policer, or because too many were under way.
    pub overflowed: u64,
    /// Longer than the MTU.
    pub too_long: u64,
    /// Delivered a second time.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// With a flipped bit.
    pub corrupted: u64,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.offered_bytes += other.offered_bytes;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.overflowed += other.overflowed;
        self.too_long += other.too_long;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
    }
}

/// Datagrams under way at most, duplicates aside. A long delay stores what arrives meanwhile.
const UNDER_WAY_MAX: usize = 1 << 16;
/// Mean spells after which nobody remembers how the last one ended.
const SPELLS_REMEMBERED: u32 = 1_000;

/// One direction, carrying datagrams tagged with a `T` (an address, say).
#[derive(Debug)]
pub struct Link<T> {
    conditions: Conditions,
    random: Random,
    under_way: BinaryHeap<Reverse<UnderWay<T>>>,
    /// Breaks ties so that equal times keep their order.
    order: u64,
    /// When the last in-order datagram arrives: jitter never overtakes it.
    last_arrival: Timestamp,
    /// When the rate is free again.
    busy_until: Timestamp,
    in_bad_spell: bool,
    spell_ends: Timestamp,
    done: Done,
}

#[derive(Debug)]
struct UnderWay<T> {
    at: Timestamp,
    order: u64,
    tag: T,
    datagram: Vec<u8>,
}

impl<T> PartialEq for UnderWay<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl<T> Eq for UnderWay<T> {}
impl<T> PartialOrd for UnderWay<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for UnderWay<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T: Clone> Link<T> {
    /// A link under these conditions; the same seed does the same things to the same datagrams.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        Self {
            conditions,
            random: Random::new(seed),
            under_way: BinaryHeap::new(),
            order: 0,
            last_arrival: Timestamp::ZERO,
            busy_until: Timestamp::ZERO,
            in_bad_spell: false,
            spell_ends: Timestamp::ZERO,
            done: Done::default(),
        }
    }

    /// Changes the weather. What is under way arrives as it would have.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// The weather.
    pub fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// What the link did so far.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Puts a datagram on the link.
    pub fn push(&mut self, now: Timestamp, tag: T, datagram: &[u8]) {
        self.done.offered += 1;
        self.done.offered_bytes += (datagram.len() + IPV4_UDP_HEADER_BYTES) as u64;
        if self.conditions.mtu > 0 && datagram.len() + IPV4_UDP_HEADER_BYTES > self.conditions.mtu {
            self.done.too_long += 1;
            return;
        }
        let leaves = match self.under_way.len() {
            UNDER_WAY_MAX.. => None,
            _ => self.pass_queue(now, datagram.len() + IPV4_UDP_HEADER_BYTES),
        };
        let Some(leaves) = leaves else {
            self.done.overflowed += 1;
            return;
        };
        // Both draws always happen, so that one condition does not change what another does.
        let (in_burst, lost) = (
            self.in_burst(now),
            self.random.happens(self.conditions.loss),
        );
        if in_burst || lost || self.is_its_turn() {
            self.done.lost += 1;
            return;
        }
        let mut datagram = datagram.to_vec();
        if self.random.happens(self.conditions.corrupt) && !datagram.is_empty() {
            let bit = self.random.below(datagram.len() as u64 * 8) as usize;
            datagram[bit / 8] ^= 1 << (bit % 8);
            self.done.corrupted += 1;
        }
        let arrives = self.arrival(leaves);
        if self.random.happens(self.conditions.duplicate) {
            let gap = Duration::from_micros(self.random.below(20_000));
            self.deliver(arrives + gap, tag.clone(), datagram.clone());
            self.done.duplicated += 1;
        }
        self.deliver(arrives, tag, datagram);
    }

    /// The next datagram that has arrived by `now`.
    pub fn pop(&mut self, now: Timestamp) -> Option<(T, Vec<u8>)> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse(arrived) = self.under_way.pop()?;
        self.done.delivered += 1;
        Some((arrived.tag, arrived.datagram))
    }

    /// When the next datagram arrives.
    pub fn next_arrival(&self) -> Option<Timestamp> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    /// When the bottleneck has put these bytes on the wire; `None` when its queue is full. A policer has a queue of tokens
    /// instead, and what gets some has passed.
    fn pass_queue(&mut self, now: Timestamp, bytes: usize) -> Option<Timestamp> {
        if self.conditions.rate == 0 {
            return Some(now);
        }
        let ahead = self.busy_until.since(now).as_nanos();
        let waiting = ahead * u128::from(self.conditions.rate) / 8_000_000_000;
        if waiting as usize + bytes > self.conditions.queue {
            return None;
        }
        let time = Duration::from_nanos(bytes as u64 * 8_000_000_000 / self.conditions.rate);
        self.busy_until = self.busy_until.max(now) + time;
        match self.conditions.polices {
            true => Some(now),
            false => Some(self.busy_until),
        }
    }

    /// Whether the datagram offered last is one of every so many.
    fn is_its_turn(&self) -> bool {
        let (of, which) = self.conditions.nth;
        of > 0 && self.done.offered % u64::from(of) == u64::from(which) % u64::from(of)
    }

    fn in_burst(&mut self, now: Timestamp) -> bool {
        let Some((bad, good)) = self.conditions.bursts else {
            return false;
        };
        // A link that was silent for long, or had no bursts so far, begins anew: walking through
        // every spell since then would take as long as there were spells.
        if now.since(self.spell_ends) > (bad + good) * SPELLS_REMEMBERED {
            // The loop below turns it over once.
            let share_of_good = good.as_secs_f64() / (bad + good).as_secs_f64();
            self.in_bad_spell = self.random.share() < share_of_good;
            self.spell_ends = now;
        }
        while self.spell_ends <= now {
            self.in_bad_spell = !self.in_bad_spell;
            let mean = if self.in_bad_spell { bad } else { good };
            let spell = self.random.exponential(mean.as_secs_f64()).max(1e-6);
            self.spell_ends += Duration::from_secs_f64(spell);
        }
        self.in_bad_spell
    }

    fn arrival(&mut self, leaves: Timestamp) -> Timestamp {
        let jitter = self.conditions.jitter.as_nanos() as u64;
        let swing = Duration::from_nanos(self.random.below(2 * jitter + 1));
        let arrives = leaves + self.conditions.delay + swing - self.conditions.jitter;
        let (share, extra) = self.conditions.reorder;
        if self.random.happens(share) {
            self.done.reordered += 1;
            return arrives + extra;
        }
        self.last_arrival = self.last_arrival.max(arrives);
        self.last_arrival
    }

    fn deliver(&mut self, at: Timestamp, tag: T, datagram: Vec<u8>) {
        self.order += 1;
        self.under_way.push(Reverse(UnderWay {
            at,
            order: self.order,
            tag,
            datagram,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(conditions: Conditions, seed: u64, count: u64) -> (Link<u64>, Vec<(Timestamp, u64)>) {
        let mut link = Link::new(conditions, seed);
        let mut arrived = Vec::new();
        for n in 0..count {
            link.push(Timestamp::from_millis(n), n, &[0; 72]);
        }
        while let Some(at) = link.next_arrival() {
            let (tag, _) = link.pop(at).expect("it has arrived");
            arrived.push((at, tag));
        }
        (link, arrived)
    }

    #[test]
    fn a_perfect_link_keeps_order_and_time() {
        let conditions = Conditions {
            delay: Duration::from_millis(25),
            ..Conditions::default()
        };
        let (_, arrived) = run(conditions, 1, 100);
        let expected: Vec<_> = (0..100)
            .map(|n| (Timestamp::from_millis(n + 25), n))
            .collect();
        assert_eq!(arrived, expected);
    }

    #[test]
    fn each_condition_does_what_it_says() {
        let lossy = Conditions {
            loss: 0.2,
            ..Conditions::default()
        };
        let lost = run(lossy, 2, 10_000).0.done().lost;
        assert!(
            (1_800..2_200).contains(&lost),
            "{lost} of 10000 lost at 20 %"
        );

        for (nth, kept) in [
            ((2, 1), vec![1, 3, 5, 7]),
            ((3, 3), vec![0, 1, 3, 4, 6, 7]),
            ((4, 2), vec![0, 2, 3, 4, 6, 7]),
            ((1, 1), vec![]),
            ((0, 0), (0..8).collect()),
        ] {
            let periodic = Conditions {
                nth,
                ..Conditions::default()
            };
            let (link, arrived) = run(periodic, 2, 8);
            let arrived: Vec<_> = arrived.into_iter().map(|(_, n)| n).collect();
            assert_eq!(arrived, kept, "{nth:?}");
            assert_eq!(link.done().lost, 8 - kept.len() as u64);
        }

        let bursts = Some((Duration::from_millis(60), Duration::from_millis(1140)));
        let bursty = Conditions {
            bursts,
            ..Conditions::default()
        };
        let lost = run(bursty, 3, 100_000).0.done().lost;
        assert!(
            (3_500..6_500).contains(&lost),
            "{lost} of 100000 lost in bursts of 5 % of the time"
        );

        let doubled = Conditions {
            duplicate: 0.1,
            ..Conditions::default()
        };
        let (link, arrived) = run(doubled, 4, 1_000);
        assert_eq!(arrived.len() as u64, 1_000 + link.done().duplicated);
        assert!(link.done().duplicated > 50);

        let swapped = Conditions {
            reorder: (0.1, Duration::from_millis(10)),
            ..Conditions::default()
        };
        let (_, arrived) = run(swapped, 5, 1_000);
        assert!(
            arrived.windows(2).any(|pair| pair[0].1 > pair[1].1),
            "some must be overtaken"
        );

        let jittery = Conditions {
            delay: Duration::from_millis(25),
            jitter: Duration::from_millis(5),
            ..Conditions::default()
        };
        let (_, arrived) = run(jittery, 6, 1_000);
        assert!(
            arrived.windows(2).all(|pair| pair[0].1 < pair[1].1),
            "jitter alone does not reorder"
        );
    }

    #[test]
    fn the_queue_is_as_long_as_it_says() {
        // 100 bytes a millisecond are offered to 400 kbit/s, that is to 50 bytes a millisecond.
        let thin = Conditions {
            rate: 400_000,
            queue: 1_000,
            ..Conditions::default()
        };
        let (link, arrived) = run(thin, 7, 1_000);
        let done = link.done();
        assert!((450..=520).contains(&done.overflowed), "{done:?}");
        let worst = arrived
            .iter()
            .map(|(at, n)| at.since(Timestamp::from_millis(*n)))
            .max();
        let worst = worst.expect("some arrived");
        assert!(
            worst <= Duration::from_millis(20) && worst > Duration::from_millis(15),
            "{worst:?}"
        );
    }

    #[test]
    fn a_queue_holds_as_much_at_any_rate() {
        for rate in [1_000_000, 3_000_000_000, 10_000_000_000] {
            let conditions = Conditions {
                rate,
                queue: 1_000,
                ..Conditions::default()
            };
            let mut link = Link::new(conditions, 7);
            for n in 0..20 {
                link.push(Timestamp::ZERO, n, &[0; 72]);
            }
            assert_eq!(link.done().overflowed, 10, "100 bytes each at {rate} bit/s");
        }
    }

    #[test]
    fn a_policer_drops_what_is_above_the_rate_and_delays_nothing() {
        let policed = Conditions {
            rate: 400_000,
            queue: 1_000,
            polices: true,
            ..Conditions::default()
        };
        let (link, arrived) = run(policed, 7, 1_000);
        let done = link.done();
        assert!((450..=520).contains(&done.overflowed), "{done:?}");
        let is_on_time = |(at, n): &(Timestamp, u64)| *at == Timestamp::from_millis(*n);
        assert!(arrived.iter().all(is_on_time));
    }

    #[test]
    fn what_is_longer_than_the_mtu_does_not_arrive() {
        let narrow = |mtu| Conditions {
            mtu,
            ..Conditions::default()
        };
        assert_eq!(run(narrow(100), 8, 10).1.len(), 10, "72 and 28 bytes");
        let (link, arrived) = run(narrow(99), 8, 10);
        assert_eq!((arrived.len(), link.done().too_long), (0, 10));
    }

    #[test]
    fn the_same_seed_does_the_same() {
        let bad = Conditions {
            loss: 0.1,
            duplicate: 0.1,
            corrupt: 0.1,
            ..Conditions::default()
        };
        assert_eq!(run(bad, 9, 500).1, run(bad, 9, 500).1);
        assert_ne!(run(bad, 9, 500).1, run(bad, 10, 500).1);
    }
}
