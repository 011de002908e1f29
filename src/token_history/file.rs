//! The bytes of a token history: a header, then a record for each connect token that opened a session.
//!
//! ```text
//!   header   "TGTOKEN1"  since u64  started u64  booted u64   check u64      40 bytes, little endian
//!   record   tag 16 bytes           end u64                   check u64      32 bytes
//! ```
//!
//! A process that is killed leaves at worst a cut last record, of a token that was not told it is
//! seated. Everything else that does not fit is damage, and said so. The check finds accidents;
//! a program that may write to the file needs no accident.

use tidegate_proto::yojimbo::netcode::UsedToken;

pub const HEADER_BYTES: usize = 40;
pub const RECORD_BYTES: usize = 32;

const MAGIC: [u8; 8] = *b"TGTOKEN1";

/// What is said before the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Every token used from this unix second on is recorded.
    pub since: u64,
    /// When the process that wrote it began, unix seconds; later than every one before it.
    pub started: u64,
    /// When the machine began, unix seconds: what is written without being synced is worth nothing
    /// after another start of it.
    pub booted: u64,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// What is said before the records.
    pub header: Header,
    /// The records that are whole.
    pub used: Vec<UsedToken>,
    /// Records whose check is wrong.
    pub damaged: usize,
}

impl Contents {
    /// `None` when this does not begin like a token history. Allocates less than the input is long.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, records) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if header[..8] != MAGIC || !is_intact(header) {
            return None;
        }
        let header = Header {
            since: word(&header[8..]),
            started: word(&header[16..]),
            booted: word(&header[24..]),
        };
        let records = records.chunks_exact(RECORD_BYTES);
        let count = records.len();
        let mut used = Vec::with_capacity(count);
        for record in records.filter(|record| is_intact(record)) {
            let mut tag = [0; 16];
            tag.copy_from_slice(&record[..16]);
            let end = word(&record[16..]);
            used.push(UsedToken { tag, end });
        }
        Some(Self {
            header,
            damaged: count - used.len(),
            used,
        })
    }
}

impl Header {
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(MAGIC);
        for word in [self.since, self.started, self.booted] {
            out.extend(word.to_le_bytes());
        }
        seal(out, start);
    }
}

pub fn emit_record(used: &UsedToken, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(used.tag);
    out.extend(used.end.to_le_bytes());
    seal(out, start);
}

fn seal(out: &mut Vec<u8>, start: usize) {
    let check = checksum(&out[start..]);
    out.extend(check.to_le_bytes());
}

fn is_intact(sealed: &[u8]) -> bool {
    let (body, check) = sealed.split_at(sealed.len() - 8);
    checksum(body) == word(check)
}

/// FNV-1a, 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        since: 5,
        started: 7,
        booted: 1,
    };

    fn file(count: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        HEADER.emit(&mut bytes);
        for number in 0..count {
            let tag = [number; 16];
            emit_record(&UsedToken { tag, end: 40 }, &mut bytes);
        }
        bytes
    }

    #[test]
    fn a_file_cut_anywhere_keeps_every_whole_record() {
        let whole = file(3);
        for cut in HEADER_BYTES..=whole.len() {
            let contents = Contents::parse(&whole[..cut]).unwrap();
            assert_eq!(contents.header, HEADER);
            assert_eq!(contents.used.len(), (cut - HEADER_BYTES) / RECORD_BYTES);
            assert_eq!(contents.damaged, 0, "a cut tail is no damage");
        }
        for cut in 0..HEADER_BYTES {
            assert_eq!(Contents::parse(&whole[..cut]), None);
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let whole = file(2);
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match Contents::parse(&changed) {
                None => assert!(bit / 8 < HEADER_BYTES, "bit {bit}"),
                Some(contents) => assert_eq!((contents.used.len(), contents.damaged), (1, 1)),
            }
        }
    }

    #[test]
    fn a_file_of_zeros_is_damage() {
        let mut bytes = file(1);
        bytes.extend([0; RECORD_BYTES]);
        assert_eq!(Contents::parse(&bytes).unwrap().damaged, 1);
        assert_eq!(Contents::parse(&[0; 200]), None);
    }
}
