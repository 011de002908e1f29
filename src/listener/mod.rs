//! One UDP socket, its endpoint, and the streams of its peers: everything of one listener that one
//! worker owns, so that no datagram waits for a lock. What all workers share are the sums in
//! `capacity.rs`, and each listener has a mailbox for the others of its port (`siblings.rs`).
//!
//! In every turn the worker calls these steps in this order. Each does a bounded amount of work and has a file of its own:
//!
//! ```text
//!   receive ────▶ handle_timeouts ──▶ pump ───────────▶ transmit ───▶ handle_strangers ──▶ (publish)
//!   receive.rs    timeouts.rs         pump.rs           transmit.rs   strangers.rs
//!   datagrams     clocks              events, streams   datagrams     handshakes
//! ```
//!
//! A listener of `tidegate connect` is the same thing the other way round: peers are dialled, each
//! from a UDP socket of its own, and their streams were accepted from local programs.

mod arrivals;
mod attempt;
mod census;
mod dial;
mod handover;
mod intake;
mod memory;
mod orders;
mod outage;
mod peer;
mod peer_count;
mod peers;
mod polled_socket;
mod pump;
mod quota;
mod receive;
mod refusal_log;
mod removal;
mod retire;
mod run_queue;
mod seats;
mod session_log;
mod shed;
mod siblings;
mod stage;
mod stranger_queue;
mod strangers;
mod terms;
mod timeouts;
mod transmit;
mod wakes;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::{Registry, Waker};
use tidegate_proto::random::Random;
use tidegate_proto::{CloseReason, Endpoint, Now, PeerId, Timestamp};

pub use arrivals::Arrivals;
pub use attempt::Destination;
use census::Census;
pub use dial::{Dial, log_dial_refused};
use handover::Handovers;
use intake::Intake;
use memory::Memory;
pub use orders::{PeerView, Whom};
use outage::Outage;
use peer::Peer;
pub use peer_count::PeerCount;
use peers::Peers;
use polled_socket::PolledSocket;
pub use quota::PeerLimits;
use quota::Quota;
pub use retire::HeldAddress;
use run_queue::RunQueue;
use seats::Seats;
pub use siblings::Siblings;
use stage::Stage;
use strangers::Strangers;
pub use terms::{Policy, Terms};
use wakes::poll_token;
pub use wakes::{Wakes, meaning};

use crate::admission::Admission;
use crate::backend::{Pumped, Scratch, Side};
use crate::board::Reporter;
use crate::capacity::Capacity;
use crate::counters::{Direction, WorkerCounters};
use crate::udp::{Outgoing, Received, UdpSocket};

/// What a worker lends its listeners for one turn.
pub struct Turn<'a> {
    /// One time for everything that happens in it.
    pub now: Now,
    /// Where sockets are registered.
    pub registry: &'a Registry,
    /// The last batch received.
    pub received: &'a mut Received,
    /// The next batch to send.
    pub outgoing: &'a mut Outgoing,
    /// Buffers of the streams.
    pub scratch: &'a mut Scratch,
    /// A reply to a stranger.
    pub reply: &'a mut Vec<u8>,
}

/// What a listener is made of.
pub struct Parts {
    /// As configured.
    pub name: Arc<str>,
    /// The word for its protocol.
    pub protocol: &'static str,
    /// The socket of all peers; `None` when each has its own.
    pub socket: Option<UdpSocket>,
    /// Sessions.
    pub endpoint: Endpoint,
    /// What is asked about strangers; `None` where only dialled peers are heard.
    pub admission: Option<Admission>,
    /// What its peers begin with.
    pub terms: Terms,
    /// Shared by all listeners of the process.
    pub capacity: Arc<Capacity>,
    /// Where counters are published.
    pub reporter: Option<Reporter>,
    /// The other workers behind the same port.
    pub siblings: Siblings,
    /// Shared by all sockets of the listener.
    pub peer_count: PeerCount,
    /// Shared by all sockets of the listener.
    pub arrivals: Arrivals,
    /// Starts the random session ids.
    pub seed: u64,
}

