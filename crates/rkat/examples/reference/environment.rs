//! Page of environment variables.

use crate::table;

pub(crate) fn page() -> String {
    let row = |(name, meaning): &(&str, &str)| vec![format!("`{name}`"), (*meaning).to_owned()];
    let rows: Vec<_> = rkat::VARIABLES.iter().chain(rkat::TELEMETRY_VARIABLES).map(row).collect();
    format!(
        "# Environment variables\n\n\
         `rkat` reads these variables. An empty variable counts as not set. `rkat-mcp` reads those for the directory of \
         realms, the API keys, `RKAT_TOKEN`, `RKAT_LOG`, and the OpenTelemetry variables.\n\n{}",
        table(&["Variable", "Meaning"], &rows)
    )
}
