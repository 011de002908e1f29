//! The default profile's judgement: is the path good or bad, and what follows for messages and bulk.
//!
//! Bad is a queue that we may be filling (the round trip rises over the path's own), or loss that is
//! heavy and new. When slowing down changes neither, it was not us: the mode returns to good.
//!
//! ```text
//!              a queue stands, or loss is heavy and new
//!      Good ─────────────────────────────────────────────▶ Bad: bulk is cut, then copies, then messages
//!      │  ▲ ◀──────────────────────────────────────────────┤
//!      │  │    the queue is gone, or was the path's own;   │ all that is cut, and the queue stays
//!      │  │    the loss was not our doing                  ▼
//!      │  └────────────────────────────────────────────── Competing: messages as in Good, bulk as a TCP
//!      │       the queue is gone                           ▲
//!      └───────────────────────────────────────────────────┘
//!              a queue stands, soon after one of somebody else's
//! ```
//!
//! To everybody else, competing is bad mode: it is counted and shown as that.

mod states;

use std::time::Duration;

use crate::mode::{Mode, Switch};
use crate::rtt::Sample;
use crate::sender::copies::Copies;
use crate::sender::detector::Outcome;
use crate::sender::in_flight::Sent;
use crate::sender::params::Params;
use crate::time::{Span, Timestamp};

use super::HeldBy;
use super::bad::Bad;
use super::bulk::Bulk;
use super::competing::{Competing, Rival};
use super::demand::Demand;
use super::held_back::proven_by_bulk;
use super::jump::Jump;
use super::loss_windows::LossWindows;
use super::queueing::{Limits, Queue, Queueing};
use super::silences::Silences;
use super::ticks::Ticks;
use super::trial::Trial;

/// What is known of one path, and the rates that follow.
#[derive(Clone, Debug)]
pub(super) struct Adaptive {
    state: State,
    /// Has the penalties. Its mode is the state's.
    switch: Switch,
    /// The other flow, as it was when we last competed.
    rival: Option<Rival>,
    queueing: Queueing,
    silences: Silences,
    bulk: Bulk,
    demand: Demand,
    ticks: Ticks,
    /// The last sample met a queue that bulk does not explain.
    shows_queue: bool,
    /// The last sample met one that is felt, and not another flow's alone.
    is_late: bool,
    lost_lately: bool,
    losses: LossWindows,
    trial: Option<Trial>,
    jump: Jump,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing is wrong.
    Good,
    /// We hold back.
    Bad(Bad),
    /// We do not hold back, since that does not help.
    Competing(Competing),
}

/// Everything that one sample of the round trip says.
#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Timestamp,
    /// Seconds since the last one.
    dt: f64,
    /// A round trip, in seconds.
    rtt_s: f64,
    queue: Queue,
    heavy_loss: bool,
    copies: Copies,
}

impl Reading {
    /// How long the path takes to answer a change.
    fn step(&self) -> Duration {
        Duration::from_secs_f64(self.rtt_s).max(STEP_MIN)
    }
}

impl Adaptive {
    pub(super) fn new(now: Timestamp, params: &Params) -> Self {
        Self {
            state: State::Good,
            switch: Switch::trusting(params.penalty),
            rival: None,
            queueing: Queueing::new(now),
            silences: Silences::default(),
            bulk: Bulk::new(now, params),
            demand: Demand::new(now),
            ticks: Ticks::new(now, params),
            shows_queue: false,
            is_late: false,
            lost_lately: false,
            losses: LossWindows::new(now),
            trial: None,
            jump: Jump::new(now),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match self.state {
            State::Good => Mode::Good,
            State::Bad(_) | State::Competing(_) => Mode::Bad,
        }
    }

    pub(super) fn bulk_rate(&self) -> f64 {
        self.bulk.rate()
    }

    /// Packets of bulk are to leave two at a time.
    pub(super) fn wants_pairs(&self) -> bool {
        self.mode() == Mode::Good && self.bulk.wants_pairs()
    }

    /// Bulk is being sent: it left, and no pause has begun since.
    pub(super) fn is_bulk_active(&self) -> bool {
        self.bulk.is_active()
    }

    /// Bytes of bulk that may leave at once after a pause.
    pub(super) fn bulk_window(&self, params: &Params) -> f64 {
        self.bulk.window(params)
    }

    /// Copies are not what a queue needs, unless it is somebody else's.
    pub(super) fn allows_copies(&self) -> bool {
        self.mode() == Mode::Good || self.is_queue_theirs()
    }

    /// Whether what was lost of bulk may go twice: no queue dropped it, as far as is known, nor is one met.
    pub(super) fn spares_repairs(&self) -> bool {
        self.mode() == Mode::Good && !self.is_late && !self.bulk.overflows()
    }

    /// A queue begins that neither bulk nor others explain.
    pub(super) fn shows_queue(&self) -> bool {
        self.shows_queue && !self.is_queue_theirs()
    }

    /// The whole queue is another flow's.
    fn is_queue_theirs(&self) -> bool {
        matches!(self.state, State::Competing(competing) if !competing.adds())
    }

    pub(super) fn on_idle(&mut self, now: Timestamp, params: &Params) {
        self.bulk.on_idle(now, self.queueing.rtt_s(), params);
    }

    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        if self.bulk.is_active() {
            self.losses.on_bulk_outcome(outcome);
            if self.mode() == Mode::Good {
                self.bulk.on_outcome(outcome);
            }
        } else {
            self.losses.on_outcome(outcome.lost, outcome.datagrams);
        }
    }

