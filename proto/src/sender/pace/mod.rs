//! How fast: packets a second and bytes of bulk, by the rule in force.
//!
//! The article's rule is `crate::mode`, and all of this is the default's. The sender tells [`Pace`] what it hears and does,
//! and asks for rates; nothing here sends, and nothing here has a timer.
//!
//! ```text
//!   told                      judged                                     asked
//!
//!   on_rtt ─────────────────▶ queueing (jitter) ──┐
//!   on_outcome ─────────────▶ loss_windows ───────┴▶ adaptive ──────────▶ mode, allows_copies, shows_queue
//!                                                    (bad, competing)    spares_repairs
//!                                                      │ what is to be cut
//!   on_tick ────────────────▶ ticks ───────────────────┼────────────────▶ packet_rate
//!   on_pushed ──────────────▶ demand (asked) ──────┐   ▼
//!   on_acked, on_lost ──────▶ watch, volley ───────┴▶ bulk ─────────────▶ bulk_rate, bulk_window
//!                             (heavy_loss; watch: delivered, losses, short_queue)
//! ```
//!
//! | question | file |
//! |---|---|
//! | is the path good, and what follows | `adaptive`, in each state `adaptive/states`; what holding back brought: `bad`; beside somebody else: `competing` |
//! | how long do our packets wait in a queue | `queueing`; how much of that jitter explains: `jitter` |
//! | what of a round trip did the peer hold back | `held_back` |
//! | is a delay no queue | another route's: `jump`; of a path that holds packets up: `silences`; left when we go slower: `trial` |
//! | is so much lost that the path is bad | `loss_windows` |
//! | is that the path's own, whatever is sent | `heavy_loss`, by which packets of two get lost |
//! | how fast does bulk go | `bulk`; where much is lost: `bulk/under_loss`; does it meet the path's end: `watch`, `bulk/end` |
//! | what came through lately | `delivered` |
//! | is more lost than usual | `losses` |
//! | is there a queue too short to be felt | `short_queue` |
//! | how much may leave at once | `volley` |
//! | what is bulk never slower than | `demand`, by what is said: `asked` |
//! | how many packets does a fast game get | `ticks` |
//! | what is no loss, but an outage | `outage`, counted by `loss_tally` |
//!
//! # Round trips
//!
//! There is more than one, because they answer different questions. A [`Sample`] has two times: all that it took, and what
//! of that is proven to be the path's (the peer may have held the acknowledgement back for the rest).
//!
//! | estimate | fed by | for |
//! |---|---|---|
//! | `Rtt::smoothed`, `variation` | all, of packets whose acknowledgement was not late on purpose | when an answer is overdue: losses, probes, copies |
//! | `Rtt::path`, `latest` | the path's share of these | what is shown |
//! | `Rtt::min` | all, as a bound those late on purpose too; 20 to 30 s | how long a probe waits, how much an outbox holds |
//! | `Queueing::rtt_s`, gain 1/4 | all, of packets whose acknowledgement is in order, or behind a gap as always | how soon the path answers a change: steps, spans, trials |
//! | base of `Queueing` | the same, the smallest of `PathLimits::base_window` | what of a round trip is no queue |
//! | moments of `Queueing` | what is proven (with bulk: mostly all, and no less than the path takes), the smallest of one or two moments | what is one: over the base |
//! | variation of `Queueing` | all, while no queue is over the limit | how large a queue must be to count |
//! | wander of `Queueing` | moments, one after the other | what of a short delay is noise, and of any where bulk is mostly what is said evenly |
//! | `Jitter` | what is proven, of bulk | whether a delay that stays is the path's own |
//! | the article's | all | the article's rule |
//!
//! # Losses
//!
//! They come in two streams, because two questions are asked of them:
//!
//! ```text
//!   the detector ─┬─ found lost, at once ─▶ Pace::on_lost ────▶ losses, volley: does bulk send too much just now?
//!                 │                                             adaptive, while competing: as a TCP hears it
//!                 └─ final, in order ─────▶ Pace::on_outcome ─▶ loss_windows: is so much lost that the path is bad?
//!                                                             heavy_loss: is that the path's own?
//! ```
//!
//! What is found lost may be late, and then is heard again as acknowledged. Bulk does not wait for that: meanwhile it would
//! send another round trip's worth into a queue that runs over, and a mistake costs it a part of its rate. Bad mode slows
//! messages down as well, so it waits until no acknowledgement can come any more. What bulk loses in an outage (`outage`)
//! counts in neither (`loss_tally`).

