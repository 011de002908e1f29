//! Quantities as typed: durations like "250ms", sizes like "64KiB". What is wrong with one is said
//! by `resolve/`, together with everything else that is wrong.
//!
//! Bare numbers are refused: 250 what? So are units that readers take for different things: "M" is
//! a month to some libraries and a million to others.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A quantity as typed, of the kind `K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed<K> {
    text: String,
    /// Typed without quotes, so without a unit.
    bare: bool,
    kind: PhantomData<K>,
}

/// A duration as typed.
pub(super) type Span = Typed<Seconds>;
/// A size as typed.
pub(super) type Size = Typed<Bytes>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seconds;
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes;

impl<K> Typed<K> {
    pub(super) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            bare: false,
            kind: PhantomData,
        }
    }

    /// As it should be shown: with quotes, unless it was typed without.
    pub(super) fn shown(&self) -> String {
        if self.bare {
            self.text.clone()
        } else {
            format!("{:?}", self.text)
        }
    }
}

impl Span {
    pub(super) fn parse(&self) -> Result<Duration, String> {
        let nanos = self.parse_with(&DURATION_UNITS, |number| {
            format!("write \"{number}ms\" or \"{number}s\"")
        })?;
        Ok(Duration::from_nanos(nanos))
    }
}

impl Size {
    pub(super) fn parse(&self) -> Result<u64, String> {
        self.parse_with(&SIZE_UNITS, |number| {
            format!("write \"{number}B\" or \"{number}KiB\"")
        })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        quantity(&DURATION_UNITS)
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        quantity(&SIZE_UNITS)
    }
}

fn quantity(units: &[(&str, u64)]) -> Schema {
    let units: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    json_schema!({"type": "string", "pattern": format!("^[0-9]+({})$", units.join("|"))})
}

/// A duration on the command line.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    Span::of(text).parse()
}

/// A duration on the command line of what counts in seconds: a part of one would be cut off unseen.
pub fn parse_whole_seconds(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text)?;
    if span.subsec_nanos() != 0 {
        return Err("no whole number of seconds".to_owned());
    }
    Ok(span)
}

/// A size on the command line.
pub fn parse_size(text: &str) -> Result<u64, String> {
    Size::of(text).parse()
}

