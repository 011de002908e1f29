//! The flavour with a socket.

use tidegate_client::Polled;

use crate::TIDEGATE_OK;
use crate::border::{self, Client};

/// With a socket: takes what arrived, does what is due, sends what is ready, and returns the state,
/// a TIDEGATE_CONNECTING to TIDEGATE_CLOSED. Call it once a frame, at least ten times a second.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_update(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let updated = inner.socketed(|polled| {
                polled.update(now);
                TIDEGATE_OK.into()
            });
            if updated < 0 {
                return updated as i32;
            }
            inner.state()
        })
    }
}

/// With a socket: sends what is ready. For the end of a frame that queued messages after its update.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_flush(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let flushed = inner.socketed(|polled| {
                polled.flush(now);
                TIDEGATE_OK.into()
            });
            flushed as i32
        })
    }
}

/// With a socket: its descriptor (on Windows its SOCKET), to wait on until something can be read; do
/// not read, write or close it. It may change in an update when a token's servers have addresses of
/// both kinds. Negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_socket(client: *const Client) -> i64 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe { border::with(client, |inner| inner.socketed(|polled| descriptor(polled))) }
}

#[cfg(unix)]
fn descriptor(polled: &Polled) -> i64 {
    use std::os::fd::AsRawFd;
    polled.socket().as_raw_fd().into()
}

#[cfg(windows)]
fn descriptor(polled: &Polled) -> i64 {
    use std::os::windows::io::AsRawSocket;
    polled.socket().as_raw_socket() as i64
}
