//! A game server that accepts and never reads.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Streams that are accepted and kept, in the background, until this is dropped.
pub struct HeldStreams {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HeldStreams {
    /// Keeps what comes to this socket.
    pub fn start(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                match stream {
                    Ok(stream) => held.push(stream),
                    // Out of descriptors: the server's connects wait in the queue and time out.
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        });
        Self {
            path: path.to_owned(),
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for HeldStreams {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Ends its wait for the next one.
        let last = UnixStream::connect(&self.path);
        if let (Ok(_), Some(thread)) = (last, self.thread.take()) {
            thread.join().ok();
        }
    }
}
