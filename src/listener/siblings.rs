//! The workers that share one port, and what they say to each other: only that a peer was lost, and
//! here it is.
//!
//! The kernel spreads datagrams over workers by address. A peer whose NAT gives it another port may
//! so come to a worker that does not know it; that one asks the others (listener/handover.rs).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mio::Waker;
use tidegate_proto::{Session, Stats};

use super::peer::Peer;
use crate::udp::Route;

/// One listener's place among those that share its port.
#[derive(Clone, Debug, Default)]
pub struct Siblings {
    /// Of all of them, this one included; empty for one that is alone.
    mailboxes: Arc<[Mailbox]>,
    own: usize,
}

#[derive(Debug, Default)]
struct Mailbox {
    has_letters: AtomicBool,
    letters: Mutex<VecDeque<Letter>>,
    waker: OnceLock<Arc<Waker>>,
}

/// What one tells another.
#[derive(Debug)]
pub(super) enum Letter {
    /// Whose is this? It came to `asker` from an address that nobody has there.
    Lost {
        asker: usize,
        route: Route,
        datagram: Box<[u8]>,
    },
    /// A peer, with everything that belongs to it.
    Found(Box<Found>),
}

/// A peer on its way from one worker to another.
pub(super) struct Found {
    pub(super) peer: Box<Peer>,
    pub(super) session: Box<dyn Session>,
    /// What the session counted where it was.
    pub(super) before: Stats,
    pub(super) route: Route,
    /// By which it was found; not handled yet.
    pub(super) datagram: Box<[u8]>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("route", &self.route).finish()
    }
}

impl Siblings {
    /// So many that share a port.
    pub fn new(count: usize) -> Vec<Self> {
        let mailboxes: Arc<[Mailbox]> = (0..count).map(|_| Mailbox::default()).collect();
        let one = |own| Self {
            mailboxes: mailboxes.clone(),
            own,
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
    pub(super) fn ask(&self, route: Route, datagram: &[u8]) {
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            if index != self.own {
                mailbox.put(Letter::Lost {
                    asker: self.own,
                    route,
                    datagram: datagram.into(),
                });
            }
        }
    }

    /// Answers one of them.
    pub(super) fn answer(&self, asker: usize, found: Found) {
        if let Some(mailbox) = self.mailboxes.get(asker) {
            mailbox.put(Letter::Found(Box::new(found)));
        }
    }

    /// The next letter for us. Costs a glance when there is none.
    pub(super) fn next(&self) -> Option<Letter> {
        let mailbox = self.mailboxes.get(self.own)?;
        if !mailbox.has_letters.load(Ordering::Acquire) {
            return None;
        }
        let mut letters = mailbox.lock();
        let letter = letters.pop_front();
        mailbox
            .has_letters
            .store(!letters.is_empty(), Ordering::Release);
        letter
    }
}

impl Mailbox {
    fn put(&self, letter: Letter) {
        let mut letters = self.lock();
        // A question can be asked again; an answer is somebody's session, and there are no more of
        // those than questions.
        if letters.len() >= QUESTIONS_MAX && matches!(letter, Letter::Lost { .. }) {
            return;
        }
        letters.push_back(letter);
        self.has_letters.store(true, Ordering::Release);
        drop(letters);
        if let Some(waker) = self.waker.get()
            && let Err(error) = waker.wake()
        {
            tracing::error!(%error, "worker cannot be woken");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Letter>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Questions that wait for one worker: what it can look at within a few milliseconds.
const QUESTIONS_MAX: usize = 64;