    pub(super) fn on_lost(&mut self, number: u64, sent: &Sent, follows: bool, params: &Params) {
        self.lost_lately = true;
        self.jump.on_lost();
        self.bulk.on_lost(number, sent, follows, params);
    }

    pub(super) fn on_bulk_held(&mut self, now: Timestamp, by: HeldBy) {
        if by != HeldBy::Rate {
            self.bulk.on_held_up();
        }
        self.demand.on_waiting(now, by != HeldBy::Nothing);
    }

    /// A message of so many bytes was queued. `is_full`: there is no room for another.
    pub(super) fn on_pushed(&mut self, now: Timestamp, bytes: usize, is_full: bool) {
        self.demand.on_pushed(now, bytes, is_full);
    }

    pub(super) fn on_acked(&mut self, now: Timestamp, sent_at: Timestamp, bytes: usize) {
        let rtt_s = self.queueing.rtt_s();
        self.bulk.on_acked(now, sent_at, bytes, rtt_s);
        self.jump.on_acked();
    }

    pub(super) fn on_bulk_sent(&mut self, now: Timestamp, number: u64, bytes: usize) {
        self.bulk.on_sent(now, number, bytes);
    }

    /// Packets a second. Where a queue shows, no game gets more than the usual: packets have headers.
    pub(super) fn packet_rate(&self, params: &Params) -> f64 {
        if self.is_slow() {
            params.packets.bad
        } else if self.shows_queue() {
            params.packets.good
        } else {
            self.ticks.rate()
        }
    }

    /// Whether a message of now begins another tick of the game. A backlog is read as there is room for it.
    pub(super) fn is_next_tick(&self, now: Timestamp) -> bool {
        self.ticks.is_next(now) && !self.demand.has_waited(now, Span::ZERO)
    }

    pub(super) fn on_tick(&mut self, now: Timestamp, params: &Params) {
        self.ticks.on_tick(now, params);
    }

