//! What the applications at both ends say, and the ledger that checks what they hear.
//!
//! Every message is a function of the seed, its origin and its number, so the listener knows what
//! must come next without being told.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::random::Random;
use crate::session::{Channel, Message};
use crate::time::Timestamp;

/// What one end sends.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The reliable channels it uses: each message goes on one of them, drawn evenly.
    pub reliable: Vec<Channel>,
    /// The unreliable one.
    pub on_unreliable: Channel,
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
    /// Once, from that time on, so many more.
    pub surge: Option<(Duration, u64)>,
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
            reliable: vec![0],
            on_unreliable: 1,
            messages: 200,
            sizes: 0..=200,
            begins: Duration::ZERO,
            every: Duration::from_millis(16),
            burst: 1,
            surge: None,
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
    hears_on: Vec<Channel>,
    said: u64,
    /// By the place of the channel in [`Traffic::reliable`].
    said_on: Vec<u64>,
    said_unreliable: u64,
    heard: u64,
    heard_on: Vec<u64>,
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
            said_on: vec![0; says.reliable.len()],
            says,
            origin,
            hears_origin,
            hears_sizes: hears.sizes.clone(),
            hears_on: hears.reliable.clone(),
            said: 0,
            said_unreliable: 0,
            heard: 0,
            heard_on: vec![0; hears.reliable.len()],
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

    /// Says what is due. `say` gets the channel, whether it is a reliable one, and the payload, and false from it means
    /// "not now".
    pub fn speak(&mut self, now: Timestamp, mut say: impl FnMut(Channel, bool, &[u8]) -> bool) {
        while self.wants_to_speak() && self.next_burst <= now {
            for _ in 0..self.says.burst + self.surge(now) {
                if !self.wants_to_speak() {
                    break;
                }
                let place = self.next_channel();
                let body = message(self.origin, place, self.said_on[place], &self.says.sizes);
                if !say(self.says.reliable[place], true, &body) {
                    self.next_burst = now + Duration::from_millis(5);
                    return;
                }
                self.said_on[place] += 1;
                self.said += 1;
                self.said_at.push(now);
            }
            if self.says.unreliable {
                let mut body = self.said_unreliable.to_le_bytes().to_vec();
                body.extend_from_slice(&payload(!self.origin, self.said_unreliable, &(4..=64)));
                say(self.says.on_unreliable, false, &body);
                self.said_unreliable += 1;
            }
            if !self.says.echoes {
                self.next_burst = self.next_burst.max(now - self.says.every) + self.says.every;
            }
        }
    }

    /// How many more than usual it says now.
    fn surge(&mut self, now: Timestamp) -> u64 {
        let is_due = |surge: &mut (Duration, u64)| now >= Timestamp::ZERO + surge.0;
        self.says
            .surge
            .take_if(is_due)
            .map_or(0, |(_, messages)| messages)
    }

    /// The place of the channel that its next message goes on.
    fn next_channel(&self) -> usize {
        let draw = Random::new(self.origin.rotate_left(32) ^ self.said).next();
        (draw % self.says.reliable.len() as u64) as usize
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
            let mut places = self.hears_on.iter();
            let place = places.position(|channel| *channel == message.channel);
            let place = place.ok_or("nothing was said on this channel")?;
            let number = self.heard_on[place];
            let expected = self::message(self.hears_origin, place, number, &self.hears_sizes);
            if message.payload != expected {
                return Err(format!(
                    "reliable message {number} of origin {} on channel {}: {} bytes do not match the {} that were sent",
                    self.hears_origin,
                    message.channel,
                    message.payload.len(),
                    expected.len()
                ));
            }
            self.heard_on[place] += 1;
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

    /// Reliable messages heard, all in the order of their channel.
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

/// What `origin` says as its message `number` on the reliable channel at this place.
fn message(origin: u64, place: usize, number: u64, sizes: &RangeInclusive<usize>) -> Vec<u8> {
    payload(origin ^ (place as u64) << 48, number, sizes)
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
