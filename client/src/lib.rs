//! The game's side of tidegate: connect, send reliable and unreliable messages, receive.
//!
//! Three doors to the same machine; take the first that fits how your game waits:
//!
//! | | waits | for |
//! |---|---|---|
//! | `Client`, with the feature `tokio` | in tokio, with a task of its own | bots, tools, servers, clients with an async runtime |
//! | [`Polled`] | never: once a frame you call [`Polled::update`] | a game loop, without a runtime |
//! | [`Machine`] | never, and has no socket: datagrams and the time are arguments | engines with their own transport; tests |
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # async fn play(token: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate_client::{Client, Dial};
//!
//! let client = Client::connect(Dial::yojimbo(token)?).await?;
//! client.send(b"hello").await?;           // once, in order, or the session ends and says why
//! client.send_unreliable(b"x=3 y=7")?;    // now or never
//! while let Ok(message) = client.recv().await {
//!     println!("{:?}", message.payload);
//! }
//! println!("over: {}", client.close().await);
//! # Ok(())
//! # }
//! ```
//!
//! This is a crate of its own so that a game does not take on what a daemon needs: command line, HTTP,
//! metrics and configuration stay away, and without the feature `tokio` so does the runtime. The
//! C library (`capi/`) is made from it that way.
//!
//! What the messages may count on is written down in `docs/RELIABILITY.md`, the wire in `docs/wire/`.
#![warn(missing_debug_implementations)]

mod clock;
mod dial;
mod ended;
mod machine;
mod polled;

#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod redial;

pub use clock::Clock;
pub use dial::{Dial, DialError, GAFFER_PROTOCOL_ID};
pub use ended::Ended;
pub use machine::{Machine, State};
pub use polled::{Polled, random_seed};

#[cfg(feature = "tokio")]
pub use client::{Client, ConnectError, Message};
#[cfg(feature = "tokio")]
pub use redial::{Backoff, GaveUp, Redial};

/// The protocols themselves: parameters, layouts, statistics.
pub use tidegate_proto as proto;
pub use tidegate_proto::{CloseReason, Now, SendError, Stats, Timestamp};