/// An id on the command line or in a file: decimal, or hex after 0x; `_` may separate digits.
pub fn parse_id(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is no number from 0 to {:#x}", u64::MAX))
}

/// Smallest first, so that the largest that divides a value is the last that does.
const DURATION_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
const SIZE_UNITS: [(&str, u64); 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

impl<K> Typed<K> {
    fn parse_with(
        &self,
        units: &[(&str, u64)],
        with_unit: impl Fn(&str) -> String,
    ) -> Result<u64, String> {
        let names = || {
            units
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let digits = self.text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = self.text.split_at(digits);
        if number.is_empty() {
            return Err(format!("not a whole number with a unit ({})", names()));
        }
        if unit.is_empty() {
            return Err(format!("a number without a unit: {}", with_unit(number)));
        }
        // "1.5s", "1m30s": nobody's unit.
        if unit.contains(|it: char| it.is_ascii_digit()) {
            return Err(format!("not one whole number with one unit ({})", names()));
        }
        let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
            let hint = match unit.trim().to_ascii_lowercase().as_str() {
                "b" | "byte" | "bytes" => "B",
                "k" | "kb" | "ki" | "kib" => "KiB",
                "m" | "mb" | "mi" | "mib" => "MiB",
                "g" | "gb" | "gi" | "gib" => "GiB",
                "ms" | "msec" => "ms",
                "s" | "sec" | "secs" | "second" | "seconds" => "s",
                "min" | "mins" | "minute" | "minutes" => "m",
                "h" | "hour" | "hours" => "h",
                "d" | "day" | "days" => "d",
                _ => "",
            };
            let meant = if units.iter().any(|(name, _)| *name == hint) {
                format!(": write \"{number}{hint}\"")
            } else {
                String::new()
            };
            return Err(format!("{unit:?} is no unit here, {} are{meant}", names()));
        };
        let amount = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(*scale));
        amount.ok_or_else(|| format!("more than {} {} can be", u64::MAX / scale, unit))
    }
}

/// A duration as one would type it.
pub fn show_duration(duration: Duration) -> String {
    show(duration.as_nanos() as u64, &DURATION_UNITS, "s")
}

/// A size as one would type it.
pub fn show_size(size: u64) -> String {
    show(size, &SIZE_UNITS, "B")
}

fn show(amount: u64, units: &[(&str, u64)], zero: &str) -> String {
    let fitting = units
        .iter()
        .rev()
        .find(|(_, scale)| amount.is_multiple_of(*scale));
    match fitting {
        Some((unit, scale)) if amount > 0 => format!("{}{unit}", amount / scale),
        Some(_) | None => format!("0{zero}"),
    }
}

impl<K> Serialize for Typed<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, K> Deserialize<'de> for Typed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsTyped<K>(PhantomData<K>);

        impl<K> AsTyped<K> {
            fn bare(number: impl fmt::Display) -> Typed<K> {
                Typed {
                    bare: true,
                    ..Typed::of(&number.to_string())
                }
            }
        }

        impl<K> Visitor<'_> for AsTyped<K> {
            type Value = Typed<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number with a unit, in quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Typed::of(text))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Self::bare(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Self::bare(number))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Self::bare(number))
            }
        }

        deserializer.deserialize_any(AsTyped(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        let duration = |text: &str| Span::of(text).parse();
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(Size::of("64KiB").parse(), Ok(65_536));
        assert_eq!(Size::of("1GiB").parse(), Ok(1 << 30));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        let rows = [
            (
                Span::of("250").parse().map(drop),
                "a number without a unit: write \"250ms\" or \"250s\"",
            ),
            (
                Size::of("64").parse().map(drop),
                "a number without a unit: write \"64B\" or \"64KiB\"",
            ),
            (
                Size::of("4M").parse().map(drop),
                "\"M\" is no unit here, B KiB MiB GiB are: write \"4MiB\"",
            ),
            (
                Span::of("5min").parse().map(drop),
                "\"min\" is no unit here, ns us ms s m h d are: write \"5m\"",
            ),
            (
                Span::of("1M").parse().map(drop),
                "\"M\" is no unit here, ns us ms s m h d are",
            ),
            (
                Size::of("256 MiB").parse().map(drop),
                "\" MiB\" is no unit here, B KiB MiB GiB are: write \"256MiB\"",
            ),
            (
                Size::of("64kib").parse().map(drop),
                "\"kib\" is no unit here, B KiB MiB GiB are: write \"64KiB\"",
            ),
            (
                Span::of("2 hours").parse().map(drop),
                "\" hours\" is no unit here, ns us ms s m h d are: write \"2h\"",
            ),
            (
                Span::of("1m30s").parse().map(drop),
                "not one whole number with one unit (ns us ms s m h d)",
            ),
            (
                Span::of("soon").parse().map(drop),
                "not a whole number with a unit (ns us ms s m h d)",
            ),
            (
                Span::of("-1s").parse().map(drop),
                "not a whole number with a unit (ns us ms s m h d)",
            ),
            (
                Span::of("1.5s").parse().map(drop),
                "not one whole number with one unit (ns us ms s m h d)",
            ),
            (
                Span::of("999999999999d").parse().map(drop),
                "more than 213503 d can be",
            ),
        ];
        for (outcome, expected) in rows {
            assert_eq!(outcome, Err(expected.to_owned()));
        }
    }

    #[test]
    fn shown_as_typed() {
        for text in ["250ms", "10s", "5m", "36h", "2d", "0s"] {
            assert_eq!(show_duration(Span::of(text).parse().unwrap()), text);
        }
        for text in ["1152B", "8KiB", "4MiB", "0B"] {
            assert_eq!(show_size(Size::of(text).parse().unwrap()), text);
        }
    }
}