    /// Messages are slowed down.
    fn is_slow(&self) -> bool {
        matches!(self.state, State::Bad(bad) if !bad.spares_messages())
    }

    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: Sample, copies: Copies, params: &Params) {
        let floor = self.demand.floor(now, self.is_slow(), params);
        self.bulk.set_floor(floor);
        let queue = self.queue(now, rtt, params);
        self.shows_queue = queue.shows && !self.is_bulk_felt(now);
        let felt = queue.felt(params);
        if queue.latest > felt {
            self.bulk.on_queue();
        }
        self.is_late = queue.delay > felt && !self.is_queue_theirs();
        self.demand.on_delay(self.is_late, queue.is_new);
        self.jump
            .on_delay(now, now - rtt.took, queue, self.queueing.base());
        let reading = self.read(now, queue, copies, params);
        self.conclude_trial(reading, params);
        self.state = match self.state {
            State::Good => self.while_good(reading, params),
            State::Bad(bad) => self.while_bad(bad, reading, params),
            State::Competing(competing) => self.while_competing(competing, reading, params),
        };
        debug_assert_eq!(self.switch.mode(), self.mode());
        self.lost_lately = false;
    }

    fn queue(&mut self, now: Timestamp, rtt: Sample, params: &Params) -> Queue {
        let is_bulk = self.is_bulk_felt(now);
        let packet = self.bulk.packet_time();
        let (limit, stands, samples, proven) = if is_bulk {
            let samples = self.bulk.samples_to_stop();
            let proven = proven_by_bulk(rtt, packet);
            let limit = params.path.queue_max.max(self.silences.explained(now));
            (limit, STANDS_BESIDE_BULK, samples, proven)
        } else {
            (params.path.queue_max_messages, STANDS, 0, rtt.least)
        };
        let limits = Limits {
            queue: limit.as_secs_f64(),
            stands,
            samples,
            packet,
            base_window: params.path.base_window,
            spares_noise: self.says_evenly(),
        };
        let queue = self.queueing.on_rtt(now, rtt.took, proven, &limits);
        if is_bulk {
            self.silences.on_rtt(now, rtt, packet, queue.is_new);
        }
        queue
    }

    /// Bulk leaves, and has for so long that a delay of now may be its doing. What a hole in the peer's messages
    /// kept back is gone before that.
    fn is_bulk_felt(&self, now: Timestamp) -> bool {
        let round_trip = || Span::from_secs(self.queueing.rtt_s());
        self.bulk.is_active() && self.demand.has_waited(now, round_trip())
    }

    fn read(&mut self, now: Timestamp, queue: Queue, copies: Copies, params: &Params) -> Reading {
        let rtt_s = self.queueing.rtt_s();
        let loss_max = self.bulk.loss_max(params);
        if self.losses.close(now, self.mode(), rtt_s, loss_max) {
            if let Some(loss) = self.losses.lasting(loss_max)
                && !self.bulk.is_usual_loss(loss)
            {
                self.bulk.limit_by_loss(rtt_s, loss);
            }
            if self.mode() == Mode::Good {
                self.bulk.judge_loss(now, self.losses.steady(), params);
            }
        }
        let heavy_loss = self.losses.is_heavy(loss_max)
            && (copies == Copies::Withdrawn || self.mode() == Mode::Bad);
        Reading {
            now,
            dt: queue.pause.min(GAP_MAX).as_secs(),
            rtt_s,
            queue,
            heavy_loss,
            copies,
        }
    }

    /// Most of bulk is what is said evenly.
    fn says_evenly(&self) -> bool {
        self.bulk.peak() < EVEN * self.demand.rate()
    }
}

/// Bulk that is cut by mistake soon has its rate again. What is said evenly waits meanwhile, its backlog is bulk, and that
/// would be cut again, and again from less. So chance is spared where bulk delivers less than so many times what is said:
/// the rest of that is bulk by itself.
const EVEN: f64 = 4.0;

/// Messages hardly fill a queue, so beside them alone it must stand for a while.
const STANDS: Duration = Duration::from_millis(300);

/// Bulk fills one within a round trip: it must stand only for longer than what a processor that was away held up comes
/// in at once.
const STANDS_BESIDE_BULK: Duration = Duration::from_millis(10);

/// A longer time between two samples counts as this much experience with the path: nobody looked at the rest.
const GAP_MAX: Span = Span::from_millis(1_000);

/// A path answers no sooner than this, however short it is: peers hold acknowledgements back for so long.
const STEP_MIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    /// The path takes 80 ms longer from one moment to the next, and had enough jitter a while ago to explain such a delay
    /// as well: what was believed for the one reason is not believed once more for the other.
    #[test]
    fn a_longer_route_is_believed_once() {
        let params = Params::default();
        let mut now = Timestamp::ZERO;
        let mut adaptive = Adaptive::new(now, &params);
        let mut next = |adaptive: &mut Adaptive, millis: u32| {
            now += Duration::from_millis(2);
            adaptive.on_pushed(now, 40, false);
            adaptive.on_bulk_held(now, HeldBy::Rate);
            adaptive.on_bulk_sent(now, 0, 100);
            let took = Span::from_millis(millis);
            (now, Sample { took, least: took })
        };
        for millis in [50, 70].repeat(500).into_iter().chain([50; 1_000]) {
            let (now, sample) = next(&mut adaptive, millis);
            adaptive.on_rtt(now, sample, Copies::Few, &params);
        }
        assert!(adaptive.mode() == Mode::Good && adaptive.trial.is_none());
        let mut was_bad = false;
        while !was_bad || adaptive.mode() == Mode::Bad {
            let (now, sample) = next(&mut adaptive, 130);
            adaptive.on_rtt(now, sample, Copies::Few, &params);
            was_bad |= adaptive.mode() == Mode::Bad;
            assert!(now < Timestamp::from_millis(8_000), "no trial ends");
        }
        let (now, sample) = next(&mut adaptive, 130);
        let delay = adaptive.queue(now, sample, &params).delay;
        assert!((-0.002..0.02).contains(&delay), "{delay}");
    }
}
