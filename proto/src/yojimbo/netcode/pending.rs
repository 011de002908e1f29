//! Handshakes under way, by the address that began them, and when each ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::crypto::Key;
use super::history::TokenTag;
use super::token::{PrivateToken, UserData};
use crate::time::Timestamp;

/// Fresh challenges for one handshake; later requests get the last one again. A client asks ten
/// times a second until the first one arrives, so these cover a round trip of 1.6 s.
const CHALLENGES_EACH: usize = 16;

/// A handshake under way: a genuine token was shown, and no challenge answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) tag: TokenTag,
    pub(super) client_id: u64,
    pub(super) user_data: UserData,
    pub(super) client_to_server: Key,
    pub(super) server_to_client: Key,
    pub(super) timeout: Option<Duration>,
    /// Sequences of the challenges this very handshake was given; no other is an answer.
    challenges: [u64; CHALLENGES_EACH],
    issued: usize,
    /// Still valid at this moment, not after it.
    until: Timestamp,
}

impl Pending {
    pub(super) fn new(
        tag: TokenTag,
        token: PrivateToken,
        timeout: Option<Duration>,
        until: Timestamp,
    ) -> Self {
        Self {
            tag,
            client_id: token.client_id,
            user_data: token.user_data,
            client_to_server: token.client_to_server,
            server_to_client: token.server_to_client,
            timeout,
            challenges: [0; CHALLENGES_EACH],
            issued: 0,
            until,
        }
    }

    pub(super) fn lives(&self, now: Timestamp) -> bool {
        now <= self.until
    }

    /// The sequence of the challenge that answers a request: the next of `sequences`, or the last one again.
    pub(super) fn challenge(&mut self, sequences: &mut u64) -> u64 {
        if self.issued < CHALLENGES_EACH {
            self.challenges[self.issued] = *sequences;
            self.issued += 1;
            *sequences += 1;
        }
        self.challenges[self.issued - 1]
    }

    pub(super) fn was_given(&self, challenge: u64) -> bool {
        self.challenges[..self.issued].contains(&challenge)
    }
}

/// Those of one worker. They are few and their sources are chosen by strangers, so ordered maps: no
/// collisions to aim at.
#[derive(Debug, Default)]
pub(super) struct PendingTable {
    by_address: BTreeMap<SocketAddr, Pending>,
    by_end: BTreeSet<(Timestamp, SocketAddr)>,
}

impl PendingTable {
    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    pub(super) fn get(&self, from: SocketAddr) -> Option<&Pending> {
        self.by_address.get(&from)
    }

    pub(super) fn get_mut(&mut self, from: SocketAddr) -> Option<&mut Pending> {
        self.by_address.get_mut(&from)
    }

    /// In place of what is under way from there, if anything is.
    pub(super) fn insert(&mut self, from: SocketAddr, pending: Pending) {
        self.take(from);
        self.by_end.insert((pending.until, from));
        self.by_address.insert(from, pending);
    }

    pub(super) fn take(&mut self, from: SocketAddr) -> Option<Pending> {
        let pending = self.by_address.remove(&from)?;
        self.by_end.remove(&(pending.until, from));
        Some(pending)
    }

    /// Lets the handshake that this token began there last until then; false if there is none.
    pub(super) fn renew(&mut self, from: SocketAddr, tag: &TokenTag, until: Timestamp) -> bool {
        let pending = self.by_address.get_mut(&from);
        let Some(pending) = pending.filter(|pending| pending.tag == *tag) else {
            return false;
        };
        self.by_end.remove(&(pending.until, from));
        pending.until = until;
        self.by_end.insert((until, from));
        true
    }

    /// Forgets those that ran out of time.
    pub(super) fn expire(&mut self, now: Timestamp) {
        while let Some(&(until, from)) = self.by_end.first()
            && until < now
        {
            self.by_end.pop_first();
            self.by_address.remove(&from);
        }
    }

    /// The last moment of the one that ends first.
    pub(super) fn first_end(&self) -> Option<Timestamp> {
        self.by_end.first().map(|&(until, _)| until)
    }
}
