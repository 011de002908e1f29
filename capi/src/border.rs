//! What keeps the border: no pointer is used before it was looked at, no panic crosses, no two calls
//! use one handle at a time.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::handle::Inner;
use crate::{TIDEGATE_ERROR_BUSY, TIDEGATE_ERROR_INVALID, TIDEGATE_ERROR_PANIC};

/// A connection to a server; opaque.
pub struct Client {
    /// A call is inside, or one panicked and left it in an unknown state.
    entered: AtomicBool,
    broken: AtomicBool,
    inner: UnsafeCell<Inner>,
}

impl Client {
    pub(crate) fn new(inner: Inner) -> Box<Self> {
        Box::new(Self {
            entered: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            inner: UnsafeCell::new(inner),
        })
    }

    /// Runs `act` on what is inside, alone.
    fn enter(&self, act: impl FnOnce(&mut Inner) -> i64) -> i64 {
        if self.broken.load(Ordering::Acquire) {
            return TIDEGATE_ERROR_PANIC.into();
        }
        if self.entered.swap(true, Ordering::Acquire) {
            return TIDEGATE_ERROR_BUSY.into();
        }
        // SAFETY: `entered` was false and is true now, so no other call is between these two lines
        // and the store below; this is the only place that reaches into the cell.
        let inner = unsafe { &mut *self.inner.get() };
        let outcome = catch_unwind(AssertUnwindSafe(|| act(inner)));
        if outcome.is_err() {
            self.broken.store(true, Ordering::Release);
        }
        self.entered.store(false, Ordering::Release);
        outcome.unwrap_or(TIDEGATE_ERROR_PANIC.into())
    }
}

/// Runs `act` on the handle's inside; an error code when there is no handle, it is in use, or `act`
/// panics.
///
/// # Safety
///
/// `client` is null or came from [`hand_out`] and was not taken back.
pub(crate) unsafe fn with(client: *const Client, act: impl FnOnce(&mut Inner) -> i64) -> i64 {
    // SAFETY: by the caller's promise it is null or points to a live `Client`. Only shared
    // references are made, so calls from two threads at once are refused and not undefined.
    match unsafe { client.as_ref() } {
        Some(client) => client.enter(act),
        None => TIDEGATE_ERROR_INVALID.into(),
    }
}

/// Runs a call that returns an `int32_t` on the client behind the pointer; see [`with`].
///
/// # Safety
///
/// What [`with`] asks for.
pub(crate) unsafe fn with_code(client: *const Client, act: impl FnOnce(&mut Inner) -> i32) -> i32 {
    // SAFETY: the caller's promise is the same.
    unsafe { with(client, |inner| act(inner).into()) as i32 }
}

/// Makes a handle and stores it, unless `make` fails or panics.
///
/// # Safety
///
/// `out` is null or points to writable memory for a pointer.
pub(crate) unsafe fn hand_out(
    out: *mut *mut Client,
    make: impl FnOnce() -> Result<Inner, i32>,
) -> i32 {
    if out.is_null() {
        return TIDEGATE_ERROR_INVALID;
    }
    let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or(Err(TIDEGATE_ERROR_PANIC));
    let (handle, code) = match made {
        Ok(inner) => (Box::into_raw(Client::new(inner)), 0),
        Err(code) => (std::ptr::null_mut(), code),
    };
    // SAFETY: not null, and writable by the caller's promise. Written also on failure, so that
    // freeing what was never made is harmless.
    unsafe { out.write(handle) };
    code
}

/// Takes a handle back, says `farewell` and frees it.
///
/// # Safety
///
/// `client` is null or came from [`hand_out`], was not taken back, and no other call uses it.
pub(crate) unsafe fn take_back(client: *mut Client, farewell: impl FnOnce(&mut Inner)) {
    if client.is_null() {
        return;
    }
    // SAFETY: by the caller's promise the box is ours again, whole and alone.
    let client = unsafe { Box::from_raw(client) };
    client.enter(|inner| {
        farewell(inner);
        0
    });
    // A panic while freeing must not cross either; what it leaves behind is leaked.
    catch_unwind(AssertUnwindSafe(move || drop(client))).ok();
}

/// The caller's bytes; `None` for a null pointer with a length, or a length no slice can have.
///
/// # Safety
///
/// `bytes` is null or points to `length` readable bytes that nobody changes during `'a`.
pub(crate) unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> Option<&'a [u8]> {
    if length == 0 {
        return Some(&[]);
    }
    if bytes.is_null() || length > isize::MAX as usize {
        return None;
    }
    // SAFETY: not null, no longer than a slice may be, readable by the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(bytes, length) })
}

