//! How long the datagrams of one session are, and under which cipher: the wire's own for messages, and for
//! bulk what the path and the peer were found to take.

mod long_fragments;
mod path_mtu;
mod reach;
mod second_cipher;

use super::*;

pub(super) use long_fragments::LongFragments;

use path_mtu::PathMtu;
use reach::{ANY_PATH, Reach};
use second_cipher::SecondCipher;

/// What is known of datagrams that not every path takes.
#[derive(Debug)]
pub(super) struct Datagrams {
    /// The peer takes them, or may be asked whether it does.
    are_taken: bool,
    /// The peer took one, and so is a tidegate.
    is_peer_tidegate: bool,
    /// It said that it reads long fragments.
    are_long_fragments_read: bool,
    /// From the first time that they would have helped.
    search: Option<Box<Search>>,
    /// Datagrams of the peer that were as full as they get, one soon after the other.
    full_heard: u8,
    /// Of the wire's own, where a path takes less.
    pub(super) reach: Reach,
}

/// What is asked by packets of padding.
#[derive(Debug)]
struct Search {
    mtu: PathMtu,
    cipher: SecondCipher,
}

impl Datagrams {
    pub(super) fn new(extensions: &Extensions) -> Self {
        Self {
            are_taken: extensions.mtu_asks_first,
            is_peer_tidegate: false,
            are_long_fragments_read: false,
            search: None,
            full_heard: 0,
            reach: Reach::default(),
        }
    }

    /// Packet `number` was acknowledged; whether it was a probe.
    pub(super) fn on_probe_acked(&mut self, now: Timestamp, number: u64) -> bool {
        let Some(search) = &mut self.search else {
            return false;
        };
        let is_taken = search.mtu.on_probe_acked(now, number);
        self.is_peer_tidegate |= is_taken;
        is_taken || search.cipher.on_probe_acked(number)
    }

    /// The peer took a datagram beyond the wire's own once, and so is a tidegate, whatever the path has
    /// become since.
    pub(super) fn is_peer_tidegate(&self) -> bool {
        self.is_peer_tidegate
    }

    /// The peer opened a packet under the wire's second cipher.
    pub(super) fn is_second_cipher_taken(&self) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.cipher.is_taken())
    }

    pub(super) fn on_large_acked(&mut self, number: u64) {
        if let Some(search) = &mut self.search {
            search.mtu.on_large_acked(number);
        }
    }

    pub(super) fn on_large_lost(&mut self, now: Timestamp, number: u64) {
        if let Some(search) = &mut self.search {
            search.mtu.on_large_lost(now, number);
        }
    }

    /// The search, from now on if there was none and if there is anything to look for.
    fn search(&mut self, extensions: &Extensions, framing: &Framing) -> Option<&mut Search> {
        if self.search.is_none() {
            let max = extensions.mtu_payload_max.min(framing.packet);
            let mtu = PathMtu::new(framing.datagram, max, framing.datagram_overhead);
            self.are_taken = mtu.is_some();
            let cipher = SecondCipher::default();
            self.search = mtu.map(|mtu| Box::new(Search { mtu, cipher }));
        }
        self.search.as_deref_mut()
    }
}

impl Sender {
    /// A datagram of the peer with so much payload is being handled. One that not every path takes
    /// shows that the peer takes such datagrams as well.
    pub fn on_datagram_heard(&mut self, now: Timestamp, payload: usize, is_large: bool) {
        let datagrams = &mut self.datagrams;
        datagrams.are_taken |= is_large;
        if now.since(self.arrivals.last()) > BULK_PAUSE_MAX {
            datagrams.full_heard = 0;
        }
        let is_full = payload > 7 * usize::from(self.framing.datagram) / 8;
        datagrams.full_heard = datagrams.full_heard.saturating_add(is_full.into());
    }

    /// The largest payload that is known to arrive in one datagram, and that leaves soon at this rate.
    pub fn datagram(&self) -> u16 {
        match &self.datagrams.search {
            Some(search) => search.mtu.payload(self.soon_gone()),
            None => self.framing.datagram,
        }
    }

    /// The largest payload that should leave next in one datagram, where a path takes less than the wire's own. Now and
    /// then a longer one goes all the same: routes change.
    pub(super) fn shorter(&self, now: Timestamp) -> Option<u16> {
        let is_tried = self.next_number.is_multiple_of(TRIED_EVERY);
        let limit = self.datagrams.reach.limit().filter(|_| !is_tried);
        let limit = limit.or_else(|| self.waits_long(now).then_some(ANY_PATH))?;
        Some(limit.saturating_sub(self.framing.wire_overhead))
    }

