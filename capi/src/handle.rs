//! What a handle holds.

use tidegate_client::{Dial, Ended, Machine, Now, Polled, State, Timestamp, random_seed};

use crate::{TIDEGATE_ERROR_INVALID, TIDEGATE_ERROR_SOCKET};

/// With a socket of its own.
pub const TIDEGATE_SOCKET: i32 = 1;
/// You carry the datagrams.
pub const TIDEGATE_NO_SOCKET: i32 = 2;

/// The handshake is under way. Sending says TIDEGATE_ERROR_FULL until a message may leave with it; what is sent
/// then arrives a round trip earlier than what waits for TIDEGATE_CONNECTED.
pub const TIDEGATE_CONNECTING: i32 = 1;

/// Messages go both ways.
pub const TIDEGATE_CONNECTED: i32 = 2;

/// What was sent is being delivered; then it closes.
pub const TIDEGATE_CLOSING: i32 = 3;

/// Over; tidegate_client_ended() says how. Messages that came before can still be polled.
pub const TIDEGATE_CLOSED: i32 = 4;

/// A client and what its caller was last shown.
pub(crate) struct Inner {
    pub(crate) flavour: Flavour,
    /// The latest `now`: a caller's clock that steps back stands still instead.
    latest: Timestamp,
    /// What the caller was last shown.
    pub(crate) message: Vec<u8>,
    pub(crate) datagram: Vec<u8>,
}

pub(crate) enum Flavour {
    Socket(Box<Polled>),
    Bare(Box<Machine>),
}

impl Inner {
    pub(crate) fn new(now: u64, dial: Dial, io: i32) -> Result<Self, i32> {
        let latest = Timestamp::from_nanos(now);
        let now = Now {
            mono: latest,
            unix_secs: 0,
        };
        let flavour = match io {
            TIDEGATE_SOCKET => {
                let polled = Polled::connect(now, dial).map_err(|_| TIDEGATE_ERROR_SOCKET)?;
                Flavour::Socket(Box::new(polled))
            }
            TIDEGATE_NO_SOCKET => {
                let seed = random_seed().map_err(|_| TIDEGATE_ERROR_SOCKET)?;
                Flavour::Bare(Box::new(Machine::new(now, dial, seed)))
            }
            _ => return Err(TIDEGATE_ERROR_INVALID),
        };
        Ok(Self {
            flavour,
            latest,
            message: Vec::new(),
            datagram: Vec::new(),
        })
    }

    pub(crate) fn now(&mut self, now: u64) -> Now {
        self.latest = self.latest.max(Timestamp::from_nanos(now));
        Now {
            mono: self.latest,
            unix_secs: 0,
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        match &self.flavour {
            Flavour::Socket(polled) => polled.machine(),
            Flavour::Bare(machine) => machine,
        }
    }

    pub(crate) fn machine_mut(&mut self) -> &mut Machine {
        match &mut self.flavour {
            Flavour::Socket(polled) => polled.machine_mut(),
            Flavour::Bare(machine) => machine,
        }
    }

    pub(crate) fn state(&self) -> i32 {
        match self.machine().state() {
            State::Connecting => TIDEGATE_CONNECTING,
            State::Connected => TIDEGATE_CONNECTED,
            State::Closing => TIDEGATE_CLOSING,
            State::Closed(_) => TIDEGATE_CLOSED,
        }
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.machine().state() {
            State::Closed(ended) => Some(ended),
            State::Connecting | State::Connected | State::Closing => None,
        }
    }

    /// For the flavour with a socket only.
    pub(crate) fn socketed(&mut self, act: impl FnOnce(&mut Polled) -> i64) -> i64 {
        match &mut self.flavour {
            Flavour::Socket(polled) => act(polled),
            Flavour::Bare(_) => TIDEGATE_ERROR_INVALID.into(),
        }
    }

    pub(crate) fn flush(&mut self, now: Now) {
        if let Flavour::Socket(polled) = &mut self.flavour {
            polled.flush(now);
        }
    }
}
