//! Following a peer to another address, which a NAT gave it.
//!
//! Nothing changes on the wire for that: the datagram itself must prove whose it is
//! ([`Session::vouches_for`](crate::Session::vouches_for)). Each proof costs a decryption and the
//! source may be forged, so all of the search is bounded.
//!
//! A NAT that was restarted, or is short of ports, may give a peer the port that another one had. So the search also begins
//! where an address is somebody's: if that peer was silent, and its session can make nothing of the datagram. The peer
//! that moves here takes the address, and the silent one is put where that one was. If the two have changed places, that
//! is where it is; if not, its own next datagram finds it.
//!
//! A carrier puts hundreds of players behind one address, whose NAT gives all of them new ports at once. So what bounds the
//! search is only what was tried in vain: a proof is worth its search, however long that was, and whoever forges datagrams
//! has a bounded number of sessions tried.

use std::net::IpAddr;
use std::time::Duration;

use super::PeerId;
use super::peer_table::{Peer, PeerTable};
use super::tries::Tries;
use crate::session::Reject;
use crate::time::Now;

/// How far a session follows its peer when a NAT gives it another address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Not at all.
    Off,
    /// To another port of the same IP: what home routers do.
    #[default]
    Port,
}

/// Where to look for a peer that moved, and how much looking is left.
pub(super) struct Search {
    follow: Follow,
    tries: Tries,
    /// Port from which on the next search goes: where the last one ended, so that each peer behind
    /// one address is looked at, however many there are.
    from_port: u16,
    /// How many sessions the last search tried that found nobody.
    in_vain: u32,
}

impl Search {
    pub(super) fn new(follow: Follow, tries_per_sec: u32) -> Self {
        Self {
            follow,
            tries: Tries::new(tries_per_sec),
            from_port: 0,
            in_vain: 0,
        }
    }

    /// How many sessions the last search tried, if none of them was it.
    pub(super) fn tries_in_vain(&self) -> u32 {
        self.in_vain
    }

    /// So many tries were for a peer of ours after all.
    pub(super) fn give_back(&mut self, tries: u32) {
        self.tries.give_back(false, tries);
    }

    /// Whether a datagram from the address of this peer may be another's.
    pub(super) fn doubts(&self, now: Now, peer: &Peer) -> bool {
        self.follow != Follow::Off && is_silent(now, peer)
    }

    /// The peer that sent this datagram from an address that is new for it, if one did: the datagram must
    /// carry a proof under its key, and the peer must have gone silent at its old address, unless this is
    /// its goodbye: netcode says it once, in one instant, and whoever repeats it elsewhere ends nothing
    /// that its peer did not end. The session that has refused the datagram already is not asked again.
    pub(super) fn moved_peer(
        &mut self,
        now: Now,
        peers: &PeerTable,
        ip: IpAddr,
        datagram: &[u8],
        refused_by: Option<PeerId>,
    ) -> Option<PeerId> {
        self.in_vain = 0;
        if self.follow == Follow::Off {
            return None;
        }
        let most = match self.tries.are_plenty(now.mono) {
            true => u32::MAX,
            false => CANDIDATES,
        };
        let known = peers.behind(ip, self.from_port).take(LOOKS);
        for (id, peer) in known.filter_map(|id| Some((id, peers.get(id)?))) {
            let is_goodbye = peer.session.reads_as_goodbye(datagram);
            if Some(id) != refused_by && (is_silent(now, peer) || is_goodbye) {
                if self.in_vain == most || !self.tries.take(now.mono, is_goodbye) {
                    return None;
                }
                self.in_vain += 1;
                if peer.session.vouches_for(datagram) {
                    let found = std::mem::take(&mut self.in_vain);
                    self.tries.give_back(is_goodbye, found);
                    return Some(id);
                }
            }
            self.from_port = peer.address.port().wrapping_add(1);
        }
        None
    }
}

/// Whether a session that refuses a datagram for this may not be the one that it was made for: it is under another key, or
/// its number belongs to another sequence.
pub(super) const fn is_anothers(reject: Reject) -> bool {
    matches!(
        reject,
        Reject::DecryptFailed | Reject::Replayed | Reject::Stale
    )
}

fn is_silent(now: Now, peer: &Peer) -> bool {
    now.mono.since(peer.heard) >= SILENCE
}

/// Silent peers behind one IP that are tried for one datagram once half of the tries of this second were in vain; the next
/// datagram tries the next ones. Before that, all of them are.
const CANDIDATES: u32 = 64;

/// Peers behind one IP that are looked at for one datagram, silent or not; the next datagram has the next ones looked at.
const LOOKS: usize = 1024;

/// A peer that was heard less than this ago has not moved: one that has something to say, or to
/// acknowledge, sends more often.
const SILENCE: Duration = Duration::from_millis(250);