/// One worker's share of a listener.
pub struct Listener {
    /// Its index in the worker.
    index: usize,
    name: Arc<str>,
    protocol: &'static str,

    // Where datagrams come and go.
    /// `None` when each peer has its own.
    socket: Option<PolledSocket>,
    /// Peers whose own socket may have datagrams.
    readable_peers: Vec<PeerId>,
    /// Sessions had more to say than leaves in a turn.
    unsent: bool,

    // The peers, and whose turn it is.
    endpoint: Endpoint,
    peers: Peers,
    run_queue: RunQueue,

    strangers: Strangers,

    // What new sessions begin with; each keeps it.
    terms: Terms,
    /// Ids of new sessions: a bijection of a counter, so that none comes twice, and no order to read from them.
    session_ids: Random,

    // What peers share, and how much each may take.
    intake: Intake,
    seats: Seats,
    memory: Memory,

    // The other workers behind the same port.
    siblings: Siblings,
    handovers: Handovers,

    // What is counted and logged.
    counters: WorkerCounters,
    /// Messages forwarded before this turn.
    forwarded: [u64; Direction::ALL.len()],
    census: Census,
    arrivals: Arrivals,
    outage: Outage,
    reporter: Option<Reporter>,

    stage: Stage,
}

impl Listener {
    /// A listener that does nothing yet; `index` is its place among its worker's listeners.
    pub fn new(index: usize, parts: Parts) -> Self {
        let counters = match (&parts.reporter, &parts.terms.destination) {
            (Some(reporter), _) => reporter.counters(),
            (None, Some(destination)) => WorkerCounters::new(destination.pool.len()),
            (None, None) => WorkerCounters::new(0),
        };
        Self {
            index,
            name: parts.name,
            protocol: parts.protocol,
            socket: parts.socket.map(PolledSocket::new),
            readable_peers: Vec::new(),
            unsent: false,
            endpoint: parts.endpoint,
            peers: Peers::default(),
            run_queue: RunQueue::default(),
            strangers: Strangers::new(parts.admission),
            terms: parts.terms,
            session_ids: Random::new(parts.seed),
            intake: Intake::default(),
            seats: Seats::new(parts.capacity.clone(), parts.peer_count),
            memory: Memory::new(parts.capacity),
            siblings: parts.siblings,
            handovers: Handovers::default(),
            counters,
            forwarded: [0; Direction::ALL.len()],
            census: Census::default(),
            arrivals: parts.arrivals,
            outage: Outage::default(),
            reporter: parts.reporter,
            stage: Stage::default(),
        }
    }

    /// Its place among its worker's listeners.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The largest frame of its streams: what the worker's buffers must hold.
    pub fn max_frame(&self) -> usize {
        self.terms.rules.codec.max_frame()
    }

    /// Asks the poll for news of the shared socket, and siblings to use this waker.
    pub fn register(&mut self, registry: &Registry, waker: &Arc<Waker>) -> io::Result<()> {
        self.siblings.set_waker(waker);
        let token = poll_token(self.index, Wakes::Socket);
        match &mut self.socket {
            Some(PolledSocket { socket, .. }) => {
                let (receive, send) = socket.granted()?;
                self.counters.receive_buffer_bytes = receive as u64;
                self.counters.send_buffer_bytes = send as u64;
                socket.register(registry, token)
            }
            None => Ok(()),
        }
    }

    /// The poll has news.
    pub fn on_event(&mut self, what: Wakes, event: &mio::event::Event) {
        match what {
            Wakes::Socket => {
                if let Some(socket) = &mut self.socket {
                    socket.on_ready();
                }
            }
            Wakes::PeerSocket(slot) => {
                if let Some(peer) = self.peers.in_slot_mut(slot)
                    && peer.own_socket().is_some_and(PolledSocket::on_ready)
                {
                    self.readable_peers.push(peer.id);
                }
            }
            Wakes::Stream(slot) => {
                if let Some(peer) = self.peers.in_slot_mut(slot) {
                    peer.stream.on_ready(event);
                    let id = peer.id;
                    self.touch(id);
                }
            }
        }
    }