mod adaptive;
mod asked;
mod bad;
mod bulk;
mod competing;
mod delivered;
mod demand;
mod heavy_loss;
mod held_back;
mod jitter;
mod jump;
mod loss_tally;
mod loss_windows;
mod losses;
mod outage;
mod queueing;
mod short_queue;
mod silences;
#[cfg(test)]
mod tests;
mod ticks;
mod trial;
mod volley;
mod watch;

use std::time::Duration;

use crate::mode::{ArticleRate, Mode};
use crate::rtt::Sample;
use crate::time::Timestamp;

use super::copies::Copies;
use super::detector::Outcome;
use super::in_flight::Sent;
use super::params::{Params, Profile};

use adaptive::Adaptive;

/// Rates for one path.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    rule: Rule,
    changes: [u32; 2],
    updated_at: Timestamp,
}

#[derive(Clone, Debug)]
enum Rule {
    Article(Box<ArticleRate>),
    /// The default, before there was anything to judge: an idle peer does not pay for it.
    Untried,
    Adaptive(Box<Adaptive>),
}

/// What keeps bulk from leaving faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldBy {
    /// No more waits than a packet takes, nor would if there were room for it.
    Nothing,
    /// Its rate: what is acknowledged then is what the path carries.
    Rate,
    /// How many packets an acknowledgement speaks of, which is less than the rate.
    Reach,
    /// As much is under way as may be without an answer.
    Answers,
}

impl Pace {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        let rule = match params.profile {
            Profile::Article { rtt_max, .. } => {
                Rule::Article(Box::new(ArticleRate::new(params.penalty, rtt_max)))
            }
            Profile::Adaptive => Rule::Untried,
        };
        Self {
            rule,
            changes: [0; 2],
            updated_at: now,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match &self.rule {
            Rule::Article(article) => article.switch().mode(),
            Rule::Untried => Mode::Good,
            Rule::Adaptive(adaptive) => adaptive.mode(),
        }
    }

    /// Switches to good and to bad mode.
    pub(super) fn changes(&self) -> [u32; 2] {
        self.changes
    }

    /// The article's own average, which is what its rule looks at.
    pub(super) fn article_rtt(&self) -> Option<Duration> {
        match &self.rule {
            Rule::Article(article) => Some(article.rtt()),
            Rule::Untried | Rule::Adaptive(_) => None,
        }
    }

    /// Packets a second.
    pub(super) fn packet_rate(&self, params: &Params) -> f64 {
        let rate = match &self.rule {
            Rule::Article(article) if article.switch().mode() == Mode::Bad => params.packets.bad,
            Rule::Article(_) | Rule::Untried => params.packets.good,
            Rule::Adaptive(adaptive) => adaptive.packet_rate(params),
        };
        rate.max(0.1)
    }

    /// Whether a message of now begins another tick of the game: [`Pace::on_tick`] is to be told.
    pub(super) fn is_next_tick(&self, now: Timestamp) -> bool {
        self.adaptive().is_some_and(|it| it.is_next_tick(now))
    }

