//! The file around a recording: pcapng, so that tshark and Wireshark open it.
//!
//! Two interfaces. On the first are the datagrams as they were on the wire, each behind made-up IP and
//! UDP headers with the real addresses (link type RAW). On the second are the session records of
//! `record.rs` (link type USER0, which the format keeps for such things); messages among them carry a
//! comment that a person can read.
//!
//! Rule: the pcapng draft (draft-ietf-opsawg-pcapng), sections 3 and 4. Only what is written here is
//! read back: little-endian, one section, enhanced packet blocks; other blocks are skipped.

use tidegate_proto::cursor::Reader;

/// The interface of datagrams.
pub const DATAGRAMS: u32 = 0;
/// The interface of session records.
pub const RECORDS: u32 = 1;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const LINK_RAW: u16 = 101;
const LINK_USER0: u16 = 147;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;

/// Appends what a file begins with.
pub fn begin(out: &mut Vec<u8>) {
    block(out, SECTION, |body| {
        body.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        body.extend_from_slice(&1_u16.to_le_bytes());
        body.extend_from_slice(&0_u16.to_le_bytes());
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        let application = concat!("tidegate ", env!("CARGO_PKG_VERSION"));
        option(body, SECTION_APPLICATION, application.as_bytes());
        option(body, OPTION_END, &[]);
    });
    interface(
        out,
        LINK_RAW,
        "datagrams",
        "as on the wire, headers made up",
    );
    interface(out, LINK_USER0, "sessions", DESCRIPTION);
}

/// Names the version of the records, for programs that read them.
const DESCRIPTION: &str = "tidegate session records, version 1";

fn interface(out: &mut Vec<u8>, link: u16, name: &str, description: &str) {
    block(out, INTERFACE, |body| {
        body.extend_from_slice(&link.to_le_bytes());
        body.extend_from_slice(&[0; 2]);
        // No limit on the length of a packet.
        body.extend_from_slice(&[0; 4]);
        option(body, INTERFACE_NAME, name.as_bytes());
        option(body, INTERFACE_DESCRIPTION, description.as_bytes());
        // Times in units of 10^-9 s.
        option(body, INTERFACE_RESOLUTION, &[9]);
        option(body, OPTION_END, &[]);
    });
}

/// Appends a packet; `comment` is for people, and may be empty.
pub fn packet(out: &mut Vec<u8>, interface: u32, unix_nanos: u64, bytes: &[u8], comment: &str) {
    block(out, PACKET, |body| {
        let length = (bytes.len() as u32).to_le_bytes();
        body.extend_from_slice(&interface.to_le_bytes());
        body.extend_from_slice(&((unix_nanos >> 32) as u32).to_le_bytes());
        body.extend_from_slice(&(unix_nanos as u32).to_le_bytes());
        body.extend_from_slice(&length);
        body.extend_from_slice(&length);
        padded(body, bytes);
        if !comment.is_empty() {
            option(body, OPTION_COMMENT, comment.as_bytes());
            option(body, OPTION_END, &[]);
        }
    });
}

fn block(out: &mut Vec<u8>, kind: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(body, value);
}

fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(bytes);
    body.resize(body.len() + padding(bytes.len()), 0);
}

/// Blocks and what is in them end at multiples of four.
const fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}

/// A packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// On which interface.
    pub interface: u32,
    /// What it holds.
    pub bytes: &'a [u8],
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It does not begin as one of ours.
    #[error("not a pcapng file that tidegate made")]
    NotOurs,
    /// A block has an impossible length, this many bytes into the file.
    #[error("a broken block at byte {0}")]
    Block(usize),
}

/// The packets of a file, one after the other.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    file: &'a [u8],
    at: usize,
    packets: u64,
}

/// Bytes that show whether a file is pcapng.
pub const BEGIN_BYTES: u64 = 12;

impl<'a> Packets<'a> {
    /// Reads what a file begins with.
    pub fn new(file: &'a [u8]) -> Result<Self, FileError> {
        let mut reader = Reader::new(file);
        let is_section = reader.u32_le() == Ok(SECTION);
        let length = reader.u32_le();
        let is_little = reader.u32_le() == Ok(BYTE_ORDER);
        if !is_section || length.is_err() || !is_little {
            return Err(FileError::NotOurs);
        }
        Ok(Self {
            file,
            at: 0,
            packets: 0,
        })
    }

    /// The next packet; `None` at the end. A last block that was cut short is the end: the process
    /// that wrote it was.
    pub fn read(&mut self) -> Result<Option<Packet<'a>>, FileError> {
        loop {
            let rest = &self.file[self.at..];
            let mut reader = Reader::new(rest);
            let (Ok(kind), Ok(length)) = (reader.u32_le(), reader.u32_le()) else {
                return Ok(None);
            };
            let length = length as usize;
            if length < 12 || !length.is_multiple_of(4) {
                return Err(FileError::Block(self.at));
            }
            let Some(block) = rest.get(..length) else {
                return Ok(None);
            };
            if block[length - 4..] != block[4..8] {
                return Err(FileError::Block(self.at));
            }
            let broken = FileError::Block(self.at);
            self.at += length;
            if kind == PACKET {
                self.packets += 1;
                let packet = self.parse(&block[8..length - 4]);
                return packet.ok_or(broken).map(Some);
            }
        }
    }

    fn parse(&self, body: &'a [u8]) -> Option<Packet<'a>> {
        let mut reader = Reader::new(body);
        let interface = reader.u32_le().ok()?;
        let _time = reader.u64_le().ok()?;
        let captured = reader.u32_le().ok()? as usize;
        let _original = reader.u32_le().ok()?;
        Some(Packet {
            number: self.packets,
            interface,
            bytes: reader.rest().get(..captured)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(packets: &[(u32, &[u8], &str)]) -> Vec<u8> {
        let mut file = Vec::new();
        begin(&mut file);
        for (interface, bytes, comment) in packets {
            packet(&mut file, *interface, 1 << 40, bytes, comment);
        }
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let file = file(&[(DATAGRAMS, b"abcde", ""), (RECORDS, b"", "a comment")]);
        assert!(file.len().is_multiple_of(4));
        let mut packets = Packets::new(&file).unwrap();
        let first = packets.read().unwrap().unwrap();
        assert_eq!(
            (first.number, first.interface, first.bytes),
            (1, DATAGRAMS, &b"abcde"[..])
        );
        let second = packets.read().unwrap().unwrap();
        assert_eq!(
            (second.number, second.interface, second.bytes),
            (2, RECORDS, &b""[..])
        );
        assert_eq!(packets.read(), Ok(None));
    }

    #[test]
    fn a_cut_file_ends_and_a_broken_one_says_where() {
        let whole = file(&[(DATAGRAMS, b"abcd", ""), (DATAGRAMS, b"efgh", "")]);
        let mut packets = Packets::new(&whole[..whole.len() - 1]).unwrap();
        assert!(packets.read().unwrap().is_some());
        assert_eq!(packets.read(), Ok(None));

        let mut broken = whole.clone();
        let at = whole.len() - 4;
        broken[at] ^= 4;
        let mut packets = Packets::new(&broken).unwrap();
        assert!(packets.read().unwrap().is_some());
        assert!(matches!(packets.read(), Err(FileError::Block(_))));
        assert_eq!(Packets::new(&whole[4..]).err(), Some(FileError::NotOurs));
    }
}
