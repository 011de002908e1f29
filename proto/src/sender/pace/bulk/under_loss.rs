//! Bulk under loss that is heavy for longer than an overflow of ours: it goes down to what a TCP would take, until that
//! loss is found to be the path's own.

use crate::sender::detector::Outcome;
use crate::sender::pace::heavy_loss::{Finding, HeavyLoss};
use crate::sender::pace::losses::USUAL_MAX;
use crate::sender::pace::watch::{DATAGRAM, SHARE_OF_CROWD};
use crate::sender::params::Params;
use crate::time::Timestamp;

use super::{Bulk, KEPT_WHEN_BAD};

impl Bulk {
    /// Whatever the cause: under heavy loss of datagrams bulk takes no more than a TCP would, which goes
    /// there by steps too.
    pub(in crate::sender::pace) fn limit_by_loss(&mut self, rtt_s: f64, loss: f64) {
        if !self.is_active {
            return;
        }
        self.watch.doubt_loss();
        let least = (KEPT_WHEN_BAD * self.rate).max(self.floor);
        self.rate = self.rate.min(tcp_rate(rtt_s, loss).max(least));
        self.in_slow_start = false;
    }

    /// A window of losses ended on a good path, and it and the one before it lost a share of `steady` at least. More than is
    /// learned as usual may be the path's own as well, and such loss says nothing of how much that carries.
    pub(in crate::sender::pace) fn judge_loss(
        &mut self,
        now: Timestamp,
        steady: f64,
        params: &Params,
    ) {
        if !self.is_active || self.watch.is_loss_own() {
            return;
        }
        if self.watch.loses_split() {
            // What is lost of packets of several datagrams is too rough for that.
            self.heavy_loss = None;
            return;
        }
        let learned_max = params.path.loss_max.min(USUAL_MAX.into());
        if self.heavy_loss.is_none() && steady <= learned_max {
            return;
        }
        let heavy_loss = self
            .heavy_loss
            .get_or_insert_with(|| Box::new(HeavyLoss::new()));
        match heavy_loss.find(now, learned_max) {
            Finding::Open => {}
            Finding::Light => self.heavy_loss = None,
            Finding::Own(share) => {
                self.heavy_loss = None;
                self.watch.believe_loss(share);
                self.search_on();
            }
        }
    }

    /// The final fate of a packet, in the order in which they were sent.
    pub(in crate::sender::pace) fn on_outcome(&mut self, outcome: Outcome) {
        if let Some(heavy_loss) = &mut self.heavy_loss {
            heavy_loss.on_outcome(outcome);
        }
    }

    /// Packets are to leave two at a time, to see which of two get lost.
    pub(in crate::sender::pace) fn wants_pairs(&self) -> bool {
        let heavy_loss = self.heavy_loss.as_ref();
        self.is_active && heavy_loss.is_some_and(|heavy_loss| heavy_loss.wants_pairs())
    }

    /// This share of loss is usual here, whatever is sent.
    pub(in crate::sender::pace) fn is_usual_loss(&self, share: f64) -> bool {
        share <= self.watch.most_usual_loss()
    }

    /// The share of datagrams that the path loses whatever is sent, as far as it is known.
    pub(in crate::sender::pace) fn usual_loss(&self) -> f64 {
        self.watch.usual_loss()
    }

    /// Whether it had as little under way as one of many has, when it last met the path's end.
    pub(in crate::sender::pace) fn is_one_of_many(&self, rtt_s: f64) -> bool {
        self.end.carried() * rtt_s < SHARE_OF_CROWD
    }

    /// Loss above this is heavy: more than heavy loss that is the path's own.
    pub(in crate::sender::pace) fn loss_max(&self, params: &Params) -> f64 {
        match self.is_active && self.watch.is_loss_own() {
            true => params.path.loss_max.max(self.watch.most_usual_loss()),
            false => params.path.loss_max,
        }
    }
}

/// What a TCP would take where such a share is lost, in bytes a second.
fn tcp_rate(rtt_s: f64, loss: f64) -> f64 {
    TCP_BY_LOSS * DATAGRAM / (rtt_s.max(RTT_MIN) * loss.sqrt())
}

/// What a TCP has under way where a share of `p` is lost: so many segments divided by the root of `p`. That is the root of
/// 3/2, the simple form of the equation in RFC 5348, section 3.1.
const TCP_BY_LOSS: f64 = 1.22;

/// In seconds: a round trip that is shorter counts as this long, since TCPs on such paths are not limited by loss.
const RTT_MIN: f64 = 1e-3;
