//! What follows in each state of a path, and when it is another one.

use std::time::Duration;

use crate::mode::Mode;
use crate::sender::copies::Copies;
use crate::sender::pace::bad::Bad;
use crate::sender::pace::bulk::{KEPT_ON_RETURN, KEPT_WHEN_BAD};
use crate::sender::pace::competing::{Competing, Rival};
use crate::sender::pace::jump::{Jump, Slower};
use crate::sender::pace::queueing::Queue;
use crate::sender::pace::trial::Trial;
use crate::sender::params::Params;
use crate::time::Timestamp;

use super::{Adaptive, Reading, State};

impl Adaptive {
    pub(super) fn while_good(&mut self, reading: Reading, params: &Params) -> State {
        let Reading { now, queue, .. } = reading;
        if queue.stands || reading.heavy_loss {
            return self.turn_bad(reading);
        }
        self.switch.update(reading.dt, Mode::Good);
        if self.bulk.is_active() && self.bulk.grow(now, reading.step(), queue, params) {
            self.try_slower(now, reading.step(), queue.delay, KEPT_ON_RETURN);
        }
        State::Good
    }

    fn turn_bad(&mut self, reading: Reading) -> State {
        let Reading { now, queue, .. } = reading;
        let holds_back_others = self.bulk.is_active() || reading.copies == Copies::Many;
        let may_be_route = queue.stands && self.jump.is_sudden(queue);
        let spares_messages = holds_back_others || may_be_route;
        if spares_messages {
            self.switch.enter_bad();
        } else {
            self.switch.update(reading.dt, Mode::Bad);
        }
        self.losses.on_bad(!queue.stands);
        if queue.stands
            && let Some(rival) = self.rival.filter(|rival| rival.is_there(now))
        {
            // How much of the queue is theirs was found while we held back, within the last minute. How long it is now
            // says nothing of that: we did not hold back, and some of it may be ours.
            return State::Competing(Competing::with(rival));
        }
        let peak = self.bulk.peak();
        self.bulk.cut(now);
        if queue.stands {
            self.try_slower(now, reading.step(), queue.delay, KEPT_WHEN_BAD);
        }
        State::Bad(Bad::new(now, spares_messages, peak))
    }

    /// Bulk goes on with the share `keep` of its rate: by then a queue is shorter.
    fn try_slower(&mut self, now: Timestamp, step: Duration, delay: f64, keep: f64) {
        if self.bulk.is_active() {
            let trial = Trial::slower_by(1.0 - keep, now, step, delay);
            self.bulk.hold_until(trial.ends_at());
            self.trial = Some(trial);
        }
    }

    /// What is left of a delay when its queue had the time to drain is no queue of ours.
    pub(super) fn conclude_trial(&mut self, reading: Reading, params: &Params) {
        let Reading { now, queue, .. } = reading;
        let Some(trial) = self.trial.take_if(|trial| trial.ends_at() <= now) else {
            return;
        };
        let is_competing = matches!(self.state, State::Competing(_));
        let is_left = !trial.has_drained(queue.delay) && !is_competing && self.bulk.is_active();
        let base_window = params.path.base_window;
        if !is_left || !self.queueing.is_own(now, queue.delay, base_window) {
            return;
        }
        if self.mode() == Mode::Bad && !reading.heavy_loss {
            self.state = self.return_to_good(now);
        }
        self.bulk.search_on();
    }

    /// The path is longer than it was, and as good.
    fn on_another_route(&mut self, now: Timestamp, delay: f64, params: &Params) -> State {
        self.queueing
            .on_another_route(now, delay, params.path.base_window);
        self.jump = Jump::new(now);
        self.trial = None;
        self.demand.forget_queue();
        let state = self.return_to_good(now);
        self.bulk.on_another_route();
        state
    }

    /// The delay that we hold back for is not a queue's.
    fn is_another_route(&mut self, bad: &Bad, reading: Reading) -> bool {
        let is_bulk = self.bulk.is_active();
        let is_one_of_many =
            is_bulk && !self.says_evenly() && self.bulk.is_one_of_many(reading.rtt_s);
        let loss_max = match is_bulk {
            true => self.bulk.usual_loss() + ROUTE_LOSES,
            false => 1.0,
        };
        let Reading { now, queue, .. } = reading;
        let slower = Slower {
            since: bad.since(),
            step: reading.step(),
            loss_max,
            is_one_of_many,
        };
        !reading.heavy_loss && self.jump.is_route(now, queue, &slower)
    }

    pub(super) fn while_bad(&mut self, mut bad: Bad, reading: Reading, params: &Params) -> State {
        let Reading { now, queue, .. } = reading;
        let step = reading.step();
        if self.losses.tolerate_as_not_ours() {
            return self.return_to_good(now);
        }
        if self.is_another_route(&bad, reading) {
            return self.on_another_route(now, queue.delay, params);
        }
        // What a queue began ends with it: losses that are left are judged in good mode.
        let loss_holds = reading.heavy_loss && self.losses.are_on_trial();
        if queue.delay < queue.low && !loss_holds {
            self.switch.update(reading.dt, Mode::Good);
            if bad.on_low(now, step) || self.switch.mode() == Mode::Good {
                return self.return_to_good(now);
            }
            return State::Bad(bad);
        }
        self.switch.update(reading.dt, Mode::Bad);
        bad.on_not_low();
        if queue.over {
            if !self.bulk.is_active() || self.bulk.is_at_floor() {
                bad.on_nothing_to_cut(now, step);
            }
            self.bulk.cut_again(now, step);
        }
        if bad.is_not_ours(now, step, &self.bulk, self.demand.rate(), params) {
            return self.compete(now, queue);
        }
        State::Bad(bad)
    }

    /// We slowed down, and a queue stays that is not ours; or losses do.
    fn compete(&mut self, now: Timestamp, queue: Queue) -> State {
        self.demand.forget_queue();
        let stays = if queue.delay < queue.low {
            // It is for its losses that the path is bad: there is no queue that somebody could fill again.
            Duration::ZERO
        } else if self.bulk.is_active() {
            RIVAL_STAYS_TO_BULK
        } else {
            RIVAL_STAYS
        };
        let rival = Rival::new(queue.delay, now + stays);
        State::Competing(Competing::with(rival))
    }

    pub(super) fn while_competing(
        &mut self,
        mut competing: Competing,
        reading: Reading,
        params: &Params,
    ) -> State {
        let Reading { now, queue, .. } = reading;
        let step = reading.step();
        if competing.is_over(now, step, queue) {
            self.rival = Some(competing.rival());
            return self.return_to_good(now);
        }
        competing.look_for_ours(now, step, queue);
        self.bulk.compete(now, step, self.lost_lately, params);
        State::Competing(competing)
    }

    fn return_to_good(&mut self, now: Timestamp) -> State {
        self.switch.enter_good();
        self.losses.on_good();
        self.bulk.resume(now);
        State::Good
    }
}

/// Beside what is usually lost: full queues lose more.
const ROUTE_LOSES: f64 = 0.02;

/// Somebody who filled the queue is expected back for so long. Bulk cannot find the rate of a path while it competes, so
/// it asks again soon; messages alone lose little by believing it.
const RIVAL_STAYS: Duration = Duration::from_secs(60);
const RIVAL_STAYS_TO_BULK: Duration = Duration::from_secs(10);
