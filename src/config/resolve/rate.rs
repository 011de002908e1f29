//! `[listener.NAME.rate]` and `[tunnel.NAME.rate]`.

use std::time::Duration;

use tidegate_proto::mode::Penalty;

use super::super::file;
use super::super::units::Span;
use super::super::{Adaptive, Article, Rate, RateProfile};
use super::{Checker, KIB, MILLISECOND, SECOND};

/// Two in five more than the ticks of a game of 128 Hz.
const GOOD_RATE_MAX: i64 = 180;

const HOUR: Duration = Duration::from_secs(3600);

impl Checker<'_> {
    /// rudp has no good and bad mode: its sessions say what they have at each `send_delay`.
    pub(super) fn rate(
        &mut self,
        at: &str,
        protocol: file::Protocol,
        typed: &mut Option<file::Rate>,
    ) -> Rate {
        let at = format!("{at}.rate");
        if protocol != file::Protocol::Rudp {
            return self.rate_of(&at, typed.get_or_insert_default());
        }
        if typed.is_some() {
            self.mistake(
                &at,
                format!("[{at}] does nothing with rudp"),
                "rudp sends at every rudp.send_delay; delete the table".to_owned(),
            );
        }
        self.rate_of(&at, &mut file::Rate::default())
    }

    /// The two profiles have different defaults, and each has keys of its own.
    fn rate_of(&mut self, at: &str, typed: &mut file::Rate) -> Rate {
        let key = |key: &str| format!("{at}.{key}");
        // Adaptive: 90 leaves a 60 Hz game room for acks and repairs between its own packets, 20
        // is what the queue of a slow uplink drains beside; eight at once are well inside a peer's
        // 32-packet ack window. Article: its own numbers, a fixed tick, nothing sent twice.
        let (good, bad, burst, copies) = match typed.profile {
            file::RateProfile::Adaptive => (90, 20, 8, true),
            file::RateProfile::Article => (30, 10, 1, false),
        };
        // A rate that is set is meant to hold.
        let fastest = typed.good_rate.unwrap_or(GOOD_RATE_MAX);
        let good_rate = *typed.good_rate.get_or_insert(good);
        let bad_rate = *typed.bad_rate.get_or_insert(bad);
        let burst = *typed.burst.get_or_insert(burst);
        let redundancy = *typed.redundancy.get_or_insert(copies);
        if bad_rate > good_rate {
            self.mistake(
                &key("bad_rate"),
                format!(
                    "{} = {bad_rate} is more than good_rate = {good_rate}",
                    key("bad_rate")
                ),
                "bad mode is the slower one".to_owned(),
            );
        }
        let profile = match typed.profile {
            file::RateProfile::Adaptive => {
                RateProfile::Adaptive(self.adaptive(at, typed, good_rate, fastest))
            }
            file::RateProfile::Article => RateProfile::Article(self.article(at, typed)),
        };
        Rate {
            profile,
            good_rate: self.count(&key("good_rate"), good_rate, 1..=1000) as u32,
            bad_rate: self.count(&key("bad_rate"), bad_rate, 1..=1000) as u32,
            burst: self.count(&key("burst"), burst, 1..=32) as u32,
            penalty: self.penalty(&key("penalty"), &typed.penalty),
            redundancy,
        }
    }

    fn penalty(&mut self, at: &str, typed: &file::Penalty) -> Penalty {
        let mut span =
            |key: &str, typed| self.span(&format!("{at}.{key}"), typed, MILLISECOND..=HOUR);
        let penalty = Penalty {
            min: span("min", &typed.min),
            max: span("max", &typed.max),
            relapse: span("relapse", &typed.relapse),
        };
        if penalty.min > penalty.max {
            self.mistake(
                at,
                format!("{at} has a min above its max"),
                "min <= max".to_owned(),
            );
        }
        penalty
    }

    fn adaptive(
        &mut self,
        at: &str,
        typed: &mut file::Rate,
        good_rate: i64,
        fastest: i64,
    ) -> Adaptive {
        self.only_for_article(at, "rtt_max", typed.rtt_max.is_some());
        self.only_for_article(at, "resend_after", typed.resend_after.is_some());
        let key = |key: &str| format!("{at}.{key}");
        let good_rate_max = *typed.good_rate_max.get_or_insert(fastest);
        if good_rate_max < good_rate {
            self.mistake(
                &key("good_rate_max"),
                format!(
                    "{} = {good_rate_max} is less than good_rate = {good_rate}",
                    key("good_rate_max")
                ),
                "it is for games that need more packets than good_rate".to_owned(),
            );
        }
        let queue_max = typed.queue_max.get_or_insert_default();
        let base_window = typed.base_window.get_or_insert(Span::of("30s"));
        let loss_max = *typed.loss_max.get_or_insert(0.15);
        if !(0.01..=1.0).contains(&loss_max) {
            self.bad_value(
                &key("loss_max"),
                format!("{} = {loss_max} is out of range", key("loss_max")),
                "accepted are 0.01 to 1.0: 0.15 is 15 % of the packets".to_owned(),
            );
        }
        let [bulk_start, bulk_min, bulk_max] =
            self.bulk(&key("bulk"), typed.bulk.get_or_insert_default());
        let waits = MILLISECOND..=10 * SECOND;
        Adaptive {
            good_rate_max: self.count(&key("good_rate_max"), good_rate_max, 1..=1000) as u32,
            queue_max: self.span(&key("queue_max.bulk"), &queue_max.bulk, waits.clone()),
            queue_max_messages: self.span(&key("queue_max.messages"), &queue_max.messages, waits),
            base_window: self.span(&key("base_window"), base_window, SECOND..=HOUR),
            loss_max,
            bulk_start,
            bulk_min,
            bulk_max,
        }
    }

    /// The rate that bulk starts with, its least and its most.
    fn bulk(&mut self, at: &str, typed: &file::Bulk) -> [f64; 3] {
        let mut size = |name: &str, typed| {
            self.size(&format!("{at}.{name}"), typed, KIB..=4 * KIB * KIB * KIB) as f64
        };
        let (start, min, max) = (
            size("start", &typed.start),
            size("min", &typed.min),
            size("max", &typed.max),
        );
        if !(min..=max).contains(&start) {
            self.mistake(
                at,
                format!("{at} does not have min <= start <= max"),
                "min <= start <= max".to_owned(),
            );
        }
        [start, min, max]
    }

    fn article(&mut self, at: &str, typed: &mut file::Rate) -> Article {
        self.only_for_adaptive(at, "good_rate_max", typed.good_rate_max.is_some());
        self.only_for_adaptive(at, "queue_max", typed.queue_max.is_some());
        self.only_for_adaptive(at, "base_window", typed.base_window.is_some());
        self.only_for_adaptive(at, "loss_max", typed.loss_max.is_some());
        self.only_for_adaptive(at, "bulk", typed.bulk.is_some());
        self.no_effect(
            at,
            "redundancy",
            typed.redundancy == Some(true),
            "article",
            "article sends nothing again before resend_after",
        );
        let rtt_max = typed.rtt_max.get_or_insert(Span::of("250ms"));
        let resend_after = typed.resend_after.get_or_insert(Span::of("100ms"));
        let waits = MILLISECOND..=10 * SECOND;
        Article {
            rtt_max: self.span(&format!("{at}.rtt_max"), rtt_max, waits.clone()),
            resend_after: self.span(&format!("{at}.resend_after"), resend_after, waits),
        }
    }

    fn only_for_article(&mut self, at: &str, key: &str, typed: bool) {
        self.no_effect(
            at,
            key,
            typed,
            "adaptive",
            "adaptive goes by queue_max and loss_max, and resends by what the path says",
        );
    }

    fn only_for_adaptive(&mut self, at: &str, key: &str, typed: bool) {
        let help =
            "article has one rate for each mode, goes by rtt_max alone, and has no rate for bulk";
        self.no_effect(at, key, typed, "article", help);
    }

    fn no_effect(&mut self, at: &str, key: &str, typed: bool, profile: &str, help: &str) {
        if typed {
            self.mistake(
                &format!("{at}.{key}"),
                format!("{at}.{key} does nothing with profile = \"{profile}\""),
                format!("{help}; delete the line, or choose the other profile"),
            );
        }
    }
}
