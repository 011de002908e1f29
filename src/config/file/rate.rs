//! `[*.rate]` as typed. An `Option` here is a key that belongs to one profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::units::{Size, Span};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rate {
    pub(crate) profile: RateProfile,
    pub(crate) good_rate: Option<i64>,
    pub(crate) good_rate_max: Option<i64>,
    pub(crate) bad_rate: Option<i64>,
    pub(crate) burst: Option<i64>,
    pub(crate) penalty: Penalty,
    pub(crate) redundancy: Option<bool>,
    pub(crate) queue_max: Option<QueueMax>,
    pub(crate) base_window: Option<Span>,
    pub(crate) loss_max: Option<f64>,
    pub(crate) bulk: Option<Bulk>,
    pub(crate) rtt_max: Option<Span>,
    pub(crate) resend_after: Option<Span>,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            profile: RateProfile::Adaptive,
            good_rate: None,
            good_rate_max: None,
            bad_rate: None,
            burst: None,
            penalty: Penalty::default(),
            redundancy: None,
            queue_max: None,
            base_window: None,
            loss_max: None,
            bulk: None,
            rtt_max: None,
            resend_after: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RateProfile {
    Adaptive,
    Article,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QueueMax {
    pub(crate) bulk: Span,
    pub(crate) messages: Span,
}

impl Default for QueueMax {
    fn default() -> Self {
        Self {
            // What a player does not notice.
            bulk: Span::of("20ms"),
            // Messages are not what fills a queue: doubt is in their favour.
            messages: Span::of("40ms"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Bulk {
    pub(crate) start: Size,
    pub(crate) min: Size,
    pub(crate) max: Size,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            // Half a megabit until the path is known, never nothing, as much as the path has.
            start: Size::of("64KiB"),
            min: Size::of("8KiB"),
            max: Size::of("4GiB"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Penalty {
    pub(crate) min: Span,
    pub(crate) max: Span,
    pub(crate) relapse: Span,
}

impl Default for Penalty {
    fn default() -> Self {
        Self {
            // The article's.
            min: Span::of("1s"),
            max: Span::of("60s"),
            relapse: Span::of("10s"),
        }
    }
}
