//! A Unix socket that this process listens on, and its file: open to its owner alone while it is made, in the
//! place of one that a dead process left behind, and removed with the process.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;

/// The file of a socket, removed with this.
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

/// Listens at `path` for tasks; see [`listen_blocking`].
pub fn listen(path: &Path, mode: u32) -> Result<(tokio::net::UnixListener, SocketFile), String> {
    let (listener, file) = listen_blocking(path, mode)?;
    let watch = || {
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    };
    let listener = watch().map_err(|error: io::Error| error.to_string())?;
    Ok((listener, file))
}

/// Listens at `path`, with this file mode. Takes the place of a socket of ours that nobody answers, and of
/// nothing else. An error says why, and what to do where the kernel's word for it does not.
pub fn listen_blocking(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), String> {
    make_way(path)?;
    let listen = || {
        let listener = bind_private(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        let inode = path.symlink_metadata()?.ino();
        Ok((listener, inode))
    };
    let (listener, inode) = listen().map_err(|error| format!("{error}{}", help(&error)))?;
    let path = path.to_owned();
    Ok((listener, SocketFile { path, inode }))
}

/// Whether a socket could be made there; it is gone again.
pub fn try_at(trial: &Path) -> Result<(), String> {
    match UnixListener::bind(trial).and_then(|_| std::fs::remove_file(trial)) {
        // Its name is longer than the one that will be needed, and finds no room in an address.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        tried => tried.map_err(|error| format!("{error}{}", help(&error))),
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
    if UnixStream::connect(path).is_ok() {
        return Err(format!(
            "another process answers there\n help: stop that one (`ss -xlp src {}` says which), or name another \
             path here",
            path.display()
        ));
    }
    std::fs::remove_file(path).map_err(|error| error.to_string())
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

/// Never open to others, not even between making the file and setting its mode.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}
