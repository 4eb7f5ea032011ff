//! The environment variables.

use crate::table;

pub(crate) fn page() -> String {
    let row = |(name, meaning): &(&str, &str)| vec![format!("`{name}`"), (*meaning).to_owned()];
    let rows: Vec<_> = rkat::VARIABLES.iter().map(row).collect();
    format!(
        "# Environment variables\n\n\
         `rkat` reads these variables. An empty variable counts as not set. `rkat-mcp` reads those \
         that say where realms are kept, the keys, and `RKAT_TOKEN`.\n\n{}",
        table(&["Variable", "Meaning"], &rows)
    )
}
