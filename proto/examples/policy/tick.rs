//! The article's sender: one packet a tick, a message again when it was last sent long enough ago.
//! With no pause between sends it is the bound: every unacknowledged message in every packet.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tidegate_proto::Timestamp;

use crate::end::{End, Order, Seen, Wire};

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    number: u64,
    seen: Seen,
    messages: Vec<(u64, u8, Vec<u8>)>,
}

pub(crate) struct Tick {
    every: Duration,
    again_after: Duration,
    /// A new message leaves at once; ticks only fill the pauses.
    at_once: bool,
    next_tick: Timestamp,
    next_number: u64,
    base: u64,
    messages: VecDeque<Waiting>,
    carried: HashMap<u64, Vec<u64>>,
    seen: Seen,
    order: Order,
}

struct Waiting {
    lane: u8,
    payload: Vec<u8>,
    sent_at: Option<Timestamp>,
    acked: bool,
}

impl Tick {
    pub(crate) fn new(now: Timestamp, hz: f64, again_after: Duration, phase: f64) -> Self {
        // A little off the nominal rate, so that ticks drift past those of the application.
        let every = Duration::from_secs_f64(1.0007 / hz);
        Self {
            every,
            at_once: again_after.is_zero(),
            again_after,
            next_tick: now + every.mul_f64(phase),
            next_number: 0,
            base: 0,
            messages: VecDeque::new(),
            carried: HashMap::new(),
            seen: Seen::default(),
            order: Order::default(),
        }
    }
}

impl End for Tick {
    fn push(&mut self, now: Timestamp, lane: u8, payload: &[u8]) -> bool {
        if self.messages.len() >= 1024 {
            return false;
        }
        if self.at_once {
            self.next_tick = now;
        }
        self.messages.push_back(Waiting {
            lane,
            payload: payload.to_vec(),
            sent_at: None,
            acked: false,
        });
        true
    }

    fn handle(&mut self, _: Timestamp, packet: &Wire) {
        let Wire::Tick(packet) = packet else { return };
        if !self.seen.insert(packet.number) {
            return;
        }
        for (id, lane, payload) in &packet.messages {
            self.order.insert(*id, *lane, payload);
        }
        for number in packet.seen.acked(32) {
            for id in self.carried.remove(&number).unwrap_or_default() {
                if let Some(index) = id.checked_sub(self.base)
                    && let Some(waiting) = self.messages.get_mut(index as usize)
                {
                    waiting.acked = true;
                }
            }
        }
        while self.messages.front().is_some_and(|front| front.acked) {
            self.messages.pop_front();
            self.base += 1;
        }
    }

    fn handle_timeout(&mut self, _: Timestamp) {}

    fn transmit(&mut self, now: Timestamp) -> Option<(Wire, usize)> {
        if now < self.next_tick {
            return None;
        }
        // With sends at once, the tick only comes when the application is late.
        self.next_tick = if self.at_once {
            now + self.every.mul_f64(1.25)
        } else {
            self.next_tick + self.every
        };
        let mut packet = Packet {
            number: self.next_number,
            seen: self.seen,
            messages: Vec::new(),
        };
        // The same costs as ours (see sim::peer): 52 below the acks, 1 for the header.
        let mut bytes = 57;
        for (index, waiting) in self.messages.iter_mut().enumerate() {
            let rests = |at: Timestamp| now.since(at) < self.again_after;
            if waiting.acked || waiting.sent_at.is_some_and(rests) {
                continue;
            }
            let cost = waiting.payload.len() + if packet.messages.is_empty() { 5 } else { 3 };
            if bytes + cost > 1200 {
                break;
            }
            bytes += cost;
            waiting.sent_at = Some(now);
            let id = self.base + index as u64;
            packet
                .messages
                .push((id, waiting.lane, waiting.payload.clone()));
        }
        let ids = packet.messages.iter().map(|message| message.0).collect();
        self.carried.insert(packet.number, ids);
        self.carried.remove(&packet.number.wrapping_sub(1024));
        self.next_number += 1;
        Some((Wire::Tick(packet), bytes))
    }

    fn deadline(&self) -> Timestamp {
        self.next_tick
    }

    fn has_room(&self) -> bool {
        self.messages.len() < 512
    }

    fn deliver(&mut self) -> Option<(u8, Vec<u8>)> {
        self.order.pop()
    }
}
