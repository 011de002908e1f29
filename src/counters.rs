//! What a worker counts: plain integers and fixed buckets, owned by the worker, published four times
//! a second.
//!
//! Nothing here is atomic, allocates while it counts, or grows with the number of peers. A worker
//! copies the whole structure to where readers find it (`board.rs`); readers add workers up and
//! never touch the data path. Names for the outside world live in `metrics.rs`.

use std::time::Duration;

use tidegate_proto::{CloseReason, Reject, Stats};

/// Everything one worker of one listener counts. Counters only grow; gauges say "now".
#[derive(Clone, Debug)]
pub struct WorkerCounters {
    // -- the socket
    pub datagrams_received: u64,
    pub datagram_bytes_received: u64,
    /// Receive system calls that returned data.
    pub receive_calls: u64,
    pub datagrams_sent: u64,
    pub datagram_bytes_sent: u64,
    pub send_calls: u64,
    pub send_errors: [u64; SendErrorKind::ALL.len()],
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

    /// By target, in the order of the backend's configuration.
    pub targets: Vec<TargetCounters>,
}

impl WorkerCounters {
    /// All zero, for a listener whose backend has this many targets.
    pub fn new(targets: usize) -> Self {
        Self {
            datagrams_received: 0,
            datagram_bytes_received: 0,
            receive_calls: 0,
            datagrams_sent: 0,
            datagram_bytes_sent: 0,
            send_calls: 0,
            send_errors: [0; SendErrorKind::ALL.len()],
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

    /// A datagram changed nothing.
    pub fn on_reject(&mut self, reason: Reject) {
        self.rejects[reason as usize] += 1;
    }

    /// A session ended.
    pub fn on_close(&mut self, reason: CloseReason, lasted: Duration) {
        self.sessions_closed[reason as usize] += 1;
        self.session_duration.record_duration(lasted);
    }

    /// The kernel did not take a datagram.
    pub fn on_send_error(&mut self, kind: SendErrorKind) {
        self.send_errors[kind as usize] += 1;
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
        // Zero is "no sample yet": a peer without one would pull every quantile down.
        if !stats.rtt.is_zero() {
            self.rtt.record_duration(stats.rtt);
            self.jitter.record_duration(stats.rtt_variation);
            self.loss.record(f64::from(stats.loss));
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
        self.datagrams_sent += other.datagrams_sent;
        self.datagram_bytes_sent += other.datagram_bytes_sent;
        self.send_calls += other.send_calls;
        add(&mut self.send_errors, &other.send_errors);
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
        for (mine, theirs) in self.targets.iter_mut().zip(&other.targets) {
            mine.merge(theirs);
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
        past.admission.buckets_used = 0;
        past.admission.buckets = 0;
        past.admission.bans = 0;
        for target in &mut past.targets {
            target.connections = 0;
        }
        self.merge(&past);
    }
}

/// What one worker counts about one target of its backend.
#[derive(Clone, Debug)]
pub struct TargetCounters {
    /// Gauge: open now.
    pub connections: u64,
    /// Connections made.
    pub connects: u64,
    pub connect_failures: [u64; ConnectFailure::ALL.len()],
    pub connect_duration: Histogram,
    pub closes: [u64; ClosedBy::ALL.len()],
    /// Stream bytes, framing included.
    pub bytes_received: u64,
    pub bytes_sent: u64,
}

impl Default for TargetCounters {
    fn default() -> Self {
        Self {
            connections: 0,
            connects: 0,
            connect_failures: [0; ConnectFailure::ALL.len()],
            connect_duration: Histogram::new(buckets::CONNECT),
            closes: [0; ClosedBy::ALL.len()],
            bytes_received: 0,
            bytes_sent: 0,
        }
    }
}

impl TargetCounters {
    /// Adds another worker's view of the same target.
    pub fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connects += other.connects;
        add(&mut self.connect_failures, &other.connect_failures);
        self.connect_duration.merge(&other.connect_duration);
        add(&mut self.closes, &other.closes);
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
    }
}

/// What `admission.rs` knows about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounters {
    /// Gauge: buckets of the address table that hold somebody's debt.
    pub buckets_used: u64,
    /// Gauge: its fixed size.
    pub buckets: u64,
    /// A stranger met a bucket that another prefix had used.
    pub buckets_shared: u64,
    /// Gauge: bans in force.
    pub bans: u64,
    pub bans_by_operator: u64,
    pub bans_by_strikes: u64,
}

impl AdmissionCounters {
    fn merge(&mut self, other: &Self) {
        self.buckets_used += other.buckets_used;
        self.buckets += other.buckets;
        self.buckets_shared += other.buckets_shared;
        // An operator's ban is known to every worker, so the largest count is the number of bans.
        self.bans = self.bans.max(other.bans);
        self.bans_by_operator = self.bans_by_operator.max(other.bans_by_operator);
        self.bans_by_strikes += other.bans_by_strikes;
    }
}

/// A distribution over fixed buckets: `counts[i]` values were at most `bounds[i]`, and more than the
/// bound before; the last count is everything above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: [u64; buckets::MAX + 1],
    sum: f64,
}

impl Histogram {
    /// An empty one; see [`buckets`].
    pub fn new(bounds: &'static [f64]) -> Self {
        assert!(bounds.len() <= buckets::MAX, "room for every bound");
        Self {
            bounds,
            counts: [0; buckets::MAX + 1],
            sum: 0.0,
        }
    }