/// The caller's text; `None` for null or what is not UTF-8.
///
/// # Safety
///
/// `text` is null or a string that ends with a zero byte and is not changed during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and ends with a zero by the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Reads what the caller points to; `None` for null.
///
/// # Safety
///
/// `place` is null or points to an initialised `T`.
pub(crate) unsafe fn read<T: Copy>(place: *const T) -> Option<T> {
    // SAFETY: null is told apart, anything else is readable by the caller's promise.
    unsafe { place.as_ref() }.copied()
}

/// Stores a value where the caller wants it; false for null.
///
/// # Safety
///
/// `place` is null or points to writable memory for a `T`.
pub(crate) unsafe fn store<T>(place: *mut T, value: T) -> bool {
    if place.is_null() {
        return false;
    }
    // SAFETY: not null, and writable by the caller's promise. `T` has no destructor to miss.
    unsafe { place.write(value) };
    true
}

/// Stores as much of a value as the caller has room for, and zeros where that is more; false for null, or a size that
/// nothing has.
///
/// # Safety
///
/// `place` is null or points to `size` bytes that may be written.
pub(crate) unsafe fn store_into<T: Copy>(place: *mut T, size: usize, value: T) -> bool {
    if place.is_null() || size > isize::MAX as usize {
        return false;
    }
    let known = size.min(size_of::<T>());
    let place = place.cast::<u8>();
    // SAFETY: not null, and `size` bytes by the caller's promise, of which `known` are no more. The value is our own, so
    // that they do not overlap.
    unsafe {
        (&raw const value)
            .cast::<u8>()
            .copy_to_nonoverlapping(place, known);
        place.add(known).write_bytes(0, size - known);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use tidegate_client::Dial;

    use super::*;
    use crate::handle::TIDEGATE_NO_SOCKET;

    fn handle() -> *mut Client {
        let server = "10.0.0.7:1".parse().unwrap();
        let make = || Inner::new(0, Dial::rudp(server), TIDEGATE_NO_SOCKET);
        let mut client = std::ptr::null_mut();
        // SAFETY: a place for a pointer.
        assert_eq!(unsafe { hand_out(&raw mut client, make) }, 0);
        client
    }

    #[test]
    fn a_second_call_at_the_same_moment_changes_nothing() {
        let client = handle();
        let second = AtomicI64::new(0);
        // SAFETY: a handle that is not freed before the end.
        unsafe {
            let first = with(client, |_| {
                second.store(with(client, |_| 7), Ordering::Relaxed);
                1
            });
            assert_eq!(first, 1);
            assert_eq!(second.into_inner(), TIDEGATE_ERROR_BUSY.into());
            assert_eq!(with(client, |_| 7), 7, "it is over");
            take_back(client, |_| ());
        }
    }

    /// The caller's structure is as long as it was when the caller was built.
    #[test]
    fn a_structure_is_filled_as_far_as_it_goes() {
        for size in 0..=12 {
            let mut bytes = [7u8; 16];
            let place = bytes.as_mut_ptr().cast::<[u8; 8]>();
            // SAFETY: more than `size` bytes.
            assert!(unsafe { store_into(place, size, [1; 8]) });
            for (index, byte) in bytes.into_iter().enumerate() {
                let expected = match index {
                    _ if index >= size => 7,
                    0..8 => 1,
                    _ => 0,
                };
                assert_eq!(byte, expected, "byte {index} of {size}");
            }
        }
        let nowhere = std::ptr::null_mut::<u64>();
        // SAFETY: null, and a size that is refused before anything is written.
        unsafe {
            assert!(!store_into(nowhere, 8, 1));
            assert!(!store_into(&raw mut *Box::new(0), usize::MAX, 1));
        }
    }

    #[test]
    fn a_panic_goes_no_further_and_the_handle_is_of_no_more_use() {
        let client = handle();
        // SAFETY: a handle that is not freed before the end, and a place for a pointer.
        unsafe {
            assert_eq!(with(client, |_| panic!("a bug")), -10);
            assert_eq!(with(client, |_| 7), -10);
            let mut farewells = 0;
            take_back(client, |_| farewells += 1);
            assert_eq!(farewells, 0, "nothing is done with what is broken");

            let mut none = handle();
            let freed = none;
            assert_eq!(hand_out(&raw mut none, || panic!("a bug")), -10);
            assert!(none.is_null(), "freeing what was never made is harmless");
            take_back(freed, |_| ());
        }
    }
}
