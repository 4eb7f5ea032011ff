//! Prices and costs, counted in millionths of a dollar, so that sums are exact.

use std::fmt;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Usage;

const MICROS: f64 = 1_000_000.0;

/// An amount of US dollars; on the wire a number such as `0.25`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

impl Usd {
    /// Creates an amount from millionths of a dollar.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the amount in millionths.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Creates an amount from dollars; `None` if it is negative, too large, or not a number.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        (0.0..1e12).contains(&dollars).then(|| Self((dollars * MICROS).round() as u64))
    }

    /// Returns `true` if the amount is zero.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.0 as f64 / MICROS)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / MICROS)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars)
            .ok_or_else(|| serde::de::Error::custom(format!("`{dollars}` is not a valid amount in dollars")))
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0, "exclusiveMaximum": 1e12 })
    }
}

/// Price of a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input tokens.
    pub input: Usd,
    /// Output tokens.
    pub output: Usd,
    /// Tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: Usd,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: Usd,
}

impl Price {
    /// Returns the cost of a usage.
    #[must_use]
    pub fn cost(self, usage: Usage) -> Usd {
        let part = |tokens: u64, price: Usd| u128::from(tokens) * u128::from(price.0);
        let total = part(usage.input_tokens, self.input)
            + part(usage.output_tokens, self.output)
            + part(usage.cache_creation_tokens.unwrap_or(0), self.cache_write)
            + part(usage.cache_read_tokens.unwrap_or(0), self.cache_read);
        Usd(u64::try_from(total / 1_000_000).unwrap_or(u64::MAX))
    }
}
