//! The demo's network: calm most of the time, and now and then a storm, so that good and bad mode can
//! be watched.

use std::time::Duration;

use tidegate_proto::Timestamp;
use tidegate_proto::sim::Conditions;

/// Calm and storm in turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) calm: Conditions,
    /// Each spell of calm, and each storm; no storms without.
    pub(super) storms: Option<(Duration, Duration)>,
}

impl Weather {
    /// Whether it storms.
    pub(super) fn is_storm(&self, now: Timestamp) -> bool {
        let Some((calm, storm)) = self.storms else {
            return false;
        };
        let at = now.as_nanos() % (calm + storm).as_nanos().max(1) as u64;
        u128::from(at) >= calm.as_nanos()
    }

    /// What it is like now. A storm is a filled queue somewhere: latency rises, and more gets lost.
    pub(super) fn at(&self, now: Timestamp) -> Conditions {
        if !self.is_storm(now) {
            return self.calm;
        }
        Conditions {
            delay: self.calm.delay + Duration::from_millis(120),
            jitter: self.calm.jitter + Duration::from_millis(20),
            loss: self.calm.loss + 0.15,
            ..self.calm
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_come_and_go() {
        let seconds = Duration::from_secs;
        let weather = Weather {
            calm: Conditions::default(),
            storms: Some((seconds(20), seconds(5))),
        };
        for (second, storm) in [
            (0, false),
            (19, false),
            (20, true),
            (24, true),
            (25, false),
            (45, true),
        ] {
            assert_eq!(
                weather.is_storm(Timestamp::ZERO + seconds(second)),
                storm,
                "second {second}"
            );
        }
        assert!(weather.at(Timestamp::ZERO + seconds(21)).loss > 0.1);
        assert!(
            !Weather {
                storms: None,
                ..weather
            }
            .is_storm(Timestamp::ZERO + seconds(21))
        );
    }
}
