//! Copies of what is under way: whether they may be sent, and when they leave by themselves. Which messages
//! get one is the matter of `selector.rs`, what they may cost those of `budget.rs` and `rate.rs`.

mod budget;
mod governor;
mod path_loss;
mod rate;
mod selector;

use std::time::Duration;

use crate::rtt::Rtt;
use crate::time::{Span, Timestamp};

use super::cadence::Cadence;
use super::detector::Outcome;
use super::in_flight::{Fate, InFlight, Sent};
use super::params::Params;

pub(super) use selector::CopySelector;

use budget::CopyBudget;
use governor::Governor;
use path_loss::PathLoss;

/// How much of what is sent they are. A queue that grows while they are many is theirs to shorten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// Hardly any.
    Few,
    /// A fair share.
    Many,
    /// None, to see whether that helps.
    Withdrawn,
}

/// What may become of the packets under way, by which a copy is worth something or not.
#[derive(Debug)]
pub(super) struct Prospect<'a> {
    pub(super) in_flight: &'a mut InFlight,
    /// No packet below this can still be found lost.
    pub(super) settled: u64,
    pub(super) rtt: &'a Rtt,
    /// Mean time between packets of the peer.
    pub(super) heard_every: Duration,
    /// No queue of ours needs them to stop.
    pub(super) path_allows: bool,
}

/// What one session knows of its copies and of the losses that they are for.
#[derive(Debug)]
pub(super) struct Copier {
    loss: PathLoss,
    budget: CopyBudget,
    /// From the first loss on.
    governor: Option<Box<Governor>>,
    /// Mean time between packets with something new.
    fresh: Cadence,
    /// When copies leave by themselves, unless something else leaves before; [`Timestamp::MAX`] when
    /// they do not.
    early_at: Timestamp,
    /// Bytes of copies for each other byte, lately.
    load: f32,
    /// How often they left by themselves since the last packet with something new.
    early_probes: u8,
    /// The path seems to be silent altogether.
    in_outage: bool,
}

