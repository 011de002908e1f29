//! Two senders over a bad link in virtual time: whatever the link does, everything arrives, once, in
//! order, and nobody floods.

mod early;
mod memory;
mod repeats;
mod steps;
mod swinging;
mod truth;

use std::collections::HashSet;

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
        for n in 0..600 {
            for side in 0..2 {
                pair.peers[side]
                    .sender
                    .push(pair.now, 0, &number(n))
                    .unwrap();
            }
            pair.run_for(16);
        }
        pair.run_for(5_000);
        let expected: Vec<_> = (0..600).map(|n| (0, number(n))).collect();
        assert!(pair.links[0].done().lost > 50, "the link was too kind");
        for side in 0..2 {
            assert_eq!(pair.got[side], expected, "seed {seed}, side {side}");
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
fn total_loss_is_neither_a_flood_nor_the_end() {
    for both_ways in [true, false] {
        let mut pair = Pair::new(Params::default(), lossy(0.0), 11);
        play(&mut pair, 0..100);
        let dead = lossy(1.0);
        pair.links[0].set_conditions(dead);
        if both_ways {
            pair.links[1].set_conditions(dead);
        }
        let before = stats(&pair, 0);
        play(&mut pair, 100..500);
        pair.run_for(20_000);
        let during = stats(&pair, 0).packets_sent - before.packets_sent;
        // 6.4 s of messages at the good rate, then probes that back off and keep-alives.
        assert!(
            during <= 8 + 7 * 90 + 20 * 10,
            "{during} packets into the void"
        );
        assert!(pair.got[1].len() == 100, "nothing can have arrived");
        pair.links
            .iter_mut()
            .for_each(|link| link.set_conditions(lossy(0.0)));
        pair.run_for(400);
        assert!(
            pair.got[1].len() > 100,
            "first delivery takes two round trips and a probe"
        );
        pair.run_for(2_000);
        assert!(pair.got[1] == expected(500));
        assert!(
            stats(&pair, 0).packets_sent < before.packets_sent + during + 250,
            "a flood after it"
        );
    }
}

/// Nothing comes back for four seconds, but the way there is as it was and loses one in twenty. Who hears nothing
/// cannot know what is missing: every message goes more than once, the newest as well as the oldest.
#[test]
fn who_is_not_heard_is_still_told() {
    let mut worst = Vec::new();
    for seed in 0..16 {
        let mut pair = Pair::new(Params::default(), lossy(0.05), 100 + 2 * seed);
        play(&mut pair, 0..300);
        pair.links[1].set_conditions(lossy(1.0));
        let before = stats(&pair, 0);
        let behind = (300..550).map(|n| {
            play(&mut pair, n..n + 1);
            n as usize + 1 - pair.got[1].len()
        });
        worst.push(behind.max().unwrap());
        let packets = stats(&pair, 0).packets_sent - before.packets_sent;
        assert!(packets < 300, "{packets} packets for 250 messages");
    }
    worst.sort_unstable();
    assert!(worst[15] < 30, "messages behind: {worst:?}");
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

/// A peer may acknowledge a packet only once everything in it was delivered, so probes that always
/// began with the oldest message would leave the next missing one unsaid for ever. But it may be the
/// oldest that everything waits for, so every other probe begins there.
#[test]
fn probes_without_an_answer_say_every_message_again() {
    let mut pair = Pair::new(Params::default(), lossy(1.0), 43);
    let mut said = [0; 6];
    for _ in &said {
        pair.peers[0].sender.push(pair.now, 0, &[9; 1_000]).unwrap();
    }
    for _ in 0..10_000 {
        pair.peers[0].sender.handle_timeout(pair.now);
        while let Some(packet) = pair.peers[0].poll_transmit(pair.now) {
            for (_, id, _) in packet.messages {
                said[usize::from(id)] += 1;
            }
        }
        pair.now += Duration::from_millis(1);
    }
    assert!(said.iter().all(|times| *times >= 2), "{said:?}");
    assert!(
        said[1..].iter().all(|times| said[0] > 2 * times),
        "{said:?}"
    );
}

/// A peer that acknowledges a packet once everything in it was delivered answers no probe with a message behind a
/// block that it lacks. Once everything was lost at the same time, the block goes again all the same.
#[test]
fn a_probe_asks_for_nothing_behind_a_block_that_is_missing() {
    let params = Params {
        keep_alive: KeepAlive {
            always: false,
            ..KeepAlive::default()
        },
        ..Params::default()
    };
    let mut pair = Pair::new(params, lossy(1.0), 44);
    let Peer { sender, .. } = &mut pair.peers[0];
    let outbox = sender.lanes.outbox_mut(0);
    outbox.expect("lane 0 is reliable").widen(8192, 1_100);
    sender.push(pair.now, 0, &[0; 100]).unwrap();
    sender
        .push_as(pair.now, 0, &[1; 3_000], Form::Block)
        .unwrap();
    sender.push(pair.now, 0, &[2; 100]).unwrap();
    let (begin, mut fragments, mut has) = (pair.now, HashSet::new(), [false; 3]);
    let mut said = 0;
    while pair.now < begin + Duration::from_secs(9) {
        pair.peers[0].sender.handle_timeout(pair.now);
        while let Some(packet) = pair.peers[0].poll_transmit(pair.now) {
            said += packet.messages.len() + usize::from(packet.fragment.is_some());
            if pair.now < begin + Duration::from_secs(1) {
                continue;
            }
            for (_, id, _) in &packet.messages {
                has[usize::from(*id)] = true;
            }
            fragments.extend(packet.fragment.map(|(fragment, _)| fragment.index));
            has[1] = fragments.len() == 3;
            let waits = |id: u16| !has[..usize::from(id)].iter().all(|has| *has);
            let is_told = !packet.messages.iter().any(|(_, id, _)| waits(*id));
            let sender = &mut pair.peers[0].sender;
            sender.hear(pair.now, IN_ORDER, |hearing| {
                if is_told {
                    hearing.acked(packet.number);
                }
            });
        }
        pair.now += Duration::from_millis(1);
    }
    assert_eq!(has, [true; 3]);
    assert!(pair.peers[0].sender.is_drained());
    assert!(said >= 2 * 5, "nothing was lost");
}

/// What one sender brings across in a second when there is always more of it, over a path that is as
/// fast as it is asked to be.
fn carried(size: usize) -> usize {
    let path = Conditions {
        delay: Duration::from_millis(1),
        ..Conditions::default()
    };
    let mut pair = Pair::new(Params::default(), path, 1);
    let begin = pair.now;
    let payload = vec![7; size];
    for millis in 1..=1_000 {
        while pair.peers[0].sender.has_room() {
            pair.peers[0].sender.push(pair.now, 0, &payload).unwrap();
        }
        pair.run_until(begin + Duration::from_millis(millis));
    }
    pair.got[1].iter().map(|(_, payload)| payload.len()).sum()
}

/// A processor that was away while the rate was still low looks like the path's end. It is not, and
/// what says so is a rate of some times that without any sign of a queue.
#[test]
fn an_end_that_was_none_is_soon_forgotten() {
    let path = |delay| Conditions {
        delay: Duration::from_millis(delay),
        rate: 400_000_000,
        ..Conditions::default()
    };
    let carried = |away: &[(u64, u64)]| {
        let mut pair = Pair::new(Params::default(), path(1), 1);
        let begin = pair.now;
        let after = |millis| {
            if let Some((_, delay)) = away.iter().find(|(at, _)| *at == millis) {
                pair.links[0].set_conditions(path(*delay));
            }
            while pair.peers[0].sender.has_room() {
                pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
            }
            pair.run_until(begin + Duration::from_millis(millis));
            pair.got[1].len()
        };
        (0..1_500).map(after).collect::<Vec<_>>()
    };
    let free = carried(&[]);
    let met = carried(&[(60, 16), (120, 1)]);
    assert!(
        4 * met[130] < 3 * free[130],
        "the end was met early: {} kB of {} until then",
        met[130],
        free[130]
    );
    let late = met[1_499] - met[999];
    assert!(
        late > 8_000,
        "{late} kB in the last half second, of 25,000 there are"
    );
}

/// An operator's `bulk.max` holds from the first volley on, whatever that says of the path.
#[test]
fn bulk_is_no_faster_than_its_most() {
    let params = Params {
        bulk: BulkRates {
            max: 100_000.0,
            ..BulkRates::default()
        },
        ..Params::default()
    };
    let path = Conditions {
        delay: Duration::from_millis(25),
        ..Conditions::default()
    };
    let mut pair = Pair::new(params, path, 1);
    for _ in 0..2_000 {
        while pair.peers[0].sender.has_room() {
            pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
        }
        pair.run_for(1);
    }
    let heard = 1_000 * pair.got[1].len();
    assert!(heard > 150_000, "{heard} bytes in two seconds");
    assert!(heard <= 12_000 + 200_000, "{heard} bytes in two seconds");
}

/// Large packets count as what they are in the bound of acknowledgements, and blocks do not wait for an
/// acknowledgement that nobody hurries to send.
#[test]
fn no_size_is_slow_on_a_fast_path() {
    for size in [1_000, 7_000, 33_000, 250_000] {
        let carried = carried(size);
        assert!(carried > 4_000_000, "{carried} bytes in pieces of {size}");
    }
}

/// What a game says at once now and then, such as where everybody is, waits for no rate as long as nobody has
/// met the path's end; and for one that makes no queue to be felt from then on.
#[test]
fn what_is_said_after_a_pause_leaves_at_once() {
    // 2 Mbit/s, with a queue of a second.
    let path = Conditions {
        delay: Duration::from_millis(25),
        rate: 2_000_000,
        queue: 250_000,
        ..Conditions::default()
    };
    let leaves_at_once = |pair: &mut Pair| {
        let before = pair.packets[0];
        for _ in 0..11 {
            pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
        }
        pair.run_for(1);
        pair.packets[0] - before
    };
    let mut pair = Pair::new(Params::default(), path, 1);
    pair.run_for(500);
    assert_eq!(leaves_at_once(&mut pair), 11);
    pair.run_for(3_000);
    assert_eq!(leaves_at_once(&mut pair), 11);
    for _ in 0..5_000 {
        while pair.peers[0].sender.has_room() {
            pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
        }
        pair.run_for(1);
    }
    pair.run_for(20_000);
    assert!(pair.peers[0].sender.is_drained());
    let packets = leaves_at_once(&mut pair);
    // 5 kB are 20 ms.
    assert!((3..=6).contains(&packets), "{packets}");
}

/// The article's sender repeats what is not acknowledged after 0.1 s, each time: also while nothing at all is
/// heard, and while packets that are due again already wait for the second after which they count as lost.
#[test]
fn the_articles_sender_repeats_into_silence() {
    let start = Timestamp::from_millis(1_000);
    let mut peer = Peer::new(start, Arc::new(Params::article()), &LANES);
    peer.sender.push(start, 0, b"is anybody there").unwrap();
    let (mut now, mut carried) = (start, Vec::new());
    while now < start + Duration::from_millis(950) {
        peer.sender.handle_timeout(now);
        while let Some(packet) = peer.poll_transmit(now) {
            if !packet.messages.is_empty() {
                carried.push(now.since(start).as_millis());
            }
        }
        let next = peer.sender.poll_timeout().expect("something is due").at;
        now = next.max(now + Duration::from_millis(1));
    }
    assert_eq!(carried, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
}
