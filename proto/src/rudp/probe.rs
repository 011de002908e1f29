//! Does this address receive what we send it? The question every stranger is asked before it gets
//! any state.
//!
//! Rule: docs/wire/rudp.md, section 6. A peer answers a request for a message it never sent with
//! *missing* and the same id. So the ids of two requests carry 28 bits that only the true owner of
//! the address can repeat, and we need remember nothing: they are a keyed hash of the address and
//! the half minute.

use std::net::SocketAddr;
use std::time::Duration;

use crate::rudp::wire::{self, Record};
use crate::siphash::Key;
use crate::time::{Now, Timestamp};

/// How long one pair of ids is given out. An answer counts during this span and the next.
const EPOCH: Duration = Duration::from_secs(30);

/// Ids of a probe lie here: a fresh peer resolves them to messages it has not sent yet. From 0x8000
/// up the reference takes them for old ones and stays silent.
const PROBE_IDS: std::ops::RangeInclusive<u16> = 0x4000..=0x7fff;

/// Whether a probe may ask for this id.
pub(super) fn is_probe_id(id: u16) -> bool {
    PROBE_IDS.contains(&id)
}

/// Answers in a datagram that count: a tidegate that dials says no more in all. Who says thousands at once is right about
/// every address, whoever receives there.
const ANSWERS_MAX: usize = 16;

/// No address is asked again sooner.
const INTERVAL: Duration = Duration::from_millis(200);

/// And up to so much later, as chance has it. Who sends in a fixed beat and loses every third datagram
/// would lose its answer each time, if the questions kept to a beat as well.
const INTERVAL_SPREAD: Duration = Duration::from_millis(64);

/// Entries of the table that remembers who was asked when. Its size is fixed, so a flood of forged
/// sources costs nothing but longer waits for the strangers that share an entry.
const RECENT: usize = 4096;

/// Makes probes and recognises their answers.
#[derive(Debug)]
pub(super) struct Probe {
    key: Key,
    /// By hash of the address: not before this may it be asked again. Allocated by the first probe.
    not_before: Vec<Timestamp>,
}

impl Probe {
    /// `secret` must be unpredictable to peers; workers of one listener may share it.
    pub(super) fn new(secret: [u8; 16]) -> Self {
        Self {
            key: Key::new(secret),
            not_before: Vec::new(),
        }
    }

    /// Writes the probe for this address, unless it was asked a moment ago.
    pub(super) fn ask(&mut self, now: Now, from: SocketAddr, out: &mut Vec<u8>) -> bool {
        // A hash of its own, so that entries say nothing about ids.
        let entry = self.hash(from, u64::MAX) as usize % RECENT;
        if self.not_before.is_empty() {
            self.not_before = vec![Timestamp::ZERO; RECENT];
        }
        if now.mono < self.not_before[entry] {
            return false;
        }
        self.not_before[entry] = now.mono + self.interval(now, from);
        for id in self.ids(from, epoch(now)) {
            wire::emit_request(out, id);
        }
        true
    }

    /// Whether these records answer our probe of this address, and few others.
    pub(super) fn is_answered(
        &self,
        now: Now,
        from: SocketAddr,
        records: wire::Records<'_>,
    ) -> bool {
        let is_answer = |r: &Record<'_>| matches!(r, Record::Missing(id) if PROBE_IDS.contains(id));
        let mut answers = records.into_iter().filter(is_answer);
        if answers.nth(ANSWERS_MAX).is_some() {
            return false;
        }
        let epoch = epoch(now);
        let is_said = |id| records.into_iter().any(|r| r == Record::Missing(id));
        [epoch, epoch.wrapping_sub(1)]
            .into_iter()
            .any(|epoch| self.ids(from, epoch).into_iter().all(is_said))
    }

    fn interval(&self, now: Now, from: SocketAddr) -> Duration {
        let chance = self.hash(from, now.mono.as_nanos());
        INTERVAL + INTERVAL_SPREAD * (chance % 256) as u32 / 256
    }

    /// Two ids for one address and one half minute: 28 bits.
    fn ids(&self, from: SocketAddr, epoch: u64) -> [u16; 2] {
        let hash = self.hash(from, epoch);
        let id = |bits: u64| *PROBE_IDS.start() | (bits & 0x3fff) as u16;
        let (first, second) = (id(hash), id(hash >> 14));
        // Both must be said; equal ones would be half a proof.
        if first == second {
            [first, first ^ 1]
        } else {
            [first, second]
        }
    }

    fn hash(&self, from: SocketAddr, epoch: u64) -> u64 {
        self.key.address(from, epoch)
    }
}

/// Whether a datagram is nothing but a probe. Answering one with another would let two listeners
/// talk to each other for ever, started by a single forged datagram.
pub(super) fn is_probe(records: wire::Records<'_>) -> bool {
    let mut some = false;
    for record in records {
        match record {
            Record::Request(id) if is_probe_id(id) => some = true,
            Record::Request(_)
            | Record::Heartbeat
            | Record::Corrupt
            | Record::Missing(_)
            | Record::Message { .. } => return false,
        }
    }
    some
}

