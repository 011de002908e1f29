//! One worker's share of one listener: what it counts, and how workers add up.

use std::time::Duration;

use tidegate_proto::{CloseReason, Reject, Stats};

use super::{AdmissionCounters, Direction, DropReason, Histogram, TargetCounters, add, buckets};
use crate::udp::Sent;

/// Everything one worker of one listener counts. Counters only grow; gauges say "now".
#[derive(Clone, Debug)]
pub struct WorkerCounters {
    // -- the socket
    pub datagrams_received: u64,
    pub datagram_bytes_received: u64,
    /// Receive system calls that returned data.
    pub receive_calls: u64,
    pub sent: Sent,
    /// Datagrams the kernel dropped because the socket's receive queue was full.
    pub kernel_drops: u64,
    /// Gauge: bytes the kernel granted for the receive and the send buffer.
    pub receive_buffer_bytes: u64,
    pub send_buffer_bytes: u64,

    // -- who comes and goes
    /// Datagrams that changed nothing, by reason. Received = taken + the sum of these.
    pub rejects: [u64; Reject::ALL.len()],
    /// Peers that were told they are connected.
    pub handshakes_accepted: u64,
    /// Gauge.
    pub handshakes_pending: u64,
    /// Sessions made and ended; their difference is `peers`.
    pub sessions_opened: u64,
    pub sessions_closed: [u64; CloseReason::ALL.len()],
    /// Sessions that followed their peer to another address.
    pub address_moves: u64,
    /// Gauge: peers, and how many of them send at the bad mode's rate.
    pub peers: u64,
    pub peers_in_bad_mode: u64,

    // -- messages
    pub messages_forwarded: [u64; Direction::ALL.len()],
    pub message_bytes_forwarded: [u64; Direction::ALL.len()],
    pub messages_dropped: [[u64; DropReason::ALL.len()]; Direction::ALL.len()],
    /// Gauge: bytes waiting in our queues.
    pub queued_bytes: [u64; Direction::ALL.len()],
    /// Gauge: peers whose queue in this direction is full.
    pub peers_blocked: [u64; Direction::ALL.len()],
    /// Gauge: peers with a queue that may not grow, because memory is short.
    pub peers_held_back: u64,
    /// Peer-time spent with a full queue.
    pub backpressure: [Duration; Direction::ALL.len()],
    /// What the protocols counted, over sessions that are gone and sessions that live.
    pub sessions: Stats,

    // -- the worker itself
    /// Time not spent waiting in poll.
    pub busy: Duration,
    /// Books that did not balance. Any value but zero is a bug of ours.
    pub invariant_violations: u64,
    pub admission: AdmissionCounters,

    // -- distributions; the peer ones take one sample per peer and second
    pub rtt: Histogram,
    pub jitter: Histogram,
    pub loss: Histogram,
    pub session_duration: Histogram,
    pub handshake_duration: Histogram,
    /// Of messages: the turn in which each was written, from reading to having written what no queue
    /// held back.
    pub forward_duration: [Histogram; Direction::ALL.len()],
    /// How late timers fire.
    pub tick_lag: Histogram,

    /// By target, in the order in which the backend's configuration first had them.
    pub targets: Vec<TargetCounters>,
}

impl WorkerCounters {
    /// All zero, for a listener whose backend has this many targets.
    pub fn new(targets: usize) -> Self {
        Self {
            datagrams_received: 0,
            datagram_bytes_received: 0,
            receive_calls: 0,
            sent: Sent::default(),
            kernel_drops: 0,
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
            rejects: [0; Reject::ALL.len()],
            handshakes_accepted: 0,
            handshakes_pending: 0,
            sessions_opened: 0,
            sessions_closed: [0; CloseReason::ALL.len()],
            address_moves: 0,
            peers: 0,
            peers_in_bad_mode: 0,
            messages_forwarded: [0; Direction::ALL.len()],
            message_bytes_forwarded: [0; Direction::ALL.len()],
            messages_dropped: [[0; DropReason::ALL.len()]; Direction::ALL.len()],
            queued_bytes: [0; Direction::ALL.len()],
            peers_blocked: [0; Direction::ALL.len()],
            peers_held_back: 0,
            backpressure: [Duration::ZERO; Direction::ALL.len()],
            sessions: Stats::default(),
            busy: Duration::ZERO,
            invariant_violations: 0,
            admission: AdmissionCounters::default(),
            rtt: Histogram::new(buckets::RTT),
            jitter: Histogram::new(buckets::JITTER),
            loss: Histogram::new(buckets::LOSS),
            session_duration: Histogram::new(buckets::SESSION),
            handshake_duration: Histogram::new(buckets::HANDSHAKE),
            forward_duration: [Histogram::new(buckets::FORWARD); Direction::ALL.len()],
            tick_lag: Histogram::new(buckets::TICK_LAG),
            targets: vec![TargetCounters::default(); targets],
        }
    }

