//! A sender like QUIC's (RFC 9002): loss by three newer packets or 9/8 of a round trip, a probe
//! timeout, lost data in new packets, NewReno with pacing. One ordered stream, no redundancy.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_proto::Timestamp;
use tidegate_proto::ip::IPV4_UDP_HEADER_BYTES;

use crate::end::{End, Order, Seen, Wire};

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    number: u64,
    /// Newest received and what else of the last 64: enough ranges for these runs.
    seen: Seen,
    messages: Vec<(u64, u8, Vec<u8>)>,
}

pub(crate) struct Quic {
    next_number: u64,
    next_id: u64,
    /// Never sent, or lost.
    queue: BTreeMap<u64, (u8, Vec<u8>)>,
    sent: BTreeMap<u64, Sent>,
    largest_acked: Option<u64>,
    loss_at: Option<Timestamp>,
    probe_from: Timestamp,
    probes: u32,
    probe_now: bool,
    srtt: Duration,
    latest: Duration,
    variation: Duration,
    window: f64,
    threshold: f64,
    in_flight: usize,
    recovery_from: u64,
    pace: f64,
    paced_at: Timestamp,
    seen: Seen,
    ack_at: Option<Timestamp>,
    unacked: u32,
    order: Order,
}

struct Sent {
    at: Timestamp,
    bytes: usize,
    messages: Vec<(u64, u8, Vec<u8>)>,
}

impl Quic {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            next_number: 0,
            next_id: 0,
            queue: BTreeMap::new(),
            sent: BTreeMap::new(),
            largest_acked: None,
            loss_at: None,
            probe_from: now,
            probes: 0,
            probe_now: false,
            srtt: Duration::ZERO,
            latest: Duration::ZERO,
            variation: Duration::ZERO,
            window: 12_000.0,
            threshold: f64::INFINITY,
            in_flight: 0,
            recovery_from: 0,
            pace: 12_000.0,
            paced_at: now,
            seen: Seen::default(),
            ack_at: None,
            unacked: 0,
            order: Order::default(),
        }
    }

    fn smoothed(&self) -> Duration {
        if self.srtt.is_zero() {
            Duration::from_millis(100)
        } else {
            self.srtt
        }
    }

    fn pace_rate(&self) -> f64 {
        1.25 * self.window / self.smoothed().as_secs_f64()
    }

    fn on_rtt(&mut self, sample: Duration) {
        self.latest = sample;
        if self.srtt.is_zero() {
            (self.srtt, self.variation) = (sample, sample / 2);
        }
        self.variation = (3 * self.variation + self.srtt.abs_diff(sample)) / 4;
        self.srtt = (7 * self.srtt + sample) / 8;
    }

    fn on_ack(&mut self, now: Timestamp, seen: &Seen) {
        let mut progress = false;
        for number in seen.acked(64) {
            let Some(sent) = self.sent.remove(&number) else {
                continue;
            };
            progress = true;
            self.in_flight -= sent.bytes;
            if self.largest_acked.is_none_or(|largest| number > largest) {
                self.largest_acked = Some(number);
                self.on_rtt(now.since(sent.at));
            }
            if number >= self.recovery_from && self.in_flight + 3000 > self.window as usize {
                let growth = if self.window < self.threshold {
                    1.0
                } else {
                    1200.0 / self.window
                };
                self.window += growth * sent.bytes as f64;
            }
        }
        if progress {
            self.probes = 0;
            self.probe_from = now;
            self.detect_loss(now);
        }
    }

    fn detect_loss(&mut self, now: Timestamp) {
        self.loss_at = None;
        let Some(largest) = self.largest_acked else {
            return;
        };
        let patience = self.smoothed().max(self.latest) * 9 / 8;
        let mut lost = Vec::new();
        for (number, sent) in self.sent.range(..largest) {
            if number + 3 <= largest || now >= sent.at + patience {
                lost.push(*number);
            } else {
                let at = sent.at + patience;
                self.loss_at = Some(self.loss_at.map_or(at, |earlier| earlier.min(at)));
            }
        }
        for number in lost {
            let Some(sent) = self.sent.remove(&number) else {
                continue;
            };
            self.in_flight -= sent.bytes;
            if number >= self.recovery_from && !sent.messages.is_empty() {
                self.recovery_from = self.next_number;
                self.window = (self.window / 2.0).max(2400.0);
                self.threshold = self.window;
            }
            for (id, lane, payload) in sent.messages {
                if !self.is_acked(id) {
                    self.queue.insert(id, (lane, payload));
                }
            }
        }
    }

    /// Whether some packet under way still carries it; a lost one may have been probed already.
    fn is_acked(&self, id: u64) -> bool {
        self.sent
            .values()
            .any(|sent| sent.messages.iter().any(|message| message.0 == id))
    }

    fn probe_at(&self) -> Option<Timestamp> {
        self.sent.values().find(|sent| !sent.messages.is_empty())?;
        let wait = self.smoothed() + (4 * self.variation).max(Duration::from_millis(1)) + ACK_DELAY;
        Some(self.probe_from + wait * (1 << self.probes.min(6)))
    }
}

