//! tidegate: terminates reliable-UDP game protocols and forwards framed, ordered messages to local
//! TCP or Unix-socket backends.
//!
//! ```text
//!   cli ─▶ config ─▶ serve, connect ─▶ running_listener, protocol   from a command line to listeners
//!                         │
//!                         ▼  a thread each
//!   worker ─▶ listener ─▶ udp, admission, backend            a turn: datagrams, clocks, streams
//!     │          └──────▶ framing, proxy_protocol
//!     ▼ counters
//!   board ─▶ admin, metrics, logging                         what operators see
//!   control ─▶ workers, reload, backends                     what operators change
//!   control_plane, blocking                                  the thread of all but the data path; what may hold it up
//!   socket_file, given_file                                  Unix sockets that we listen on, files that we are given
//!   clock, capacity, names, tokens, token_history            what all of them share
//!   sizing, cgroup                                           what there is for it
//!   shutdown, notify, hangs, exit, bugs, stderr, core_dumps  how it ends, and what it says last
//!   load, lag, demo, capture, replay                         instruments
//! ```

pub mod admin;
pub mod admission;
pub mod backend;
pub mod backends;
pub mod blocking;
pub mod board;
pub mod bugs;
pub mod capacity;
pub mod capture;
pub mod cgroup;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connect;
pub mod control;
pub mod control_plane;
pub mod core_dumps;
pub mod counters;
pub mod demo;
pub mod exit;
pub mod framing;
pub mod given_file;
pub mod hangs;
pub mod lag;
pub mod listener;
pub mod load;
pub mod logging;
pub mod metrics;
pub mod names;
pub mod notify;
pub mod protocol;
pub mod proxy_protocol;
pub mod reload;
pub mod replay;
pub mod running_listener;
pub mod serve;
pub mod shutdown;
pub mod sizing;
pub mod socket_file;
pub mod stderr;
pub mod token_history;
pub mod tokens;
pub mod udp;
pub mod worker;
pub mod workers;
