//! The error codes.

use std::collections::BTreeMap;

use meerkat::ErrorKind;
use meerkat_contracts::error_row;

use crate::table;

/// Where each kind says what it means.
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
         An error is known by its code, which does not change. Its message is for people and may change. As an MCP \
         tool, an operation that fails gives a result with `isError: true` whose text is \
         `{{\"code\", \"message\", \"data\"}}`. `rkat` prints the code on stderr, and with `--json` the error as \
         `{{\"error\": {{…}}}}` on stdout.\n\n{}",
        table(&["Code", "JSON-RPC", "HTTP", "Exit code", "Meaning"], &rows)
    ))
}

/// Reads the doc comment over each `Kind = "CODE",`.
fn meanings() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut doc = Vec::new();
    for line in SOURCE.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text);
            continue;
        }
        if let Some(code) = line.split_once(" = \"").and_then(|(_, rest)| rest.strip_suffix("\",")) {
            found.insert(code.to_owned(), doc.join(" "));
        }
        doc.clear();
    }
    found
}
