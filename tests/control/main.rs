//! The built program under its operator's hands: a server, a tunnel to it, a backend behind, and
//! `tidegate ctl` beside.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod drains;
mod hangs;
mod log;
mod recordings;
mod reloads;
mod sessions;
mod socket;
#[path = "../support/mod.rs"]
mod support;
