//! A listener that comes, with its sockets bound: nobody sees it yet, and dropped, it is gone.

use std::sync::Arc;

use anyhow::Context;

use super::{Common, RunningListener, Shares, bind};
use crate::backend::Pool;
use crate::config::Listener;

/// Everything is there that can fail.
pub struct Opening<'a> {
    listener: &'a Listener,
    running: RunningListener,
    shares: Shares,
}

impl<'a> Opening<'a> {
    /// Binds the sockets of a listener whose streams go to this pool, and reads what lets its peers in.
    pub fn new(common: &Common, listener: &'a Listener, pool: &Arc<Pool>) -> anyhow::Result<Self> {
        let open = || {
            let sockets = bind(&common.runtime, listener, &listener.bind)?;
            RunningListener::open(common, listener, pool, sockets)
        };
        let (running, shares) = open().with_context(|| format!("listener {}", listener.name))?;
        Ok(Self {
            listener,
            running,
            shares,
        })
    }

    /// Puts it on the board and into the log: from now on it runs, once each worker has its share.
    pub fn show(mut self, common: &Common) -> (RunningListener, Shares) {
        self.running.show(common, self.listener, &mut self.shares);
        (self.running, self.shares)
    }
}
