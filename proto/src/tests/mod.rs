//! Scenarios in virtual time: whole sessions over a bad network.

mod seeds;
mod yojimbo;
