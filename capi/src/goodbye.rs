//! How a session ends, and its handle.

use std::time::Duration;

use crate::TIDEGATE_OK;
use crate::border::{self, Client};

/// Delivers what was sent, then says goodbye; gives up after `linger` nanoseconds without any
/// progress. Go on calling update (or your three functions) until the state is TIDEGATE_CLOSED.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_finish(client: *mut Client, now: u64, linger: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let linger = Duration::from_nanos(linger);
            inner.machine_mut().finish(now, linger);
            inner.flush(now);
            TIDEGATE_OK
        })
    }
}

/// Says goodbye at once.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_close(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            inner.machine_mut().close(now);
            inner.flush(now);
            TIDEGATE_OK
        })
    }
}

/// Says goodbye, if it is not over, and frees the handle. Null is fine. Without a socket, the goodbye
/// is yours to send: tidegate_client_close() and tidegate_client_poll_transmit() before this.
///
/// # Safety
///
/// `client` is null or a handle that was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_free(client: *mut Client) {
    // SAFETY: the caller's promise is `take_back`'s.
    unsafe {
        border::take_back(client, |inner| {
            let now = inner.now(0);
            inner.machine_mut().close(now);
            inner.flush(now);
        });
    }
}
