//! Human-readable durations: `500ms`, `30s`, `10m`, `2h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use meerkat_core::excerpt;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Human-readable duration in the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HumanDuration(pub Duration);

/// Error of an invalid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration `{0}`; expected a value such as `500ms`, `30s`, `10m`, or `2h`")]
pub struct ParseDurationError(String);

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

impl FromStr for HumanDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let error = || ParseDurationError(excerpt(text));
        let digits = text.trim().find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
        let (number, unit) = text.trim().split_at(digits);
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(error)?;
        let number: u64 = number.parse().map_err(|_| error())?;
        Ok(Self(Duration::from_millis(number.checked_mul(*millis).ok_or_else(error)?)))
    }
}

impl HumanDuration {
    /// Pattern of a duration, without the spaces and large numbers that are also accepted.
    const PATTERN: &str = "^[0-9]{1,12} ?(ms|s|m|h)$";
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let exact = UNITS.iter().rev().find(|(_, unit)| millis > 0 && millis % unit == 0);
        let (name, unit) = exact.unwrap_or(&("s", 1000));
        write!(f, "{}{name}", millis / unit)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a duration such as `30s`, or a whole number of milliseconds")]
enum TextOrMillis {
    Text(String),
    Millis(u64),
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match TextOrMillis::deserialize(deserializer)? {
            TextOrMillis::Text(text) => text.parse().map_err(serde::de::Error::custom),
            TextOrMillis::Millis(millis) => Ok(Self(Duration::from_millis(millis))),
        }
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "pattern": Self::PATTERN, "minimum": 0 })
    }
}

/// Timeout of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallTimeout {
    /// No timeout.
    Disabled,
    /// Timeout after this duration.
    After(HumanDuration),
}

/// Config value for no timeout.
const DISABLED: &str = "disabled";

impl Serialize for CallTimeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Disabled => serializer.serialize_str(DISABLED),
            Self::After(span) => span.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for CallTimeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match TextOrMillis::deserialize(deserializer)? {
            TextOrMillis::Text(text) if text == DISABLED => Ok(Self::Disabled),
            TextOrMillis::Text(text) => text.parse().map(Self::After).map_err(serde::de::Error::custom),
            TextOrMillis::Millis(millis) => Ok(Self::After(HumanDuration(Duration::from_millis(millis)))),
        }
    }
}

impl JsonSchema for CallTimeout {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CallTimeout".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("{}|^{DISABLED}$", HumanDuration::PATTERN);
        json_schema!({ "type": ["string", "integer"], "pattern": pattern, "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::input_schema;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn schema_matches_the_accepted_durations() {
        let schemas = [input_schema::<HumanDuration>(), input_schema::<CallTimeout>()];
        let [duration, timeout] = schemas.map(|schema| jsonschema::draft202012::new(&schema).unwrap());
        for valid in [json!("500ms"), json!("30 s"), json!("10m"), json!("999999999999h"), json!(0)] {
            assert!(duration.is_valid(&valid) && timeout.is_valid(&valid), "{valid}");
            serde_json::from_value::<HumanDuration>(valid).unwrap();
        }
        for invalid in [json!("PT30S"), json!("soon"), json!("30"), json!(-1), Value::Null] {
            assert!(!duration.is_valid(&invalid) && !timeout.is_valid(&invalid), "{invalid}");
            serde_json::from_value::<HumanDuration>(invalid).unwrap_err();
        }
        assert!(timeout.is_valid(&json!("disabled")) && !duration.is_valid(&json!("disabled")));
    }

    #[test]
    fn durations_round_trip() {
        for text in ["500ms", "30s", "10m", "2h", "90s", "0s"] {
            assert_eq!(text.parse::<HumanDuration>().unwrap().to_string(), text);
        }
        assert_eq!("600s".parse::<HumanDuration>().unwrap().to_string(), "10m");
        for invalid in ["", "5", "5 days", "s", "-1s", "99999999999999999999h"] {
            assert!(invalid.parse::<HumanDuration>().is_err(), "{invalid}");
        }
    }
}
