//! Players who say frames at a fixed rate, and hear each of them come back.

use std::ops::Range;
use std::time::Duration;

use crate::stand::nanos;
use crate::stand::spread::Spread;
use crate::stand::talkers::Talkers;

/// How many say how much how often.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) players: usize,
    /// Frames a second and player.
    pub(crate) rate: f64,
}

/// Bytes of a frame.
pub(crate) const FRAME: usize = 64;

/// All of them. Frames are numbered over all players, who take turns, evenly spread over time.
pub(crate) struct Conversation<T> {
    players: T,
    load: Load,
    /// When frame 0 was due, as if there had been no pause since.
    start: u64,
    said: u64,
    /// Each player's next frame to come back.
    awaited: Vec<u64>,
    heard: u64,
    /// Round trips of these are noted.
    noted: Range<u64>,
    /// From when a frame was due: what a tunnel makes its programs wait counts.
    round_trips: Spread,
}

/// What came of the frames that were due in a span.
pub(crate) struct Outcome {
    pub(crate) round_trips: Spread,
    /// Not back some seconds later.
    pub(crate) missing: u64,
}

impl<T: Talkers> Conversation<T> {
    /// Everybody says one frame; it begins when all of them are back.
    pub(crate) fn begin(players: T, load: Load) -> Self {
        let mut new = Self {
            players,
            load,
            start: nanos(),
            said: 0,
            awaited: (0..load.players as u64).collect(),
            heard: 0,
            noted: 0..0,
            round_trips: Spread::default(),
        };
        for _ in 0..load.players {
            new.say();
        }
        let until = nanos() + CONNECT_MAX.as_nanos() as u64;
        while new.heard < new.said {
            new.turn();
            let (heard, said) = (new.heard, new.said);
            assert!(nanos() < until, "{heard} of {said} connections echo");
        }
        new.start = nanos().saturating_sub(new.due(new.said) - new.start);
        new
    }

    /// Goes on for so long; how many frames came back meanwhile.
    pub(crate) fn talk(&mut self, span: Duration) -> u64 {
        let heard = self.heard;
        let until = nanos() + span.as_nanos() as u64;
        while nanos() < until {
            self.say_due();
            self.turn();
        }
        self.heard - heard
    }

    /// The frames from now on are noted, until [`Self::outcome`].
    pub(crate) fn note(&mut self) {
        self.noted = self.said..u64::MAX;
        self.round_trips.clear();
    }

    /// Goes on until all that was noted is back, or for some seconds.
    pub(crate) fn outcome(&mut self) -> Outcome {
        self.noted.end = self.said;
        let noted = self.noted.end - self.noted.start;
        let until = nanos() + LATE_MAX.as_nanos() as u64;
        while self.round_trips.len() < noted && nanos() < until {
            self.say_due();
            self.turn();
        }
        Outcome {
            round_trips: self.round_trips.clone(),
            missing: noted - self.round_trips.len(),
        }
    }

    fn due(&self, frame: u64) -> u64 {
        let every = 1e9 / (self.load.rate * self.load.players as f64);
        self.start + (frame as f64 * every) as u64
    }

    fn say_due(&mut self) {
        let now = nanos();
        while self.due(self.said) <= now {
            self.say();
        }
    }

    fn say(&mut self) {
        let mut message = [0; FRAME];
        message[..8].copy_from_slice(&self.due(self.said).to_le_bytes());
        fill(&mut message, self.said);
        let player = self.said as usize % self.load.players;
        self.players.say(player, &message);
        self.said += 1;
    }

    fn turn(&mut self) {
        let wait = Duration::from_nanos(self.due(self.said).saturating_sub(nanos()));
        let wait = wait.min(Duration::from_millis(1));
        let Self {
            awaited,
            noted,
            round_trips,
            heard,
            ..
        } = self;
        self.players.turn(wait, |message| {
            *heard += 1;
            let frame = number(message);
            let player = frame as usize % awaited.len();
            check(message, awaited[player]);
            awaited[player] += awaited.len() as u64;
            if noted.contains(&frame) {
                round_trips.record(nanos().saturating_sub(read(&message[..8])));
            }
        });
    }
}

/// Behind the stamps: its number, and bytes that no other frame near it has.
fn fill(message: &mut [u8; FRAME], frame: u64) {
    message[16..24].copy_from_slice(&frame.to_le_bytes());
    message[24..].fill(frame as u8);
}

/// The next frame of its player, and whole.
fn check(message: &[u8], awaited: u64) {
    let mut whole = [0; FRAME];
    fill(&mut whole, awaited);
    assert!(
        message.len() == FRAME && message[16..] == whole[16..],
        "frame {awaited} came back as {message:02x?}"
    );
}

fn number(message: &[u8]) -> u64 {
    read(&message[16..24])
}

fn read(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Handshakes through a bad link take seconds.
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// After this a frame counts as missing.
const LATE_MAX: Duration = Duration::from_secs(5);
