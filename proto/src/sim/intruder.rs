//! Somebody on the network who is no party to any session: records, replays, forges.
//!
//! Its datagrams do not cross the links, so that bad weather does not protect anybody from it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::random::Random;
use crate::time::Timestamp;

/// What an intruder does.
#[derive(Clone, Copy, Debug)]
pub struct Intent {
    /// Plays again what it recorded.
    pub replays: bool,
    /// Sends garbage, pieces and altered copies of what it recorded.
    pub forges: bool,
    /// Uses the addresses of both ends, too. A protocol without integrity cannot stand that, and
    /// does not promise to.
    pub impersonates: bool,
    /// Mean time between two datagrams.
    pub every: Duration,
}

/// A datagram that an intruder puts in front of somebody.
#[derive(Debug)]
pub struct Shot {
    /// To the server, from `address`; otherwise to `address`, as if from the server.
    pub to_server: bool,
    /// See `to_server`.
    pub address: SocketAddr,
    /// What arrives.
    pub datagram: Vec<u8>,
}

/// One intruder.
#[derive(Debug)]
pub struct Intruder {
    intent: Intent,
    random: Random,
    recorded: Vec<Shot>,
    next_at: Timestamp,
    shots: u64,
}

/// Datagrams an intruder keeps. When full, any of them is replaced, so that old ones stay.
const RECORDED_MAX: usize = 512;

impl Intruder {
    /// Does the same things for the same seed and traffic.
    pub fn new(intent: Intent, seed: u64) -> Self {
        Self {
            intent,
            random: Random::new(seed),
            recorded: Vec::new(),
            next_at: Timestamp::ZERO,
            shots: 0,
        }
    }

    /// Datagrams sent so far.
    pub fn shots(&self) -> u64 {
        self.shots
    }

    /// Sees a datagram arrive. What was only under way is not recorded: whoever is faster than a
    /// client can use the client's token up (docs/wire/netcode.md, section 7), and nobody promises
    /// that client anything.
    pub fn on_arrival(&mut self, to_server: bool, address: SocketAddr, datagram: &[u8]) {
        let shot = Shot {
            to_server,
            address,
            datagram: datagram.to_vec(),
        };
        if self.recorded.len() < RECORDED_MAX {
            self.recorded.push(shot);
        } else {
            let index = self.random.below(RECORDED_MAX as u64) as usize;
            self.recorded[index] = shot;
        }
    }

    /// The next datagram that is due.
    pub fn fire(&mut self, now: Timestamp) -> Option<Shot> {
        if now < self.next_at {
            return None;
        }
        let pause = self.random.exponential(self.intent.every.as_secs_f64());
        // After a long time nobody catches up on what was not sent.
        let since = self.next_at.max(now - Duration::from_secs(1));
        self.next_at = since + Duration::from_secs_f64(pause.max(1e-4));
        self.shots += 1;
        let replay = self.intent.replays && (!self.intent.forges || self.random.happens(0.5));
        Some(if replay { self.replay() } else { self.forge() })
    }

    fn replay(&mut self) -> Shot {
        let Some(mut shot) = self.pick() else {
            return self.garbage();
        };
        // Also back to whoever sent it.
        shot.to_server ^= self.intent.impersonates && self.random.happens(0.1);
        self.readdress(&mut shot);
        shot
    }

    fn forge(&mut self) -> Shot {
        let Some(mut shot) = self.pick() else {
            return self.garbage();
        };
        let length = shot.datagram.len() as u64;
        match self.random.below(5) {
            0 => shot.datagram = self.garbage().datagram,
            1 => shot.datagram.truncate(self.random.below(length) as usize),
            2 => shot.datagram.push(0),
            3 => {
                // The tail is where tags are.
                let from = length.saturating_sub(16) as usize;
                let random = &mut self.random;
                shot.datagram[from..].fill_with(|| random.next() as u8);
            }
            _ => {
                let bit = self.random.below(length * 8) as usize;
                shot.datagram[bit / 8] ^= 1 << (bit % 8);
            }
        }
        self.readdress(&mut shot);
        shot
    }

    fn garbage(&mut self) -> Shot {
        let random = &mut self.random;
        let length = [0, 1, 3, 30, 1078, 1300][random.below(6) as usize];
        let datagram = (0..length).map(|_| random.next() as u8).collect();
        Shot {
            to_server: true,
            address: self.address(),
            datagram,
        }
    }

    fn pick(&mut self) -> Option<Shot> {
        let index = self.random.below(self.recorded.len() as u64) as usize;
        let shot = self.recorded.get(index)?;
        let (address, datagram) = (shot.address, shot.datagram.clone());
        (!datagram.is_empty()).then_some(Shot {
            to_server: shot.to_server,
            address,
            datagram,
        })
    }

    fn readdress(&mut self, shot: &mut Shot) {
        if !self.intent.impersonates {
            shot.to_server = true;
            shot.address = self.address();
        } else if shot.to_server {
            match self.random.below(3) {
                0 => {}
                1 => shot.address = self.address(),
                // Behind the victim's NAT, where sessions may move to.
                _ => {
                    let port = 50_000 + self.random.below(4) as u16;
                    shot.address.set_port(port);
                }
            }
        }
    }

    /// One of a few addresses that no player has.
    fn address(&mut self) -> SocketAddr {
        let host = self.random.below(4) as u8;
        SocketAddr::from(([203, 0, 113, host], 1024 + self.random.below(4) as u16))
    }
}
