//! What the applications at both ends say, and the ledger that checks what they hear.
//!
//! Every message is a function of the seed, its origin and its number, so the listener knows what
//! must come next without being told.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::random::Random;
use crate::session::Message;
use crate::time::Timestamp;

/// What one end sends.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Reliable messages in all.
    pub messages: u64,
    /// Bytes of each of them, drawn evenly.
    pub sizes: RangeInclusive<usize>,
    /// Says nothing before that.
    pub begins: Duration,
    /// Pause between bursts.
    pub every: Duration,
    /// Messages said at once.
    pub burst: u64,
    /// One unreliable message (at least 12 bytes) along with each burst.
    pub unreliable: bool,
    /// Says nothing by itself: one message for each that it hears, at once.
    pub echoes: bool,
    /// The reader sleeps in every second span of this length: a backend that stalls.
    pub reader_sleeps: Option<Duration>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            messages: 200,
            sizes: 0..=200,
            begins: Duration::ZERO,
            every: Duration::from_millis(16),
            burst: 1,
            unreliable: false,
            echoes: false,
            reader_sleeps: None,
        }
    }
}

impl Traffic {
    /// Says nothing, reads everything.
    pub fn silent() -> Self {
        Self {
            messages: 0,
            ..Self::default()
        }
    }
}

/// One application's end of one session.
#[derive(Debug)]
pub struct Application {
    says: Traffic,
    /// Names this end's messages; the listener has the same number in `hears`.
    origin: u64,
    hears_origin: u64,
    hears_sizes: RangeInclusive<usize>,
    said: u64,
    said_unreliable: u64,
    heard: u64,
    heard_unreliable: HashSet<u64>,
    next_burst: Timestamp,
    /// When each message was said, to be compared with when it was heard.
    said_at: Vec<Timestamp>,
    heard_at: Vec<Timestamp>,
}

impl Application {
    /// Says `says` under the name `origin`; expects `hears` under the name `hears_origin`.
    pub fn new(says: Traffic, origin: u64, hears: &Traffic, hears_origin: u64) -> Self {
        Self {
            next_burst: Timestamp::ZERO + says.begins,
            says,
            origin,
            hears_origin,
            hears_sizes: hears.sizes.clone(),
            said: 0,
            said_unreliable: 0,
            heard: 0,
            heard_unreliable: HashSet::new(),
            said_at: Vec::new(),
            heard_at: Vec::new(),
        }
    }

    /// When it next wants to speak.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.wants_to_speak().then_some(self.next_burst)
    }

    fn wants_to_speak(&self) -> bool {
        let most = if self.says.echoes {
            self.says.messages.min(self.heard)
        } else {
            self.says.messages
        };
        self.said < most
    }

    /// Says what is due. `say` gets the channel and the payload, and false from it means "not now".
    pub fn speak(&mut self, now: Timestamp, mut say: impl FnMut(u8, &[u8]) -> bool) {
        while self.wants_to_speak() && self.next_burst <= now {
            for _ in 0..self.says.burst {
                if !self.wants_to_speak() {
                    break;
                }
                if !say(0, &payload(self.origin, self.said, &self.says.sizes)) {
                    self.next_burst = now + Duration::from_millis(5);
                    return;
                }
                self.said += 1;
                self.said_at.push(now);
            }
            if self.says.unreliable {
                let mut body = self.said_unreliable.to_le_bytes().to_vec();
                body.extend_from_slice(&payload(!self.origin, self.said_unreliable, &(4..=64)));
                say(1, &body);
                self.said_unreliable += 1;
            }
            if !self.says.echoes {
                self.next_burst = self.next_burst.max(now - self.says.every) + self.says.every;
            }
        }
    }

    /// Whether the reader is awake.
    pub fn reads(&self, now: Timestamp) -> bool {
        let Some(span) = self.says.reader_sleeps else {
            return true;
        };
        (now.as_nanos() / span.as_nanos().max(1) as u64).is_multiple_of(2)
    }

    /// Checks a message against what must come next; an error says what is wrong.
    pub fn hear(&mut self, now: Timestamp, message: Message<'_>) -> Result<(), String> {
        if message.reliable {
            let expected = payload(self.hears_origin, self.heard, &self.hears_sizes);
            if message.payload != expected {
                return Err(format!(
                    "reliable message {} of origin {}: {} bytes do not match the {} that were sent",
                    self.heard,
                    self.hears_origin,
                    message.payload.len(),
                    expected.len()
                ));
            }
            self.heard += 1;
            self.heard_at.push(now);
            return Ok(());
        }
        let (number, body) = message
            .payload
            .split_first_chunk::<8>()
            .ok_or("unreliable message too short")?;
        let number = u64::from_le_bytes(*number);
        if body != payload(!self.hears_origin, number, &(4..=64)) {
            return Err(format!("unreliable message {number} is not what was sent"));
        }
        if !self.heard_unreliable.insert(number) {
            return Err(format!("unreliable message {number} came twice"));
        }
        Ok(())
    }

    /// Reliable messages said.
    pub fn said(&self) -> u64 {
        self.said
    }

    /// Unreliable messages said.
    pub fn said_unreliable(&self) -> u64 {
        self.said_unreliable
    }

    /// Reliable messages heard, all in order.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Unreliable messages heard, each once.
    pub fn heard_unreliable(&self) -> u64 {
        self.heard_unreliable.len() as u64
    }

    /// Whether it has said everything it wanted to.
    pub fn is_done(&self) -> bool {
        self.said == self.says.messages
    }

    /// When messages were said.
    pub fn said_at(&self) -> &[Timestamp] {
        &self.said_at
    }

    /// When messages were heard.
    pub fn heard_at(&self) -> &[Timestamp] {
        &self.heard_at
    }
}

/// What `origin` says as its message `number`.
fn payload(origin: u64, number: u64, sizes: &RangeInclusive<usize>) -> Vec<u8> {
    let mut random = Random::new(origin.wrapping_mul(0x9e37_79b9).wrapping_add(number));
    let spread = (sizes.end() - sizes.start()) as u64 + 1;
    let length = sizes.start() + random.below(spread) as usize;
    let mut bytes = Vec::with_capacity(length + 7);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
