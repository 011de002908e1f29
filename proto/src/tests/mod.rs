//! Scenarios in virtual time: whole sessions over a bad network.

mod attacks;
mod gaffer;
mod games;
mod liars;
mod nonces;
mod rudp;
mod seeds;
mod stalls;
mod yojimbo;
