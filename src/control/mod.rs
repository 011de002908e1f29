//! The control socket: whoever may write to the file may ask for everything in [`Request`].
//!
//! ```text
//!   tidegate ctl ──one JSON object a line──▶ control.sock ──▶ Gate ──Command::Visit──▶ workers
//!                ◀──one JSON object a line──                       ◀──answers, 2 s at most──
//! ```
//!
//! The file mode is the whole access control, and each command is logged with the uid of its
//! caller, those that change nothing at debug. A caller that does not read its answers waits in a
//! task of its own; no worker waits for anybody.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::config::Admin;
use crate::exit::Unavailable;

mod gate;
mod place;
mod request;

pub use gate::Gate;
pub use place::{answering, in_session};
pub use request::Request;

/// A bound control socket.
struct ControlSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// Its file, removed with this.
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

/// Lets operators in: by signals and, if there is to be one, by the socket, whose file goes with what
/// is returned. One that nobody asked for costs a warning where it cannot be had, and not the players.
pub fn open(admin: &Admin, gate: Arc<Gate>) -> anyhow::Result<Option<SocketFile>> {
    gate.clone().listen_for_signals()?;
    let Some(path) = &admin.control_socket else {
        return Ok(None);
    };
    match ControlSocket::bind(path, admin.control_mode) {
        Ok(socket) => Ok(Some(socket.start(gate))),
        Err(error) if admin.control_named => Err(error.into()),
        Err(error) => {
            let help = "players notice nothing, `tidegate ctl` and `top` do not get in; \
                        --control or admin.control_socket names another place";
            tracing::warn!(event = "control_failed", path = %path.display(), %error, help);
            Ok(None)
        }
    }
}

impl ControlSocket {
    /// Takes the place of a socket that a dead process of ours left behind, and of nothing else.
    fn bind(path: &Path, mode: u32) -> Result<Self, Unavailable> {
        let refuse = |why: String| Unavailable(format!("control socket {}: {why}", path.display()));
        make_way(path).map_err(&refuse)?;
        let bound = bind_private(path).and_then(|listener| {
            std::fs::set_permissions(path, Permissions::from_mode(mode))?;
            let inode = path.symlink_metadata()?.ino();
            Ok((listener, inode))
        });
        let (listener, inode) =
            bound.map_err(|error| refuse(format!("{error}{}", help(&error))))?;
        tracing::info!(event = "control", path = %path.display());
        Ok(Self {
            listener,
            file: SocketFile {
                path: path.to_owned(),
                inode,
            },
        })
    }

    /// Answers from now on, in a task of its own.
    fn start(self, gate: Arc<Gate>) -> SocketFile {
        let Self { listener, file } = self;
        tokio::spawn(serve(listener, gate));
        file
    }
}

async fn serve(listener: UnixListener, gate: Arc<Gate>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Beyond the limit, callers wait in the kernel's backlog.
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    if let Err(error) = converse(stream, &gate).await {
                        tracing::debug!(event = "control_connection", %error);
                    }
                    drop(place);
                });
            }
            // Out of descriptors, most likely: trying again at once would only spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
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
        return Err(format!("it belongs to uid {}, not to us", found.uid()));
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err("another tidegate answers there".into());
    }
    std::fs::remove_file(path).map_err(|error| error.to_string())
}

fn own_uid() -> u32 {
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

async fn converse(stream: UnixStream, gate: &Arc<Gate>) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let mut bounded = (&mut reader).take(LINE_MAX);
        if timeout(IDLE, bounded.read_line(&mut line)).await?? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => answer(gate, uid, request).await,
            Err(error) => json!({"ok": false, "error": error.to_string()}),
        };
        let text = format!("{answer}\n");
        timeout(IDLE, writer.write_all(text.as_bytes())).await??;
        if line.len() as u64 >= LINE_MAX {
            return Ok(());
        }
    }
}

async fn answer(gate: &Arc<Gate>, uid: u32, request: Request) -> Value {
    let told = serde_json::to_string(&request).unwrap_or_default();
    let is_query = request.is_query();
    let (ok, answer) = match gate.handle(request).await {
        Ok(Value::Object(mut object)) => {
            object.insert("ok".into(), true.into());
            (true, Value::Object(object))
        }
        Ok(other) => (true, json!({"ok": true, "answer": other})),
        Err(error) => (false, json!({"ok": false, "error": format!("{error:#}")})),
    };
    // Whoever watches asks every second; who changes something is worth a line.
    if is_query {
        tracing::debug!(event = "control_query", uid, command = told, ok);
    } else {
        tracing::info!(event = "control_command", uid, command = told, ok);
    }
    answer
}

const CONNECTIONS_MAX: usize = 16;

/// Of a request. None is nearly as long.
const LINE_MAX: u64 = 8 * 1024;

/// For the next request, or for taking an answer.
const IDLE: Duration = Duration::from_secs(30);
