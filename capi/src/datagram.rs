//! The flavour without a socket.

use crate::address::Address;
use crate::border::{self, Client};
use crate::handle::Flavour;
use crate::{TIDEGATE_ERROR_INVALID, TIDEGATE_ERROR_REFUSED, TIDEGATE_OK};

/// A datagram to be sent. `bytes` is good until the next call with the same handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// The UDP payload.
    pub bytes: *const u8,
    /// Its bytes.
    pub length: usize,
    /// Where to.
    pub to: Address,
}

/// Without a socket: a datagram arrived. TIDEGATE_ERROR_REFUSED is normal on a network and needs no
/// action. Afterwards poll tidegate_client_poll_transmit() until it is dry.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `from` points to an address; `datagram` points
/// to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_handle_datagram(
    client: *mut Client,
    now: u64,
    from: *const Address,
    datagram: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the caller's promises are those of `read`, `bytes` and `with`.
    unsafe {
        let from = border::read(from);
        let datagram = border::bytes(datagram, length);
        border::with_code(client, |inner| {
            let (Some(from), Some(datagram)) = (from, datagram) else {
                return TIDEGATE_ERROR_INVALID;
            };
            let now = inner.now(now);
            let Flavour::Bare(machine) = &mut inner.flavour else {
                return TIDEGATE_ERROR_INVALID;
            };
            if datagram.len() > DATAGRAM_BYTES_MAX {
                return TIDEGATE_ERROR_REFUSED;
            }
            // A copy: it is decrypted in place, and the caller's bytes are not ours to change.
            inner.datagram.clear();
            inner.datagram.extend_from_slice(datagram);
            match machine.handle_datagram(now, from.into(), &mut inner.datagram) {
                Ok(()) => TIDEGATE_OK,
                Err(_) => TIDEGATE_ERROR_REFUSED,
            }
        })
    }
}

/// Without a socket: does what time decides. Harmless when called early or often; see
/// tidegate_client_next_update(). Afterwards poll tidegate_client_poll_transmit() until it is dry.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_handle_timeout(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let Flavour::Bare(machine) = &mut inner.flavour else {
                return TIDEGATE_ERROR_INVALID;
            };
            machine.handle_timeout(now);
            TIDEGATE_OK
        })
    }
}

/// Without a socket: the next datagram to be sent. 1 when there is one, 0 when there is none; negative
/// is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `datagram` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_poll_transmit(
    client: *mut Client,
    now: u64,
    datagram: *mut Datagram,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            if datagram.is_null() {
                return TIDEGATE_ERROR_INVALID;
            }
            let now = inner.now(now);
            let Flavour::Bare(machine) = &mut inner.flavour else {
                return TIDEGATE_ERROR_INVALID;
            };
            inner.datagram.clear();
            let Some(to) = machine.poll_transmit(now, &mut inner.datagram) else {
                return 0;
            };
            let shown = Datagram {
                bytes: inner.datagram.as_ptr(),
                length: inner.datagram.len(),
                to: to.into(),
            };
            border::store(datagram, shown).into()
        })
    }
}

/// No UDP payload is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;
