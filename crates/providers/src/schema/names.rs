//! Names of tools and parameters that a provider accepts.

use serde_json::Value;

use super::output::each_child;
use super::{Dialect, Node, SchemaProblem};

const MAX_NAME: usize = 64;

pub(super) fn check_tool(name: &str, dialect: Dialect) -> Result<(), SchemaProblem> {
    let error = |what: &str| Err(SchemaProblem::new("name", format!("`{name}` {what}")));
    if !fits(name, "_-") {
        return error("must have 1 to 64 letters, digits, `_`, or `-`");
    }
    if dialect == Dialect::Gemini && !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return error("must start with a letter or `_` for gemini");
    }
    Ok(())
}

/// Removes parameters whose names would be rejected; a required one cannot be removed.
pub(super) fn check_properties(node: &mut Node, path: &str, dialect: Dialect) -> Result<(), SchemaProblem> {
    let required: Vec<String> = match node.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if let Some(bad) = required.iter().find(|name| !fits(name, "_.-")) {
        let what = format!("{} does not accept the name of this required parameter", dialect.as_str());
        return Err(SchemaProblem::new(format!("{path}/properties/{bad}"), what));
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.retain(|name, _| fits(name, "_.-"));
    }
    let mut checked = Ok(());
    each_child(node, path, &mut |child, path| {
        if checked.is_ok()
            && let Value::Object(child) = child
        {
            checked = check_properties(child, path, dialect);
        }
    });
    checked
}

fn fits(name: &str, marks: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}
