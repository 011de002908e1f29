//! Backends on a Unix socket, with the manners of servers in trouble.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};

/// What a backend does with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Gives every frame back.
    Echo,
    /// Accepts and never reads.
    Deaf,
    /// Gives every frame back, but of so many streams that came first it reads nothing until it is
    /// woken.
    Asleep(usize),
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
    awake: Arc<(Mutex<bool>, Condvar)>,
}

impl Backend {
    pub fn start(path: &Path, manner: Manner) -> Self {
        std::fs::remove_file(path).ok();
        let listener = UnixListener::bind(path).unwrap();
        let backend = Self {
            path: path.to_owned(),
            streams: Arc::default(),
            frames: Arc::default(),
            awake: Arc::default(),
        };
        let (streams, frames) = (backend.streams.clone(), backend.frames.clone());
        let awake = backend.awake.clone();
        // Ends with the process; after a drop nobody finds its socket any more.
        std::thread::spawn(move || {
            let all = listener.incoming().map_while(Result::ok);
            for (number, stream) in all.enumerate() {
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let (frames, awake) = (frames.clone(), awake.clone());
                std::thread::spawn(move || {
                    let manner = match manner {
                        Manner::Asleep(first) => {
                            let sleeps = |awake: &mut bool| number < first && !*awake;
                            let guard = awake.0.lock().unwrap();
                            drop(awake.1.wait_while(guard, sleeps).unwrap());
                            Manner::Echo
                        }
                        other => other,
                    };
                    serve(stream, manner, &frames);
                });
            }
        });
        backend
    }

    /// It reads from now on.
    pub fn wake(&self) {
        *self.awake.0.lock().unwrap() = true;
        self.awake.1.notify_all();
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
        Manner::Echo | Manner::Asleep(_) => {}
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
