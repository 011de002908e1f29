//! Two senders over a bad link in virtual time: whatever the link does, everything arrives, once, in
//! order, and nobody floods.

use super::*;
use crate::sim::{Conditions, Link, Packet, Peer};

const LANES: [Lane; 2] = [Lane::Reliable { blocks: true }, Lane::Unreliable];

struct Pair {
    now: Timestamp,
    peers: [Peer; 2],
    links: [Link<Packet>; 2],
    got: [Vec<(Channel, Vec<u8>)>; 2],
    packets: [u64; 2],
}

impl Pair {
    fn new(params: Params, conditions: Conditions, seed: u64) -> Self {
        let params = Arc::new(params);
        let now = Timestamp::from_millis(1_000);
        let peer = || Peer::new(now, params.clone(), &LANES);
        Self {
            now,
            peers: [peer(), peer()],
            links: [Link::new(conditions, seed), Link::new(conditions, seed + 1)],
            got: Default::default(),
            packets: [0; 2],
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
            let size = packet.wire_bytes - crate::sim::link::HEADER_BYTES;
            self.packets[side] += 1;
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
            assert!(next > self.now, "a deadline that passed must be served");
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

#[test]
fn an_idle_sender_is_small() {
    let now = Timestamp::ZERO;
    let framing = crate::sim::peer::FRAMING;
    let sender = Sender::new(now, Arc::new(Params::default()), framing, &LANES);
    let lanes = sender.lanes.capacity() * size_of::<Queue>();
    let total = size_of::<Sender>() + lanes;
    assert!(total <= 800, "{total} bytes, {lanes} of them for lanes");
}
