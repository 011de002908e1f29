//! The yojimbo stack.

pub mod bits;
mod pieces;
pub mod reliable;