    /// Payload that leaves within [`DATAGRAM_TIME`]. A slow sender gains little by larger datagrams: each
    /// would be late as a whole, and lost as a whole.
    fn soon_gone(&self) -> u16 {
        let rate = self.pacer.pace().bulk_rate(&self.params).unwrap_or(0.0);
        (rate * DATAGRAM_TIME.as_secs_f64()) as u16
    }

    /// Whether what is planned leaves under the wire's second cipher: the peer opens it, or is asked.
    pub fn uses_second_cipher(&self) -> bool {
        self.plan.asks_cipher || self.datagrams.is_second_cipher_taken()
    }

    /// Whether a packet of padding leaves now, to find out if larger datagrams arrive: it does while so
    /// much waits that they would help, or while so much comes from a peer that may not try them before
    /// it heard one. Or to find out if such a peer knows the second cipher.
    pub(super) fn plan_probe_of_bulk(&mut self, now: Timestamp) -> bool {
        if !self.datagrams.are_taken || !self.pacer.has_bulk_rate(&self.params) {
            return false;
        }
        let extensions = &self.params.extensions;
        let hears_bulk = extensions.mtu_asks_first && self.datagrams.full_heard >= FULL_HEARD;
        let limit = if hears_bulk {
            // Of who only listens nobody knows the rate, and the peer waits for the news.
            u16::MAX
        } else if self.is_held_up() || self.sends_in_parts() {
            // So is the rate of blocks that go one at a time, or of packets that are lost with any of
            // their parts, and the answer ends that.
            self.soon_gone().max(ETHERNET)
        } else if self.has_backlog() {
            self.soon_gone()
        } else {
            return false;
        };
        let patience = self.answer_time();
        let Some(search) = self.datagrams.search(extensions, &self.framing) else {
            return false;
        };
        let size = search.mtu.due(now, patience, limit);
        // Only a peer that has answered the other question once is asked this one.
        let asks_cipher = size.is_none()
            && extensions.second_cipher
            && search.mtu.has_proof()
            && search.cipher.is_due(now, patience);
        if size.is_none() && !asks_cipher {
            return false;
        }
        let size = size.unwrap_or(self.framing.datagram);
        self.plan.clear();
        self.plan.datagram = size;
        self.plan.padded_to = size;
        self.plan.asks_cipher = asks_cipher;
        true
    }

    fn has_backlog(&self) -> bool {
        let enough = BACKLOG * usize::from(self.framing.datagram);
        let mut outboxes = self.lanes.outboxes();
        outboxes.any(|outbox| outbox.fresh_bytes() > enough)
    }

    /// Messages wait for a block that goes alone.
    fn is_held_up(&self) -> bool {
        self.lanes.outboxes().any(Outbox::is_held_up)
    }

    /// Much waits, and what is next fits no datagram.
    fn sends_in_parts(&self) -> bool {
        let datagram = self.framing.datagram;
        let mut outboxes = self.lanes.outboxes();
        outboxes.any(|outbox| outbox.is_next_longer(datagram)) && self.has_backlog()
    }

    /// The planned packet left under `number`: was it a probe, or one large datagram?
    pub(super) fn note_datagram(&mut self, now: Timestamp, number: u64, wire_bytes: usize) {
        let Some(search) = &mut self.datagrams.search else {
            return;
        };
        if self.plan.asks_cipher {
            search.cipher.on_probe_sent(now, number);
        } else if self.plan.is_padding() {
            search.mtu.on_probe_sent(now, number);
        } else if let Some(sent) = self.in_flight.get_mut(number) {
            let payload = wire_bytes.saturating_sub(self.framing.wire_overhead.into());
            let large = usize::from(self.framing.datagram) + 1..=self.plan.datagram.into();
            sent.large = large.contains(&payload);
        }
    }
}

/// Bytes of a full Ethernet frame, which leave soon at any rate in use today.
const ETHERNET: u16 = 1_500;

/// Datagrams that must wait for larger ones to be worth a try.
const BACKLOG: usize = 16;

/// Packets of which one tries again what the path did not take.
const TRIED_EVERY: u64 = 64;

/// As the timer of the bulk rate: what leaves at once at most.
const DATAGRAM_TIME: Duration = Duration::from_millis(4);

/// Full datagrams of a peer that sends bulk.
const FULL_HEARD: u8 = 64;

/// Such a peer pauses no longer than this: a game does, between two frames.
const BULK_PAUSE_MAX: Duration = Duration::from_millis(15);
