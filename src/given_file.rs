//! Files that somebody named: a key, a token, a configuration.
//!
//! | what is there | what is done |
//! |---|---|
//! | a plain file, also behind links (Kubernetes), a systemd credential | read, up to a bound |
//! | a pipe: `<(secret-tool ...)`, `/dev/stdin`, a FIFO | waited for, with a bound; only at a start, since what came is gone |
//! | a directory, a device, a terminal, a socket | refused |
//!
//! None of them may keep a start waiting for ever, nor a reload at all: signals and commands wait behind it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::clock;
use crate::stderr;

/// When files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occasion {
    /// By a command, or before anything is served.
    #[default]
    Start,
    /// While players play.
    Reload,
}

impl Occasion {
    /// For a person who types a passphrase; below the 90 s that systemd gives a start.
    pub const START_PATIENCE: Duration = Duration::from_secs(60);
}

/// Why there is nothing.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The system says so.
    #[error(transparent)]
    Io(io::Error),
    /// It is no file: a directory, a device, a socket.
    #[error("it is {0}")]
    NoFile(&'static str),
    /// A pipe gives what it has once.
    #[error("it is a pipe, which is read only at a start")]
    PipeAgain,
    /// The writer of the pipe did not come to an end in this time.
    #[error("it is a pipe, and did not end within {0:?}")]
    PipeUnfinished(Duration),
}

impl Unread {
    /// What to do about it, where that is clear.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::NoFile("a directory") => Some("name the file in it"),
            Self::NoFile(_) => Some("name a file, or a pipe"),
            Self::PipeAgain => Some("a restart reads it again; or put it into a file"),
            Self::PipeUnfinished(_) => Some("does what writes to it run, and close it at the end?"),
            Self::Io(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => Some(
                    "this process may not read it: a unit may run as another user, and so may a container",
                ),
                io::ErrorKind::NotFound => Some("is the path right, seen from where this runs?"),
                _ => None,
            },
        }
    }

    /// The system's error, if it is one.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Io(error) => Some(error),
            Self::NoFile(_) | Self::PipeAgain | Self::PipeUnfinished(_) => None,
        }
    }

    /// It is not there, or not to be had now. Otherwise it is there, and no file.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Io(_) | Self::PipeAgain | Self::PipeUnfinished(_) => true,
            Self::NoFile(_) => false,
        }
    }

    /// Another try would find the same.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::NoFile(_) => true,
            Self::Io(error) => error.kind() == io::ErrorKind::PermissionDenied,
            Self::PipeAgain | Self::PipeUnfinished(_) => false,
        }
    }
}

/// One that is open, and not read yet.
#[derive(Debug)]
pub struct GivenFile {
    path: PathBuf,
    file: File,
    found: Metadata,
}

impl GivenFile {
    /// Returns at once, whatever is there.
    pub fn open(path: &Path) -> Result<Self, Unread> {
        // Before it is opened: to open a device can do something.
        refuse_others(&fs::metadata(path).map_err(Unread::Io)?)?;
        // A pipe without a writer would keep us here.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits() as i32)
            .open(path)
            .map_err(Unread::Io)?;
        let found = file.metadata().map_err(Unread::Io)?;
        refuse_others(&found)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            found,
        })
    }

    /// Its permission bits.
    pub fn mode(&self) -> u32 {
        self.found.permissions().mode() & 0o7777
    }

    /// What it has, but not more than one byte over `most`: a wrong file is not read to its end.
    pub fn read(self, most: usize, occasion: Occasion) -> Result<Zeroizing<Vec<u8>>, Unread> {
        match occasion {
            Occasion::Start => self.read_within(most, Occasion::START_PATIENCE),
            Occasion::Reload if self.is_pipe() => Err(Unread::PipeAgain),
            Occasion::Reload => self.read_plain(most),
        }
    }

    /// What it has, but not more than one byte over `most`, and if it is a pipe, what comes of it within `patience`.
    pub fn read_within(
        self,
        most: usize,
        patience: Duration,
    ) -> Result<Zeroizing<Vec<u8>>, Unread> {
        if self.is_pipe() {
            return self.read_pipe(most, patience);
        }
        self.read_plain(most)
    }

    fn is_pipe(&self) -> bool {
        self.found.file_type().is_fifo()
    }

    fn read_plain(self, most: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
        let mut bytes = room(most);
        let mut file = self.file.take(most as u64 + 1);
        file.read_to_end(&mut bytes).map_err(Unread::Io)?;
        Ok(bytes)
    }

    fn read_pipe(mut self, most: usize, patience: Duration) -> Result<Zeroizing<Vec<u8>>, Unread> {
        let deadline = clock::now() + patience;
        let mut is_told = false;
        let mut bytes = room(most);
        while bytes.len() <= most {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Err(Unread::PipeUnfinished(patience));
            }
            let now = if is_told { left } else { left.min(SILENCE) };
            if !self.has_something(now).map_err(Unread::Io)? {
                if !is_told && left > SILENCE {
                    is_told = true;
                    let path = self.path.display();
                    stderr::remark(&format!("waiting for what comes by the pipe {path}"));
                }
                continue;
            }
            let mut piece = Zeroizing::new([0; 512]);
            match self.file.read(&mut *piece) {
                Ok(0) => return Ok(bytes),
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Somebody else reads the same pipe, and was faster.
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Unread::Io(error)),
            }
        }
        Ok(bytes)
    }

    /// Whether there are bytes, or the end, within this time. A signal may cut it short.
    fn has_something(&self, within: Duration) -> io::Result<bool> {
        let mut pipe = [PollFd::new(&self.file, PollFlags::IN)];
        let within = within.try_into().map_err(io::Error::other)?;
        match poll(&mut pipe, Some(&within)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// After this long somebody wonders what we are waiting for.
const SILENCE: Duration = Duration::from_secs(1);

/// Enough capacity that the buffer never grows: growing would leave a copy of a secret behind.
fn room(most: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Vec::with_capacity((most + 1).min(8 << 10)))
}

fn refuse_others(found: &Metadata) -> Result<(), Unread> {
    let kind = found.file_type();
    if kind.is_file() || kind.is_fifo() {
        return Ok(());
    }
    Err(Unread::NoFile(if kind.is_dir() {
        "a directory"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Nobody writes to it, then somebody who does not come to an end, then somebody who does.
    #[test]
    fn a_pipe_is_waited_for_and_not_for_ever() {
        let directory = std::env::temp_dir().join(format!("tidegate-given-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let read = |patience| {
            let file = GivenFile::open(&path).unwrap();
            file.read_within(80, Duration::from_millis(patience))
        };
        let unfinished = read(30).unwrap_err();
        assert!(
            matches!(unfinished, Unread::PipeUnfinished(_)),
            "{unfinished}"
        );
        // Opened for both, it needs no reader to begin with.
        let mut writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        writer.write_all(b"half").unwrap();
        let unfinished = read(30).unwrap_err();
        assert!(
            matches!(unfinished, Unread::PipeUnfinished(_)),
            "{unfinished}"
        );
        writer.write_all(b"whole").unwrap();
        let file = GivenFile::open(&path).unwrap();
        drop(writer);
        assert_eq!(&**file.read(80, Occasion::Start).unwrap(), b"whole");
        let again = GivenFile::open(&path).unwrap().read(80, Occasion::Reload);
        assert!(matches!(again, Err(Unread::PipeAgain)));
        fs::remove_dir_all(&directory).unwrap();
    }
}
