//! Records and datagrams of rudp: bytes to values and back.
//!
//! Rule: docs/wire/rudp.md, section 1. A datagram that is not a whole list of records is refused as
//! a whole: the reference applies the records before a bad one, which lets garbage do half of
//! something.

/// The largest payload a record can carry: its length field has 15 bits and counts from 4.
pub const MESSAGE_BYTES_MAX: usize = 0x7fff - 4;

/// Bytes a message record costs beside its payload, counted as the reference counts them when it
/// packs: two length bytes, even where one is enough.
pub const RECORD_OVERHEAD: usize = 4;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Nothing to say.
    Heartbeat,
    /// The sender gave up on us; whatever follows in the datagram does not count.
    Corrupt,
    /// "Send me your message with this id again."
    Request(u16),
    /// "My message with this id is gone."
    Missing(u16),
    /// A message.
    Message {
        /// The low 16 bits of its number.
        id: u16,
        /// What the application sent.
        payload: &'a [u8],
    },
}

/// The datagram is not a list of whole records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The records of one datagram, in order.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

/// Checks a datagram from end to end and hands out its records.
///
/// An empty datagram is legal and has none: the reference sends one after a large message. Bytes
/// behind a corrupt record are not looked at.
pub fn parse(datagram: &[u8]) -> Result<Records<'_>, Malformed> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let (record, after) = split(rest).ok_or(Malformed)?;
        if record == Record::Corrupt {
            let whole = datagram.len() - after.len();
            return Ok(Records {
                rest: &datagram[..whole],
            });
        }
        rest = after;
    }
    Ok(Records { rest: datagram })
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = split(self.rest)?;
        self.rest = rest;
        Some(record)
    }
}

/// The first record of `bytes` and what follows it; `None` when it is cut short.
fn split(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        // The long form is legal for short lengths too.
        let (&second, after) = rest.split_first()?;
        length = usize::from(first & 0x7f) << 8 | usize::from(second);
        rest = after;
    }
    match length {
        0 => return Some((Record::Heartbeat, rest)),
        1 => return Some((Record::Corrupt, rest)),
        _ => {}
    }
    let (id, rest) = rest.split_first_chunk::<2>()?;
    let id = u16::from_be_bytes(*id);
    match length {
        2 => Some((Record::Request(id), rest)),
        3 => Some((Record::Missing(id), rest)),
        _ => {
            let (payload, rest) = rest.split_at_checked(length - 4)?;
            Some((Record::Message { id, payload }, rest))
        }
    }
}

/// Appends a request.
pub fn emit_request(out: &mut Vec<u8>, id: u16) {
    out.push(2);
    out.extend_from_slice(&id.to_be_bytes());
}

/// Appends the answer to a request for a message that is gone.
pub fn emit_missing(out: &mut Vec<u8>, id: u16) {
    out.push(3);
    out.extend_from_slice(&id.to_be_bytes());
}

/// Appends the record that ends a session between two tidegates and is harmless to the reference.
pub fn emit_corrupt(out: &mut Vec<u8>) {
    out.push(1);
}

/// Appends the header of a message; its payload, of at most [`MESSAGE_BYTES_MAX`] bytes, must
/// follow.
pub fn emit_message_header(out: &mut Vec<u8>, id: u16, payload_bytes: usize) {
    assert!(
        payload_bytes <= MESSAGE_BYTES_MAX,
        "the caller refuses messages that fit no record"
    );
    let length = payload_bytes + 4;
    if length < 0x80 {
        out.push(length as u8);
    } else {
        out.extend_from_slice(&(0x8000 | length as u16).to_be_bytes());
    }
    out.extend_from_slice(&id.to_be_bytes());
}

/// Appends a record, whole.
pub fn emit(record: Record<'_>, out: &mut Vec<u8>) {
    match record {
        Record::Heartbeat => out.push(0),
        Record::Corrupt => emit_corrupt(out),
        Record::Request(id) => emit_request(out, id),
        Record::Missing(id) => emit_missing(out, id),
        Record::Message { id, payload } => {
            emit_message_header(out, id, payload.len());
            out.extend_from_slice(payload);
        }
    }
}

/// Whether a record of `record_bytes` still goes into a datagram that holds `used` bytes.
///
/// A message that fits no datagram of this size travels alone, and relies on IP fragments.
pub fn fits(used: usize, record_bytes: usize, mtu: usize) -> bool {
    used == 0 || used + record_bytes <= mtu
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u16, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        emit_message_header(&mut out, id, payload.len());
        out.extend_from_slice(payload);
        out
    }

    #[test]
    fn every_length_class_survives_the_trip() {
        for length in [0, 1, 123, 124, 125, 4000, MESSAGE_BYTES_MAX] {
            let payload = vec![7; length];
            let bytes = message(0xfffe, &payload);
            let records: Vec<_> = parse(&bytes).expect("whole").collect();
            let expected = Record::Message {
                id: 0xfffe,
                payload: &payload,
            };
            assert_eq!(records, [expected], "{length} bytes");
            assert_eq!(bytes.len(), length + if length < 124 { 3 } else { 4 });
            assert_eq!(parse(&bytes[..bytes.len() - 1]).err(), Some(Malformed));
        }
    }

    #[test]
    fn a_bad_tail_spoils_the_whole_datagram() {
        let good = message(0, b"abc");
        for tail in [&[0x80][..], &[2, 0], &[3], &[9, 0], &[0xff, 0xff, 0, 1]] {
            let mut bytes = good.clone();
            bytes.extend_from_slice(tail);
            assert_eq!(parse(&bytes).err(), Some(Malformed), "tail {tail:?}");
        }
        assert!(parse(&good).is_ok());
    }

    #[test]
    fn nothing_counts_behind_a_corrupt_record() {
        let records: Vec<_> = parse(&[0, 1, 5, 0]).expect("legal").collect();
        assert_eq!(records, [Record::Heartbeat, Record::Corrupt]);
    }
}
