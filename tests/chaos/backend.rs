//! Backends on a Unix socket, with the manners of servers in trouble.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What a backend does with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Gives every frame back.
    Echo,
    /// Accepts and never reads.
    Deaf,
    /// Says that it will say no more, and reads on.
    HalfClose,
    /// Writes so many frames of a kilobyte as fast as it can, and reads nothing.
    Flood(u32),
}

/// A backend; gone, with all its streams, when dropped.
pub struct Backend {
    path: PathBuf,
    streams: Arc<Mutex<Vec<UnixStream>>>,
    frames: Arc<AtomicU64>,
}

impl Backend {
    pub fn start(path: &Path, manner: Manner) -> Self {
        std::fs::remove_file(path).ok();
        let listener = UnixListener::bind(path).unwrap();
        let backend = Self {
            path: path.to_owned(),
            streams: Arc::default(),
            frames: Arc::default(),
        };
        let (streams, frames) = (backend.streams.clone(), backend.frames.clone());
        // Ends with the process; after a drop nobody finds its socket any more.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let frames = frames.clone();
                std::thread::spawn(move || serve(stream, manner, &frames));
            }
        });
        backend
    }

    /// Frames heard, over all streams.
    pub fn frames(&self) -> u64 {
        self.frames.load(Relaxed)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
        for stream in self.streams.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn serve(mut stream: UnixStream, manner: Manner, frames: &AtomicU64) {
    match manner {
        Manner::Deaf => loop {
            // The stream must stay open for as long as the process lives.
            std::thread::park();
        },
        Manner::HalfClose => stream.shutdown(Shutdown::Write).unwrap(),
        Manner::Flood(count) => {
            let mut frame = 1_000u16.to_be_bytes().to_vec();
            frame.resize(1_002, 7);
            for _ in 0..count {
                if stream.write_all(&frame).is_err() {
                    return;
                }
            }
        }
        Manner::Echo => {}
    }
    while let Some(frame) = read_frame(&mut stream) {
        frames.fetch_add(1, Relaxed);
        if manner == Manner::Echo && stream.write_all(&frame).is_err() {
            return;
        }
    }
}

fn read_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut frame = length.to_vec();
    frame.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
    stream.read_exact(&mut frame[2..]).ok()?;
    Some(frame)
}
