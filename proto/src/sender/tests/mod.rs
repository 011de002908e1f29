//! Two senders over a bad link in virtual time: whatever the link does, everything arrives, once, in
//! order, and nobody floods.

mod bulk;
mod early;
mod memory;
mod repeats;
mod silence;
mod steps;
mod swinging;
mod truth;

use super::*;
use crate::sim::{Conditions, Link, Packet, Peer};

const BLOCKS: Blocks = Blocks {
    fragment: 1024,
    bytes_max: 262_144,
    together_max: 0,
};
const LANES: [Lane; 2] = [
    Lane::Reliable {
        blocks: Some(BLOCKS),
        window: 1024,
        per_packet: 256,
    },
    Lane::Unreliable { per_packet: 256 },
];

const IN_ORDER: Heard = Heard {
    in_order: true,
    is_of_older: false,
};

struct Pair {
    now: Timestamp,
    peers: [Peer; 2],
    links: [Link<Packet>; 2],
    got: [Vec<(Channel, Vec<u8>)>; 2],
    packets: [u64; 2],
    /// Messages of each lane that one packet had, at most.
    fullest: [usize; 3],
}

impl Pair {
    fn new(params: Params, conditions: Conditions, seed: u64) -> Self {
        Self::with_lanes(params, conditions, seed, &LANES)
    }

    fn with_lanes(params: Params, conditions: Conditions, seed: u64, lanes: &[Lane]) -> Self {
        let params = Arc::new(params);
        let now = Timestamp::from_millis(1_000);
        let peer = || Peer::new(now, params.clone(), lanes);
        Self {
            now,
            peers: [peer(), peer()],
            links: [Link::new(conditions, seed), Link::new(conditions, seed + 1)],
            got: Default::default(),
            packets: [0; 2],
            fullest: [0; 3],
        }
    }

    fn pump(&mut self) {
        for side in 0..2 {
            while let Some((packet, _)) = self.links[1 - side].pop(self.now) {
                self.peers[side].handle_packet(self.now, &packet);
                self.transmit(side);
            }
            self.peers[side].sender.handle_timeout(self.now);
            self.transmit(side);
            while let Some(message) = self.peers[side].poll_message() {
                self.got[side].push(message);
            }
        }
    }

    fn transmit(&mut self, side: usize) {
        while let Some(packet) = self.peers[side].poll_transmit(self.now) {
            let size = packet.wire_bytes - crate::ip::IPV4_UDP_HEADER_BYTES;
            self.packets[side] += 1;
            for (lane, fullest) in (0..).zip(&mut self.fullest) {
                let count = packet.messages.iter().filter(|message| message.0 == lane);
                *fullest = count.count().max(*fullest);
            }
            self.links[side].push(self.now, packet, &vec![0; size]);
        }
    }

    /// Runs until `end`, from event to event.
    fn run_until(&mut self, end: Timestamp) {
        loop {
            self.pump();
            let next = (0..2)
                .flat_map(|side| {
                    let timeout = self.peers[side].sender.poll_timeout().map(|d| d.at);
                    [self.links[side].next_arrival(), timeout]
                })
                .flatten()
                .min()
                .unwrap_or(Timestamp::MAX);
            let deadlines = [0, 1].map(|side| self.peers[side].sender.poll_timeout());
            assert!(
                next > self.now,
                "at {:?}, a deadline that passed must be served: {deadlines:?}",
                self.now
            );
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
        }
    }

    fn run_for(&mut self, millis: u64) {
        self.run_until(self.now + Duration::from_millis(millis));
    }
}

fn lossy(loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(5),
        loss,
        ..Conditions::default()
    }
}

fn number(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(16)
}

#[test]
fn a_packet_has_as_many_messages_of_a_lane_as_the_lane_may_have() {
    let lane = |per_packet| Lane::Reliable {
        blocks: None,
        window: 1024,
        per_packet,
    };
    let lanes = [lane(2), Lane::Unreliable { per_packet: 1 }, lane(5)];
    let mut pair = Pair::with_lanes(Params::default(), lossy(0.1), 5, &lanes);
    for n in 0..300 {
        pair.peers[0].sender.push(pair.now, 0, &number(n)).unwrap();
        pair.peers[0].sender.push(pair.now, 1, &number(n)).unwrap();
        for _ in 0..4 {
            pair.peers[0].sender.push(pair.now, 2, &number(n)).unwrap();
        }
        pair.run_for(16);
    }
    // Copies come when each lane had its turn, and count as well; and a lane that may have few takes nothing
    // from the others.
    assert_eq!(pair.fullest, [2, 1, 5]);
}

