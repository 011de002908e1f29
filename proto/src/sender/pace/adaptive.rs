//! The default profile's judgement: is the path good or bad, and what follows for messages and bulk.
//!
//! Bad is a queue that we may be filling (the round trip rises over the path's own), or loss that is
//! heavy and new. When slowing down changes neither, it was not us: the mode returns to good.

use std::time::Duration;

use crate::rate::{Mode, Switch};
use crate::rtt::Sample;
use crate::sender::copies::Copies;
use crate::sender::detector::Outcome;
use crate::sender::in_flight::Sent;
use crate::sender::params::Params;
use crate::time::Timestamp;

use super::bulk::Bulk;
use super::demand::Demand;
use super::loss_windows::LossWindows;
use super::queueing::{Limits, Queue, Queueing};
use super::ticks::Ticks;

/// What is known of one path, and the rates that follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptive {
    switch: Switch,
    judged_at: Timestamp,
    queueing: Queueing,
    bulk: Bulk,
    demand: Demand,
    ticks: Ticks,
    /// Bad mode began while bulk was there to be cut: messages keep their rate.
    by_bulk: bool,
    /// The same with copies.
    by_copies: bool,
    bad_since: Timestamp,
    /// When bulk was last slowed down.
    cut_at: Timestamp,
    /// In bad mode, since when the queue is nearly empty.
    low_since: Option<Timestamp>,
    /// Since when there is nothing left to cut, and the queue was not nearly empty once.
    floor_since: Option<Timestamp>,
    /// What was delivered when bad mode began, in bytes a second.
    peak: f64,
    /// Somebody else fills the queue: messages go at the good rate, bulk goes by loss, as a TCP would.
    is_competing: bool,
    /// A queue before this is still somebody else's.
    not_ours_until: Timestamp,
    /// How long it was while we held back, in seconds: so much of it is theirs.
    theirs: f64,
    /// Since when it is longer than that, and how long it was then: we add to it.
    added: Option<(Timestamp, f64)>,
    /// The last sample met one that bulk does not explain.
    shows_queue: bool,
    lost_lately: bool,
    losses: LossWindows,
    trial: Option<Trial>,
}

/// Bulk goes slower, to see whether the delay gets shorter.
#[derive(Clone, Copy, Debug)]
struct Trial {
    until: Timestamp,
    /// What the delay was, in seconds.
    delay: f64,
}

/// Everything that one sample of the round trip says.
#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Timestamp,
    /// Seconds since the last one.
    dt: f64,
    /// A round trip: how long the path takes to answer a change.
    step: Duration,
    queue: Queue,
    heavy_loss: bool,
    copies: Copies,
}

impl Adaptive {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self {
            switch: Switch::trusting(params.penalty),
            judged_at: now,
            queueing: Queueing::new(now),
            bulk: Bulk::new(now, params),
            demand: Demand::new(now),
            ticks: Ticks::new(now, params),
            by_bulk: false,
            by_copies: false,
            bad_since: now,
            cut_at: now,
            low_since: None,
            floor_since: None,
            peak: 0.0,
            is_competing: false,
            not_ours_until: Timestamp::ZERO,
            theirs: 0.0,
            added: None,
            shows_queue: false,
            lost_lately: false,
            losses: LossWindows::new(now),
            trial: None,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.switch.mode()
    }

    pub(super) fn bulk_rate(&self) -> f64 {
        self.bulk.rate()
    }

    /// Bulk left, and the rate is what holds it back.
    pub(super) fn is_bulk_limited(&self) -> bool {
        self.bulk.is_limited()
    }

    /// Bytes of bulk that may leave at once after a pause.
    pub(super) fn bulk_window(&self, params: &Params) -> f64 {
        self.bulk.window(params)
    }

    /// Copies are not what a queue needs, unless it is somebody else's.
    pub(super) fn allows_copies(&self) -> bool {
        self.mode() == Mode::Good || self.is_competing && self.added.is_none()
    }

    /// A queue begins that neither bulk nor others explain.
    pub(super) fn shows_queue(&self) -> bool {
        let is_theirs = self.is_competing && self.added.is_none();
        self.shows_queue && !is_theirs
    }

