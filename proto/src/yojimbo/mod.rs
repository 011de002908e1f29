//! The yojimbo stack.

pub mod bits;
pub mod netcode;
mod pieces;
pub mod reliable;
