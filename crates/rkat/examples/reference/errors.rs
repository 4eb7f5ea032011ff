//! Page of error codes.

use std::collections::BTreeMap;

use meerkat::ErrorKind;
use meerkat_contracts::error_row;

use crate::table;

/// Source of the error kinds, whose doc comments are the meanings.
const SOURCE: &str = include_str!("../../../core/src/error.rs");

pub(crate) fn page() -> Result<String, String> {
    let meanings = meanings();
    let row = |kind: &ErrorKind| {
        let meaning = meanings.get(kind.code()).ok_or_else(|| format!("`{kind}` has no meaning"))?;
        let row = error_row(*kind);
        let numbers = [row.rpc.to_string(), row.http.to_string(), row.exit.to_string()];
        Ok([format!("`{kind}`")].into_iter().chain(numbers).chain([meaning.clone()]).collect())
    };
    let rows = ErrorKind::ALL.iter().map(row).collect::<Result<Vec<_>, String>>()?;
    Ok(format!(
        "# Error codes\n\n\
         Each error has a stable code; its message is for people and may change. A failed MCP tool call returns a result \
         with `isError: true` whose text is `{{\"code\", \"message\", \"data\"}}`. `rkat` prints the code to stderr, and \
         with `--json` the error as `{{\"error\": {{…}}}}` to stdout.\n\n{}",
        table(&["Code", "JSON-RPC", "HTTP", "Exit code", "Meaning"], &rows)
    ))
}

/// Parses the doc comment above each `Kind = "CODE",`.
fn meanings() -> BTreeMap<String, String> {
    let mut meanings = BTreeMap::new();
    let mut doc = Vec::new();
    for line in SOURCE.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
            continue;
        }
        if let Some(code) = line.split_once(" = \"").and_then(|(_, rest)| rest.strip_suffix("\",")) {
            meanings.insert(code.to_owned(), doc.join(" "));
        }
        doc.clear();
    }
    meanings
}
