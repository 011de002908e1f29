//! Who is here, who goes, and who may not come back: every worker is asked.

use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use tidegate_proto::CloseReason;

use super::Gate;
use super::whom::{peers_called, range_or_client};
use crate::listener::{Listener, PeerView};

impl Gate {
    /// Everybody, or the peers of one listener.
    pub(super) async fn peers(&self, listener: Option<&str>) -> anyhow::Result<Value> {
        self.refuse_misspelt(listener)?;
        let views = |now, listener: &mut Listener| listener.views(now);
        let all = self.workers.ask(views).await?;
        let is_meant = |peer: &PeerView| listener.is_none_or(|name| name == peer.listener);
        let peers: Vec<_> = all.into_iter().flatten().filter(is_meant).collect();
        Ok(json!({ "peers": peers }))
    }

    pub(super) async fn peer(&self, whom: &str) -> anyhow::Result<Value> {
        for meant in peers_called(whom)? {
            let views = move |now, listener: &mut Listener| listener.views_of(now, meant);
            let all = self.workers.ask(views).await?;
            let peers: Vec<PeerView> = all.into_iter().flatten().collect();
            if !peers.is_empty() {
                return Ok(json!({ "peers": peers }));
            }
        }
        bail!("{}", nobody(whom))
    }

    pub(super) async fn kick(&self, whom: &str) -> anyhow::Result<Value> {
        for meant in peers_called(whom)? {
            let end =
                move |now, listener: &mut Listener| listener.end(now, meant, CloseReason::Kicked);
            let ended = self.workers.sum(end).await?;
            if ended > 0 {
                return Ok(json!({ "ended": ended }));
            }
        }
        bail!("{}", nobody(whom))
    }

    pub(super) async fn ban(&self, whom: &str, seconds: Option<u64>) -> anyhow::Result<Value> {
        let meant = range_or_client(whom)?;
        let span = seconds.map(Duration::from_secs);
        let answers = self
            .workers
            .ask(move |now, listener| listener.ban(now, meant, span))
            .await?;
        let mut ended = 0;
        for answer in answers {
            ended += answer?;
        }
        Ok(json!({ "whom": meant.to_string(), "ended": ended }))
    }

    pub(super) async fn unban(&self, whom: &str) -> anyhow::Result<Value> {
        let meant = range_or_client(whom)?;
        let lift = move |_, listener: &mut Listener| usize::from(listener.unban(meant));
        if self.workers.sum(lift).await? == 0 {
            bail!("{whom} is not banned");
        }
        Ok(json!({}))
    }

    pub(super) async fn bans(&self) -> anyhow::Result<Value> {
        // Every worker knows the same.
        let all = self.workers.ask(|now, listener| listener.bans(now)).await?;
        let mut bans: Vec<_> = all.into_iter().flatten().collect();
        bans.sort();
        bans.dedup_by(|a, b| a.0 == b.0);
        let row =
            |(whom, seconds): (String, Option<u64>)| json!({"whom": whom, "seconds_left": seconds});
        Ok(json!({ "bans": bans.into_iter().map(row).collect::<Vec<_>>() }))
    }
}

fn nobody(whom: &str) -> String {
    format!("no peer {whom}: nobody here has this session, client id or address")
}