    /// Counts one value, in seconds or as a ratio, whatever the bounds are.
    pub fn record(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Counts one span, in seconds.
    pub fn record_duration(&mut self, span: Duration) {
        self.record(span.as_secs_f64());
    }

    /// Counts one span as often as something took it.
    pub fn record_many(&mut self, span: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let value = span.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += count;
        self.sum += value * count as f64;
    }

    /// Adds another distribution over the same bounds.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.bounds, other.bounds, "the same distribution");
        add(&mut self.counts, &other.counts);
        self.sum += other.sum;
    }

    /// What was counted since `earlier`, an older copy of this distribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut recent = *self;
        for (count, before) in recent.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*before);
        }
        recent.sum -= earlier.sum;
        recent
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// One count per bound, and one for everything above the last.
    pub fn counts(&self) -> &[u64] {
        &self.counts[..=self.bounds.len()]
    }

    /// The value below which the share `q` lies, interpolated inside its bucket as Prometheus does;
    /// `None` when nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = q * total as f64;
        let mut below = 0.0;
        let mut lower = 0.0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                return Some(lower + (bound - lower) * (rank - below) / count);
            }
            below += count;
            lower = *bound;
        }
        self.bounds.last().copied()
    }
}

fn add(mine: &mut [u64], theirs: &[u64]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}

/// The upper bounds of every distribution; seconds unless said.
pub mod buckets {
    /// The longest of the lists below.
    pub const MAX: usize = 13;

    /// 0.25 is where the article's bad mode begins.
    pub const RTT: &[f64] = &[
        0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 1.0, 2.0,
    ];
    pub const JITTER: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3];
    /// A ratio, 0 to 1.
    pub const LOSS: &[f64] = &[0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5];
    pub const SESSION: &[f64] = &[
        10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0,
    ];
    pub const HANDSHAKE: &[f64] = &[0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
    pub const FORWARD: &[f64] = &[
        0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    ];
    pub const CONNECT: &[f64] = &[0.0002, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0];
    pub const TICK_LAG: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2];
}

/// Which way a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToBackend,
    ToPeer,
}

impl Direction {
    pub const ALL: [Self; 2] = [Self::ToBackend, Self::ToPeer];

    pub const fn label(self) -> &'static str {
        match self {
            Self::ToBackend => "to_backend",
            Self::ToPeer => "to_peer",
        }
    }
}

/// Why a message went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It fits no frame, or no message of the protocol.
    TooLarge,
    /// An unreliable message met a full queue.
    QueueFull,
    /// Its session ended before it could leave.
    SessionClosed,
}

