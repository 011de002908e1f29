//! tidegate: ends reliable-UDP game protocols and forwards framed, ordered messages to local
//! TCP or Unix-socket backends.

pub mod admin;
pub mod admission;
pub mod alarms;
pub mod backend;
pub mod backends;
pub mod board;
pub mod capacity;
pub mod capture;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connect;
pub mod control;
pub mod core_dumps;
pub mod counters;
pub mod crew;
pub mod demo;
pub mod exit;
pub mod framing;
pub mod lag;
pub mod listener;
pub mod load;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod post;
pub mod protocol;
pub mod proxy_protocol;
pub mod reload;
pub mod replay;
pub mod serve;
pub mod shutdown;
pub mod tokens;
pub mod udp;
pub mod worker;
