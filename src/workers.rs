//! All workers at once: sockets for each, or a question and what each of their listeners answers.

use std::time::Duration;

use anyhow::Context;
use tidegate_proto::Now;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use crate::listener::{Listener, Parts};
use crate::worker::{Command, Remote};

/// The workers of the process.
#[derive(Clone)]
pub struct Workers {
    remotes: Vec<Remote>,
}

impl Workers {
    /// These.
    pub fn new(remotes: Vec<Remote>) -> Self {
        Self { remotes }
    }

    /// Gives each worker its share.
    pub fn add(&self, shares: Vec<Vec<Parts>>) {
        for (worker, parts) in self.remotes.iter().zip(shares) {
            for parts in parts {
                worker.tell(Command::Add(Box::new(parts)));
            }
        }
    }

    /// Has it done to every listener, between two turns.
    pub fn each(&self, act: impl Fn(Now, &mut Listener) + Clone + Send + 'static) {
        for worker in &self.remotes {
            let act = act.clone();
            worker.visit(move |now, listeners| {
                for listener in listeners {
                    act(now, listener);
                }
            });
        }
    }

    /// What every listener of every worker says; in bounded time, or not at all.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(Now, &mut Listener) -> T + Clone + Send + 'static,
    ) -> anyhow::Result<Vec<T>> {
        let (answers, mut inbox) = unbounded_channel();
        self.each(move |now, listener| {
            // The caller may have stopped waiting.
            answers.send(question(now, listener)).ok();
        });
        let gather = async {
            let mut all = Vec::new();
            while let Some(answer) = inbox.recv().await {
                all.push(answer);
            }
            all
        };
        timeout(PATIENCE, gather)
            .await
            .context("a worker does not answer")
    }

    /// The sum of what they say.
    pub async fn sum(
        &self,
        count: impl Fn(Now, &mut Listener) -> usize + Clone + Send + 'static,
    ) -> anyhow::Result<usize> {
        Ok(self.ask(count).await?.into_iter().sum())
    }
}

/// Workers turn within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