#[test]
fn everything_arrives_once_and_in_order() {
    for seed in 0..4 {
        let mut pair = Pair::new(Params::default(), lossy(0.2), seed * 2);
        play(&mut pair, 0..600);
        pair.run_for(5_000);
        assert!(pair.links[0].done().lost > 50, "the link was too kind");
        for side in 0..2 {
            assert_eq!(pair.got[side], expected(600), "seed {seed}, side {side}");
            assert!(pair.peers[side].sender.is_drained());
        }
    }
}

#[test]
fn blocks_and_messages_keep_their_order() {
    let mut pair = Pair::new(Params::default(), lossy(0.05), 7);
    let mut expected = Vec::new();
    for (n, size) in [10, 100_000, 20, 7_000, 262_144, 7_001, 0, 5]
        .into_iter()
        .enumerate()
    {
        let payload: Vec<u8> = (0..size).map(|at: usize| (at * 7 + n) as u8).collect();
        pair.peers[0].sender.push(pair.now, 0, &payload).unwrap();
        expected.push((0, payload));
    }
    pair.run_for(60_000);
    assert!(
        pair.got[1] == expected,
        "{} messages arrived",
        pair.got[1].len()
    );
    assert!(pair.peers[0].sender.is_drained());
}

/// Sends numbered messages both ways, 60 a second.
fn play(pair: &mut Pair, numbers: std::ops::Range<u32>) {
    for n in numbers {
        for side in 0..2 {
            let sent = pair.peers[side].sender.push(pair.now, 0, &number(n));
            assert_eq!(sent, Ok(()), "message {n} of side {side}");
        }
        pair.run_for(16);
    }
}

fn expected(count: u32) -> Vec<(Channel, Vec<u8>)> {
    (0..count).map(|n| (0, number(n))).collect()
}

fn stats(pair: &Pair, side: usize) -> Stats {
    let mut stats = Stats::default();
    pair.peers[side].sender.fill_stats(&mut stats);
    stats
}

#[test]
fn nothing_is_said_twice_on_a_clean_path() {
    let mut pair = Pair::new(Params::default(), lossy(0.0), 3);
    play(&mut pair, 0..1_000);
    pair.run_for(1_000);
    for side in 0..2 {
        let stats = stats(&pair, side);
        assert_eq!(stats.messages_acked, 1_000);
        assert_eq!((stats.messages_resent, stats.messages_repeated), (0, 0));
        assert_eq!((stats.packets_lost, stats.loss), (0, 0.0));
        // Acknowledgements ride on what leaves anyway.
        assert!(
            stats.packets_sent <= 1_080,
            "{} packets",
            stats.packets_sent
        );
    }
}

#[test]
fn any_weather_delivers_everything_in_order() {
    let mut random = crate::sim::Random::new(99);
    for seed in 0..40 {
        let mut conditions = lossy(random.share() * 0.3);
        conditions.delay = Duration::from_millis(6 + random.below(200));
        if random.happens(0.5) {
            conditions.bursts = Some((Duration::from_millis(80), Duration::from_millis(900)));
        }
        if random.happens(0.5) {
            conditions.reorder = (0.1, Duration::from_millis(random.below(1_000)));
        }
        if random.happens(0.3) {
            conditions.duplicate = 0.1;
        }
        if random.happens(0.3) {
            (conditions.rate, conditions.queue) = (150_000, 20_000);
        }
        let profile = if random.happens(0.2) {
            Params::article()
        } else {
            Params::default()
        };
        let mut pair = Pair::new(profile, conditions, seed * 2 + 1_000);
        play(&mut pair, 0..200);
        let calm = lossy(0.0);
        pair.links
            .iter_mut()
            .for_each(|link| link.set_conditions(calm));
        pair.run_for(8_000);
        for side in 0..2 {
            assert!(
                pair.got[side] == expected(200),
                "seed {seed}: side {side} got {} of 200 under {conditions:?}",
                pair.got[side].len()
            );
            assert!(
                pair.peers[side].sender.is_drained(),
                "seed {seed}: {conditions:?}"
            );
        }
    }
}

