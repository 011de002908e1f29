//! The two protocols without authentication, end to end in virtual time: two of our own sessions
//! over a bad link, and every rule against a peer that means harm.

mod both;
mod gaffer;
mod link;
mod rudp;