fn epoch(now: Now) -> u64 {
    now.mono.as_nanos() / EPOCH.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn now(secs: u64) -> Now {
        Now {
            mono: Timestamp::from_millis(secs * 1000),
            unix_secs: 0,
        }
    }

    fn echo(probe: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        for record in wire::parse(probe).expect("well-formed") {
            let Record::Request(id) = record else {
                panic!("a probe is requests only")
            };
            wire::emit_missing(&mut answer, id);
        }
        answer
    }

    #[test]
    fn only_the_asked_address_can_answer_and_only_for_a_while() {
        let mut probe = Probe::new([3; 16]);
        let asked: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let mut datagram = Vec::new();
        assert!(probe.ask(now(31), asked, &mut datagram));
        assert_eq!(datagram.len(), 6, "34 bytes with headers, for at least 29");
        assert!(is_probe(wire::parse(&datagram).unwrap()));
        let answer = echo(&datagram);
        let records = wire::parse(&answer).unwrap();
        assert!(probe.is_answered(now(31), asked, records));
        assert!(
            probe.is_answered(now(89), asked, records),
            "the next half minute"
        );
        assert!(!probe.is_answered(now(91), asked, records), "too late");
        for other in ["192.0.2.1:4001", "192.0.2.2:4000"] {
            assert!(!probe.is_answered(now(31), other.parse().unwrap(), records));
        }
        let half = wire::parse(&answer[..3]).unwrap();
        assert!(!probe.is_answered(now(31), asked, half), "one of two ids");
        let stranger = Probe::new([4; 16]);
        assert!(
            !stranger.is_answered(now(31), asked, records),
            "another secret"
        );
    }

    /// A datagram may hold all answers there are, and so the right ones of any address.
    #[test]
    fn who_says_everything_has_answered_nothing() {
        let probe = Probe::new([3; 16]);
        let asked: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let ids = probe.ids(asked, epoch(now(31)));
        let is_answered = |others: usize| {
            let mut datagram = Vec::new();
            let others = PROBE_IDS.filter(|id| !ids.contains(id)).take(others);
            for id in others.chain(ids) {
                wire::emit_missing(&mut datagram, id);
            }
            probe.is_answered(now(31), asked, wire::parse(&datagram).unwrap())
        };
        assert_eq!(
            [14, 15, 464, 16_382].map(is_answered),
            [true, false, false, false]
        );
    }

    /// Who does not know the secret has 14 bits to guess for each of the two.
    #[test]
    fn the_two_ids_of_an_address_say_nothing_of_each_other() {
        let probe = Probe::new([3; 16]);
        let mut kinds: [BTreeSet<u16>; 3] = Default::default();
        for number in 0..0x1_0000u32 {
            let from = SocketAddr::from((number.to_be_bytes(), 4000));
            let [first, second] = probe.ids(from, 1);
            assert!(PROBE_IDS.contains(&first) && PROBE_IDS.contains(&second));
            assert_ne!(first, second, "half a proof");
            for (kind, id) in kinds.iter_mut().zip([first, second, first ^ second]) {
                kind.insert(id);
            }
        }
        // Of 16,384, 65,536 draws leave one in e^4 out.
        for kind in kinds {
            assert!((15_900..16_300).contains(&kind.len()), "{}", kind.len());
        }
    }

    #[test]
    fn an_address_is_not_asked_twice_in_a_moment() {
        let mut probe = Probe::new([3; 16]);
        let from: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let asked = (0..100)
            .filter(|step| {
                let mono = Timestamp::from_millis(1000 + step * 10);
                let now = Now { mono, unix_secs: 0 };
                probe.ask(now, from, &mut Vec::new())
            })
            .count();
        assert!(
            (4..=5).contains(&asked),
            "{asked} in a second, 200 to 264 ms apart"
        );
    }

    /// A client that sends every 10 ms and loses every third datagram, or every fourth: whatever its way back
    /// takes, one of its answers arrives.
    #[test]
    fn losses_in_step_with_the_client_do_not_hit_every_answer() {
        let from: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        for (period, way) in (3..=8).flat_map(|period| (1..=20).map(move |way| (period, way))) {
            let mut probe = Probe::new([period as u8; 16]);
            let is_lost = |datagram: u64| datagram.is_multiple_of(period);
            let answered = (1..500).find(|datagram| {
                let mono = Timestamp::from_millis(1000 + datagram * 10);
                let now = Now { mono, unix_secs: 0 };
                let is_asked = !is_lost(*datagram) && probe.ask(now, from, &mut Vec::new());
                is_asked && !is_lost(datagram + way)
            });
            let after = answered.map_or("never".into(), |it| format!("{} ms", it * 10));
            assert!(
                answered.is_some_and(|it| it < 300),
                "one in {period} lost, answers {way} datagrams later: {after}"
            );
        }
    }
}