    /// No new peers; those that are here get what was accepted for them, and are told.
    pub fn drain(&mut self, now: Now, linger: Duration) {
        if self.is_retiring() {
            return;
        }
        self.stage.end();
        for id in self.ids() {
            self.endpoint.finish(now, id, CloseReason::Drain, linger);
            self.touch(id);
        }
    }

    /// Everybody is told that it is over, now.
    pub fn stop(&mut self, now: Now) {
        self.stage.end();
        for id in self.ids() {
            self.endpoint.close(now, id, CloseReason::Shutdown);
            self.touch(id);
        }
    }

    /// Whether no peer is left.
    pub fn is_empty(&self) -> bool {
        self.endpoint.is_empty()
    }

    /// Whether its socket is lost: nothing can be done but stop.
    pub fn is_broken(&self) -> bool {
        self.socket.as_ref().is_some_and(PolledSocket::is_broken)
    }

    /// Whether a socket may hold datagrams that were not read in this turn.
    pub fn has_datagrams(&self) -> bool {
        self.is_readable() || !self.readable_peers.is_empty()
    }

    /// Whether the shared socket may.
    fn is_readable(&self) -> bool {
        self.socket.as_ref().is_some_and(PolledSocket::is_readable)
    }

    /// Whether there is work that no event will announce.
    pub fn has_work(&self) -> bool {
        self.has_datagrams()
            || self.handovers.has_letters()
            || !self.strangers.queue.is_empty()
            || self.unsent
            || self.endpoint.has_events()
            || self.run_queue.has_work()
            || self.endpoint.has_room_news()
    }

    /// When the next clock rings.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let sessions = self.endpoint.poll_timeout();
        let streams = self.run_queue.next();
        let census = self.gathers_at();
        sessions.into_iter().chain(streams).chain(census).min()
    }

    /// Puts the counters on the board.
    pub fn publish(&mut self, now: Now) {
        self.count(now);
        self.gather(now);
        self.report(now);
    }

    /// Puts the counters on the board with every peer counted as of now.
    pub fn publish_last(&mut self, now: Now) {
        self.count(now);
        self.gather_all(now);
        self.report(now);
    }

    fn report(&self, now: Now) {
        if let Some(reporter) = &self.reporter {
            reporter.publish(now.mono, &self.counters);
        }
    }

    /// A turn of the worker is over. A message that met no queue took no longer than this.
    pub fn on_turn(&mut self, took: Duration) {
        let counters = &mut self.counters;
        counters.busy += took;
        for direction in Direction::ALL.map(|direction| direction as usize) {
            let forwarded = counters.messages_forwarded[direction];
            let before = std::mem::replace(&mut self.forwarded[direction], forwarded);
            counters.forward_duration[direction].record_many(took, forwarded - before);
        }
    }

    fn ids(&self) -> Vec<PeerId> {
        self.peers.iter().map(|peer| peer.id).collect()
    }

    fn new_peer(&mut self, id: PeerId, remote: SocketAddr, now: Timestamp) -> Peer {
        self.counters.sessions_opened += 1;
        self.on_came(id);
        let mut peer = Peer::new(
            id,
            self.session_ids.next(),
            remote,
            now,
            self.terms.rules.clone(),
        );
        peer.counted = Some(self.seats.take());
        peer.quota = self
            .terms
            .limits
            .as_ref()
            .map(|limits| Quota::new(limits, now));
        peer
    }

    /// Something happened to this peer: it gets its pump this turn.
    fn touch(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id) {
            self.run_queue.touch(id, &mut peer.entry);
        }
    }

    /// Notes when this peer's stream or connect next wants to be woken.
    fn schedule(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let stream = peer.stream.poll_timeout(&peer.rules);
        let clocks = stream.into_iter().chain(peer.attempt.poll_timeout());
        self.run_queue.schedule(id, clocks.min(), &mut peer.entry);
    }
}
