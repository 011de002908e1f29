//! Keys: read from files only, never printed, wiped when dropped.
//!
//! A relative name is looked up in `$CREDENTIALS_DIRECTORY` (systemd's LoadCredential) first and
//! then beside the configuration file. An empty line is what our unit passes where there is no key.
//! A file that others may read is refused: anybody with the key can make tokens for any client id.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::rand::{SecureRandom, SystemRandom};
use tidegate_proto::yojimbo::netcode::Key;
use zeroize::Zeroizing;

use crate::given_file::{GivenFile, Occasion, Unread};

/// Tells keys apart without telling what they are: the start of a hash.
pub fn fingerprint(key: &Key) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    HEXLOWER.encode(&hash.as_ref()[..4])
}

/// Where key files are looked up.
#[derive(Clone, Debug, Default)]
pub struct KeyFiles {
    /// `$CREDENTIALS_DIRECTORY`.
    pub credentials: Option<PathBuf>,
    /// The directory of the configuration file.
    pub beside: PathBuf,
}

impl KeyFiles {
    /// The path that `name` stands for.
    pub fn locate(&self, name: &str) -> PathBuf {
        let credential = self.credentials.as_ref().map(|dir| dir.join(name));
        match credential {
            Some(path) if Path::new(name).is_relative() && has_content(&path) => path,
            Some(_) | None => self.beside.join(name),
        }
    }
}

/// More than a newline.
fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > 1)
}

/// Why there is no key. Says what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, Unread),
    /// Others may read it (or write it).
    #[error("{0} has mode {1:04o}: others on this machine can use the key")]
    Open(PathBuf, u32),
    /// It does not hold 32 bytes in any of the three forms.
    #[error("{0} holds {count} bytes that are no key", count = counted(*.1))]
    NoKey(PathBuf, usize),
}

impl KeyFileError {
    /// What to do about it, where a key that is made anew would not help: `missing` says it of a file that is not there.
    pub(super) fn help_unless_made(&self, missing: &str) -> String {
        match self {
            Self::Unreadable(_, Unread::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                missing.to_owned()
            }
            _ => self.help(),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable(path, Unread::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                format!(
                    "put the key there that the token service has, or make the first one: tidegate keygen --out {}",
                    path.display()
                )
            }
            Self::Unreadable(_, Unread::Io(_)) => {
                "the file must be readable by the user that runs tidegate; under systemd it is a credential, \
                 which is read when the unit starts: restart, if it was made later"
                    .to_owned()
            }
            Self::Unreadable(_, unread) => unread.help().unwrap_or_default().to_owned(),
            Self::Open(path, _) => format!("type: chmod 600 {}", path.display()),
            Self::NoKey(..) => "a key is 32 bytes: raw, as 64 hex digits (32 are half of one), or in base64".to_owned(),
        }
    }
}

/// Reads a key file: 32 bytes raw, hex or base64, with or without a newline at the end.
pub fn read_key_file(path: &Path) -> Result<Key, KeyFileError> {
    read_key_file_on(path, Occasion::Start)
}

/// Reads a key file at a start or for a reload, which takes no second key from a pipe.
pub(super) fn read_key_file_on(path: &Path, occasion: Occasion) -> Result<Key, KeyFileError> {
    let unreadable = |unread| KeyFileError::Unreadable(path.to_owned(), unread);
    let file = GivenFile::open(path).map_err(unreadable)?;
    let mode = file.mode();
    if mode & 0o027 != 0 {
        return Err(KeyFileError::Open(path.to_owned(), mode));
    }
    let bytes = file
        .read(KEY_FILE_BYTES_MAX, occasion)
        .map_err(unreadable)?;
    parse_key(&bytes).ok_or_else(|| KeyFileError::NoKey(path.to_owned(), bytes.len()))
}

/// No form of a key is longer: 64 hex digits and some white space.
const KEY_FILE_BYTES_MAX: usize = 80;

/// How many there are: of a file that is too long no more was read than shows that.
fn counted(bytes: usize) -> String {
    match bytes > KEY_FILE_BYTES_MAX {
        true => format!("more than {KEY_FILE_BYTES_MAX}"),
        false => bytes.to_string(),
    }
}

fn parse_key(bytes: &[u8]) -> Option<Key> {
    let mut key = Zeroizing::new([0; 32]);
    // Chance makes no raw key of digits alone: that is half a key in hex, or one that is just being written.
    if bytes.len() == key.len() && !bytes.iter().all(u8::is_ascii_hexdigit) {
        key.copy_from_slice(bytes);
    } else {
        let text = std::str::from_utf8(bytes).ok()?.trim();
        let encoding = match text.len() {
            64 => HEXLOWER_PERMISSIVE,
            _ => BASE64,
        };
        let decoded = Zeroizing::new(encoding.decode(text.as_bytes()).ok()?);
        key.copy_from_slice(decoded.get(..).filter(|bytes| bytes.len() == 32)?);
    }
    Some(Key::new(*key))
}

/// A new key from the operating system's generator.
pub fn generate_key() -> io::Result<Key> {
    let mut bytes = Zeroizing::new([0; 32]);
    SystemRandom::new()
        .fill(bytes.as_mut())
        .map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(Key::new(*bytes))
}

/// Writes `content` into a new file that only its owner may read. Never overwrites.
pub fn write_new_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key would be found, and refused, at the next start. What failed first is what is told.
        fs::remove_file(path).ok();
    }
    written
}

/// Like [`write_new_secret`], but replaces what was there: in one step, so that no reader sees half
/// of it.
pub fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    write_new_secret(&new, content)?;
    let renamed = fs::rename(&new, path);
    if renamed.is_err() {
        // `path` is a directory, say. What stays behind would be a secret under a name that nobody looks for.
        fs::remove_file(&new).ok();
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_of_one_key() {
        let raw: [u8; 32] = std::array::from_fn(|index| index as u8 + 1);
        let hex: String = raw.iter().map(|byte| format!("{byte:02X}")).collect();
        let base64 = BASE64.encode(&raw);
        for form in [
            raw.to_vec(),
            format!("{hex}\n").into_bytes(),
            base64.into_bytes(),
        ] {
            assert_eq!(parse_key(&form).as_ref().map(Key::as_bytes), Some(&raw));
        }
        for wrong in [
            &raw[..31],
            &hex.as_bytes()[1..],
            &hex.as_bytes()[..32],
            b"",
            b"not a key at all, but 40 bytes of text..",
        ] {
            assert!(parse_key(wrong).is_none());
        }
    }

    #[test]
    fn of_a_long_file_no_more_is_counted_than_was_read() {
        let told = |bytes| KeyFileError::NoKey("game.key".into(), bytes).to_string();
        assert_eq!(told(80), "game.key holds 80 bytes that are no key");
        let many = told(KEY_FILE_BYTES_MAX + 1);
        assert_eq!(many, "game.key holds more than 80 bytes that are no key");
    }

    #[test]
    fn fingerprints_tell_keys_apart_and_nothing_else() {
        let (one, other) = (Key::new([0xab; 32]), Key::new([0xac; 32]));
        assert_ne!(fingerprint(&one), fingerprint(&other));
        assert_eq!(fingerprint(&one).len(), 8);
        assert!(!format!("{one:?}{}", fingerprint(&one)).contains("abab"));
    }
}