impl DropReason {
    pub const ALL: [Self; 3] = [Self::TooLarge, Self::QueueFull, Self::SessionClosed];

    pub const fn label(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::QueueFull => "queue_full",
            Self::SessionClosed => "session_closed",
        }
    }
}

/// Why the kernel did not take a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendErrorKind {
    /// The socket's send buffer is full (EAGAIN, ENOBUFS).
    Again,
    /// No route, host or port unreachable, refused.
    Unreachable,
    /// Larger than the path takes (EMSGSIZE).
    TooBig,
    Other,
}

impl SendErrorKind {
    pub const ALL: [Self; 4] = [Self::Again, Self::Unreachable, Self::TooBig, Self::Other];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Again => "again",
            Self::Unreachable => "unreachable",
            Self::TooBig => "too_big",
            Self::Other => "other",
        }
    }
}

/// Why a connection to a backend was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    Refused,
    Timeout,
    /// No such socket file, or no route.
    NotFound,
    /// The file's permissions are against it.
    Denied,
    /// The host name did not resolve.
    Dns,
    Other,
}

impl ConnectFailure {
    pub const ALL: [Self; 6] = [
        Self::Refused,
        Self::Timeout,
        Self::NotFound,
        Self::Denied,
        Self::Dns,
        Self::Other,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::Denied => "denied",
            Self::Dns => "dns",
            Self::Other => "other",
        }
    }
}

/// Who ended a connection to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClosedBy {
    Backend,
    /// Because the session ended.
    #[default]
    Tidegate,
    /// It broke.
    Error,
}

impl ClosedBy {
    pub const ALL: [Self; 3] = [Self::Backend, Self::Tidegate, Self::Error];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Tidegate => "tidegate",
            Self::Error => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_the_bound_is_inside_it() {
        let mut histogram = Histogram::new(buckets::LOSS);
        histogram.record(0.0);
        histogram.record(0.005);
        histogram.record(0.0051);
        histogram.record(0.9);
        assert_eq!(histogram.counts()[..3], [1, 1, 1]);
        assert_eq!(histogram.counts().last(), Some(&1));
        assert_eq!(histogram.count(), 4);
    }

    #[test]
    fn quantiles_interpolate_inside_their_bucket() {
        let mut histogram = Histogram::new(buckets::RTT);
        assert_eq!(histogram.quantile(0.5), None);
        for _ in 0..100 {
            histogram.record(0.04);
        }
        let median = histogram.quantile(0.5).unwrap();
        assert!((median - 0.04).abs() < 1e-9, "{median}");
        histogram.record(9.0);
        assert_eq!(histogram.quantile(1.0), Some(2.0), "as far as we can tell");
    }

    #[test]
    fn the_recent_past_is_a_difference() {
        let mut histogram = Histogram::new(buckets::RTT);
        histogram.record(1.5);
        let before = histogram;
        histogram.record(0.02);
        let recent = histogram.since(&before);
        assert_eq!(recent.count(), 1);
        assert!((recent.sum() - 0.02).abs() < 1e-9);
    }

    #[test]
    fn bounds_grow_and_fit() {
        for bounds in [
            buckets::RTT,
            buckets::JITTER,
            buckets::LOSS,
            buckets::SESSION,
            buckets::HANDSHAKE,
            buckets::FORWARD,
            buckets::CONNECT,
            buckets::TICK_LAG,
        ] {
            assert!(bounds.is_sorted() && bounds.len() <= buckets::MAX);
        }
    }

    #[test]
    fn workers_add_up() {
        let mut one = WorkerCounters::new(2);
        one.on_reject(Reject::Replayed);
        one.on_forward(Direction::ToPeer, 100);
        one.peers = 3;
        one.targets[1].connects = 4;
        let mut other = WorkerCounters::new(2);
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
        assert_eq!(one.messages_dropped[0], [0, 5, 0]);
        assert_eq!(one.targets[1].connects, 5);
        assert_eq!(one.session_duration.count(), 1);
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
        assert_eq!(counters.rtt.count(), 1);
    }
}
