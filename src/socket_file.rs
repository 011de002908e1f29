//! A Unix socket that this process listens on, and its file: open to its owner alone while it is made, in the
//! place of one that a dead process left behind, and removed with the process.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::umask;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::time::timeout;

/// The file of a socket, removed with this.
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    /// Whether there is nothing at its place; not so while that cannot be told.
    fn is_missing(&self) -> bool {
        let found = self.path.symlink_metadata();
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else's by now, if it is another file.
        if self
            .path
            .symlink_metadata()
            .is_ok_and(|found| found.ino() == self.inode)
        {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// A socket that a task accepts from. Its file may be removed under it, as what tidies up `/tmp` does, and then nobody
/// finds it: while nobody comes, the file is looked after.
pub struct KeptSocket {
    listener: tokio::net::UnixListener,
    file: SocketFile,
    mode: u32,
    /// The file is gone, could not be made again, and that was told.
    is_lost: bool,
}

impl KeptSocket {
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Listens at `path` for tasks; see [`listen_blocking`].
    pub fn listen(path: &Path, mode: u32) -> Result<Self, String> {
        let (listener, file) = listen_blocking(path, mode)?;
        let listener = for_tasks(listener).map_err(|error| error.to_string())?;
        Ok(Self {
            listener,
            file,
            mode,
            is_lost: false,
        })
    }

    /// The next one who comes.
    pub async fn accept(&mut self) -> io::Result<tokio::net::UnixStream> {
        loop {
            match timeout(LOOK_INTERVAL, self.listener.accept()).await {
                Ok(accepted) => return accepted.map(|(stream, _)| stream),
                Err(_) => self.look_after(),
            }
        }
    }

    /// Makes the file again where there is nothing. Whatever else is there is somebody else's.
    fn look_after(&mut self) {
        if !self.file.is_missing() {
            return;
        }
        match self.make_again() {
            Ok(()) => {
                log_made_again(&self.file.path);
                self.is_lost = false;
            }
            Err(error) if !self.is_lost => {
                log_lost(&self.file.path, &error);
                self.is_lost = true;
            }
            Err(_) => {}
        }
    }

    fn make_again(&mut self) -> io::Result<()> {
        let (listener, file) = make(&self.file.path, self.mode)?;
        (self.listener, self.file) = (for_tasks(listener)?, file);
        Ok(())
    }
}

fn log_made_again(path: &Path) {
    tracing::warn!(
        event = "socket_removed",
        address = %path.display(),
        help = "it was made again; whatever removed it may do so again: name a place that nothing tidies up, such as \
                one below /run",
    );
}

fn log_lost(path: &Path, error: &io::Error) {
    tracing::warn!(
        event = "socket_lost",
        address = %path.display(),
        %error,
        "it was removed and cannot be made again yet"
    );
}

fn for_tasks(listener: UnixListener) -> io::Result<tokio::net::UnixListener> {
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// How long nobody may find a socket whose file was removed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Listens at `path`, with this file mode. Takes the place of a socket of ours that nobody answers, and of
/// nothing else. An error says why, and what to do where the kernel's word for it does not.
pub fn listen_blocking(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), String> {
    make_way(path)?;
    make(path, mode).map_err(|error| format!("{error}{}", help(&error)))
}

/// Where there is nothing, and nothing stays where that fails.
fn make(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let listener = bind_private(path)?;
    let file = SocketFile {
        inode: path.symlink_metadata()?.ino(),
        path: path.to_owned(),
    };
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok((listener, file))
}

/// Whether a socket could be made there; it is gone again.
pub fn try_at(trial: &Path) -> Result<(), String> {
    match UnixListener::bind(trial).and_then(|_| std::fs::remove_file(trial)) {
        // Its name is longer than the one that will be needed, and finds no room in an address.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        tried => tried.map_err(|error| format!("{error}{}", help(&error))),
    }
}

/// Removes a socket that is ours and that nobody answers.
fn make_way(path: &Path) -> Result<(), String> {
    // Not followed: a link could lead to a file of somebody else's choice.
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(
            "there is something else than a socket; remove it or choose another path".into(),
        );
    }
    if found.uid() != own_uid() {
        return Err(format!(
            "it belongs to uid {}, not to us (uid {})\n help: run this as that user, remove it if nobody needs it, \
             or name another path",
            found.uid(),
            own_uid()
        ));
    }
    if knock(path).is_ok() {
        return Err(format!(
            "another process answers there\n help: stop that one (`ss -xlp src {}` says which), or name another \
             path here",
            path.display()
        ));
    }
    std::fs::remove_file(path).map_err(|error| error.to_string())
}

/// Whether somebody listens there, without waiting: one who hangs takes no connections, and a connect waits for ever
/// once its queue is full.
pub fn knock(path: &Path) -> io::Result<()> {
    match mio::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        connected => connected.map(drop),
    }
}

/// Connects; [`io::ErrorKind::WouldBlock`] when the queue of whoever listens there has no room for so long.
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(patience))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

/// Whose files are ours.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What to do about a socket that cannot be made, where the kernel's word for it does not say so.
fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "\n help: its directory is not there; make it, or name another path"
        }
        // The address has 108 bytes, one of them for the end.
        io::ErrorKind::InvalidInput => {
            "\n help: paths of sockets have at most 107 bytes; name a shorter one"
        }
        io::ErrorKind::PermissionDenied => {
            "\n help: the user that runs this may not write to its directory"
        }
        io::ErrorKind::StorageFull => {
            "\n help: the disk has no room, or no inodes (`df`, `df -i`); make some, or name another path"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "\n help: its directory cannot be written to; name another path"
        }
        _ => "",
    }
}

/// Never open to others, not even between making the file and setting its mode. What other threads make at this
/// moment is not open to others either: the mask is the process's.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket in a directory of its own.
    fn kept(name: &str) -> (PathBuf, KeptSocket) {
        let name = format!("tidegate-socket-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let kept = KeptSocket::listen(&directory.join("a.sock"), 0o660).unwrap();
        (directory, kept)
    }

    #[tokio::test]
    async fn a_socket_that_was_removed_is_made_again_and_goes_with_its_owner() {
        let (directory, mut kept) = kept("again");
        let path = directory.join("a.sock");
        std::fs::remove_file(&path).unwrap();
        kept.look_after();
        let client = UnixStream::connect(&path).unwrap();
        kept.accept().await.unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o660);
        drop((client, kept));
        assert!(!path.exists());
        std::fs::remove_dir(&directory).unwrap();
    }

    #[tokio::test]
    async fn what_somebody_else_made_there_is_left_alone() {
        let (directory, mut kept) = kept("other");
        let path = directory.join("a.sock");
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        let before = path.metadata().unwrap().ino();
        kept.look_after();
        drop(kept);
        assert_eq!(path.metadata().unwrap().ino(), before);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_comes_back_has_its_socket_again() {
        let (directory, mut kept) = kept("directory");
        std::fs::remove_dir_all(&directory).unwrap();
        kept.look_after();
        assert!(kept.is_lost);
        std::fs::create_dir(&directory).unwrap();
        kept.look_after();
        assert!(UnixStream::connect(directory.join("a.sock")).is_ok());
        assert!(!kept.is_lost);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