impl Copier {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            loss: PathLoss::default(),
            budget: CopyBudget::new(now),
            governor: None,
            fresh: Cadence::new(now, Duration::from_secs(1), Duration::from_secs(1)),
            early_at: Timestamp::MAX,
            load: 0.0,
            early_probes: 0,
            in_outage: false,
        }
    }

    /// What is known of the path's losses.
    pub(super) fn loss(&self) -> &PathLoss {
        &self.loss
    }

    /// What selects the copies for a packet that leaves now, if any may go: they are of use, were not withdrawn, and
    /// no queue needs them to stop.
    pub(super) fn open<'a>(
        &'a mut self,
        now: Timestamp,
        mut prospect: Prospect<'a>,
        params: &Params,
    ) -> Option<CopySelector<'a>> {
        if !self.are_wanted(params) {
            return None;
        }
        self.judge(now, &mut prospect);
        let Prospect { in_flight, rtt, .. } = prospect;
        let may_go = self.are_allowed() && !self.are_paused(now) && prospect.path_allows;
        may_go.then(|| self.selector(now, in_flight, rtt))
    }

    /// They are wanted at all, and there is something that they are good for.
    fn are_wanted(&self, params: &Params) -> bool {
        params.redundancy && self.loss.share() != 0.0
    }

    /// They were not withdrawn.
    fn are_allowed(&self) -> bool {
        let governor = self.governor.as_ref();
        governor.is_none_or(|governor| governor.allows())
    }

    /// A queue showed a moment ago.
    fn are_paused(&self, now: Timestamp) -> bool {
        let governor = self.governor.as_ref();
        governor.is_some_and(|governor| governor.rate.is_paused(now))
    }

    /// How much of what was sent lately were copies.
    pub(super) fn share(&self) -> Copies {
        if !self.are_allowed() {
            Copies::Withdrawn
        } else if self.load > 0.2 {
            Copies::Many
        } else {
            Copies::Few
        }
    }

    /// So many copies went lately that a loss counts as a loss with copies.
    pub(super) fn are_dense(&self) -> bool {
        self.load > 0.3
    }

    /// A queue shows: theirs, if they are many.
    pub(super) fn on_queue(&mut self, now: Timestamp, rtt: Duration) {
        if self.share() == Copies::Many
            && let Some(governor) = &mut self.governor
        {
            governor.rate.on_queue(now, rtt);
        }
    }

    pub(super) fn on_outcome(&mut self, now: Timestamp, outcome: Outcome) {
        let Outcome {
            sent_at,
            lost,
            with_copies,
            ..
        } = outcome;
        self.loss.on_outcome(lost);
        if self.governor.is_none() && lost {
            let governor = Governor::new(now, self.loss.outcomes());
            self.governor = Some(Box::new(governor));
        }
        if let Some(governor) = &mut self.governor {
            let grouping = self.loss.correlation();
            governor.on_outcome(now, sent_at, lost, with_copies, grouping);
        }
    }

    /// A packet left, with so many bytes of copies beside `plain_bytes` of other things.
    pub(super) fn on_sent(&mut self, copy_bytes: usize, plain_bytes: usize) {
        let load = copy_bytes as f32 / plain_bytes.max(1) as f32;
        self.load += (load - self.load) / 16.0;
    }

    /// A packet with something new left, which pays for copies: `plain_bytes` without those, of which
    /// `payload_bytes` are the packet's payload.
    pub(super) fn on_fresh(
        &mut self,
        now: Timestamp,
        plain_bytes: usize,
        payload_bytes: usize,
        rtt: &Rtt,
        params: &Params,
    ) {
        if !params.redundancy {
            return;
        }
        let [smoothed, ..] = rtt.spans();
        let far = smoothed.as_secs() / NEAR.as_secs();
        let far = far.clamp(1.0, FAR);
        let share = SHARE * plain_bytes as f64;
        let share = share.min(SHARE_OF_MESSAGES * payload_bytes as f64);
        let gap = self.fresh.on_event(now);
        self.budget.on_fresh(far * share, gap);
        self.early_probes = 0;
    }

    /// A packet with messages left: plans when copies of them leave by themselves. Whether any may go is asked when
    /// they do: a pause may be over by then.
    pub(super) fn arm_early_probe(&mut self, now: Timestamp, params: &Params) {
        if !self.are_wanted(params) {
            self.early_at = Timestamp::MAX;
            return;
        }
        let mut wait = EARLY_AFTER * (1 << self.early_probes.min(6));
        if self.fresh.every() < RIDE_MAX {
            // The next packet is near: let the copy ride on it.
            wait = wait.max(self.fresh.every() * 3 / 2);
        }
        if self.in_outage {
            // Whoever speaks first when it is over ends the wait.
            wait = self.fresh.every() / 2;
        }
        self.early_at = now + wait;
    }

    /// When copies leave by themselves.
    pub(super) fn early_probe_at(&self) -> Option<Timestamp> {
        (self.early_at < Timestamp::MAX).then_some(self.early_at)
    }

    /// The packet that leaves for their sake was composed. They are in it, or were useless: what is
    /// under way was acknowledged, or is not worth a copy.
    pub(super) fn on_early_probe(&mut self) {
        self.early_at = Timestamp::MAX;
        self.early_probes = self.early_probes.saturating_add(1);
    }

    /// Notes how likely packets are lost whose fate is open: those that have waited longest, and the newest. Those
    /// between stay as they were judged, if they were, when they were new: that they are overdue is noted once they are among
    /// the oldest.
    fn judge(&mut self, now: Timestamp, prospect: &mut Prospect<'_>) {
        let Prospect {
            in_flight,
            settled,
            rtt,
            heard_every,
            ..
        } = prospect;
        let patience = rtt.smoothed() + rtt.variation().max(OVERDUE_MIN);
        let heard_every = (*heard_every).clamp(Duration::from_millis(5), Duration::from_millis(50));
        let (from, end) = ((*settled).max(in_flight.base()), in_flight.end());
        let oldest = from..end.min(from + JUDGED_EACH);
        let newest = oldest.end.max(end.saturating_sub(JUDGED_EACH))..end;
        let is_gap = newest.start > oldest.end;
        let mut before = self.loss.share();
        let mut overdue = 0;
        for range in [oldest, newest] {
            for sent in in_flight.range_mut(range) {
                let late = now.since(sent.at + patience);
                before = self.loss_chance(sent, before, late, heard_every);
                sent.loss_chance = before;
                overdue += u32::from(sent.fate == Fate::Unknown && sent.missed > 0);
            }
            if is_gap {
                before = self.loss.share();
            }
        }
        self.in_outage = overdue >= 2 && self.loss.comes_in_outages();
    }

    /// How likely a packet is lost, if its neighbour is so likely before it and its answer is so late; notes how many answers
    /// it missed.
    fn loss_chance(
        &self,
        sent: &mut Sent,
        before: f32,
        late: Duration,
        heard_every: Duration,
    ) -> f32 {
        match sent.fate {
            Fate::Acked => 0.0,
            Fate::Lost => 1.0,
            Fate::Early | Fate::Skipped => before,
            Fate::Unknown => {
                let loss_chance = self.loss.after(before, 1);
                sent.missed = 0;
                if late.is_zero() {
                    return loss_chance;
                }
                sent.missed = 1 + (late.as_nanos() / heard_every.as_nanos()).min(8) as u8;
                self.loss.overdue(loss_chance, u32::from(sent.missed))
            }
        }
    }

    /// What selects the copies for one packet, the next after those in `in_flight`.
    fn selector<'a>(
        &'a mut self,
        now: Timestamp,
        in_flight: &'a InFlight,
        rtt: &Rtt,
    ) -> CopySelector<'a> {
        self.budget.fill(now);
        let (mut rate, mut outage_budget) = (None, None);
        if let Some(governor) = self.governor.as_deref_mut() {
            governor.rate.fill(now, rtt.smoothed());
            rate = Some(&mut governor.rate);
            // While nothing comes back, whatever went may be gone, however often it went.
            if self.in_outage {
                governor.outage_budget.fill(now);
                outage_budget = Some(&mut governor.outage_budget);
            }
        }
        let mut fullness = self.budget.fullness();
        if let Some(rate) = &rate {
            fullness = fullness.min(rate.fullness());
        }
        CopySelector {
            now,
            number: in_flight.end(),
            in_flight,
            loss: &self.loss,
            gain_min: gain_min(fullness),
            budget: &mut self.budget,
            rate,
            outage_budget,
        }
    }
}

