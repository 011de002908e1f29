//! What is measured of a path must be true however the peer acknowledges: here at the beat of a clock
//! of its own, as the reference does, and not when something arrives.

use super::*;
use crate::ip::IPV4_UDP_HEADER_BYTES;
use crate::sim::{Conditions, Link, Packet, Peer};

/// A peer with a packet at every beat, whatever it has to acknowledge, and an unreliable message in it.
pub(super) struct Metronome {
    every: Duration,
    next: Timestamp,
    number: u64,
    newest: Option<u64>,
    /// Bit n: `newest - n` was received.
    seen: u64,
}

impl Metronome {
    pub(super) fn new(every: Duration, next: Timestamp) -> Self {
        Self {
            every,
            next,
            number: 0,
            newest: None,
            seen: 0,
        }
    }

    pub(super) fn handle(&mut self, number: u64) {
        let newest = self.newest.unwrap_or(number);
        self.seen = match number.checked_sub(newest) {
            Some(ahead) => self.seen.checked_shl(ahead as u32).unwrap_or(0) | 1,
            None => self.seen | 1_u64.checked_shl((newest - number) as u32).unwrap_or(0),
        };
        self.newest = Some(number.max(newest));
    }

    pub(super) fn beat(&mut self) -> Packet {
        self.next += self.every;
        self.number += 1;
        Packet {
            number: self.number,
            ack: self.newest,
            ack_bits: self.seen as u32,
            messages: vec![(1, self.number as u16, vec![7; 32])],
            fragment: None,
            wire_bytes: 80,
        }
    }
}

/// One of ours, and such a peer.
struct Stage {
    now: Timestamp,
    ours: Peer,
    stock: Metronome,
    there: Link<Packet>,
    back: Link<Packet>,
    /// Each of the peer's messages is answered, instead of a pace of our own.
    echoes: bool,
    next_push: Timestamp,
    lane: Channel,
}

impl Stage {
    /// The peer's clock is a little slow, so that its beat moves slowly past ours.
    fn new(beats: u32, conditions: Conditions, seed: u64) -> Self {
        let now = Timestamp::from_millis(1_000);
        let lanes = [
            Lane::Reliable {
                blocks: None,
                window: 1024,
                per_packet: 256,
            },
            Lane::Unreliable { per_packet: 256 },
        ];
        let every = Duration::from_secs_f64(1.0003 / f64::from(beats));
        Self {
            now,
            ours: Peer::new(now, Arc::default(), &lanes),
            stock: Metronome::new(every, now + every.mul_f64(0.13 * seed as f64)),
            there: Link::new(conditions, 2 * seed),
            back: Link::new(
                Conditions {
                    rate: 0,
                    ..conditions
                },
                2 * seed + 1,
            ),
            echoes: false,
            next_push: now,
            lane: 0,
        }
    }

    /// Runs for a second with so many messages, or with echoes, and says what is measured then.
    fn look(&mut self, messages: Option<u32>) -> Stats {
        let end = self.now + Duration::from_secs(1);
        self.echoes = messages.is_none();
        let every = Duration::from_secs(1) / messages.unwrap_or(1);
        while self.now < end {
            self.turn(every);
            let deadline = self.ours.sender.poll_timeout().map(|deadline| deadline.at);
            let arrivals = [self.there.next_arrival(), self.back.next_arrival()];
            let next = arrivals.into_iter().chain([deadline]).flatten().min();
            let next = next.unwrap_or(end).min(self.stock.next).min(end);
            let next = if self.echoes {
                next
            } else {
                next.min(self.next_push)
            };
            self.now = next.max(self.now + Duration::from_nanos(1));
        }
        let mut stats = Stats::default();
        self.ours.sender.fill_stats(&mut stats);
        stats
    }

    fn turn(&mut self, every: Duration) {
        let now = self.now;
        let mut due = 0;
        while !self.echoes && self.next_push <= now {
            self.next_push += every;
            due += 1;
        }
        while let Some((packet, _)) = self.back.pop(now) {
            self.ours.handle_packet(now, &packet);
            due += u32::from(self.echoes);
        }
        for _ in 0..due {
            self.ours.sender.push(now, self.lane, &[9; 64]).ok();
        }
        while let Some((packet, _)) = self.there.pop(now) {
            self.stock.handle(packet.number);
        }
        while self.stock.next <= now {
            let packet = self.stock.beat();
            self.back
                .push(now, packet, &[0; 80 - IPV4_UDP_HEADER_BYTES]);
        }
        self.ours.sender.handle_timeout(now);
        while let Some(packet) = self.ours.poll_transmit(now) {
            let size = packet.wire_bytes - IPV4_UDP_HEADER_BYTES;
            self.there.push(now, packet, &vec![0; size]);
        }
    }
}

#[test]
fn a_peer_that_acknowledges_at_its_own_beat_is_no_queue() {
    let weather = Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(8),
        loss: 0.04,
        ..Conditions::default()
    };
    for beats in [5, 10, 20, 30, 60] {
        for messages in [Some(1), Some(5), Some(10), Some(60), None] {
            let what = format!("{beats} beats a second, {messages:?} messages");
            let mut looks = Vec::new();
            let (mut offered, mut lost) = (0, 0);
            for seed in 1..=3 {
                let mut stage = Stage::new(beats, weather, seed);
                // Few messages take their time to say what share of them gets lost.
                for _ in 0..300 / messages.unwrap_or(beats) {
                    stage.look(messages);
                }
                looks.extend((0..60).map(|_| stage.look(messages)));
                offered += stage.there.done().offered;
                lost += stage.there.done().lost;
            }
            let lost = lost as f64 / offered as f64;
            assert!(lost > 0.02, "a kind network lost {lost}: {what}");
            for look in &looks {
                assert!(
                    !look.in_bad_mode && look.mode_to_bad == 0,
                    "{what}: {look:?}"
                );
            }
            let count = looks.len() as f64;
            let rtt = looks
                .iter()
                .map(|look| look.rtt.as_secs_f64() * 1e3)
                .sum::<f64>()
                / count;
            // With a message for each beat, nobody can tell a part of the pause from the path.
            let most = 65.0 + 500.0 / f64::from(beats);
            assert!((40.0..most).contains(&rtt), "{rtt} ms of 50: {what}");
            let loss = looks.iter().map(|look| f64::from(look.loss)).sum::<f64>() / count;
            assert!(
                (0.5 * lost..1.6 * lost).contains(&loss),
                "{loss} of {lost}: {what}"
            );
        }
    }
}

/// What such a peer holds back hides no queue that stands for longer than its pauses.
#[test]
fn a_queue_is_seen_through_the_pauses_of_a_peer() {
    let thin = Conditions {
        delay: Duration::from_millis(25),
        rate: 50_000,
        queue: 4_000,
        ..Conditions::default()
    };
    for (beats, lane) in [(5, 0), (20, 0), (60, 0), (20, 1), (60, 1)] {
        let mut stage = Stage::new(beats, thin, 1);
        stage.lane = lane;
        let before = stage.look(Some(5));
        for _ in 0..10 {
            stage.look(Some(60));
        }
        let after = stage.look(Some(60));
        let what = format!("{beats} beats a second, lane {lane}: {before:?} {after:?}");
        assert!(before.rtt > Duration::from_millis(50), "{what}");
        assert!(!before.in_bad_mode && after.mode_to_bad > 0, "{what}");
        assert!(after.rtt > Duration::from_millis(200), "{what}");
    }
}
