//! How a session begins.

use std::ffi::c_char;
use std::net::SocketAddr;

use tidegate_client::{Dial, GAFFER_PROTOCOL_ID};

use crate::border::{self, Client};
use crate::handle::Inner;
use crate::{TIDEGATE_ERROR_INVALID, TIDEGATE_ERROR_TOKEN};

/// Begins to connect with a connect token: 2048 bytes, or its base64 text. A token carries one
/// session; ask your matchmaker for another one each time. `io` is TIDEGATE_SOCKET or
/// TIDEGATE_NO_SOCKET. On success `*client` is a handle to be freed, else null.
///
/// # Safety
///
/// `token` points to `token_length` bytes; `client` to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_yojimbo(
    token: *const u8,
    token_length: usize,
    io: i32,
    now: u64,
    client: *mut *mut Client,
) -> i32 {
    // SAFETY: the caller's promises are those of `bytes` and `hand_out`.
    unsafe {
        let token = border::bytes(token, token_length);
        border::hand_out(client, || {
            let token = token.ok_or(TIDEGATE_ERROR_INVALID)?;
            let dial = Dial::yojimbo(token).map_err(|_| TIDEGATE_ERROR_TOKEN)?;
            Inner::new(now, dial, io)
        })
    }
}

/// Begins to connect without authentication: `server` is `10.0.0.7:40001` or `[fd00::7]:40001`,
/// `protocol_id` the server's, or 0 for tidegate's default. Closed networks only.
///
/// # Safety
///
/// `server` is a string; `client` points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_gaffer(
    server: *const c_char,
    protocol_id: u32,
    io: i32,
    now: u64,
    client: *mut *mut Client,
) -> i32 {
    let protocol_id = if protocol_id == 0 {
        GAFFER_PROTOCOL_ID
    } else {
        protocol_id
    };
    // SAFETY: the caller's promises are those of `text` and `hand_out`.
    unsafe {
        let server = border::text(server);
        border::hand_out(client, || {
            let dial = Dial::gaffer(parse_address(server)?, protocol_id);
            Inner::new(now, dial, io)
        })
    }
}

/// Begins to connect to a cloudwu/rudp server. Closed networks only.
///
/// # Safety
///
/// `server` is a string; `client` points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_rudp(
    server: *const c_char,
    io: i32,
    now: u64,
    client: *mut *mut Client,
) -> i32 {
    // SAFETY: the caller's promises are those of `text` and `hand_out`.
    unsafe {
        let server = border::text(server);
        border::hand_out(client, || {
            Inner::new(now, Dial::rudp(parse_address(server)?), io)
        })
    }
}

fn parse_address(text: Option<&str>) -> Result<SocketAddr, i32> {
    let address = text.and_then(|text| text.parse().ok());
    address.ok_or(TIDEGATE_ERROR_INVALID)
}
