//! Every byte of `tests/vectors/` against this crate: `cargo test --test conformance`.
//!
//! The vectors were made by running the reference implementations. `TIDEGATE_VECTORS=DIR` runs the
//! same tests over another directory of the same schema (see tests/vectors/README.md). Each test
//! runs all cases of its file and names those that fail.

mod bitpack;
mod compare;
mod gaffer;
mod gaffer_flow_control;
mod gaffer_messages;
mod labels;
mod netcode;
mod reliable;
mod rudp;
mod sessions;
mod vectors;
mod yojimbo;