    pub(super) fn on_idle(&mut self, now: Timestamp, params: &Params) {
        self.bulk.on_idle(now, self.queueing.rtt(), params);
    }

    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        if self.bulk.is_limited() {
            self.losses.on_bulk_outcome(outcome);
        } else {
            self.losses.on_outcome(outcome.lost, outcome.datagrams);
        }
    }

    pub(super) fn on_lost(&mut self, sent: &Sent, follows: bool, params: &Params) {
        self.lost_lately = true;
        self.bulk.on_lost(sent, follows, params);
    }

    pub(super) fn on_bulk_held_up(&mut self) {
        self.bulk.on_held_up();
    }

    /// Whether more waits than a packet takes.
    pub(super) fn on_waiting(&mut self, now: Timestamp, waits: bool) {
        if !waits {
            self.bulk.on_held_up();
        }
        self.demand.on_waiting(now, waits);
    }

    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.demand.on_sent(bytes);
    }

    /// As [`Demand::on_said`].
    pub(super) fn on_said(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        self.demand.on_said(now, bytes, is_full);
    }

    pub(super) fn on_acked(&mut self, now: Timestamp, sent_at: Timestamp, bytes: usize) {
        let rtt = self.queueing.rtt();
        self.bulk.on_acked(now, sent_at, bytes, rtt);
    }

    pub(super) fn on_bulk_sent(&mut self, now: Timestamp, bytes: usize) {
        self.bulk.on_sent(now, bytes);
    }

    /// Packets a second. Where a queue shows, no game gets more than the usual: packets have headers.
    pub(super) fn packet_rate(&self, params: &Params) -> f64 {
        if self.is_slow() {
            params.bad_rate
        } else if self.shows_queue() {
            params.good_rate
        } else {
            self.ticks.rate()
        }
    }

    /// Whether a message of now begins another tick of the game. A backlog is read as there is room for it.
    pub(super) fn is_next_tick(&self, now: Timestamp) -> bool {
        self.ticks.is_next(now) && !self.demand.has_waited(now, Duration::ZERO)
    }

    pub(super) fn on_tick(&mut self, now: Timestamp, params: &Params) {
        self.ticks.on_tick(now, params);
    }

    fn is_slow(&self) -> bool {
        // While bulk or copies are there to be cut, messages keep their rate.
        self.switch.mode() == Mode::Bad && !self.is_competing && !self.by_bulk && !self.by_copies
    }

    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: Sample, copies: Copies, params: &Params) {
        let floor = match self.is_slow() {
            true => params.bulk_min,
            false => self.demand.floor(now, params),
        };
        self.bulk.set_floor(floor);
        let queue = self.queue(now, rtt, params);
        self.shows_queue = queue.shows && !self.is_bulk_felt(now);
        self.bulk.note_queue(queue, params);
        self.demand
            .on_delay(queue.delay > queue.felt(params), queue.is_new);
        let reading = self.read(now, queue, copies, params);
        self.conclude_trial(reading, params);
        if self.is_competing {
            self.while_competing(reading, params);
        } else if self.mode() == Mode::Good {
            self.while_good(reading, params);
        } else {
            self.while_bad(reading, params);
        }
        self.lost_lately = false;
    }

    fn queue(&mut self, now: Timestamp, rtt: Sample, params: &Params) -> Queue {
        // Bulk fills a queue within a round trip: it must stand only for longer than what a processor
        // that was away held up comes in at once. Messages hardly fill one, so for them it must stand for
        // a while.
        let is_bulk = self.is_bulk_felt(now);
        let packet = self.bulk.packet_time();
        let (limit, stands, samples, proven) = if is_bulk {
            let (stands, samples) = (Duration::from_millis(10), self.bulk.samples_to_stop());
            let proven = proven_by_bulk(rtt, packet);
            (params.queue_max, stands, samples, proven)
        } else {
            let stands = Duration::from_millis(300);
            (params.queue_max_messages, stands, 0, rtt.least)
        };
        let limits = Limits {
            queue: limit.as_secs_f64(),
            stands,
            samples,
            packet,
            base_window: params.base_window,
        };
        self.queueing.on_rtt(now, rtt.took, proven, &limits)
    }

    /// Bulk leaves, and has for so long that a delay of now may be its doing. What a hole in the peer's messages
    /// kept back is gone before that.
    fn is_bulk_felt(&self, now: Timestamp) -> bool {
        let round_trip = Duration::from_secs_f64(self.queueing.rtt());
        self.bulk.is_limited() && self.demand.has_waited(now, round_trip)
    }

    fn read(&mut self, now: Timestamp, queue: Queue, copies: Copies, params: &Params) -> Reading {
        let rtt = self.queueing.rtt();
        if self.losses.close(now, self.mode(), rtt, params.loss_max)
            && let Some(loss) = self.losses.lasting(params.loss_max)
            && !self.bulk.is_usual_loss(loss)
        {
            self.bulk.limit_by_loss(rtt, loss, params);
        }
        let heavy_loss = self.losses.is_heavy(params.loss_max)
            && (copies == Copies::Withdrawn || self.mode() == Mode::Bad);
        let since = now.since(self.judged_at).min(Duration::from_secs(1));
        self.judged_at = now;
        Reading {
            now,
            dt: since.as_secs_f64(),
            step: Duration::from_secs_f64(rtt).max(Duration::from_millis(20)),
            queue,
            heavy_loss,
            copies,
        }
    }

    fn while_good(&mut self, reading: Reading, params: &Params) {
        let Reading {
            now, step, queue, ..
        } = reading;
        if !queue.stands && !reading.heavy_loss {
            self.switch.update(reading.dt, Mode::Good);
            if self.bulk.grow(now, step, queue, params) {
                self.try_slower(now, step, queue.delay, params.bulk_return);
            }
            return;
        }
        self.by_bulk = self.bulk.is_limited();
        self.by_copies = reading.copies == Copies::Many;
        if self.by_bulk || self.by_copies {
            self.switch.enter_bad();
        } else {
            self.switch.update(reading.dt, Mode::Bad);
        }
        self.bad_since = now;
        self.low_since = None;
        self.floor_since = None;
        self.peak = self.bulk.peak();
        self.losses.on_bad(!queue.stands);
        if queue.stands && now < self.not_ours_until {
            self.is_competing = true;
            return;
        }
        self.bulk.cut(params);
        self.cut_at = now;
        if queue.stands {
            self.try_slower(now, step, queue.delay, params.bulk_cut);
        }
    }

    /// Bulk goes on with the share `keep` of its rate: by then a queue is shorter.
    fn try_slower(&mut self, now: Timestamp, step: Duration, delay: f64, keep: f64) {
        if self.bulk.is_limited() {
            // Half as long again as it takes.
            let drained = (1.5 * delay / (1.0 - keep)).clamp(0.0, DRAINED_AFTER_MAX);
            let until = now + 2 * step + Duration::from_secs_f64(drained);
            self.bulk.hold_until(until);
            self.trial = Some(Trial { until, delay });
        }
    }

    /// What is left of a delay when its queue had the time to drain is no queue of ours.
    fn conclude_trial(&mut self, reading: Reading, params: &Params) {
        let Reading { now, queue, .. } = reading;
        let Some(trial) = self.trial.take_if(|trial| trial.until <= now) else {
            return;
        };
        let has_drained = queue.delay < DRAINED * trial.delay;
        if has_drained || !self.bulk.is_limited() || self.is_competing {
            return;
        }
        let packet = self.bulk.packet_time();
        if self
            .queueing
            .is_own(now, queue.delay, packet, params.base_window)
        {
            if self.mode() == Mode::Bad && !reading.heavy_loss {
                self.return_to_good(now, params);
            }
            self.bulk.search_on();
        }
    }

    fn while_bad(&mut self, reading: Reading, params: &Params) {
        let Reading {
            now, step, queue, ..
        } = reading;
        if self.losses.tolerate_as_not_ours() {
            self.return_to_good(now, params);
            return;
        }
        if queue.delay < queue.low && !reading.heavy_loss {
            self.floor_since = None;
            self.switch.update(reading.dt, Mode::Good);
            let since = *self.low_since.get_or_insert(now);
            // Bulk finds its rate again at once; messages wait out the penalty.
            let found = (self.by_bulk || self.by_copies) && now.since(since) >= step;
            if found || self.switch.mode() == Mode::Good {
                self.return_to_good(now, params);
            }
            return;
        }
        self.switch.update(reading.dt, Mode::Bad);
        self.low_since = None;
        let nothing_to_cut = !self.bulk.is_limited() || self.bulk.is_at_floor();
        if (self.by_bulk || self.by_copies)
            && queue.over
            && nothing_to_cut
            && now.since(self.bad_since) > 4 * step + Duration::from_millis(500)
        {
            // Bulk and copies are gone or at their least, and the queue still stands: messages
            // slow down too.
            self.by_bulk = false;
            self.by_copies = false;
        }
        if queue.over
            && self.bulk.is_limited()
            && now.since(self.cut_at) >= 2 * step + Duration::from_millis(100)
        {
            self.bulk.cut_again(params);
            self.cut_at = now;
        }
        self.look_for_others(now, step, queue, params);
    }

    /// We slowed down, and the queue never was nearly empty: the congestion is not ours.
    fn look_for_others(&mut self, now: Timestamp, step: Duration, queue: Queue, params: &Params) {
        let enough = (0.5 * self.peak).max(params.bulk_min * 1.01);
        if self.bulk.is_limited() && self.bulk.rate() > enough {
            self.floor_since = None;
            return;
        }
        let since = *self.floor_since.get_or_insert(now);
        if now.since(since) >= held_back_for(step) {
            self.is_competing = true;
            (self.theirs, self.added) = (queue.delay, None);
            let again = if self.bulk.is_limited() { 10 } else { 60 };
            self.not_ours_until = now + Duration::from_secs(again);
            self.low_since = None;
            self.cut_at = now;
        }
    }

    fn while_competing(&mut self, reading: Reading, params: &Params) {
        let Reading {
            now, step, queue, ..
        } = reading;
        if queue.delay >= queue.low {
            self.low_since = None;
        } else if now.since(*self.low_since.get_or_insert(now))
            > 2 * step + Duration::from_millis(200)
        {
            self.is_competing = false;
            self.return_to_good(now, params);
            return;
        }
        self.look_for_ours(now, step, queue);
        let lost = self.lost_lately;
        self.bulk.compete(now, step, lost, &mut self.cut_at, params);
    }

    /// Of somebody else's queue, what came to it since we no longer hold back may be ours: our own copies fill it
    /// as well as anybody. They are held back until it is gone, or stays without them.
    fn look_for_ours(&mut self, now: Timestamp, step: Duration, queue: Queue) {
        if queue.delay <= self.theirs + 2.0 * queue.low {
            self.added = None;
            return;
        }
        let (since, before) = *self.added.get_or_insert((now, queue.delay));
        if now.since(since) < held_back_for(step) {
            return;
        }
        if queue.delay < before {
            self.added = Some((now, queue.delay));
        } else {
            (self.theirs, self.added) = (queue.delay, None);
        }
    }

    fn return_to_good(&mut self, now: Timestamp, params: &Params) {
        self.added = None;
        self.switch.enter_good();
        self.losses.on_good();
        self.bulk.resume(now, params);
    }
}

/// A queue that outlasts this, although we send less, is somebody else's. `step`: how long the path takes to answer.
fn held_back_for(step: Duration) -> Duration {
    (8 * step).max(Duration::from_secs(2))
}

/// In seconds; no trial waits longer.
const DRAINED_AFTER_MAX: f64 = 2.0;

/// Of a queue's delay, what may be left after the time it needs to drain.
const DRAINED: f64 = 0.25;

/// What the peer may have held back is no sign of a queue. Of the packets of bulk some are acknowledged at
/// once. Where the path is so slow that each has an acknowledgement of its own, that one comes as late as
/// peers let it.
fn proven_by_bulk(rtt: Sample, packet: f64) -> Duration {
    let held = rtt.took.saturating_sub(rtt.least);
    if held <= QUICK {
        rtt.took
    } else if held.as_secs_f64() <= 2.0 * packet {
        rtt.least.max(rtt.took.saturating_sub(HELD_MAX))
    } else {
        rtt.least
    }
}

/// Peers do not hold acknowledgements back while packets come in quicker succession than this.
const QUICK: Duration = Duration::from_millis(50);

/// Else they may do so for this long.
const HELD_MAX: Duration = Duration::from_millis(40);
