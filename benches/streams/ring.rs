//! Over io_uring, as cheap as it gets: registered descriptors, one receive request for each stream that goes on for
//! good and takes its buffers from a shared ring, and one call that submits all writes of a turn and collects what is
//! done. Its completions run in that call and nowhere else (`DEFER_TASKRUN`), so that all of its cost is there.
//!
//! The kernel reads and writes memory after the call that named it. What keeps that sound:
//!
//! - Memory that the kernel may write to, the ring of buffers and the buffers, is leaked: a request may outlive its ring.
//! - A buffer is the kernel's from the moment it is in the ring until a completion names it, and ours until it is put
//!   back. While it is ours, nobody else looks at it.
//! - A message that is being sent is borrowed by the turn, which does not return before all sends are done.
//! - Descriptors are registered, which holds the sockets open as long as the ring.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use tidegate::backend::Socket;

use super::Way;

/// Streams in a ring of their own.
pub(super) struct Ring {
    ring: IoUring,
    spare: Spare,
}

impl Ring {
    pub(super) fn new(streams: &[Socket]) -> Self {
        let ring: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(4 * ENTRIES)
            .build(ENTRIES)
            .expect("a kernel that allows io_uring, of 6.1 or newer");
        let descriptors: Vec<_> = streams.iter().map(Socket::as_raw_fd).collect();
        ring.submitter().register_files(&descriptors).unwrap();
        let spare = Spare::register(&ring);
        let mut ring = Self { ring, spare };
        for stream in 0..streams.len() {
            ring.receive(stream);
        }
        ring.ring.submit().unwrap();
        ring
    }

    /// From now on, whatever comes on it.
    fn receive(&mut self, stream: usize) {
        let request = opcode::RecvMulti::new(Fixed(stream as u32), GROUP).build();
        // SAFETY: it names no memory; that of its buffers is leaked.
        unsafe { self.push(&request.user_data(stream as u64)) };
    }

    /// # Safety
    /// What the request names must stay as it is until its completion was seen.
    unsafe fn push(&mut self, request: &squeue::Entry) {
        // SAFETY: as promised by the caller.
        while unsafe { self.ring.submission().push(request) }.is_err() {
            self.ring.submit().unwrap();
        }
    }

    /// Submits what was pushed and takes what is done. Returns how many sends that were, and bytes that came.
    fn collect(&mut self, message: &[u8]) -> (usize, usize) {
        let at_once = Timespec::new();
        let at_once = SubmitArgs::new().timespec(&at_once);
        match self.ring.submitter().submit_with_args(1, &at_once) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
            Err(error) => panic!("{error}"),
        }
        let (mut sent, mut heard) = (0, 0);
        for done in self.ring.completion() {
            let bytes = usize::try_from(done.result()).unwrap();
            if done.user_data() == SEND {
                assert_eq!(bytes, message.len());
                sent += 1;
                continue;
            }
            assert!(cqueue::more(done.flags()), "a stream ended");
            heard += bytes;
            self.spare
                .put_back(cqueue::buffer_select(done.flags()).unwrap());
        }
        self.spare.publish();
        (sent, heard)
    }
}

impl Drop for Ring {
    /// The streams go on: nothing may be left that would take what comes.
    fn drop(&mut self) {
        let submitter = self.ring.submitter();
        submitter
            .register_sync_cancel(None, CancelBuilder::any())
            .unwrap();
    }
}

impl Way for Ring {
    fn turn(&mut self, streams: &[usize], message: &[u8]) -> usize {
        for &stream in streams {
            let length = message.len() as u32;
            let request = opcode::Send::new(Fixed(stream as u32), message.as_ptr(), length).build();
            // SAFETY: `message` is borrowed until this returns, which is after the last send.
            unsafe { self.push(&request.user_data(SEND)) };
        }
        let (mut sent, mut heard) = self.collect(message);
        while sent < streams.len() {
            let more = self.collect(message);
            (sent, heard) = (sent + more.0, heard + more.1);
        }
        heard
    }
}

/// The ring of buffers that receives take theirs from.
struct Spare {
    entries: *mut Entries,
    /// Buffers put into it so far; the kernel knows of those published.
    tail: u16,
    bytes: *mut u8,
}

/// The kernel's layout: 16 bytes each, on a page of its own.
#[repr(C, align(4096))]
struct Entries([[u64; 2]; BUFFERS as usize]);

impl Spare {
    fn register(ring: &IoUring) -> Self {
        let mut spare = Self {
            entries: Box::into_raw(Box::new(Entries([[0; 2]; BUFFERS as usize]))),
            tail: 0,
            bytes: vec![0; usize::from(BUFFERS) * BUFFER_BYTES]
                .leak()
                .as_mut_ptr(),
        };
        let at = spare.entries as u64;
        // SAFETY: the memory is leaked, page-aligned, and holds that many entries.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(at, BUFFERS, GROUP, 0)
        }
        .unwrap();
        for buffer in 0..BUFFERS {
            spare.put_back(buffer);
        }
        spare.publish();
        spare
    }

    /// It is the kernel's again once that is published.
    fn put_back(&mut self, buffer: u16) {
        let index = usize::from(self.tail % BUFFERS);
        let start = usize::from(buffer) * BUFFER_BYTES;
        // SAFETY: both indices are below BUFFERS. The kernel does not look at entries behind the published tail, and
        // takes no more buffers than there are, so that the ring never holds one twice.
        unsafe {
            let entry = &mut *self.entries.cast::<BufRingEntry>().add(index);
            entry.set_addr(self.bytes.add(start) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail is in the first entry, where only we write it and the kernel reads it: atomically.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.cast());
            (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}

/// Requests that fit the queue; more are submitted in between.
const ENTRIES: u32 = 4096;

const GROUP: u16 = 0;
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 2048;

/// What completions of sends are known by; those of receives by their stream.
const SEND: u64 = u64::MAX;
