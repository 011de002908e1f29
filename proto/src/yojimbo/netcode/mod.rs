//! netcode 1.02, the layer that authenticates and encrypts: connect tokens, the challenge and
//! response handshake, and one peer's pipe of sealed packets. Rules: docs/wire/netcode.md.
//!
//! ```text
//!   server                                             client
//!
//!   Handshake ◀──────────── request ───────────────── Client
//!       │ token, history, slots   (roster.rs)            │
//!       ├──────────────────── challenge ───────────────▶ │
//!       │ ◀────────────────── response ───────────────── │
//!       ▼                                                │
//!   Seated { Link, Seat }                                │
//!       │  admit(): the backend is there                 │
//!       └──────────────────── keep-alive ──────────────▶ ▼
//!   Link ◀════════════ payloads, keep-alives ══════════▶ Link
//! ```

pub mod challenge;
pub mod client;
pub mod crypto;
pub mod gcm;
pub mod handshake;
mod history;
pub mod link;
pub mod packet;
mod pending;
pub mod replay;
pub mod roster;
pub mod token;
pub mod wire;

pub use client::{Client, ClientHandshake, ClientState};
pub use crypto::Key;
pub use handshake::{Handshake, Outcome, Params, Seated, TimeoutPolicy, global_sequence_start};
pub use history::UsedToken;
pub(in crate::yojimbo) use link::LinkOrigin;
pub use link::{DISCONNECT_REPEATS, Link, Received, Sealing};
pub use packet::Role;
pub use roster::{Roster, RosterParams, Seat};
pub use token::{ConnectToken, Mint, PrivateToken, TokenError, UserData};
