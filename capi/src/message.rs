//! Messages, both ways.

use tidegate_client::{Machine, Now, SendError};

use crate::border::{self, Client};
use crate::{
    TIDEGATE_ERROR_CLOSED, TIDEGATE_ERROR_FULL, TIDEGATE_ERROR_INVALID, TIDEGATE_ERROR_NO_CHANNEL,
    TIDEGATE_ERROR_TOO_LARGE, TIDEGATE_OK,
};

/// A message from the server. `payload` is good until the next tidegate_client_poll_message() or
/// tidegate_client_free() of the same handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// What the server sent; not null, but nothing to read when `length` is 0.
    pub payload: *const u8,
    /// Its bytes.
    pub length: usize,
    /// The channel it came on: 0 is reliable, 1 is not, unless the layout says otherwise.
    pub channel: u8,
    /// 1 when that channel is reliable and ordered, else 0.
    pub reliable: u8,
}

/// Queues a reliable message: it arrives once and in order, or the session ends. It leaves with the
/// next update, flush or poll_transmit.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `payload` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_send(
    client: *mut Client,
    now: u64,
    payload: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the caller's promises are `queue`'s.
    unsafe { queue(client, now, payload, length, Machine::send) }
}

/// Queues an unreliable message: it arrives soon, or never.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `payload` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_send_unreliable(
    client: *mut Client,
    now: u64,
    payload: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the caller's promises are `queue`'s.
    unsafe { queue(client, now, payload, length, Machine::send_unreliable) }
}

/// Hands a message to one of the two ways of sending.
///
/// # Safety
///
/// What [`tidegate_client_send`] asks for.
unsafe fn queue(
    client: *mut Client,
    now: u64,
    payload: *const u8,
    length: usize,
    send: impl FnOnce(&mut Machine, Now, &[u8]) -> Result<(), SendError>,
) -> i32 {
    // SAFETY: the caller's promises are those of `bytes` and `with`.
    unsafe {
        let payload = border::bytes(payload, length);
        border::with_code(client, |inner| {
            let Some(payload) = payload else {
                return TIDEGATE_ERROR_INVALID;
            };
            let now = inner.now(now);
            send_code(send(inner.machine_mut(), now, payload))
        })
    }
}

/// Whether tidegate_client_send() takes another message of any legal size: 1 or 0; negative is an
/// error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_has_room(client: *const Client) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe { border::with_code(client, |inner| inner.machine().has_room().into()) }
}

/// The next message from the server: 1 when there is one, 0 when there is none; negative is an error.
/// Messages that are not polled fill a bounded queue, and then hold the server back.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `message` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_poll_message(
    client: *mut Client,
    message: *mut Message,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            if message.is_null() {
                return TIDEGATE_ERROR_INVALID;
            }
            let mut kept = std::mem::take(&mut inner.message);
            kept.clear();
            let found = inner.machine_mut().poll_message().map(|found| {
                kept.extend_from_slice(found.payload);
                (found.channel, found.reliable)
            });
            inner.message = kept;
            let Some((channel, reliable)) = found else {
                return 0;
            };
            let shown = Message {
                payload: inner.message.as_ptr(),
                length: inner.message.len(),
                channel,
                reliable: reliable.into(),
            };
            border::store(message, shown).into()
        })
    }
}

fn send_code(outcome: Result<(), SendError>) -> i32 {
    match outcome {
        Ok(()) => TIDEGATE_OK,
        Err(SendError::Full) => TIDEGATE_ERROR_FULL,
        Err(SendError::TooLarge { .. }) => TIDEGATE_ERROR_TOO_LARGE,
        Err(SendError::NoSuchChannel) => TIDEGATE_ERROR_NO_CHANNEL,
        Err(SendError::Closed) => TIDEGATE_ERROR_CLOSED,
    }
}
