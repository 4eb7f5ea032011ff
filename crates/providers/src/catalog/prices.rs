//! What models cost: data, in `prices.json`, with the day on which it was right. A model that is not there has no price,
//! which is not the same as costing nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use meerkat_core::Price;
use serde::Deserialize;

static TABLE: LazyLock<PriceTable> = LazyLock::new(|| {
    // That the file can be read is what a test proves.
    serde_json::from_str(include_str!("prices.json")).unwrap_or_default()
});

/// What models cost.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// The day on which the prices were right.
    pub as_of: String,
    prices: BTreeMap<String, Price>,
}

impl PriceTable {
    /// Returns the table that comes with the program.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &TABLE
    }

    /// Returns what a model costs, if that is known.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<Price> {
        self.prices.get(model).copied()
    }
}

#[cfg(test)]
mod tests {
    use meerkat_core::{Usage, Usd};

    use super::*;
    use crate::Catalogue;

    #[test]
    fn every_price_is_of_a_model_that_is_known() {
        let table = PriceTable::built_in();
        assert_eq!(table.as_of.len(), "2026-01-01".len());
        assert!(!table.prices.is_empty());
        assert!(table.prices.keys().all(|id| Catalogue::built_in().find(id).is_some()));
    }

    #[test]
    fn a_cost_counts_what_was_read_written_and_cached() {
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
