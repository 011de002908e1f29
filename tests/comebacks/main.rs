//! Clients of yojimbo's library that come back, after a crash or to the next server of their token, at the built program.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod crashed_player;
mod next_server;
mod scene;
#[path = "../support/mod.rs"]
mod support;
