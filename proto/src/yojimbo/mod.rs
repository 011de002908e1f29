//! The yojimbo stack.

pub mod bits;
pub mod channels;
pub mod netcode;
mod pieces;
pub mod reliable;