    /// The counters of a target. A reload may have added it.
    pub fn target(&mut self, index: usize) -> &mut TargetCounters {
        if index >= self.targets.len() {
            self.targets.resize_with(index + 1, TargetCounters::default);
        }
        &mut self.targets[index]
    }

    /// A datagram changed nothing.
    pub fn on_reject(&mut self, reason: Reject) {
        self.rejects[reason as usize] += 1;
    }

    /// A session ended.
    pub fn on_close(&mut self, reason: CloseReason, lasted: Duration) {
        self.sessions_closed[reason as usize] += 1;
        self.session_duration.record_duration(lasted);
    }

    /// A message reached the other side.
    pub fn on_forward(&mut self, direction: Direction, bytes: usize) {
        self.messages_forwarded[direction as usize] += 1;
        self.message_bytes_forwarded[direction as usize] += bytes as u64;
    }

    /// Messages went no further.
    pub fn on_drop(&mut self, direction: Direction, reason: DropReason, messages: u64) {
        self.messages_dropped[direction as usize][reason as usize] += messages;
    }

    /// One peer's state now, once a second: what the distributions are made of.
    pub fn sample_peer(&mut self, stats: &Stats) {
        // A peer without a sample would pull every quantile down.
        if stats.is_measured() {
            self.rtt.record_duration(stats.rtt);
            self.jitter.record_duration(stats.rtt_variation);
        }
        if let Some(loss) = stats.known_loss() {
            self.loss.record(f64::from(loss));
        }
    }

    /// Sessions that ended, for whatever reason.
    pub fn closed(&self) -> u64 {
        self.sessions_closed.iter().sum()
    }

    /// Adds another worker of the same listener. Gauges add up like counters: each worker has its
    /// own peers, queues and sockets.
    pub fn merge(&mut self, other: &Self) {
        self.datagrams_received += other.datagrams_received;
        self.datagram_bytes_received += other.datagram_bytes_received;
        self.receive_calls += other.receive_calls;
        self.sent.merge(&other.sent);
        self.kernel_drops += other.kernel_drops;
        self.receive_buffer_bytes += other.receive_buffer_bytes;
        self.send_buffer_bytes += other.send_buffer_bytes;
        add(&mut self.rejects, &other.rejects);
        self.handshakes_accepted += other.handshakes_accepted;
        self.handshakes_pending += other.handshakes_pending;
        self.sessions_opened += other.sessions_opened;
        add(&mut self.sessions_closed, &other.sessions_closed);
        self.address_moves += other.address_moves;
        self.peers += other.peers;
        self.peers_in_bad_mode += other.peers_in_bad_mode;
        add(&mut self.messages_forwarded, &other.messages_forwarded);
        add(
            &mut self.message_bytes_forwarded,
            &other.message_bytes_forwarded,
        );
        for (mine, theirs) in self
            .messages_dropped
            .iter_mut()
            .zip(&other.messages_dropped)
        {
            add(mine, theirs);
        }
        add(&mut self.queued_bytes, &other.queued_bytes);
        add(&mut self.peers_blocked, &other.peers_blocked);
        self.peers_held_back += other.peers_held_back;
        for (mine, theirs) in self.backpressure.iter_mut().zip(other.backpressure) {
            *mine += theirs;
        }
        self.sessions.absorb(&other.sessions);
        self.busy += other.busy;
        self.invariant_violations += other.invariant_violations;
        self.admission.merge(&other.admission);
        self.rtt.merge(&other.rtt);
        self.jitter.merge(&other.jitter);
        self.loss.merge(&other.loss);
        self.session_duration.merge(&other.session_duration);
        self.handshake_duration.merge(&other.handshake_duration);
        for (mine, theirs) in self
            .forward_duration
            .iter_mut()
            .zip(&other.forward_duration)
        {
            mine.merge(theirs);
        }
        self.tick_lag.merge(&other.tick_lag);
        for (index, theirs) in other.targets.iter().enumerate() {
            self.target(index).merge(theirs);
        }
    }

    /// Adds a worker whose socket is closed: its peers are gone, and what says "now" with them.
    pub fn merge_finished(&mut self, other: &Self) {
        let mut past = other.clone();
        past.receive_buffer_bytes = 0;
        past.send_buffer_bytes = 0;
        past.handshakes_pending = 0;
        past.peers = 0;
        past.peers_in_bad_mode = 0;
        past.queued_bytes = Default::default();
        past.peers_blocked = Default::default();
        past.peers_held_back = 0;
        past.admission.buckets_used = 0;
        past.admission.buckets = 0;
        past.admission.bans = 0;
        for target in &mut past.targets {
            target.connections = 0;
        }
        self.merge(&past);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClosedBy, ConnectFailure};
    use super::*;
    use crate::udp::{UdpError, UdpErrors};

