//! Which of a client's messages the backend has echoed, whole and in order.

use tidegate_proto::{Message, Now};

use super::content::{Judgement, Kind, Shape, tagged};
use super::outstanding::{Outstanding, Return};
use super::tally::{Tally, micros};

/// What one client has sent and what of it came back.
pub(super) struct EchoCheck {
    /// The client's number.
    pub(super) number: u32,
    pub(super) reliable: Outstanding,
    pub(super) unreliable: Outstanding,
    /// The start of a message whose rest has not come: a backend behind raw framing cuts as it likes.
    stream: Vec<u8>,
}

impl EchoCheck {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            reliable: Outstanding::default(),
            unreliable: Outstanding::default(),
            stream: Vec::new(),
        }
    }

    /// A message came back, or on the reliable channel a piece of a stream of them.
    pub(super) fn on_message(
        &mut self,
        now: Now,
        message: Message<'_>,
        shape: Shape,
        tally: &mut Tally,
        scratch: &mut Vec<u8>,
    ) {
        if self.stream.is_empty() || !message.reliable {
            match shape.judge(self.number, message.payload, scratch) {
                Judgement::Whole(kind, number) => return self.on_return(now, kind, number, tally),
                Judgement::Wrong if !message.reliable => {
                    tally.wrong += 1;
                    return;
                }
                Judgement::Wrong => {}
            }
            let awaited = self.reliable.oldest();
            let length = awaited.map(|number| shape.size(self.number, Kind::Reliable, number));
            if length == Some(message.payload.len()) {
                return self.on_damaged(tally);
            }
        }
        self.stream.extend_from_slice(message.payload);
        self.cut(now, shape, tally, scratch);
    }

    /// Nothing more will come. Where the run or the session ended within a message, that one is missing; it is not damaged.
    pub(super) fn finish(&self, shape: Shape, tally: &mut Tally, scratch: &mut Vec<u8>) {
        tally.reliable.missing += self.reliable.open() as u64;
        tally.unreliable.missing += self.unreliable.open() as u64;
        let is_front = match tagged(&self.stream) {
            Some((kind, number)) => {
                shape.write(self.number, kind, number, scratch);
                let outstanding = match kind {
                    Kind::Reliable => &self.reliable,
                    Kind::Unreliable => &self.unreliable,
                };
                outstanding.is_awaited(number) && scratch.starts_with(&self.stream)
            }
            None => self.reliable.open() + self.unreliable.open() > 0,
        };
        tally.wrong += u64::from(!self.stream.is_empty() && !is_front);
    }

    /// Takes whole messages from the front of the stream.
    fn cut(&mut self, now: Now, shape: Shape, tally: &mut Tally, scratch: &mut Vec<u8>) {
        let mut at = 0;
        while self.stream.len() - at >= 4 {
            let Some(length) = shape.announced(&self.stream[at..]) else {
                // Where the next message begins is anybody's guess.
                self.on_damaged(tally);
                at = self.stream.len();
                break;
            };
            let Some(message) = self.stream.get(at..at + length) else {
                break;
            };
            match shape.judge(self.number, message, scratch) {
                Judgement::Whole(kind, number) => self.on_return(now, kind, number, tally),
                Judgement::Wrong => self.on_damaged(tally),
            }
            at += length;
        }
        self.stream.drain(..at);
    }

    fn on_damaged(&mut self, tally: &mut Tally) {
        tally.wrong += 1;
        self.reliable.on_damaged();
    }

    fn on_return(&mut self, now: Now, kind: Kind, number: u32, tally: &mut Tally) {
        let (outstanding, messages) = match kind {
            Kind::Reliable => (&mut self.reliable, &mut tally.reliable),
            Kind::Unreliable => (&mut self.unreliable, &mut tally.unreliable),
        };
        match outstanding.on_return(number) {
            Return::New { due, late } => {
                messages.back += 1;
                messages.out_of_order += u64::from(late);
                let took = micros(now.mono.since(due));
                tally.round_trip.saturating_record(took);
            }
            Return::Again => messages.duplicated += 1,
            Return::Never => tally.wrong += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_proto::Timestamp;

    use super::*;

    const SHAPE: Shape = Shape {
        run: 5,
        least: 40,
        most: 40,
    };

    /// What a client makes of a stream that ends after these bytes, of which it sent one message: missing, and wrong.
    fn end_after(stream: &[u8]) -> (u64, u64) {
        let (mut tally, mut scratch) = (Tally::default(), Vec::new());
        let mut check = EchoCheck::new(3);
        check.reliable.on_sent(Timestamp::ZERO);
        check.stream.extend_from_slice(stream);
        check.cut(Now::default(), SHAPE, &mut tally, &mut scratch);
        check.finish(SHAPE, &mut tally, &mut scratch);
        (tally.reliable.missing, tally.wrong)
    }

    #[test]
    fn a_message_of_which_only_the_front_came_is_missing_and_not_damaged() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        SHAPE.write(3, Kind::Reliable, 0, &mut first);
        SHAPE.write(3, Kind::Reliable, 1, &mut second);
        assert_eq!(end_after(&first), (0, 0));
        for front in 0..first.len() {
            assert_eq!(end_after(&first[..front]), (1, 0), "{front} bytes");
        }
        let mut damaged = first.clone();
        damaged[20] ^= 1;
        assert_eq!(end_after(&damaged[..30]), (1, 1));
        // Of one that was never sent, or after all that was.
        assert_eq!(end_after(&second[..30]), (1, 1));
        first.push(0);
        assert_eq!(end_after(&first), (0, 1));
    }
}