    /// Changes the packet rate.
    pub(super) fn on_tick(&mut self, now: Timestamp, params: &Params) {
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_tick(now, params);
        }
    }

    /// Packets of bulk are to leave two at a time.
    pub(super) fn wants_pairs(&self) -> bool {
        self.adaptive().is_some_and(Adaptive::wants_pairs)
    }

    /// Bytes a second for bulk; `None` when bulk goes by the packet rate.
    pub(super) fn bulk_rate(&self, params: &Params) -> Option<f64> {
        match &self.rule {
            Rule::Article(_) => None,
            Rule::Untried => Some(params.bulk.start),
            Rule::Adaptive(adaptive) => Some(adaptive.bulk_rate()),
        }
    }

    /// Bulk is being sent, as fast as its rate or its answers let it; else, in a pause, [`Pace::bulk_window`] gathers.
    pub(super) fn is_bulk_active(&self) -> bool {
        self.adaptive().is_some_and(Adaptive::is_bulk_active)
    }

    /// Bytes of bulk that may leave at once after a pause.
    pub(super) fn bulk_window(&self, params: &Params) -> f64 {
        let adaptive = self.adaptive();
        adaptive.map_or(params.bulk.window, |it| it.bulk_window(params))
    }

    /// Whether copies are harmless now: they are not what a queue needs.
    pub(super) fn allows_copies(&self) -> bool {
        match &self.rule {
            Rule::Article(_) => false,
            Rule::Untried => true,
            Rule::Adaptive(adaptive) => adaptive.allows_copies(),
        }
    }

    /// Whether what was lost of bulk may go twice: the path has room, and no queue dropped it.
    pub(super) fn spares_repairs(&self) -> bool {
        self.adaptive().is_some_and(Adaptive::spares_repairs)
    }

    /// A queue begins that neither bulk nor others explain.
    pub(super) fn shows_queue(&self) -> bool {
        self.adaptive().is_some_and(Adaptive::shows_queue)
    }

    /// Time passed.
    pub(super) fn update(&mut self, now: Timestamp, params: &Params) {
        let since = self.updated_at;
        self.updated_at = since.max(now);
        let before = self.mode();
        match &mut self.rule {
            // A pause of the process is no experience with the path.
            Rule::Article(article) => article.update(now.since(since).min(GAP_MAX)),
            Rule::Untried => {}
            Rule::Adaptive(adaptive) => adaptive.on_idle(now, params),
        }
        self.count_change(before);
    }

    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: Sample, copies: Copies, params: &Params) {
        self.try_out(now, params);
        let before = self.mode();
        match &mut self.rule {
            Rule::Article(article) => article.on_rtt(rtt.took.into()),
            Rule::Untried => {}
            Rule::Adaptive(adaptive) => adaptive.on_rtt(now, rtt, copies, params),
        }
        self.count_change(before);
    }

    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_outcome(outcome);
        }
    }

    /// A packet was found lost; `follows`, when the one before it was as well.
    pub(super) fn on_lost(&mut self, number: u64, sent: &Sent, follows: bool, params: &Params) {
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_lost(number, sent, follows, params);
        }
    }

    /// A packet may be about to leave: what keeps bulk from leaving faster.
    pub(super) fn on_bulk_held(&mut self, now: Timestamp, by: HeldBy) {
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_bulk_held(now, by);
        }
    }

    /// A message was queued. `is_full`: there is no room for another.
    pub(super) fn on_pushed(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_pushed(now, bytes, is_full);
        }
    }

    pub(super) fn on_acked(&mut self, now: Timestamp, sent_at: Timestamp, bytes: usize) {
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_acked(now, sent_at, bytes);
        }
    }

    pub(super) fn on_bulk_sent(
        &mut self,
        now: Timestamp,
        number: u64,
        bytes: usize,
        params: &Params,
    ) {
        self.try_out(now, params);
        if let Some(adaptive) = self.adaptive_mut() {
            adaptive.on_bulk_sent(now, number, bytes);
        }
    }

    /// The default's judgement, once there is something to judge.
    fn adaptive(&self) -> Option<&Adaptive> {
        match &self.rule {
            Rule::Article(_) | Rule::Untried => None,
            Rule::Adaptive(adaptive) => Some(adaptive),
        }
    }

    fn adaptive_mut(&mut self) -> Option<&mut Adaptive> {
        match &mut self.rule {
            Rule::Article(_) | Rule::Untried => None,
            Rule::Adaptive(adaptive) => Some(adaptive),
        }
    }

    fn try_out(&mut self, now: Timestamp, params: &Params) {
        if let Rule::Untried = self.rule {
            self.rule = Rule::Adaptive(Box::new(Adaptive::new(now, params)));
        }
    }

    fn count_change(&mut self, before: Mode) {
        let after = self.mode();
        if after != before {
            self.changes[usize::from(after == Mode::Bad)] += 1;
        }
    }
}

/// Time that passed counts as no more than this.
const GAP_MAX: Duration = Duration::from_secs(1);
