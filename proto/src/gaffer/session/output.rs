//! What our packets carry: the header with its acknowledgements, and what the sender planned.

use super::Session;
use crate::gaffer::Payload;
use crate::gaffer::numbering::Place;
use crate::gaffer::receiver;
use crate::gaffer::wire::{self, Header, KEEP_ALIVE};
use crate::sender::Planned;

impl Session {
    /// Begins a packet: takes the next place and writes its header.
    pub(super) fn begin_packet(&mut self, out: &mut Vec<u8>) -> Place {
        let place = self.numbering.take();
        let (ack, ack_bits) = self.received.acks();
        let header = Header {
            protocol_id: self.params.protocol_id,
            sequence: place.sequence,
            ack,
            ack_bits,
        };
        header.emit(out);
        place
    }

    pub(super) fn emit_planned(&self, out: &mut Vec<u8>) {
        let plan = self.sender.planned();
        for message in &plan.messages {
            self.emit_message(*message, out);
        }
        if let Some(fragment) = plan.fragment {
            let bytes = self.sender.fragment_payload(fragment);
            let (index, last) = (fragment.index as u8, (fragment.count - 1) as u8);
            wire::emit_fragment(fragment.id, index, last, bytes, out);
        }
        if plan.messages.is_empty() && plan.fragment.is_none() {
            out.push(KEEP_ALIVE);
        }
    }

    fn emit_message(&self, message: Planned, out: &mut Vec<u8>) {
        let payload = self.sender.payload(message);
        match (self.params.payload, message.lane) {
            (Payload::Raw { .. }, _) => {
                out.extend_from_slice(payload.0);
                out.extend_from_slice(payload.1);
            }
            (Payload::Messages, receiver::RELIABLE) => {
                wire::emit_reliable(message.id, payload, out);
            }
            (Payload::Messages, _) => wire::emit_unreliable(payload, out),
        }
    }
}
