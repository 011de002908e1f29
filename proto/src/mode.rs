//! Good and bad mode: how many packets a second the path is given.
//!
//! ```text
//!             conditions bad: at once; penalty doubles (to 60 s) after less than 10 s of good
//!        good ──────────────────────────────────────────────────────────────────────▶ bad
//!             ◀────────────────────────────────────────────────────────────────────────
//!             conditions good for longer than the penalty; it halves (to 1 s) per 10 s of good
//! ```
//!
//! The switch and its timers are those of the 2008 article (docs/wire/gaffer.md, section 5). What
//! counts as bad conditions differs: the article says a smoothed round trip above 250 ms, exactly
//! ([`ArticleRate`]); the default judges the path by itself (`sender/pace/`).

use std::time::Duration;

/// The two modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The path is left in peace by what we send.
    Good,
    /// It is not, or was not until a moment ago.
    Bad,
}

/// How long conditions must be good before the mode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// At least: the article's 1 s.
    pub min: Duration,
    /// And at most, after relapse upon relapse: its 60 s.
    pub max: Duration,
    /// Bad again within this time of good mode is a relapse and doubles the penalty; each such time
    /// of good mode halves it: its 10 s.
    pub relapse: Duration,
}

impl Default for Penalty {
    fn default() -> Self {
        Self {
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            relapse: Duration::from_secs(10),
        }
    }
}

/// The article's switch between the modes, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    mode: Mode,
    penalty: f64,
    good_time: f64,
    reduction: f64,
    shortest: f64,
    longest: f64,
    relapse: f64,
}

impl Switch {
    /// The article's: starts bad, and has to be good for more than 4 s first.
    pub fn article(penalty: Penalty) -> Self {
        let first = 4.0_f64.min(penalty.max.as_secs_f64());
        Self {
            mode: Mode::Bad,
            penalty: first,
            ..Self::trusting(penalty)
        }
    }

    /// Starts good, with the shortest penalty.
    pub fn trusting(penalty: Penalty) -> Self {
        Self {
            mode: Mode::Good,
            penalty: penalty.min.as_secs_f64(),
            good_time: 0.0,
            reduction: 0.0,
            shortest: penalty.min.as_secs_f64(),
            longest: penalty.max.as_secs_f64(),
            relapse: penalty.relapse.as_secs_f64(),
        }
    }

    /// `dt` seconds passed under these conditions. The comparisons are strict on purpose, and the
    /// update that enters good mode adds no good time: details of the article's code that its
    /// vectors pin down.
    pub fn update(&mut self, dt: f64, conditions: Mode) {
        match (self.mode, conditions) {
            (Mode::Good, Mode::Bad) => {
                self.mode = Mode::Bad;
                if self.good_time < self.relapse && self.penalty < self.longest {
                    self.penalty = (self.penalty * 2.0).min(self.longest);
                }
                self.good_time = 0.0;
                self.reduction = 0.0;
            }
            (Mode::Good, Mode::Good) => {
                self.good_time += dt;
                self.reduction += dt;
                if self.reduction > self.relapse && self.penalty > self.shortest {
                    self.penalty = (self.penalty / 2.0).max(self.shortest);
                    self.reduction = 0.0;
                }
            }
            (Mode::Bad, Mode::Bad) => self.good_time = 0.0,
            (Mode::Bad, Mode::Good) => {
                self.good_time += dt;
                if self.good_time > self.penalty {
                    self.enter_good();
                }
            }
        }
    }

    /// Bad at once, and not as a relapse: there was something else to slow down.
    pub fn enter_bad(&mut self) {
        self.mode = Mode::Bad;
        self.good_time = 0.0;
        self.reduction = 0.0;
    }

    /// Good at once, whatever the penalty: what was bad turned out not to be our doing.
    pub fn enter_good(&mut self) {
        self.mode = Mode::Good;
        self.good_time = 0.0;
        self.reduction = 0.0;
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How long conditions must be good before the mode is.
    pub fn penalty(&self) -> f64 {
        self.penalty
    }
}

/// The article's rule, exactly: 30 packets a second while the smoothed round trip is at most 250 ms.
#[derive(Clone, Copy, Debug)]
pub struct ArticleRate {
    switch: Switch,
    /// Smoothed by 10 % a sample from zero, in milliseconds: it hides a bad link for about a second.
    rtt_ms: f64,
    rtt_max_ms: f64,
}

impl Default for ArticleRate {
    /// With the article's own numbers.
    fn default() -> Self {
        Self::new(Penalty::default(), Duration::from_millis(250))
    }
}

impl ArticleRate {
    /// Bad above the smoothed round trip `rtt_max`, and only above it.
    pub fn new(penalty: Penalty, rtt_max: Duration) -> Self {
        Self {
            switch: Switch::article(penalty),
            rtt_ms: 0.0,
            rtt_max_ms: rtt_max.as_secs_f64() * 1e3,
        }
    }

    /// A round trip was sampled.
    pub fn on_rtt(&mut self, sample: Duration) {
        self.rtt_ms += (sample.as_secs_f64() * 1e3 - self.rtt_ms) * 0.1;
    }

    /// `dt` passed.
    pub fn update(&mut self, dt: Duration) {
        self.update_with(dt.as_secs_f64(), self.rtt_ms);
    }

    /// The article's function: `dt` seconds passed at this smoothed round trip.
    pub fn update_with(&mut self, dt: f64, rtt_ms: f64) {
        let conditions = if rtt_ms > self.rtt_max_ms {
            Mode::Bad
        } else {
            Mode::Good
        };
        self.switch.update(dt, conditions);
    }

    /// The switch.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The smoothed round trip.
    pub fn rtt(&self) -> Duration {
        Duration::from_secs_f64(self.rtt_ms / 1e3)
    }
}
