//! The thread that waits for the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::{FULL, Shared};

pub(super) struct Writer {
    file: BufWriter<File>,
    /// Bytes until the file is full.
    left: u64,
    shared: Arc<Shared>,
}

impl Writer {
    pub(super) fn new(file: File, left: u64, shared: Arc<Shared>) -> Self {
        Self {
            file: BufWriter::new(file),
            left,
            shared,
        }
    }

    /// Until an empty record, the end of the file, or an error.
    pub(super) fn run(mut self, inbox: &Receiver<Vec<u8>>) {
        loop {
            let outcome = match inbox.recv_timeout(FLUSH_INTERVAL) {
                Ok(block) if block.is_empty() => break,
                Ok(block) => {
                    self.shared.queued.fetch_sub(block.len(), Relaxed);
                    let length = block.len() as u64;
                    if length > self.left {
                        tracing::warn!(event = "capture_full", "{FULL}; sessions go on");
                        break;
                    }
                    self.left -= length;
                    self.shared.bytes.fetch_add(length, Relaxed);
                    self.file.write_all(&block)
                }
                // So that a process that is killed leaves a file that can be read.
                Err(RecvTimeoutError::Timeout) => self.file.flush(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = outcome {
                self.fail(&error);
                break;
            }
        }
        self.shared.over.store(true, Relaxed);
        if let Err(error) = self.file.flush() {
            self.fail(&error);
        }
    }

    /// Said once: what a full disk does not take now, it does not take at the end either.
    fn fail(&self, error: &io::Error) {
        if self.shared.failed.set(error.to_string()).is_ok() {
            tracing::error!(event = "capture_failed", %error, "the recording ends; sessions go on");
        }
        // What was counted as written was partly on its way there.
        if let Ok(file) = self.file.get_ref().metadata() {
            self.shared.bytes.store(file.len(), Relaxed);
        }
    }
}

const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