#[test]
fn a_paused_process_catches_up_without_a_flood() {
    let mut pair = Pair::new(Params::default(), lossy(0.02), 13);
    play(&mut pair, 0..200);
    for n in 200..300 {
        pair.peers[0].sender.push(pair.now, 0, &number(n)).unwrap();
    }
    // Nobody looks at the clock for a minute, and what was under way comes all at once.
    pair.now += Duration::from_secs(60);
    let before = pair.packets;
    pair.pump();
    assert!(
        pair.packets[0] - before[0] <= 16,
        "{} packets at once",
        pair.packets[0] - before[0]
    );
    pair.run_for(2_000);
    assert!(pair.got[1] == expected(300));
    let rtt = stats(&pair, 0).rtt;
    assert!(
        rtt < Duration::from_millis(200),
        "a pause is not a round trip: {rtt:?}"
    );
    assert!(!stats(&pair, 0).in_bad_mode);
}

#[test]
fn acknowledgements_of_nothing_change_nothing() {
    let mut pair = Pair::new(Params::default(), lossy(0.0), 17);
    pair.peers[0].sender.push(pair.now, 0, &number(0)).unwrap();
    let sender = &mut pair.peers[0].sender;
    sender.hear(pair.now, IN_ORDER, |hearing| {
        for never in [0, 1, 77, u64::MAX] {
            hearing.acked(never);
        }
    });
    assert!(!sender.is_drained());
    assert_eq!(stats(&pair, 0).packets_acked, 0);
    play(&mut pair, 1..50);
    let acked = stats(&pair, 0).packets_acked;
    assert!(acked > 0);
    let (never, again) = (1_000, 0);
    pair.peers[0].sender.hear(pair.now, IN_ORDER, |hearing| {
        hearing.acked(never);
        hearing.acked(again);
    });
    assert_eq!(stats(&pair, 0).packets_acked, acked);
    pair.run_for(1_000);
    assert!(pair.got[1] == expected(50));
}

#[test]
fn a_second_late_is_neither_a_round_trip_nor_a_flood() {
    let late = Conditions {
        reorder: (0.05, Duration::from_secs(1)),
        ..lossy(0.0)
    };
    let mut pair = Pair::new(Params::default(), late, 29);
    play(&mut pair, 0..600);
    let reordered = pair.links[0].done().reordered;
    assert!(reordered > 20, "a good network: {reordered} packets late");
    pair.run_for(3_000);
    assert!(pair.got[1] == expected(600));
    let stats = stats(&pair, 0);
    let rtt = stats.rtt;
    assert!(rtt < Duration::from_millis(120), "{rtt:?}, of 50 ms");
    assert!(!stats.in_bad_mode, "late is not a queue");
    // 600 packets of news in 9.6 s, probes and repairs beside them at most at the good rate.
    assert!(pair.packets[0] < 13 * 90, "{} packets", pair.packets[0]);
}

#[test]
fn round_trips_of_nothing_and_of_minutes_are_survived() {
    let second = Duration::from_secs(1);
    for (delay, least, most) in [
        (Duration::from_nanos(1), Duration::ZERO, second / 20),
        (20 * second, 40 * second, 41 * second),
        // Longer than a minute is no round trip to go by.
        (40 * second, Duration::ZERO, Duration::ZERO),
    ] {
        let path = Conditions {
            delay,
            ..Conditions::default()
        };
        let mut pair = Pair::new(Params::default(), path, 31);
        play(&mut pair, 0..60);
        pair.run_for(200_000);
        assert!(pair.got[1] == expected(60), "after {delay:?}");
        let rtt = stats(&pair, 0).rtt;
        assert!((least..=most).contains(&rtt), "{rtt:?} at {delay:?}");
        // A second of news, then keep-alives and, over the long paths, probes that back off.
        let packets = pair.packets[0];
        assert!(packets < 90 + 5 * 200, "{packets} packets at {delay:?}");
    }
}

