//! Scenarios in virtual time: whole sessions over a bad network.

mod attacks;
mod bad_servers;
mod bulk;
mod crowds;
mod demand;
mod echo;
mod every_protocol;
mod gaffer;
mod games;
mod joining;
mod layouts;
mod liars;
mod library;
mod nonces;
mod path_mtu;
mod quiet;
mod rudp;
mod scenario;
mod seeds;
mod stalls;
mod stock;
mod strict;
mod thin;
mod ticks;
mod volleys;
mod yojimbo;
