//! A sender like KCP in its "fast3" setting: flush every 10 ms, each segment acknowledged by itself,
//! again after two later acknowledgements or a timeout that grows by half, no congestion control.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_proto::Timestamp;
use tidegate_proto::ip::IPV4_UDP_HEADER_BYTES;

use crate::end::{End, Order, Wire};

#[derive(Clone, Debug)]
pub(crate) enum Segment {
    Push {
        id: u64,
        sent_at: Timestamp,
        next: u64,
        lane: u8,
        payload: Vec<u8>,
    },
    Ack {
        id: u64,
        sent_at: Timestamp,
        next: u64,
    },
}

pub(crate) struct Kcp {
    next_flush: Timestamp,
    queue: VecDeque<(u8, Vec<u8>)>,
    flying: VecDeque<Flying>,
    next_id: u64,
    acks: Vec<(u64, Timestamp)>,
    srtt: Duration,
    variation: Duration,
    order: Order,
    out: VecDeque<(Wire, usize)>,
}

struct Flying {
    id: u64,
    lane: u8,
    payload: Vec<u8>,
    sent: u32,
    again_at: Timestamp,
    timeout: Duration,
    skipped: u32,
}

impl Kcp {
    pub(crate) fn new(now: Timestamp, phase: f64) -> Self {
        Self {
            next_flush: now + INTERVAL.mul_f64(phase),
            queue: VecDeque::new(),
            flying: VecDeque::new(),
            next_id: 0,
            acks: Vec::new(),
            srtt: Duration::ZERO,
            variation: Duration::ZERO,
            order: Order::default(),
            out: VecDeque::new(),
        }
    }

    fn timeout(&self) -> Duration {
        if self.srtt.is_zero() {
            return Duration::from_millis(200);
        }
        (self.srtt + (4 * self.variation).max(INTERVAL)).max(Duration::from_millis(30))
    }

    fn on_rtt(&mut self, sample: Duration) {
        if self.srtt.is_zero() {
            (self.srtt, self.variation) = (sample, sample / 2);
        }
        self.variation = (3 * self.variation + self.srtt.abs_diff(sample)) / 4;
        self.srtt = (7 * self.srtt + sample) / 8;
    }

    fn on_next(&mut self, next: u64) {
        while self.flying.front().is_some_and(|front| front.id < next) {
            self.flying.pop_front();
        }
    }

    fn flush(&mut self, now: Timestamp) {
        let next = self.order.next;
        let acks = std::mem::take(&mut self.acks);
        let mut segments: Vec<_> = acks
            .into_iter()
            .map(|(id, sent_at)| Segment::Ack { id, sent_at, next })
            .collect();
        let timeout = self.timeout();
        while self.flying.len() < WINDOW
            && let Some((lane, payload)) = self.queue.pop_front()
        {
            let id = self.next_id;
            self.next_id += 1;
            let (sent, again_at, skipped) = (0, now, 0);
            self.flying.push_back(Flying {
                id,
                lane,
                payload,
                sent,
                again_at,
                timeout,
                skipped,
            });
        }
        for flying in &mut self.flying {
            if flying.sent > 0 && now >= flying.again_at {
                flying.timeout += flying.timeout / 2;
            } else if flying.sent > 0 && (flying.skipped < 2 || flying.sent > 5) {
                continue;
            }
            flying.sent += 1;
            flying.skipped = 0;
            flying.again_at = now + flying.timeout;
            let (id, lane, payload) = (flying.id, flying.lane, flying.payload.clone());
            segments.push(Segment::Push {
                id,
                sent_at: now,
                next,
                lane,
                payload,
            });
        }
        self.pack(segments);
    }

    fn pack(&mut self, segments: Vec<Segment>) {
        let (mut packet, mut bytes) = (Vec::new(), IPV4_UDP_HEADER_BYTES);
        for segment in segments {
            let cost = HEADER
                + match &segment {
                    Segment::Push { payload, .. } => payload.len(),
                    Segment::Ack { .. } => 0,
                };
            if bytes + cost > 1428 && !packet.is_empty() {
                self.out
                    .push_back((Wire::Kcp(std::mem::take(&mut packet)), bytes));
                bytes = IPV4_UDP_HEADER_BYTES;
            }
            bytes += cost;
            packet.push(segment);
        }
        if !packet.is_empty() {
            self.out.push_back((Wire::Kcp(packet), bytes));
        }
    }
}

impl End for Kcp {
    fn push(&mut self, _: Timestamp, lane: u8, payload: &[u8]) -> bool {
        if self.queue.len() > 512 {
            return false;
        }
        // A stream of segments: what is larger than one is cut (marks of the cut are left out).
        self.queue.push_back((lane, payload.to_vec()));
        true
    }

    fn handle(&mut self, now: Timestamp, packet: &Wire) {
        let Wire::Kcp(segments) = packet else { return };
        let mut newest = None;
        for segment in segments {
            match segment {
                Segment::Push {
                    id,
                    sent_at,
                    next,
                    lane,
                    payload,
                } => {
                    self.on_next(*next);
                    self.acks.push((*id, *sent_at));
                    self.order.insert(*id, *lane, payload);
                }
                Segment::Ack { id, sent_at, next } => {
                    self.on_next(*next);
                    self.on_rtt(now.since(*sent_at));
                    self.flying.retain(|flying| flying.id != *id);
                    newest = newest.max(Some(*id));
                }
            }
        }
        if let Some(newest) = newest {
            for flying in self.flying.iter_mut().filter(|flying| flying.id < newest) {
                flying.skipped += 1;
            }
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if now >= self.next_flush {
            self.flush(now);
            self.next_flush += INTERVAL;
        }
    }

    fn transmit(&mut self, _: Timestamp) -> Option<(Wire, usize)> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Timestamp {
        self.next_flush
    }

    fn has_room(&self) -> bool {
        self.queue.len() < 256
    }

    fn deliver(&mut self) -> Option<(u8, Vec<u8>)> {
        self.order.pop()
    }
}

const INTERVAL: Duration = Duration::from_millis(10);
const WINDOW: usize = 128;
const HEADER: usize = 24;