/// The least gain (chance that a copy rescues its message) worth a copy now. It rises as what may be spent on them
/// runs short, so that the rest goes to the messages that need it most.
fn gain_min(fullness: f64) -> f32 {
    let doublings = GAIN_DOUBLINGS * (1.0 - fullness);
    (GAIN_MIN * doublings.exp2()) as f32
}

/// The chance to rescue a message that a copy must have. 0.0005: a message that waits for a round trip holds up those behind
/// it, and about one in a thousand may.
const GAIN_MIN: f64 = 0.0005;

/// With nothing left, a copy must gain 2 to this power times what it must otherwise.
const GAIN_DOUBLINGS: f64 = 6.0;

/// Bytes of copies for each byte of packets with something new, at a short round trip. A 64-byte frame costs 122 bytes alone
/// and 67 as a copy, so 1.35 pays for two copies of everything and for what turns out to be lost.
const SHARE: f64 = 1.35;

/// Bytes of copies for each byte of the new messages alone, if that is less: packets of tiny messages are nearly all header,
/// and would pay for more copies than help.
const SHARE_OF_MESSAGES: f64 = 2.5;

/// Both grow with the round trip, up to this many times: a loss that waits for a round trip costs more the longer that is.
const FAR: f64 = 2.0;

/// Round trips up to this are near: a lost message is soon asked for again.
const NEAR: Span = Span::from_millis(60);

/// When nothing else is about to leave, copies leave by themselves this long after the last packet, then after twice that, and
/// so on (an early tail probe).
const EARLY_AFTER: Duration = Duration::from_millis(10);

/// An ack is overdue this long after the smoothed round trip at the earliest.
const OVERDUE_MIN: Duration = Duration::from_millis(4);

/// Packets at each end of those whose fate is open that are judged for each packet that leaves: a peer may acknowledge
/// nothing, and leave thousands open.
const JUDGED_EACH: u64 = 512;

/// Longest wait for which a copy may hope to ride on the next packet.
const RIDE_MAX: Duration = Duration::from_millis(40);
