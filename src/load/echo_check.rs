//! Which of a client's messages the backend has echoed, whole and in order.

use tidegate_proto::{Message, Now};

use super::content::{Judgement, Kind, Shape};
use super::outstanding::{Outstanding, Return};
use super::tally::{Tally, micros};

/// What one client has sent and what of it came back.
pub(super) struct EchoCheck {
    /// The client's number.
    pub(super) number: u32,
    pub(super) reliable: Outstanding,
    pub(super) unreliable: Outstanding,
    /// The start of a message whose rest has not come: a backend behind raw framing cuts as it likes.
    pub(super) stream: Vec<u8>,
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