    #[test]
    fn workers_add_up() {
        let mut one = WorkerCounters::new(2);
        one.on_reject(Reject::Replayed);
        one.on_forward(Direction::ToPeer, 100);
        one.peers = 3;
        one.targets[1].connects = 4;
        // A reload has brought it a third one.
        let mut other = WorkerCounters::new(2);
        other.target(2).connects = 7;
        other.on_reject(Reject::Replayed);
        other.on_close(CloseReason::PeerTimeout, Duration::from_secs(30));
        other.on_drop(Direction::ToBackend, DropReason::QueueFull, 5);
        other.peers = 4;
        other.targets[1].connects = 1;
        one.merge(&other);
        assert_eq!(one.rejects[Reject::Replayed as usize], 2);
        assert_eq!(one.closed(), 1);
        assert_eq!(one.peers, 7);
        assert_eq!(one.message_bytes_forwarded, [0, 100]);
        assert_eq!(one.messages_dropped[0], [0, 5, 0, 0]);
        assert_eq!(one.targets[1].connects, 5);
        assert_eq!(one.targets[2].connects, 7);
        assert_eq!(one.session_duration.count(), 1);
    }

    /// Something of everything. No `..` here: a new field has to be one that adds up.
    fn some_of_each() -> WorkerCounters {
        let histogram = |bounds| {
            let mut histogram = Histogram::new(bounds);
            histogram.record(0.001);
            histogram
        };
        WorkerCounters {
            datagrams_received: 1,
            datagram_bytes_received: 2,
            receive_calls: 3,
            sent: Sent {
                datagrams: 4,
                bytes: 5,
                calls: 6,
                errors: UdpErrors([7; UdpError::ALL.len()]),
                unproven: UdpErrors([7; UdpError::ALL.len()]),
            },
            kernel_drops: 8,
            receive_buffer_bytes: 9,
            send_buffer_bytes: 10,
            rejects: [11; Reject::ALL.len()],
            handshakes_accepted: 12,
            handshakes_pending: 13,
            sessions_opened: 14,
            sessions_closed: [15; CloseReason::ALL.len()],
            address_moves: 16,
            peers: 17,
            peers_in_bad_mode: 18,
            messages_forwarded: [19, 20],
            message_bytes_forwarded: [21, 22],
            messages_dropped: [[23; DropReason::ALL.len()]; Direction::ALL.len()],
            queued_bytes: [24, 25],
            peers_blocked: [26, 27],
            peers_held_back: 28,
            backpressure: [Duration::from_secs(29), Duration::from_secs(30)],
            sessions: Stats {
                packets_sent: 31,
                ..Stats::default()
            },
            busy: Duration::from_secs(32),
            invariant_violations: 33,
            admission: AdmissionCounters {
                buckets_used: 34,
                buckets: 35,
                buckets_shared: 36,
                bans: 37,
                bans_by_operator: 38,
                bans_by_strikes: 39,
            },
            rtt: histogram(buckets::RTT),
            jitter: histogram(buckets::JITTER),
            loss: histogram(buckets::LOSS),
            session_duration: histogram(buckets::SESSION),
            handshake_duration: histogram(buckets::HANDSHAKE),
            forward_duration: [histogram(buckets::FORWARD); Direction::ALL.len()],
            tick_lag: histogram(buckets::TICK_LAG),
            targets: vec![TargetCounters {
                connections: 40,
                connects: 41,
                connect_failures: [42; ConnectFailure::ALL.len()],
                connect_duration: histogram(buckets::CONNECT),
                closes: [43; ClosedBy::ALL.len()],
                bytes_received: 44,
                bytes_sent: 45,
            }],
        }
    }

    #[test]
    fn nothing_is_left_out_of_a_sum() {
        let mut sum = WorkerCounters::new(0);
        sum.merge(&some_of_each());
        assert_eq!(format!("{sum:?}"), format!("{:?}", some_of_each()));
    }

    /// Who is gone has no peers, queues, sockets and bans, and what it counted stays.
    #[test]
    fn what_a_closed_socket_counted_stays_and_what_it_had_does_not() {
        let mut sum = WorkerCounters::new(0);
        sum.merge_finished(&some_of_each());
        let mut kept = WorkerCounters {
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
            handshakes_pending: 0,
            peers: 0,
            peers_in_bad_mode: 0,
            queued_bytes: [0; 2],
            peers_blocked: [0; 2],
            peers_held_back: 0,
            admission: AdmissionCounters {
                buckets_used: 0,
                buckets: 0,
                bans: 0,
                ..some_of_each().admission
            },
            ..some_of_each()
        };
        kept.targets[0].connections = 0;
        assert_eq!(format!("{sum:?}"), format!("{kept:?}"));
    }

    #[test]
    fn a_peer_without_a_round_trip_is_no_sample() {
        let mut counters = WorkerCounters::new(0);
        counters.sample_peer(&Stats::default());
        assert_eq!(counters.rtt.count() + counters.loss.count(), 0);
        counters.sample_peer(&Stats {
            rtt: Duration::from_millis(40),
            ..Stats::default()
        });
        assert_eq!(
            (counters.rtt.count(), counters.loss.count()),
            (1, 0),
            "rudp"
        );
        counters.sample_peer(&Stats {
            packets_acked: 1,
            ..Stats::default()
        });
        assert_eq!((counters.rtt.count(), counters.loss.count()), (1, 1));
    }
}
