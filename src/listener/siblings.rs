//! The workers that share one port, and what they say to each other: that a peer was lost, and here it
//! is; and who broke the protocol.
//!
//! The kernel spreads datagrams over workers by address. A peer whose NAT gives it another port may
//! so come to a worker that does not know it; that one asks the others (listener/handover.rs).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mio::Waker;
use tidegate_proto::{Session, Stats};

use super::peer::Peer;
use crate::udp::Route;

/// One listener's place among those that share its port.
#[derive(Clone, Debug, Default)]
pub struct Siblings {
    /// The mailboxes of all of them, this one included; empty for a worker that is alone.
    mailboxes: Arc<[Mailbox]>,
    own: usize,
    /// How many of them hold the port.
    holding: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Mailbox {
    has_letters: AtomicBool,
    /// `None` once nobody will read them any more.
    letters: Mutex<Option<VecDeque<Letter>>>,
    waker: OnceLock<Arc<Waker>>,
}

/// What one tells another.
#[derive(Debug)]
pub(super) enum Letter {
    /// Whose is this?
    Lost(Lost),
    /// A peer, with everything that belongs to it.
    Found(Box<Found>),
    /// A peer of this address broke the protocol.
    Struck(SocketAddr),
}

/// A datagram that came to `asker` from an address that nobody has there.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) asker: usize,
    pub(super) route: Route,
    pub(super) datagram: Box<[u8]>,
    /// How many sessions `asker` has tried for it.
    pub(super) tries: u32,
}

/// A peer on its way from one worker to another.
pub(super) struct Found {
    pub(super) peer: Box<Peer>,
    pub(super) session: Box<dyn Session>,
    /// What the session counted where it was.
    pub(super) before: Stats,
    /// By which it was found; not handled yet.
    pub(super) by: Lost,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found")
            .field("route", &self.by.route)
            .finish()
    }
}

impl Siblings {
    /// For so many workers that share a port.
    pub fn new(count: usize) -> Vec<Self> {
        let mailboxes: Arc<[Mailbox]> = (0..count).map(|_| Mailbox::new()).collect();
        let holding = Arc::new(AtomicUsize::new(count));
        let one = |own| Self {
            mailboxes: mailboxes.clone(),
            own,
            holding: holding.clone(),
        };
        (0..count).map(one).collect()
    }

    /// How many others there are.
    pub(super) fn len(&self) -> usize {
        self.mailboxes.len().saturating_sub(1)
    }

    /// Letters for us wake this.
    pub(super) fn set_waker(&self, waker: &Arc<Waker>) {
        if let Some(mailbox) = self.mailboxes.get(self.own) {
            // A listener stays with its worker.
            mailbox.waker.get_or_init(|| waker.clone());
        }
    }

    /// Asks all others; those with a full mailbox are left out.
    pub(super) fn ask(&self, route: Route, datagram: &[u8], tries: u32) {
        self.tell_others(|| {
            Letter::Lost(Lost {
                asker: self.own,
                route,
                datagram: datagram.into(),
                tries,
            })
        });
    }

    /// Tells all others whose peer broke the protocol: they are to keep its address out as well.
    pub(super) fn tell_of_strike(&self, from: SocketAddr) {
        self.tell_others(|| Letter::Struck(from));
    }

    fn tell_others(&self, letter: impl Fn() -> Letter) {
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            if index != self.own {
                // One that does not read any more has no peers, and lets nobody in.
                mailbox.put(letter()).ok();
            }
        }
    }

    /// Answers one of them; the peer comes back when that one is gone meanwhile.
    pub(super) fn answer(&self, found: Found) -> Result<(), Box<Found>> {
        let found = Box::new(found);
        let Some(mailbox) = self.mailboxes.get(found.by.asker) else {
            return Err(found);
        };
        match mailbox.put(Letter::Found(found)) {
            Err(Letter::Found(found)) => Err(found),
            Ok(()) | Err(Letter::Lost(_) | Letter::Struck(_)) => Ok(()),
        }
    }

    /// Takes no more letters, unless a peer is in one of them: then it has to be read first.
    pub(super) fn close(&self) -> bool {
        let Some(mailbox) = self.mailboxes.get(self.own) else {
            return true;
        };
        let mut letters = mailbox.lock();
        let brings_a_peer = |letter: &Letter| matches!(letter, Letter::Found(_));
        if letters.iter().flatten().any(brings_a_peer) {
            return false;
        }
        *letters = None;
        true
    }

    /// This one lets go of the port; true for the last of them.
    pub(super) fn let_go(&self) -> bool {
        // One that is alone was never counted.
        self.holding.fetch_sub(1, Ordering::AcqRel) <= 1
    }

    /// The next letter for us. Costs one atomic load when there is none.
    pub(super) fn next(&self) -> Option<Letter> {
        let mailbox = self.mailboxes.get(self.own)?;
        if !mailbox.has_letters.load(Ordering::Acquire) {
            return None;
        }
        let mut letters = mailbox.lock();
        let letter = letters.as_mut().and_then(VecDeque::pop_front);
        let more = letters.as_ref().is_some_and(|letters| !letters.is_empty());
        mailbox.has_letters.store(more, Ordering::Release);
        letter
    }
}

impl Mailbox {
    fn new() -> Self {
        Self {
            has_letters: AtomicBool::new(false),
            letters: Mutex::new(Some(VecDeque::new())),
            waker: OnceLock::new(),
        }
    }

    /// Gives it back when nobody would read it.
    fn put(&self, letter: Letter) -> Result<(), Letter> {
        let mut guard = self.lock();
        let Some(letters) = guard.as_mut() else {
            return Err(letter);
        };
        // A question can be asked again, and a strike more or less is none; an answer is somebody's
        // session, and there are no more of those than questions.
        if letters.len() >= QUESTIONS_MAX && !matches!(letter, Letter::Found(_)) {
            return Ok(());
        }
        letters.push_back(letter);
        self.has_letters.store(true, Ordering::Release);
        drop(guard);
        if let Some(waker) = self.waker.get()
            && let Err(error) = waker.wake()
        {
            tracing::error!(event = "wake_failed", %error);
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<Letter>>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Questions that wait for one worker: what it can look at within a few milliseconds.
const QUESTIONS_MAX: usize = 64;
