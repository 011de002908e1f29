//! The control socket: a user who may write to the file may ask for everything in [`Request`].
//!
//! ```text
//!   tidegate ctl ──one JSON object a line──▶ control.sock ──▶ Gate ──Command::Visit──▶ workers
//!                ◀──one JSON object a line──                       ◀──answers, 2 s at most──
//! ```
//!
//! The file mode is the whole access control, and each command is logged with the uid of its
//! caller (`audit.rs`), those that change nothing at debug. A caller that does not read its answers waits in a
//! task of its own; no worker waits for anybody.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

use crate::config::Admin;
use crate::exit::Unavailable;
use crate::socket_file::KeptSocket;

mod audit;
mod drain;
mod gate;
mod log_level;
mod peers;
mod place;
mod recording;
mod reload;
mod request;
mod signals;
mod stats;
mod targets;
mod whom;

pub use gate::Gate;
pub use place::{answering, in_session};
pub use request::Request;
pub use signals::Signals;

/// Lets operators in: by signals and, if there is one, by the socket, whose file goes with the control plane's tasks.
pub fn open(socket: Option<KeptSocket>, signals: Signals, gate: Arc<Gate>) {
    gate.clone().obey(signals);
    if let Some(socket) = socket {
        tokio::spawn(serve(socket, gate));
    }
}

/// The socket, if there is to be one; clients that come wait until [`open`]. One that nobody asked for costs a warning
/// where it cannot be had, and not the players.
pub fn bind(admin: &Admin) -> Result<Option<KeptSocket>, Unavailable> {
    let Some(path) = &admin.control_socket else {
        return Ok(None);
    };
    match bind_at(path, admin.control_mode) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if admin.control_named => Err(error),
        Err(error) => {
            let help = "players notice nothing, `tidegate ctl` and `top` do not get in; \
                        --control or admin.control_socket names another place";
            tracing::warn!(event = "control_failed", path = %path.display(), %error, help);
            Ok(None)
        }
    }
}

fn bind_at(path: &Path, mode: u32) -> Result<KeptSocket, Unavailable> {
    let socket = KeptSocket::listen(path, mode)
        .map_err(|why| Unavailable(format!("control socket {}: {why}", path.display())))?;
    tracing::info!(event = "control", path = %path.display());
    Ok(socket)
}

async fn serve(mut socket: KeptSocket, gate: Arc<Gate>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let waiting = Arc::new(Notify::new());
    loop {
        let Ok(stream) = socket.accept().await else {
            // Out of descriptors, most likely: trying again at once would only spin.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Beyond the limit a caller waits, until those who say nothing have gone; others do in the kernel's backlog.
        let place = loop {
            match timeout(ASKING_MIN, Arc::clone(&places).acquire_owned()).await {
                Ok(place) => break place,
                Err(_) => waiting.notify_waiters(),
            }
        };
        let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
        tokio::spawn(async move {
            if let Err(error) = converse(stream, &gate, &waiting).await {
                tracing::debug!(event = "control_connection", %error);
            }
            drop(place);
        });
    }
}

/// `waiting` is told when somebody waits for a place.
async fn converse(stream: UnixStream, gate: &Arc<Gate>, waiting: &Notify) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let mut bounded = (&mut reader).take(LINE_MAX);
        let read = tokio::select! {
            // What was asked is answered.
            biased;
            read = timeout(IDLE, bounded.read_line(&mut line)) => read??,
            () = overstayed(waiting, ASKING_MIN) => 0,
        };
        if read == 0 {
            return Ok(());
        }
        let text = match serde_json::from_str::<Request>(&line) {
            Ok(request) => answer(gate, uid, request).await,
            Err(error) => json!({"ok": false, "error": not_understood(&error)}).to_string(),
        } + "\n";
        tokio::select! {
            biased;
            written = timeout(IDLE, writer.write_all(text.as_bytes())) => written??,
            () = overstayed(waiting, ANSWER_MIN) => return Ok(()),
        }
        if line.len() as u64 >= LINE_MAX {
            return Ok(());
        }
    }
}

/// What a newer program may ask whose process has not been restarted yet, or an older one that was kept.
fn not_understood(error: &serde_json::Error) -> String {
    format!(
        "{error}\n help: tidegate {} runs here; ask it with `tidegate ctl` of that version, or restart it",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns when somebody needs the place of a caller who has had this time to ask, or to take an answer.
async fn overstayed(waiting: &Notify, time: Duration) {
    sleep(time).await;
    waiting.notified().await;
}

/// As text: of thousands of peers the value takes ten times as much, and the caller may be slow to read.
async fn answer(gate: &Arc<Gate>, uid: u32, request: Request) -> String {
    let outcome = gate.handle(request.clone()).await;
    audit::log(uid, &request, outcome.as_ref().err());
    let answer = match outcome {
        Ok(Value::Object(mut object)) => {
            object.insert("ok".into(), true.into());
            Value::Object(object)
        }
        Ok(other) => json!({"ok": true, "answer": other}),
        Err(error) => json!({"ok": false, "error": format!("{error:#}")}),
    };
    answer.to_string()
}

const CONNECTIONS_MAX: usize = 16;

/// Bytes of a request. None is nearly as long.
const LINE_MAX: u64 = 8 * 1024;

/// What a caller has to ask for sure, however many wait: `ctl` and `top` ask as soon as they are connected. Hundreds who
/// say nothing keep an operator out for some seconds.
const ASKING_MIN: Duration = Duration::from_millis(100);

/// What it has to take an answer for sure, which is long where peers are many.
const ANSWER_MIN: Duration = Duration::from_secs(1);

/// For the next request, or for taking an answer.
const IDLE: Duration = Duration::from_secs(30);
