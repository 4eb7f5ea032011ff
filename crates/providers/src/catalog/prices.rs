//! Model prices: data in `prices.json`, with the date on which it was checked. A model that is not listed has an
//! unknown price, which is not the same as a price of zero.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use meerkat_core::Price;
use serde::Deserialize;

static TABLE: LazyLock<PriceTable> = LazyLock::new(|| {
    // A test checks that the file can be parsed.
    serde_json::from_str(include_str!("prices.json")).unwrap_or_default()
});

/// Prices of models.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Date on which the prices were checked.
    pub as_of: String,
    prices: BTreeMap<String, Price>,
}

impl PriceTable {
    /// Returns the built-in table.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &TABLE
    }

    /// Returns the price of a model, if it is known.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::{Usage, Usd};

    use super::*;
    use crate::Catalog;

    #[test]
    fn every_price_belongs_to_a_known_model() {
        let table = PriceTable::built_in();
        assert_eq!(table.as_of.len(), "2026-01-01".len());
        assert!(!table.prices.is_empty());
        assert!(table.prices.keys().all(|id| Catalog::built_in().find(id).is_some()));
    }

    #[test]
    fn cost_includes_input_output_and_cache() {
        let price = PriceTable::built_in().price("claude-haiku-4-5").unwrap();
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_creation_tokens: Some(1_000_000),
            cache_read_tokens: Some(1_000_000),
        };
        assert_eq!(price.cost(usage), Usd::from_micros(1_000_000 + 500_000 + 1_250_000 + 100_000));
    }
}
