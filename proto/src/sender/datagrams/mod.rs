//! How long the datagrams of one session are, and under which cipher: the wire's own for messages, and for
//! bulk what the path and the peer were found to take.

mod long_fragments;
mod path_mtu;
mod reach;
mod second_cipher;

use std::time::Duration;

use crate::time::Timestamp;

use super::framing::Framing;
use super::params::Extensions;
use super::plan::Padding;

pub(super) use long_fragments::LongFragments;
pub(super) use reach::ANY_PATH;

use path_mtu::PathMtu;
use reach::Reach;
use second_cipher::SecondCipher;

/// What is known of datagrams that not every path takes.
#[derive(Debug)]
pub(super) struct Datagrams {
    /// The peer takes them, or may be asked whether it does.
    are_taken: bool,
    /// The peer took one, and so runs tidegate.
    is_peer_tidegate: bool,
    /// It said that it reads long fragments.
    are_long_fragments_read: bool,
    /// From the first time that they would have helped.
    search: Option<Box<Search>>,
    /// Datagrams of the peer that were as full as they get, one soon after the other.
    full_heard: u8,
    /// What the path takes, where that is less than a full datagram of the wire.
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

    /// A datagram of the peer arrived; `is_full`: as long as the wire's own get; `is_large`: longer. One that not every path
    /// takes shows that the peer takes such datagrams as well.
    pub(super) fn on_heard(&mut self, is_full: bool, is_large: bool) {
        self.are_taken |= is_large;
        self.full_heard = self.full_heard.saturating_add(is_full.into());
    }

    /// The peer paused: what it sends is not one bulk.
    pub(super) fn on_pause(&mut self) {
        self.full_heard = 0;
    }

    /// The peer sends bulk, and may not try longer datagrams before it heard one.
    pub(super) fn hear_bulk(&self, extensions: &Extensions) -> bool {
        extensions.mtu_asks_first && self.full_heard >= FULL_HEARD
    }

    /// Whether the peer is known to take larger datagrams, or may be asked whether it does.
    pub(super) fn are_taken(&self) -> bool {
        self.are_taken
    }

    /// The largest payload that is known to arrive in one datagram, of those up to a limit; `None` for the wire's own.
    pub(super) fn payload(&self, limit: impl FnOnce() -> u16) -> Option<u16> {
        let search = self.search.as_ref()?;
        Some(search.mtu.payload(limit()))
    }

    /// What is asked now, in a datagram with a payload of `limit` at most. What was not answered within `patience` is lost.
    pub(super) fn question(
        &mut self,
        now: Timestamp,
        patience: Duration,
        limit: u16,
        extensions: &Extensions,
        framing: &Framing,
    ) -> Option<Padding> {
        let search = self.search(extensions, framing)?;
        if let Some(bytes) = search.mtu.due(now, patience, limit) {
            let asks_cipher = false;
            return Some(Padding { bytes, asks_cipher });
        }
        // Only a peer that has answered the other question once is asked this one.
        let asks_cipher = extensions.second_cipher
            && search.mtu.has_proof()
            && search.cipher.is_due(now, patience);
        let bytes = framing.datagram;
        asks_cipher.then_some(Padding { bytes, asks_cipher })
    }

    /// The padding left under `number`.
    pub(super) fn on_padding_sent(&mut self, now: Timestamp, number: u64, padding: Padding) {
        match &mut self.search {
            Some(search) if padding.asks_cipher => search.cipher.on_probe_sent(now, number),
            Some(search) => search.mtu.on_probe_sent(now, number),
            None => {}
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

    /// The peer took a datagram beyond the wire's own once, and so runs tidegate, whatever the path has
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

/// Full datagrams of a peer that sends bulk.
const FULL_HEARD: u8 = 64;
