//! How a session is doing.

use std::time::Duration;

use tidegate_client::Ended;

use crate::address::Address;
use crate::border::{self, Client};
use crate::ended::{self, TIDEGATE_ENDED_NOT};
use crate::{TIDEGATE_ERROR_INVALID, TIDEGATE_OK};

/// How a session is doing. Times are nanoseconds, 0 before there is something to say. Later headers may have more at the
/// end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Latest round trip.
    pub rtt_latest: u64,
    /// Smoothed round trip.
    pub rtt: u64,
    /// Smallest round trip of the recent past.
    pub rtt_min: u64,
    /// Mean deviation of the time until an acknowledgement comes, what the server holds back included.
    pub rtt_variation: u64,
    /// Estimated share of own packets that get lost, 0 to 1.
    pub loss: f64,
    /// 1 while sending at the bad mode's rate.
    pub in_bad_mode: u32,
    /// Reliable messages queued or not confirmed; rudp never confirms.
    pub outbox_messages: u32,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets taken.
    pub packets_received: u64,
    /// Own packets given up.
    pub packets_lost: u64,
    /// Messages put into packets, each counted once.
    pub messages_sent: u64,
    /// Reliable messages, and fragments of long ones, put into a packet again after a loss.
    pub messages_resent: u64,
    /// Messages taken from the server.
    pub messages_received: u64,
}

/// TIDEGATE_CONNECTING to TIDEGATE_CLOSED; negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_state(client: *const Client) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe { border::with_code(client, |inner| inner.state()) }
}

/// Nanoseconds until tidegate_client_update() or tidegate_client_handle_timeout() has something to do
/// although nothing arrives: the longest useful wait. INT64_MAX when it is over; negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_next_update(client: *const Client, now: u64) -> i64 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with(client, |inner| {
            let now = inner.now(now);
            let wait = inner.machine().poll_timeout().map(|at| at.since(now.mono));
            wait.map_or(i64::MAX, |wait| {
                i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)
            })
        })
    }
}

/// How it ended, a TIDEGATE_ENDED_*; negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_ended(client: *const Client) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            inner.ended().map_or(TIDEGATE_ENDED_NOT, ended::number)
        })
    }
}

/// Reliable messages that the server has not confirmed: it may have them or not. Negative is an
/// error. rudp never confirms; there it is those that have not left.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_unconfirmed(client: *const Client) -> i64 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with(client, |inner| match inner.ended() {
            Some(Ended::Here { unconfirmed }) => unconfirmed.into(),
            Some(Ended::Session(_) | Ended::Socket(_)) | None => {
                inner.machine().stats().outbox_messages.into()
            }
        })
    }
}

/// The server that is dialled, or talked to.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `address` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_server(
    client: *const Client,
    address: *mut Address,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            match border::store(address, inner.machine().server().into()) {
                true => TIDEGATE_OK,
                false => TIDEGATE_ERROR_INVALID,
            }
        })
    }
}

/// How the session is doing. `size` is your header's `sizeof(tidegate_stats)`: no more is written, and what the library
/// does not know is 0.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `stats` points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_stats(
    client: *const Client,
    stats: *mut Stats,
    size: usize,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store_into`.
    unsafe {
        border::with_code(client, |inner| {
            match border::store_into(stats, size, inner.machine().stats().into()) {
                true => TIDEGATE_OK,
                false => TIDEGATE_ERROR_INVALID,
            }
        })
    }
}

impl From<tidegate_client::Stats> for Stats {
    fn from(stats: tidegate_client::Stats) -> Self {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self {
            rtt_latest: nanos(stats.rtt_latest),
            rtt: nanos(stats.rtt),
            rtt_min: nanos(stats.rtt_min),
            rtt_variation: nanos(stats.rtt_variation),
            loss: stats.loss.into(),
            in_bad_mode: stats.in_bad_mode.into(),
            outbox_messages: stats.outbox_messages,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            packets_lost: stats.packets_lost,
            messages_sent: stats.messages_sent_reliable + stats.messages_sent_unreliable,
            messages_resent: stats.messages_resent,
            messages_received: stats.messages_received,
        }
    }
}
