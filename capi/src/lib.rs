//! The tidegate client behind a C interface: `include/tidegate.h`, made from this crate by cbindgen.
//!
//! ```text
//!   the functions                                  what they share
//!   dial.rs      how a session begins              border.rs   pointers, panics, one call at a time
//!   socket.rs    the flavour with a socket         handle.rs   what a handle holds
//!   datagram.rs  the flavour without one           address.rs  IP addresses
//!   message.rs   messages, both ways               ended.rs    how it ended
//!   state.rs     how it is doing
//!   goodbye.rs   how it ends
//! ```
//!
//! The unsafe code is here because a C interface is pointers; `border.rs` is where they turn into
//! values, so that the functions read like safe ones.

mod border;

// In the order of the header, which the empty lines keep.
pub mod address;

pub mod handle;

pub mod dial;

pub mod socket;

pub mod datagram;

pub mod message;

pub mod state;

pub mod goodbye;

pub mod ended;

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use tidegate_client::Clock;

pub use border::Client;

/// What this header says, as a number. It changes with every change that a program built with the header before does not
/// survive; new functions, constants and statistics are none.
pub const TIDEGATE_ABI: i32 = 1;

/// Done.
pub const TIDEGATE_OK: i32 = 0;
/// A null pointer, an impossible value, or a function of the other flavour.
pub const TIDEGATE_ERROR_INVALID: i32 = -1;
/// The queue for the server is full, or nothing can leave yet while it connects: try again in a later frame.
pub const TIDEGATE_ERROR_FULL: i32 = -2;
/// The message is longer than the channel takes.
pub const TIDEGATE_ERROR_TOO_LARGE: i32 = -3;
/// The protocol has no such channel: rudp has no unreliable one.
pub const TIDEGATE_ERROR_NO_CHANNEL: i32 = -4;
/// Closing, or over.
pub const TIDEGATE_ERROR_CLOSED: i32 = -5;
/// These bytes are no connect token.
pub const TIDEGATE_ERROR_TOKEN: i32 = -6;
/// No socket could be had.
pub const TIDEGATE_ERROR_SOCKET: i32 = -7;
/// The datagram was not for this session, came twice, or is damaged: nothing to do.
pub const TIDEGATE_ERROR_REFUSED: i32 = -8;
/// Another call is using this handle at this moment.
pub const TIDEGATE_ERROR_BUSY: i32 = -9;
/// A bug in tidegate. The handle is of no more use; free it and report the text on stderr.
pub const TIDEGATE_ERROR_PANIC: i32 = -10;

/// The TIDEGATE_ABI that this library was built with. Compare it with your header's before you call anything else: a
/// library with another one writes beyond your structures, or takes your arguments for others.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_abi() -> i32 {
    TIDEGATE_ABI
}

/// The library's version, for your log and for reports: "0.1.0". Static, never null.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// A sentence for a TIDEGATE_ERROR_*; static, never null.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_error_text(error: i32) -> *const c_char {
    let sentence: &'static CStr = match error {
        TIDEGATE_OK => c"done",
        TIDEGATE_ERROR_INVALID => c"a null pointer, an impossible value, or the other flavour",
        TIDEGATE_ERROR_FULL => {
            c"the queue for the server is full, or it still connects: try again in a later frame"
        }
        TIDEGATE_ERROR_TOO_LARGE => {
            c"the message is longer than the channel takes: send it in parts"
        }
        TIDEGATE_ERROR_NO_CHANNEL => {
            c"the protocol has no such channel: rudp has only the reliable one"
        }
        TIDEGATE_ERROR_CLOSED => c"closing, or over: nothing more is sent; to go on, connect again",
        TIDEGATE_ERROR_TOKEN => {
            c"no connect token: give the 2048 bytes of the matchmaker, or their base64"
        }
        TIDEGATE_ERROR_SOCKET => {
            c"no socket could be had: is the network permitted, are too many files open?"
        }
        TIDEGATE_ERROR_REFUSED => {
            c"the datagram was not for this session, came twice, or is damaged: nothing to do"
        }
        TIDEGATE_ERROR_BUSY => c"another call is using this handle: make one call at a time",
        TIDEGATE_ERROR_PANIC => {
            c"a bug in tidegate: free the handle, and report the text on stderr"
        }
        _ => c"no such error",
    };
    sentence.as_ptr()
}

/// Nanoseconds on a clock that does not step back, since its first use in this process: for `now`.
#[unsafe(no_mangle)]
pub extern "C" fn tidegate_now() -> u64 {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start).now().mono.as_nanos()
}

#[cfg(test)]
mod tests;