impl End for Quic {
    fn push(&mut self, _: Timestamp, lane: u8, payload: &[u8]) -> bool {
        if self.queue.len() > 512 {
            return false;
        }
        self.queue.insert(self.next_id, (lane, payload.to_vec()));
        self.next_id += 1;
        true
    }

    fn handle(&mut self, now: Timestamp, packet: &Wire) {
        let Wire::Quic(packet) = packet else { return };
        let expected = self.seen.newest.map_or(0, |newest| newest + 1);
        if !self.seen.insert(packet.number) {
            return;
        }
        for (id, lane, payload) in &packet.messages {
            self.order.insert(*id, *lane, payload);
        }
        if !packet.messages.is_empty() {
            self.unacked += 1;
            let at_once = self.unacked >= 2 || packet.number != expected;
            let at = if at_once { now } else { now + ACK_DELAY };
            self.ack_at = Some(self.ack_at.map_or(at, |earlier| earlier.min(at)));
        }
        self.on_ack(now, &packet.seen);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.loss_at.is_some_and(|at| at <= now) {
            self.detect_loss(now);
        }
        if self.probe_at().is_some_and(|at| at <= now) {
            self.probes += 1;
            self.probe_from = now;
            self.probe_now = true;
            let oldest = self.sent.values().find(|sent| !sent.messages.is_empty());
            for (id, lane, payload) in oldest.map(|sent| sent.messages.clone()).unwrap_or_default()
            {
                self.queue.insert(id, (lane, payload));
            }
        }
    }

    fn transmit(&mut self, now: Timestamp) -> Option<(Wire, usize)> {
        let rate = self.pace_rate();
        let brought = now.since(self.paced_at).as_secs_f64() * rate;
        self.pace = (self.pace + brought).min(12_000.0);
        self.paced_at = now;
        let ack = self.ack_at.is_some_and(|at| at <= now);
        let open = self.in_flight + 1200 <= self.window as usize && self.pace > 0.0;
        if !(ack || !self.queue.is_empty() && (open || self.probe_now)) {
            return None;
        }
        let mut bytes = IPV4_UDP_HEADER_BYTES + 27 + if self.seen.newest.is_some() { 7 } else { 0 };
        let mut messages = Vec::new();
        while (open || self.probe_now)
            && let Some(first) = self.queue.first_entry()
        {
            let cost = first.get().1.len() + 6;
            if bytes + cost > 1228 && !messages.is_empty() {
                break;
            }
            bytes += cost;
            let (id, (lane, payload)) = first.remove_entry();
            messages.push((id, lane, payload));
        }
        if messages.is_empty() && !ack {
            return None;
        }
        self.probe_now = false;
        let number = self.next_number;
        self.next_number += 1;
        if !messages.is_empty() {
            self.probe_from = now;
            self.in_flight += bytes;
            self.pace -= bytes as f64;
            let messages = messages.clone();
            self.sent.insert(
                number,
                Sent {
                    at: now,
                    bytes,
                    messages,
                },
            );
        }
        self.ack_at = None;
        self.unacked = 0;
        let seen = self.seen;
        Some((
            Wire::Quic(Packet {
                number,
                seen,
                messages,
            }),
            bytes,
        ))
    }

    fn deadline(&self) -> Timestamp {
        let mut at = self.ack_at.unwrap_or(Timestamp::MAX);
        at = at.min(self.loss_at.unwrap_or(Timestamp::MAX));
        at = at.min(self.probe_at().unwrap_or(Timestamp::MAX));
        if !self.queue.is_empty() && self.in_flight + 1200 <= self.window as usize {
            let wait = (-self.pace).max(0.0) / self.pace_rate() + 2e-6;
            at = at.min(self.paced_at + Duration::from_secs_f64(wait));
        }
        at
    }

    fn has_room(&self) -> bool {
        self.queue.len() < 256
    }

    fn deliver(&mut self) -> Option<(u8, Vec<u8>)> {
        self.order.pop()
    }
}

const ACK_DELAY: Duration = Duration::from_millis(25);
