//! The path's end, as far as it is known: what was carried when it was last met.

/// Bytes a second that were delivered there. Not a limit: it is what a TCP's ssthresh is to its window, near which slow
/// start goes carefully, and above which the rate goes on by steps.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    /// Zero before it was met.
    carried: f64,
    /// What it was before that.
    before: f64,
    /// Steps of growth above that without a sign of a queue.
    steps_above: u32,
}

impl End {
    pub(super) fn carried(&self) -> f64 {
        self.carried
    }

    pub(super) fn is_known(&self) -> bool {
        self.carried > 0.0
    }

    /// The path carries no more than this.
    pub(super) fn meet(&mut self, carried: f64) {
        self.steps_above = 0;
        self.replace(carried);
    }

    /// The path turned bad, where it delivered this.
    pub(super) fn replace(&mut self, carried: f64) {
        self.before = std::mem::replace(&mut self.carried, carried);
    }

    /// It was another route, and none.
    pub(super) fn take_back(&mut self) {
        self.carried = self.before;
    }

    /// Whether it is still believed at this rate: one of so many times what was carried, without a queue, shows that the
    /// path was not full there, or is not any more.
    pub(super) fn is_near(&self, rate: f64) -> bool {
        rate < DISPROVED * self.carried
    }

    /// A step of growth. Whether more comes through than where the path was last found full, without a queue, for some
    /// round trips: it was not full then, or it is another path.
    pub(super) fn is_passed(&mut self, rate: f64, passed: f64, is_met: bool) -> bool {
        if is_met || passed < DELIVERED_ABOVE * self.carried || rate < ABOVE * self.carried {
            self.steps_above = 0;
            return false;
        }
        self.steps_above += 1;
        self.steps_above >= STEPS_ABOVE
    }
}

/// At this many times what was carried at its end, a path that is full would show a queue within a few round trips.
const ABOVE: f64 = 1.1;

/// This many times what was carried at its end must have come through as well: a rate that the window keeps from
/// being used shows nothing.
const DELIVERED_ABOVE: f64 = 1.04;

/// Round trips without a queue before slow start resumes.
const STEPS_ABOVE: u32 = 3;

/// Far above anything that a queue which is slow to show explains.
const DISPROVED: f64 = 4.0;
