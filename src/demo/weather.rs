//! The demo's network: calm most of the time, and now and then a storm, so that good and bad mode can
//! be watched.

use std::time::Duration;

use tidegate_proto::sim::Conditions;

use crate::lag::Impairments;

/// Calm and storm in turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) calm: Conditions,
    /// Each spell of calm, and each storm; no storms without.
    pub(super) storms: Option<(Duration, Duration)>,
}

impl Weather {
    /// Whether it storms so long after the beginning.
    pub(super) fn is_storm(&self, since: Duration) -> bool {
        let Some((calm, storm)) = self.storms else {
            return false;
        };
        let at = since.as_nanos() % (calm + storm).as_nanos().max(1);
        at >= calm.as_nanos()
    }

    /// What it is like then. A storm is a filled queue somewhere: latency rises, and more gets lost.
    pub(super) fn at(&self, since: Duration) -> Impairments {
        let calm = self.calm;
        let conditions = match self.is_storm(since) {
            false => calm,
            true => Conditions {
                delay: calm.delay + Duration::from_millis(120),
                jitter: calm.jitter + Duration::from_millis(20),
                loss: calm.loss + 0.15,
                ..calm
            },
        };
        Impairments {
            up: conditions,
            down: conditions,
            rebind: None,
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
            assert_eq!(weather.is_storm(seconds(second)), storm, "second {second}");
        }
        let Impairments { up, down, .. } = weather.at(seconds(21));
        assert!(up.loss.min(down.loss) > 0.1);
        assert!(
            !Weather {
                storms: None,
                ..weather
            }
            .is_storm(seconds(21))
        );
    }
}