#[test]
fn ids_wrap_and_silence_lasts() {
    let fast = Conditions {
        delay: Duration::from_millis(2),
        ..Conditions::default()
    };
    let mut pair = Pair::new(Params::default(), fast, 19);
    let mut sent = 0;
    while sent < 70_000u32 {
        while sent < 70_000
            && pair.peers[0]
                .sender
                .push(pair.now, 0, &sent.to_le_bytes())
                .is_ok()
        {
            sent += 1;
        }
        pair.run_for(20);
    }
    pair.run_for(1_000);
    pair.run_for(3_600_000);
    pair.peers[0]
        .sender
        .push(pair.now, 0, &sent.to_le_bytes())
        .unwrap();
    pair.run_for(100);
    assert_eq!(pair.got[1].len(), 70_001);
    let in_order = pair.got[1].iter().enumerate();
    assert!(
        in_order
            .into_iter()
            .all(|(n, got)| got.1 == (n as u32).to_le_bytes())
    );
}

#[test]
fn pacing_is_obeyed_whatever_is_pushed() {
    let usual = Params {
        packets: PacketRates {
            good_max: 90.0,
            ..PacketRates::default()
        },
        ..Params::default()
    };
    // 400 ms: a burst of 8, and 90 a second, or 180.
    for (params, most) in [(usual, 8 + 37), (Params::default(), 8 + 73)] {
        let mut pair = Pair::new(params, lossy(0.0), 23);
        for n in 0..400 {
            pair.peers[0].sender.push(pair.now, 0, &number(n)).unwrap();
            pair.transmit(0);
            pair.run_for(1);
        }
        assert!(pair.packets[0] <= most, "{} packets", pair.packets[0]);
        pair.run_for(200);
        assert!(pair.got[1] == expected(400), "they travel together instead");
    }
}

#[test]
fn a_block_does_not_hold_up_unreliable_messages() {
    let mut pair = Pair::new(Params::default(), lossy(0.0), 29);
    pair.peers[0]
        .sender
        .push(pair.now, 0, &vec![7; 262_144])
        .unwrap();
    for n in 0..100 {
        pair.peers[0].sender.push(pair.now, 1, &number(n)).unwrap();
        pair.run_for(16);
    }
    pair.run_for(50);
    let quick = pair.got[1].iter().filter(|(lane, _)| *lane == 1).count();
    assert_eq!(quick, 100);
    pair.run_for(10_000);
    assert!(pair.got[1].contains(&(0, vec![7; 262_144])));
}

#[test]
fn large_messages_are_not_crowded_out_by_small_ones() {
    let slow = Params {
        packets: PacketRates {
            good: 10.0,
            good_max: 10.0,
            burst: 1.0,
            ..PacketRates::default()
        },
        ..Params::default()
    };
    let mut pair = Pair::new(slow, lossy(0.0), 31);
    for size in [1_120, 7_000, 3_000] {
        pair.peers[0]
            .sender
            .push(pair.now, 0, &vec![1; size])
            .unwrap();
    }
    for n in 0..100 {
        pair.peers[0].sender.push(pair.now, 1, &number(n)).unwrap();
        pair.run_for(16);
    }
    let sizes: Vec<_> = pair.got[1]
        .iter()
        .filter(|(lane, _)| *lane == 0)
        .map(|(_, m)| m.len())
        .collect();
    assert_eq!(sizes, [1_120, 7_000, 3_000]);
}

#[test]
fn the_article_resends_after_a_tenth_of_a_second_at_its_own_rate() {
    let mut pair = Pair::new(Params::article(), lossy(0.1), 37);
    play(&mut pair, 0..600);
    pair.run_for(5_000);
    assert!(pair.got[1] == expected(600));
    let stats = stats(&pair, 0);
    assert_eq!(stats.messages_repeated, 0, "copies are not the article's");
    assert!(
        stats.messages_resent > 30,
        "{} resent",
        stats.messages_resent
    );
    // 9.6 s: the first four at 10 packets a second, then 30; and a pause with acknowledgements only.
    let packets = stats.packets_sent;
    assert!((150..=400).contains(&packets), "{packets} packets");
}
